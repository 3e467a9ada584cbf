//! From what was found to a profile, and from a profile to a file with reasons in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::facts::{Facts, Native};
use super::speed::shares_well;
use super::{Finding, short};
use crate::endpoint::{NameRule, OutputLimit, Profile, Protocol, Tested};
use crate::text::plain;

/// Requests in flight where nothing argues against it.
const SHARED: usize = 4;
/// Room for an answer with the thoughts before it.
const THINKING_OUTPUT: u32 = 4_096;
const KEPT: &str = "as in the profile that was given; nothing was found against it";

pub(super) type Notes = BTreeMap<&'static str, String>;

/// The profile, and how each key of it was found. What is not known stays as it was in `base`.
pub(super) fn profile(facts: &Facts, findings: &[Finding], base: &Profile, at: &str) -> (Profile, Notes) {
    let mut profile = base.clone();
    // `2026-12-01T10:00:00Z`: the day is enough beside a key.
    let mut notes = Written { notes: Notes::new(), day: at.split('T').next().unwrap_or(at) };
    let (chosen, why) = protocol(facts);
    profile.protocol = chosen.unwrap_or(base.protocol);
    notes.add("protocol", chosen.is_some(), why);
    context(facts, &mut profile, &mut notes);
    tools(facts, &mut profile, &mut notes);
    output(facts, &mut profile, &mut notes);
    concurrency(facts, &mut profile, &mut notes);
    profile.stream_usage = facts.stream_usage.or(profile.stream_usage);
    notes.add("stream_usage", facts.stream_usage.is_some(), said(findings, "streaming"));
    if facts.embeds == Some(false) {
        profile.embed_model = None;
    }
    notes.add("embed_model", facts.embeds.is_some(), said(findings, "embeddings"));
    let probes = "requests of a run that may go into finding whose schema is refused; a choice, not a finding";
    notes.add("max_schema_probes", false, probes);
    let schemas = said(findings, "schemas");
    notes.add(
        "schema",
        false,
        format!("how schemas of tools are rewritten for the endpoint; the probe of schemas: {schemas}"),
    );
    notes.add("id", false, identity(&profile.id));
    let served = facts.served.as_ref().filter(|served| **served != profile.model);
    let served = served.map_or_else(String::new, |served| format!("; the server calls it \"{}\"", short(served, 100)));
    notes.add("model", false, format!("the name that goes into requests{served}"));
    profile.tested = Some(Tested {
        at: at.to_owned(),
        toolgauge: env!("CARGO_PKG_VERSION").to_owned(),
        findings: findings.iter().map(|finding| (finding.name.to_owned(), line(finding))).collect(),
    });
    (profile, notes.notes)
}

/// Notes on their way.
struct Written<'d> {
    notes: Notes,
    day: &'d str,
}

impl Written<'_> {
    /// `tested`: the value comes from what the endpoint did that day.
    fn add(&mut self, key: &'static str, tested: bool, note: impl Into<String>) {
        let note = note.into();
        self.notes.insert(key, if tested { format!("tested {}: {note}", self.day) } else { note });
    }
}

fn concurrency(facts: &Facts, profile: &mut Profile, notes: &mut Written<'_>) {
    let times = facts.two_at_once.unwrap_or_default();
    let note = match shares_well(facts) {
        Some(true) => {
            profile.concurrency = profile.concurrency.max(SHARED);
            format!(
                "requests in flight at most; two at once took {times:.1} times as long as one, so more may be better still"
            )
        }
        Some(false) => {
            profile.concurrency = 1;
            format!(
                "requests in flight at most; two at once took {times:.1} times as long as one, so more gain nothing"
            )
        }
        None => "requests in flight at most; a choice, not tested".to_owned(),
    };
    notes.add("concurrency", facts.two_at_once.is_some(), note);
    notes.add("adaptive", false, "fewer in flight while the endpoint has too much to do; a choice, not tested");
    let rates =
        [("requests_per_minute", profile.requests_per_minute), ("tokens_per_minute", profile.tokens_per_minute)];
    for (key, rate) in rates {
        let unknown = "no limit; none was looked for, and a run slows down where the server asks it to";
        notes.add(key, false, if rate.is_some() { KEPT } else { unknown });
    }
}

fn line(finding: &Finding) -> String {
    format!("{}: {}", finding.verdict.as_str(), finding.detail)
}

/// What a probe said, for a key that rests on it alone.
fn said(findings: &[Finding], name: &str) -> String {
    findings.iter().find(|finding| finding.name == name).map_or_else(|| "not tested".to_owned(), line)
}

fn identity(id: &str) -> String {
    let local = ["://127.", "://localhost", "://[::1]", "://0.0.0.0"].iter().any(|host| id.contains(host));
    let warning = if local {
        "; it names an address of this machine: name what is served instead (weights, template, context), or stored answers \
         are mistaken for each other when another model is served there"
    } else {
        ""
    };
    format!("identity in the response store: answers are stored under it{warning}")
}

/// The protocol to use, best first, and why.
fn protocol(facts: &Facts) -> (Option<Protocol>, String) {
    let native = match (facts.native, facts.echo) {
        (Native::Calls, Some(false)) => "tools are called, but a call with its result is refused",
        (Native::Calls, _) => {
            return (Some(Protocol::Native), "a tool was called natively".to_owned());
        }
        (Native::Silent, _) => "a tool was offered natively and not called",
        (Native::Refused, _) => "native tools are refused",
        (Native::Untested, _) => return (None, "not tested: as it was, or the default".to_owned()),
    };
    match (facts.schema_binds, facts.text_choice) {
        (Some(true), _) => (Some(Protocol::JsonSchema), format!("{native}; a JSON schema is kept")),
        (_, Some(true)) => {
            (Some(Protocol::Text), format!("{native}; no JSON schema is kept; a choice in words was read"))
        }
        // Nothing else worked: what was refused is worse than what was only not used.
        _ if facts.native == Native::Silent => {
            (Some(Protocol::Native), format!("{native}, and no other way was seen to work; expect few calls"))
        }
        _ => (Some(Protocol::Text), format!("{native}, and no other way was seen to work; expect few calls")),
    }
}

fn context(facts: &Facts, profile: &mut Profile, notes: &mut Written<'_>) {
    let seen = facts.context_tested.is_some();
    let about = if seen {
        "the largest prompt that was seen to be read whole, a lower bound of the context"
    } else {
        "no prompt was tested"
    };
    notes.add("context_tested_tokens", seen, about);
    profile.context_tested_tokens = facts.context_tested.or(profile.context_tested_tokens);
    if let Some(limit) = &facts.context_limit {
        profile.context_tokens = Some(limit.tokens);
        notes.add("context_tokens", true, limit.how.clone());
    } else if profile.context_tokens.is_some() {
        notes.add("context_tokens", false, KEPT);
    } else if let Some(stated) = &facts.stated_context {
        profile.context_tokens = Some(stated.tokens);
        notes.add("context_tokens", false, format!("not tested: {}; `doctor --context` tests it", stated.how));
    } else {
        let note =
            "tokens of prompt and answer together; unknown, see context_tested_tokens; `doctor --context` looks for it";
        notes.add("context_tokens", false, note);
    }
    // What was seen to be read whole cannot be more than there is.
    if let (Some(context), Some(tested)) = (profile.context_tokens, facts.context_tested)
        && tested > context
    {
        profile.context_tokens = Some(tested);
        notes.add(
            "context_tokens",
            true,
            format!("so much was seen to be read whole, more than {context}, which is stated"),
        );
    }
}

fn tools(facts: &Facts, profile: &mut Profile, notes: &mut Written<'_>) {
    match facts.tools_refused {
        Some(refused) if facts.tools_accepted > 0 => {
            profile.max_tools = Some(facts.tools_accepted);
            notes.add("max_tools", true, format!("so many were taken at once, {refused} were refused"));
        }
        _ if profile.max_tools.is_some() => notes.add("max_tools", false, KEPT),
        _ if facts.tools_accepted > 1 => {
            notes.add("max_tools", true, format!("unknown; {} at once were taken", facts.tools_accepted));
        }
        _ => notes.add("max_tools", false, "unknown; not tested"),
    }
    profile.tool_name_rule = facts.name_rule.unwrap_or(profile.tool_name_rule);
    let note = match facts.name_rule {
        Some(NameRule::Any) => "every name that was tried is taken, up to 128 characters",
        Some(NameRule::Openai) => "letters, digits, `_` and `-`, at most 64; something beyond that is refused",
        Some(NameRule::Identifier) => "letters, digits, `_` and `-`, at most 64, and no digit first, which is refused",
        None => "which names a tool may have; not tested",
    };
    notes.add("tool_name_rule", facts.name_rule.is_some(), note);
}

fn output(facts: &Facts, profile: &mut Profile, notes: &mut Written<'_>) {
    profile.output_limit = facts.output_limit;
    let other = if facts.output_limit == OutputLimit::MaxTokens { "" } else { "; `max_tokens` does not do" };
    notes.add("output_limit", true, format!("the parameter that limits an answer{other}"));
    profile.omit_temperature = facts.omit_temperature;
    let temperature = if facts.omit_temperature { "`temperature` is refused" } else { "`temperature` is taken" };
    notes.add("omit_temperature", true, temperature);
    let mut note = "tokens that one answer may use; a choice, not a finding".to_owned();
    if facts.thinks {
        profile.max_output_tokens = profile.max_output_tokens.max(THINKING_OUTPUT);
        note.push_str("; the model thinks before it answers, which counts");
    }
    if let Some(context) = profile.context_tokens {
        let share = u32::try_from(context / 4).unwrap_or(u32::MAX).max(1);
        if share < profile.max_output_tokens {
            profile.max_output_tokens = share;
            note.push_str("; cut to a quarter of the context");
        }
    }
    notes.add("max_output_tokens", false, note);
}

/// What cannot run as things are, whatever the dataset.
pub(super) fn will_not_run(facts: &Facts, profile: &Profile) -> Vec<String> {
    let mut lines = Vec::new();
    if facts.native == Native::Refused {
        lines.push("protocol native: the endpoint refuses tools".to_owned());
    }
    if facts.echo == Some(false) {
        lines.push(
            "protocol native: a call that is given back with its result is refused, so no episode gets past it"
                .to_owned(),
        );
    }
    if facts.schema_binds == Some(false) {
        lines.push("protocol json_schema: schemas are refused or not kept".to_owned());
    }
    if let Some(max) = profile.max_tools {
        lines.push(format!("more than {max} tools in one request: episodes will end as not_runnable(tool_limit)"));
    }
    if let Some(limit) = &facts.context_limit {
        lines.push(format!(
            "prompts that need more than {} tokens with their answer: episodes will end as not_runnable(context)",
            limit.tokens
        ));
    }
    if facts.truncates {
        lines.push(
            "prompts beyond the context would be cut without a word; `context_tokens`, if it is set, keeps them from being sent"
                .to_owned(),
        );
    }
    if facts.embeds == Some(false) {
        lines.push("strategies that ask the endpoint for embeddings".to_owned());
    }
    lines
}

/// Keys in the order of the file.
const KEYS: [&str; 20] = [
    "version",
    "id",
    "model",
    "protocol",
    "context_tokens",
    "context_tested_tokens",
    "max_tools",
    "max_output_tokens",
    "output_limit",
    "omit_temperature",
    "tool_name_rule",
    "concurrency",
    "adaptive",
    "requests_per_minute",
    "tokens_per_minute",
    "stream_usage",
    "embed_model",
    "max_schema_probes",
    "schema",
    "tested",
];
/// Those that are tables of their own, and hence the last ones.
const TABLES: [&str; 2] = ["schema", "tested"];

/// A profile as a file: each key below a comment that says how it was found. Keys that are not set stand there as a comment.
pub fn annotated(profile: &Profile, notes: &BTreeMap<&'static str, String>, asked: &str) -> String {
    let mut table = toml::Table::try_from(profile).expect("a profile is plain data");
    // Defaults that a profile does not mention are worth seeing here.
    table.entry("output_limit").or_insert_with(|| profile.output_limit.as_str().into());
    table.entry("omit_temperature").or_insert_with(|| profile.omit_temperature.into());
    table.entry("adaptive").or_insert_with(|| profile.adaptive.into());
    table.entry("max_schema_probes").or_insert_with(|| profile.max_schema_probes.into());
    let when = profile.tested.as_ref().map_or("", |tested| tested.at.as_str());
    let mut text = format!(
        "# What an endpoint can do, found by `toolgauge doctor` at {}, asking {}.\n# Edit it where you know better.\n",
        plain(when),
        plain(asked)
    );
    let note = |key: &str| notes.get(key).map_or_else(String::new, |note| format!("# {}\n", plain(note)));
    for key in KEYS.iter().filter(|key| !TABLES.contains(key)) {
        let note = note(key);
        match table.get(*key) {
            Some(value) => {
                let _ = write!(text, "\n{note}{key} = {value}\n");
            }
            None => {
                let _ = write!(text, "\n{note}# {key} =\n");
            }
        }
    }
    let rules =
        if profile.schema.is_off() { "# [schema]\n".to_owned() } else { named_table("schema", &profile.schema) };
    let _ = write!(text, "\n{}{rules}", note("schema"));
    if let Some(tested) = &profile.tested {
        text.push_str(
            "\n# What was found; nothing acts on it. It enters the manifest of every run with this profile.\n",
        );
        text.push_str(&named_table("tested", tested));
    }
    text
}

fn named_table(name: &str, value: &impl Serialize) -> String {
    let mut outer = toml::Table::new();
    outer.insert(name.to_owned(), toml::Value::try_from(value).expect("it is plain data"));
    toml::to_string(&outer).expect("a table is plain data")
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::endpoint::Preset;

    fn finding(name: &'static str, detail: &str) -> Finding {
        Finding { name, verdict: Verdict::Yes, detail: detail.to_owned(), evidence: Vec::new() }
    }

    fn written(facts: &Facts) -> (Profile, String) {
        let base = Profile::hosted("http://127.0.0.1:8080/v1", "m");
        let findings = [finding("streaming", "12 pieces \"quoted\" \\ 'and'"), finding("usage", "in all of 9 answers")];
        let (profile, notes) = profile(facts, &findings, &base, "2026-12-01T10:00:00Z");
        let text = annotated(&profile, &notes, "http://127.0.0.1:8080/v1");
        (profile, text)
    }

    #[test]
    fn a_profile_with_comments_reads_back_as_it_was() {
        for facts in [
            Facts::default(),
            Facts {
                native: Native::Calls,
                tools_accepted: 128,
                tools_refused: Some(256),
                name_rule: Some(NameRule::Identifier),
                context_tested: Some(3_000),
                context_limit: Some(super::super::facts::ContextLimit {
                    tokens: 4_096,
                    how: "it\nsaid \u{1b}so".to_owned(),
                }),
                output_limit: OutputLimit::MaxCompletionTokens,
                omit_temperature: true,
                two_at_once: Some(1.1),
                stream_usage: Some(true),
                served: Some("m\n[evil]".to_owned()),
                ..Facts::default()
            },
        ] {
            let (mut profile, text) = written(&facts);
            assert_eq!(Profile::parse(&text, "p.toml").unwrap(), profile, "{text}");
            profile.schema = Preset::StrictTypes.rules();
            let text = annotated(&profile, &Notes::new(), "a");
            assert_eq!(Profile::parse(&text, "p.toml").unwrap(), profile, "{text}");
        }
        insta::assert_snapshot!(written(&Facts { native: Native::Calls, ..Facts::default() }).1);
    }

    #[test]
    fn the_keys_of_the_file_are_those_of_a_profile() {
        // An unknown key is refused with a list of those that are known.
        let message = Profile::parse("version = 1\nid = \"a\"\nmodel = \"m\"\nzz = 1\n", "p").unwrap_err().to_string();
        let known: Vec<_> = message.split('`').skip(3).step_by(2).collect();
        assert_eq!(known, KEYS, "{message}");
    }

    #[test]
    fn the_protocol_is_the_best_that_works() {
        let choose = |native, echo, schema_binds, text_choice| {
            protocol(&Facts { native, echo, schema_binds, text_choice, ..Facts::default() }).0
        };
        assert_eq!(choose(Native::Calls, Some(true), Some(true), None), Some(Protocol::Native));
        assert_eq!(choose(Native::Calls, Some(false), Some(true), None), Some(Protocol::JsonSchema));
        assert_eq!(choose(Native::Refused, None, Some(false), Some(true)), Some(Protocol::Text));
        assert_eq!(choose(Native::Silent, None, Some(false), Some(false)), Some(Protocol::Native));
        assert_eq!(choose(Native::Refused, None, None, None), Some(Protocol::Text));
        assert_eq!(choose(Native::Untested, None, Some(true), None), None);
    }

    #[test]
    fn what_was_known_stays_where_nothing_was_found() {
        let mut base = Profile::hosted("https://a/v1", "m");
        (base.context_tokens, base.max_tools) = (Some(8_192), Some(64));
        let (kept, notes) = profile(&Facts::default(), &[], &base, "now");
        assert_eq!((kept.context_tokens, kept.max_tools), (Some(8_192), Some(64)));
        assert!(notes["context_tokens"].contains("profile that was given"));
        let small = Facts {
            context_limit: Some(super::super::facts::ContextLimit { tokens: 1_000, how: "said".to_owned() }),
            ..Facts::default()
        };
        let (found, _) = profile(&small, &[], &base, "now");
        assert_eq!(
            (found.context_tokens, found.max_output_tokens),
            (Some(1_000), 250),
            "a prompt must fit beside an answer"
        );
    }
}
