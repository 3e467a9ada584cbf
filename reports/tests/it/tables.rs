use reports::{Style, markdown, summarise, terminal, write_all};

use crate::fixture::run;

const WIDE: Style = Style { width: 110, color: false };

#[test]
fn look() {
    let run = run();
    let summary = summarise(&run.input());
    println!("{}", terminal(&summary, WIDE));
    write_all("/tmp/rep/three".as_ref(), &run.input(), &summary).unwrap();
    let run = run.only(&["bm25", "bm25-llm", "eager", "bridge"], &[500]);
    write_all("/tmp/rep/one".as_ref(), &run.input(), &summarise(&run.input())).unwrap();

    // many
    let mut run = crate::fixture::run();
    let base = crate::fixture::run();
    for (i, name) in [
        "hybrid-llm (k=5, dense=small, fusion=rrf, deep)",
        "a",
        "bb",
        "hierarchy",
        "toolsets",
        "search-inject",
        "sub-agent",
        "find-tool",
        "rerank",
        "<b>&\u{202e}",
    ]
    .iter()
    .enumerate()
    {
        let from = ["bm25-llm", "bridge"][i % 2];
        let clone = crate::fixture::run().only(&[from], &[150, 500, 1_000]).rename(from, name);
        run.plan.extend(clone.plan.into_iter().map(|mut j| {
            j.key = harness::ids::JobKey::of_json(&(&j.key, i));
            j
        }));
        run.scores.extend(clone.scores.into_iter().map(|mut j| {
            j.job = harness::ids::JobKey::of_json(&(&j.job, i));
            if i > 3 && j.query.as_str() > "q30" {
                j.success = Some(false);
                j.input_tokens += (i * 500) as u64;
            }
            j
        }));
        run.manifest.strategies.extend(clone.manifest.strategies);
    }
    let _ = base;
    write_all("/tmp/rep/many".as_ref(), &run.input(), &summarise(&run.input())).unwrap();
    let run = run.only(
        &[
            "bm25",
            "bm25-llm",
            "eager",
            "bridge",
            "a",
            "<b>&\u{202e}",
            "hybrid-llm (k=5, dense=small, fusion=rrf, deep)",
            "bb",
            "rerank",
        ],
        &[1000],
    );
    write_all("/tmp/rep/manyone".as_ref(), &run.input(), &summarise(&run.input())).unwrap();
}
