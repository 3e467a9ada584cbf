//! `toolgauge gate`, the exact part: offline measures of a run against a committed baseline, with every query that moved.
//!
//! A ranking without a model is deterministic, so there is nothing to test statistically: a mean that fell is a loss.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use harness::ids::Digest;
use harness::metric::score::Score;
use harness::run::dir::StoredRun;
use serde::{Deserialize, Serialize};

use crate::args::GateArgs;
use crate::cmd::report::scores;
use crate::exit::{Exit, OrExit as _, expected, print_out};
use crate::setup::{dataset_of, subsets_of};

const VERSION: u32 = 2;
/// Measures that are gated.
const MEASURES: [&str; 3] = ["recall@5", "complete@5", "ndcg@10"];
/// Baselines hold six decimals; a smaller move is rounding.
const DECIMALS: f64 = 1e6;
const SHOWN: usize = 20;

/// A committed baseline: one line per strategy, size and query, so that a change shows in a diff.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    version: u32,
    /// What must be the same to compare, each by its digest.
    setting: BTreeMap<String, Digest>,
    dataset: String,
    measures: Vec<String>,
    /// `strategy / size / query` → one value per measure; `null` for a query outside the means.
    values: BTreeMap<String, Vec<Option<f64>>>,
}

pub fn gate(args: &GateArgs) -> anyhow::Result<Exit> {
    let stored = StoredRun::read(&args.run).or_exit(Exit::Usage)?;
    let dataset = dataset_of(&stored.manifest, args.dataset.as_deref(), true)?;
    let subsets = subsets_of(&dataset, &stored.manifest)?;
    if stored.episodes.len() != stored.plan.len() {
        let message = format!(
            "{}: {} of {} episodes are there; finish the run before it is compared",
            args.run.display(),
            stored.episodes.len(),
            stored.plan.len()
        );
        return Err(expected(Exit::GateInconclusive, message));
    }
    let manifest = &stored.manifest;
    let setting = BTreeMap::from(
        [
            ("dataset", Digest::of_json(&manifest.dataset.digest)),
            ("strategies", Digest::of_json(&manifest.strategies)),
            ("selection of queries", Digest::of_json(&manifest.selection)),
            ("views", Digest::of_json(&manifest.views)),
            ("seed", Digest::of_json(&manifest.seed)),
            ("measures", Digest::of_json(&MEASURES)),
        ]
        .map(|(what, digest)| (what.to_owned(), digest)),
    );
    let dataset_name = format!("{} {}", manifest.dataset.name, manifest.dataset.revision);
    let current = baseline(&scores(&dataset, &stored, &subsets)?, setting, dataset_name);
    if current.values.is_empty() {
        let message = "this run holds no ranking without a model; only those are gated exactly";
        return Err(expected(Exit::GateInconclusive, message));
    }
    if args.write {
        write(&args.baseline, &current)?;
        print_out(&format!("{}: baseline of {} rankings written\n", args.baseline.display(), current.values.len()))?;
        return Ok(Exit::Ok);
    }
    let committed = read(&args.baseline)?;
    let differs = |what: &&String| committed.setting.get(*what) != current.setting.get(*what);
    let differing: Vec<&str> = current.setting.keys().filter(differs).map(String::as_str).collect();
    if !differing.is_empty() || committed.setting.len() != current.setting.len() {
        let message = format!(
            "{}: cannot be compared with this run, they differ in: {} (dataset {} there, {} here); write a new baseline with \
             --write",
            args.baseline.display(),
            differing.join(", "),
            committed.dataset,
            current.dataset
        );
        return Err(expected(Exit::GateInconclusive, message));
    }
    if !committed.values.keys().eq(current.values.keys()) {
        let message = format!(
            "{}: holds {} rankings and the run {}, and they are not the same; write a new baseline with --write",
            args.baseline.display(),
            committed.values.len(),
            current.values.len()
        );
        return Err(expected(Exit::GateInconclusive, message));
    }
    let has_value = |values: &[Option<f64>]| values.iter().map(Option::is_some).collect::<Vec<_>>();
    let other = current.values.iter().find(|(key, values)| has_value(values) != has_value(&committed.values[*key]));
    if let Some((key, _)) = other {
        let message = format!(
            "{}: {key:?} has values there and none here, or the reverse; write it anew",
            args.baseline.display()
        );
        return Err(expected(Exit::GateInconclusive, message));
    }
    let (exit, text) = compare(&committed, &current, args.exact);
    print_out(&text)?;
    Ok(exit)
}

fn baseline(scores: &[Score], setting: BTreeMap<String, Digest>, dataset: String) -> Baseline {
    let round = |value: f64| (value * DECIMALS).round() / DECIMALS;
    // A ranking is what has no end-to-end success.
    let rankings = scores.iter().filter(|score| score.success.is_none() && score.turns() == 0);
    let values = rankings
        .map(|score| {
            let values = MEASURES.iter().map(|name| score.retrieval.get(*name).copied().map(round)).collect();
            (format!("{} / {} / {}", score.strategy, score.size, score.query), values)
        })
        .collect();
    Baseline { version: VERSION, setting, dataset, measures: MEASURES.map(str::to_owned).to_vec(), values }
}

fn write(path: &Path, baseline: &Baseline) -> anyhow::Result<()> {
    // One query per line: pretty printing would give each number a line of its own.
    let mut text = String::from("{\n");
    for (name, value) in [
        ("version", serde_json::to_string(&baseline.version)?),
        ("setting", serde_json::to_string(&baseline.setting)?),
        ("dataset", serde_json::to_string(&baseline.dataset)?),
        ("measures", serde_json::to_string(&baseline.measures)?),
    ] {
        let _ = writeln!(text, "\"{name}\": {value},");
    }
    text.push_str("\"values\": {\n");
    let lines: Vec<_> = baseline
        .values
        .iter()
        .map(|(key, values)| Ok(format!("{}: {}", serde_json::to_string(key)?, serde_json::to_string(values)?)))
        .collect::<anyhow::Result<_>>()?;
    text.push_str(&lines.join(",\n"));
    text.push_str("\n}\n}\n");
    // A full disk must leave the old baseline whole.
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)
        .and_then(|()| std::fs::rename(&partial, path))
        .map_err(|error| expected(Exit::Usage, format!("{}: {error}", path.display())))
}

fn read(path: &Path) -> anyhow::Result<Baseline> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        expected(Exit::GateInconclusive, format!("{shown}: {error}; write a baseline with --write and commit it"))
    })?;
    let baseline: Baseline = serde_json::from_str(&text).map_err(|error| {
        expected(Exit::GateInconclusive, format!("{shown}:{}:{}: {error}", error.line(), error.column()))
    })?;
    if baseline.measures != MEASURES {
        let message = format!("{shown}: its measures are not {}; write it anew", MEASURES.join(", "));
        return Err(expected(Exit::GateInconclusive, message));
    }
    if let Some((key, _)) = baseline.values.iter().find(|(_, values)| values.len() != baseline.measures.len()) {
        let message = format!("{shown}: {key:?} has another number of values than there are measures; write it anew");
        return Err(expected(Exit::GateInconclusive, message));
    }
    if baseline.version != VERSION {
        let message = format!("{shown}: version {} is not {VERSION}; write it anew with --write", baseline.version);
        return Err(expected(Exit::GateInconclusive, message));
    }
    Ok(baseline)
}

/// The verdict and its words.
fn compare(committed: &Baseline, current: &Baseline, exact: bool) -> (Exit, String) {
    let mut out = String::new();
    let mut failed = false;
    let mut moved_any = false;
    // Per strategy and size: a gain of one must not hide a loss of another.
    let groups: std::collections::BTreeSet<&str> = current.values.keys().map(|key| group(key)).collect();
    for group_name in groups {
        let _ = writeln!(out, "{}", harness::text::plain(group_name));
        for (index, measure) in current.measures.iter().enumerate() {
            let (before, after) = (mean(committed, group_name, index), mean(current, group_name, index));
            let moved: Vec<_> = of_group(current, group_name)
                .filter_map(|(key, values)| {
                    let before = committed.values.get(key).and_then(|values| values[index]);
                    (before != values[index]).then_some((key, before, values[index]))
                })
                .collect();
            let fell = after < before - 1.0 / DECIMALS;
            failed |= fell;
            moved_any |= !moved.is_empty();
            let verdict = if fell { "FELL" } else { "held" };
            let _ = writeln!(out, "  {measure:<12} {before:.4} → {after:.4}  {verdict}  {} queries moved", moved.len());
            let value = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
            for (key, before, after) in moved.iter().take(SHOWN) {
                let _ = writeln!(out, "    {} → {}  {}", value(*before), value(*after), harness::text::plain(key));
            }
            if moved.len() > SHOWN {
                let _ = writeln!(out, "    … and {} more", moved.len() - SHOWN);
            }
        }
    }
    if failed {
        let _ = writeln!(out, "gate failed: a mean fell below its baseline");
        return (Exit::GateFailed, out);
    }
    if moved_any && exact {
        let _ = writeln!(out, "gate failed: queries moved; if they should, write the baseline anew and commit it");
        return (Exit::GateFailed, out);
    }
    let _ = writeln!(out, "gate passed");
    (Exit::Ok, out)
}

/// `strategy / size` of a key.
fn group(key: &str) -> &str {
    key.rsplit_once(" / ").map_or(key, |(group, _)| group)
}

fn of_group<'b>(baseline: &'b Baseline, name: &'b str) -> impl Iterator<Item = (&'b String, &'b Vec<Option<f64>>)> {
    baseline.values.iter().filter(move |(key, _)| group(key) == name)
}

fn mean(baseline: &Baseline, name: &str, index: usize) -> f64 {
    let values: Vec<f64> = of_group(baseline, name).filter_map(|(_, values)| values[index]).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
