use insta::assert_snapshot;
use proptest::prelude::*;

use crate::import::tests::{import, mangled, shown, survives};

const FILES: [(&str, &str); 1] = [(
    "mcp_tools_with_embedding.json",
    r#"[{"server_name": "Clock Tower", "server_summary": "A long text.", "server_description": "Tells the time.", "description_embedding": [0.1], "summary_embedding": [0.2], "tools": [
  {"name": "now", "description": "The time.", "description_embedding": [0.1, -3e-5], "parameter": {}},
  {"name": "alarm", "description": null, "parameter": {"at": "(string) When (local time)", "days": "(Optional, List[str]) On which days", "loud": "Whether loud", "tone": "(Optional, Chime) Which", "odd": null, "cut": "(string"}},
  {"name": "now", "description": "again"}, {"name": "off"}]},
 {"server_name": "clock tower", "server_summary": "Only a summary.", "server_description": " ", "tools": [{"name": "tick", "parameter": {"type": "(object[]) Which", "sides": "(integer) 1", "sides": "(string) 2"}}]},
 {"server_name": "broken", "tools": 1}]"#,
)];

#[test]
fn sentences_become_arguments() {
    assert_snapshot!(shown(import("mcp-zero", &FILES, "")));
    let file = import("mcp-zero", &FILES, "mcp_tools_with_embedding.json");
    assert_eq!(file.0, import("mcp-zero", &FILES, "").0, "the file itself does as well");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn damaged_files_never_panic(change in mangled(&FILES)) {
        survives("mcp-zero", &FILES, "", change);
    }
}
