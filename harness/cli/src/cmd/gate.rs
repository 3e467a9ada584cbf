//! `toolgauge gate`, the exact part: offline measures of a run against a committed baseline, with every query that moved.
//!
//! A ranking without a model is deterministic, so there is nothing to test statistically: a mean that fell is a loss.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;

use harness::ids::{Digest, QueryId};
use harness::metric::score::Score;
use harness::run::dir::StoredRun;
use harness::run::manifest::{Manifest, QuerySelection};
use harness::text::{grouped, plain, plural};
use serde::{Deserialize, Serialize};

use crate::args::GateArgs;
use crate::cmd::report::scores;
use crate::exit::{Exit, OrExit as _, expected};
use crate::print::print_out;
use crate::setup::{dataset_of, subsets_of};

const VERSION: u32 = 3;
/// Measures that are gated.
const MEASURES: [&str; 3] = ["recall@5", "complete@5", "ndcg@10"];
/// Baselines hold six decimals; a smaller move is rounding.
const DECIMALS: f64 = 1e6;
const SHOWN: usize = 20;

/// A committed baseline: one line per ranking, so that a change shows in a diff.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Baseline {
    version: u32,
    /// What must be the same to compare, each by its digest.
    setting: BTreeMap<String, Digest>,
    /// The same in words, for whoever reads why two cannot be compared; older baselines have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    words: BTreeMap<String, String>,
    dataset: String,
    measures: Vec<String>,
    /// In the order of their keys, each key once.
    rankings: Vec<Ranking>,
}

/// The measures of one ranking.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ranking {
    strategy: String,
    size: u32,
    query: QueryId,
    #[serde(default, skip_serializing_if = "is_first")]
    repeat: u32,
    /// One per measure; `null` for a query outside the means.
    values: Vec<Option<f64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_first(repeat: &u32) -> bool {
    *repeat == 0
}

impl Ranking {
    /// Rankings with the same group share a mean: a gain of one must not hide a loss of another.
    fn group(&self) -> (&str, u32) {
        (&self.strategy, self.size)
    }

    fn key(&self) -> (&str, u32, &QueryId, u32) {
        (&self.strategy, self.size, &self.query, self.repeat)
    }
}

impl fmt::Display for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(self.query.as_str()))?;
        if self.repeat > 0 { write!(f, ", repeat {}", self.repeat) } else { Ok(()) }
    }
}

/// `bm25, 150 tools`.
fn group_name((strategy, size): (&str, u32)) -> String {
    format!("{}, {}", plain(strategy), plural(u64::from(size), "tool", "tools"))
}

pub fn gate(args: &GateArgs) -> anyhow::Result<Exit> {
    if args.write {
        refuse_other(&args.baseline)?;
    }
    let stored = StoredRun::read(&args.run).or_exit(Exit::Usage)?;
    let dataset = dataset_of(&stored.manifest, args.dataset.as_deref(), true)?;
    let subsets = subsets_of(&dataset, &stored.manifest)?;
    if stored.episodes.len() != stored.plan.len() {
        let message = format!(
            "{}: {} of {} done; finish the run before it is compared",
            args.run.display(),
            grouped(stored.episodes.len() as u64),
            plural(stored.plan.len() as u64, "episode", "episodes")
        );
        return Err(expected(Exit::GateInconclusive, message));
    }
    let manifest = &stored.manifest;
    let current = baseline(&scores(&dataset, &stored, &subsets)?, manifest);
    if current.rankings.is_empty() {
        let message = "this run holds no ranking without a model; only those are gated exactly";
        return Err(expected(Exit::GateInconclusive, message));
    }
    if args.write {
        write(&args.baseline, &current)?;
        let rankings = plural(current.rankings.len() as u64, "ranking", "rankings");
        print_out(&format!("{}: baseline of {rankings} written\n", args.baseline.display()))?;
        return Ok(Exit::Ok);
    }
    let committed = read(&args.baseline)?;
    if let Some(problem) = difference(&committed, &current) {
        return Err(expected(Exit::GateInconclusive, format!("{}: {problem}", args.baseline.display())));
    }
    let (exit, text) = compare(&committed, &current, args.exact);
    print_out(&text)?;
    Ok(exit)
}

/// Why the two cannot be compared.
fn difference(committed: &Baseline, current: &Baseline) -> Option<String> {
    let differs = |what: &&String| committed.setting.get(*what) != current.setting.get(*what);
    let all: BTreeSet<&String> = committed.setting.keys().chain(current.setting.keys()).collect();
    let differing: Vec<&str> = all.into_iter().filter(differs).map(String::as_str).collect();
    if !differing.is_empty() {
        let told = |what: &&str| format!("{what} ({} there, {} here)", committed.word(what), current.word(what));
        return Some(format!(
            "cannot be compared with this run, they differ in: {}; write a new baseline with --write",
            differing.iter().map(told).collect::<Vec<_>>().join(", ")
        ));
    }
    let (committed, current) = (&committed.rankings, &current.rankings);
    if !committed.iter().map(Ranking::key).eq(current.iter().map(Ranking::key)) {
        return Some(format!(
            "holds {} and the run {}, and they are not the same; write a new baseline with --write",
            plural(committed.len() as u64, "ranking", "rankings"),
            grouped(current.len() as u64)
        ));
    }
    let has_value = |ranking: &Ranking| ranking.values.iter().map(Option::is_some).collect::<Vec<_>>();
    let other = committed.iter().zip(current).find(|(before, after)| has_value(before) != has_value(after));
    other.map(|(ranking, _)| {
        format!(
            "{}, {ranking}: has values there and none here, or the reverse; write it anew",
            group_name(ranking.group())
        )
    })
}

impl Baseline {
    /// A part of the setting in words; its digest if there are none.
    fn word(&self, what: &str) -> String {
        let digest = || self.setting.get(what).map_or("nothing", Digest::short);
        self.words.get(what).map_or_else(|| digest().to_owned(), |words| plain(words))
    }
}

/// What must be the same to compare: each part with its digest and in words.
fn setting(manifest: &Manifest) -> [(&'static str, Digest, String); 6] {
    let strategies: Vec<_> = manifest
        .strategies
        .iter()
        .map(|info| format!("{} version {} {}", info.label, info.meta.version, info.meta.params))
        .collect();
    let views: Vec<_> = manifest
        .views
        .iter()
        .map(|view| format!("{} digest {}", manifest.axis.count(view.size), view.digest.short()))
        .collect();
    let QuerySelection { split, scaling_only, queries, of, sampled } = &manifest.selection;
    let selection = format!(
        "{queries} of {of}, split {split}{}{}",
        if *scaling_only { ", valid at every size" } else { "" },
        if *sampled { ", sampled" } else { "" }
    );
    let dataset = format!("{} digest {}", dataset_name(manifest), manifest.dataset.digest.short());
    [
        ("dataset", Digest::of_json(&manifest.dataset.digest), dataset),
        ("strategies", Digest::of_json(&manifest.strategies), strategies.join(" · ")),
        ("selection of queries", Digest::of_json(&manifest.selection), selection),
        ("views", Digest::of_json(&manifest.views), views.join(" · ")),
        ("seed", Digest::of_json(&manifest.seed), manifest.seed.to_string()),
        ("measures", Digest::of_json(&MEASURES), MEASURES.join(" ")),
    ]
}

fn dataset_name(manifest: &Manifest) -> String {
    format!("{} {}", manifest.dataset.name, manifest.dataset.revision)
}

fn baseline(scores: &[Score], manifest: &Manifest) -> Baseline {
    let (mut digests, mut words) = (BTreeMap::new(), BTreeMap::new());
    for (what, digest, word) in setting(manifest) {
        digests.insert(what.to_owned(), digest);
        words.insert(what.to_owned(), word);
    }
    let round = |value: f64| (value * DECIMALS).round() / DECIMALS;
    // A ranking is what has no end-to-end success.
    let rankings = scores.iter().filter(|score| score.success.is_none() && score.turns() == 0);
    let mut rankings: Vec<Ranking> = rankings
        .map(|score| Ranking {
            strategy: score.strategy.clone(),
            size: score.size,
            query: score.query.clone(),
            repeat: score.repeat,
            values: MEASURES.iter().map(|name| score.retrieval.get(*name).copied().map(round)).collect(),
        })
        .collect();
    rankings.sort_by(|a, b| a.key().cmp(&b.key()));
    let measures = MEASURES.map(str::to_owned).to_vec();
    Baseline { version: VERSION, setting: digests, words, dataset: dataset_name(manifest), measures, rankings }
}

fn write(path: &Path, baseline: &Baseline) -> anyhow::Result<()> {
    // One ranking per line: pretty printing would give each number a line of its own.
    let mut text = String::from("{\n");
    for (name, value) in [
        ("version", serde_json::to_string(&baseline.version)?),
        ("setting", serde_json::to_string(&baseline.setting)?),
        ("words", serde_json::to_string(&baseline.words)?),
        ("dataset", serde_json::to_string(&baseline.dataset)?),
        ("measures", serde_json::to_string(&baseline.measures)?),
    ] {
        let _ = writeln!(text, "\"{name}\": {value},");
    }
    text.push_str("\"rankings\": [\n");
    let lines: Vec<_> = baseline.rankings.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    text.push_str(&lines.join(",\n"));
    text.push_str("\n]\n}\n");
    harness::file::replace(path, text.as_bytes())
        .map_err(|error| expected(Exit::Usage, format!("{}: {error}", path.display())))
}

/// Refuses to put a baseline in the place of something else.
fn refuse_other(path: &Path) -> anyhow::Result<()> {
    /// What every version of a baseline has.
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only whether they are there counts")]
    struct Recognised {
        version: u32,
        setting: serde_json::Map<String, serde_json::Value>,
    }
    let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
    let is_baseline = || std::fs::read(path).is_ok_and(|bytes| serde_json::from_slice::<Recognised>(&bytes).is_ok());
    // An empty file is nothing that could be lost.
    if found.is_file() && (found.len() == 0 || is_baseline()) {
        return Ok(());
    }
    let message = format!("{}: exists and is no baseline, so it is not replaced; name another file", path.display());
    Err(expected(Exit::Usage, message))
}

fn read(path: &Path) -> anyhow::Result<Baseline> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let shown = path.display();
    let inconclusive = |problem: String| expected(Exit::GateInconclusive, problem);
    let text = std::fs::read_to_string(path)
        .map_err(|error| inconclusive(format!("{shown}: {error}; write a baseline with --write and commit it")))?;
    let unreadable =
        |error: serde_json::Error| inconclusive(format!("{shown}:{}:{}: {error}", error.line(), error.column()));
    let Versioned { version } = serde_json::from_str(&text).map_err(unreadable)?;
    if version != VERSION {
        return Err(inconclusive(format!("{shown}: version {version} is not {VERSION}; write it anew with --write")));
    }
    let mut baseline: Baseline = serde_json::from_str(&text).map_err(unreadable)?;
    if baseline.measures != MEASURES {
        return Err(inconclusive(format!("{shown}: its measures are not {}; write it anew", MEASURES.join(", "))));
    }
    baseline.rankings.sort_by(|a, b| a.key().cmp(&b.key()));
    if let Some(pair) = baseline.rankings.windows(2).find(|pair| pair[0].key() == pair[1].key()) {
        let (group, ranking) = (group_name(pair[0].group()), &pair[0]);
        return Err(inconclusive(format!("{shown}: {group}, {ranking}: is there twice; write it anew")));
    }
    if let Some(ranking) = baseline.rankings.iter().find(|ranking| ranking.values.len() != MEASURES.len()) {
        let group = group_name(ranking.group());
        let message = "has another number of values than there are measures; write it anew";
        return Err(inconclusive(format!("{shown}: {group}, {ranking}: {message}")));
    }
    Ok(baseline)
}

/// The verdict and its words. Both hold the same rankings in the same order.
fn compare(committed: &Baseline, current: &Baseline, exact: bool) -> (Exit, String) {
    let mut out = String::new();
    let mut failed = false;
    let mut moved_any = false;
    let pairs: Vec<(&Ranking, &Ranking)> = committed.rankings.iter().zip(&current.rankings).collect();
    for group in pairs.chunk_by(|(a, _), (b, _)| a.group() == b.group()) {
        let _ = writeln!(out, "{}", group_name(group[0].0.group()));
        for (index, measure) in current.measures.iter().enumerate() {
            let before = mean(group.iter().map(|(before, _)| before.values[index]));
            let after = mean(group.iter().map(|(_, after)| after.values[index]));
            let moved: Vec<_> =
                group.iter().filter(|(before, after)| before.values[index] != after.values[index]).collect();
            let fell = after < before - 1.0 / DECIMALS;
            failed |= fell;
            moved_any |= !moved.is_empty();
            let verdict = if fell { "FELL" } else { "held" };
            let count = plural(moved.len() as u64, "query moved", "queries moved");
            let _ = writeln!(out, "  {measure:<12} {before:.4} → {after:.4}  {verdict}  {count}");
            let value = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
            for (before, after) in moved.iter().take(SHOWN) {
                let _ = writeln!(out, "    {} → {}  {after}", value(before.values[index]), value(after.values[index]));
            }
            if moved.len() > SHOWN {
                let _ = writeln!(out, "    … and {} more", grouped((moved.len() - SHOWN) as u64));
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

fn mean(values: impl Iterator<Item = Option<f64>>) -> f64 {
    let (sum, n) = values.flatten().fold((0.0, 0_u32), |(sum, n), value| (sum + value, n + 1));
    sum / f64::from(n.max(1))
}
