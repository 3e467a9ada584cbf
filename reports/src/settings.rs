//! What a reader needs to judge or repeat a run, from its manifest.

use std::collections::BTreeMap;

use harness::ids::Digest;
use harness::run::manifest::{Axis, DistractorKind, Manifest, OrderKind, OwnCandidates, SchemaRewrites};
use harness::tokens::TOKENIZER;
use serde::Serialize;

use crate::Input;
use crate::format::{grouped, plural};
use crate::sample::Asked;
use crate::summary::{Revision, Revisions, StrategySettings, Subset};

/// Name and value, in the order in which they are printed.
pub(crate) fn settings(input: &Input<'_>, asked: &Asked<'_>, subset: Option<&Subset>) -> Vec<(&'static str, String)> {
    let manifest = input.manifest;
    let (selection, loop_settings) = (&manifest.selection, &manifest.settings);
    let planned = if selection.sampled {
        format!("{} sampled of {}", grouped(selection.queries as u64), grouped(selection.of as u64))
    } else {
        grouped(selection.queries as u64)
    };
    let queries = match subset {
        Some(subset) => format!("{} of {planned}", grouped(subset.begun)),
        None => planned,
    };
    let queries = match asked.everywhere() {
        Some(everywhere) => format!("{queries}, of which {} at every size", grouped(everywhere)),
        None if selection.scaling_only => format!("{queries}, valid at every size"),
        None => queries,
    };
    let mut settings = vec![
        ("dataset", dataset_name(manifest)),
        ("split", selection.split.clone()),
        ("queries", queries),
        ("model", "none".to_owned()),
    ];
    if let Some(endpoint) = &manifest.endpoint {
        let profile = &endpoint.profile;
        settings[3].1.clone_from(&profile.model);
        settings.push(("protocol", word(&profile.protocol)));
        let known = |limit: Option<u64>| limit.map_or_else(|| "unknown".to_owned(), grouped);
        settings.push(("context", known(profile.context_tokens)));
        settings.push(("tool limit", known(profile.max_tools.map(|tools| tools as u64))));
        settings
            .extend(manifest.rewrites.as_ref().map(|done| ("schemas rewritten for this endpoint", rewritten(done))));
        settings.push(("mode", word(&loop_settings.mode)));
        settings.push(("wording", word(&loop_settings.wording)));
        let temperature = loop_settings.temperature.to_string();
        settings.push(("temperature", if profile.omit_temperature { "not sent".to_owned() } else { temperature }));
        settings.push(("turns at most", loop_settings.max_turns.to_string()));
        settings.push(("output at most", grouped(u64::from(loop_settings.max_output_tokens))));
        settings.push((
            "order",
            match manifest.order.kind {
                OrderKind::Blocked => format!("blocked ({})", manifest.order.orders),
                OrderKind::Fixed => "fixed".to_owned(),
            },
        ));
        settings.push(("tokenizer of estimates", TOKENIZER.to_owned()));
        let served = manifest.finish.as_ref().map(|finish| finish.served_models.join(", "));
        settings.extend(served.filter(|models| !models.is_empty()).map(|models| ("answered by", models)));
    }
    settings.extend(candidates(manifest).map(|candidates| ("queries asked of their own candidates", candidates)));
    if let Some(Revisions { labels, answers }) = revisions(input) {
        settings.push(("labels of", revision(&labels)));
        settings.push(("answers to", revision(&answers)));
    }
    if let Axis::Skills { tools } = manifest.axis {
        settings.push(("tools in the catalogue", grouped(u64::from(tools))));
    }
    if manifest.distractors != DistractorKind::Random {
        settings.push(("distractors", word(&manifest.distractors)));
    }
    settings.push(("seed", manifest.seed.to_string()));
    settings.push(("repeats", manifest.repeats.to_string()));
    settings
}

/// Where labels and answers come from, if that is not the same.
pub(crate) fn revisions(input: &Input<'_>) -> Option<Revisions> {
    let labels = input.rescored?;
    let of =
        |revision: &str, digest: &Digest| Revision { revision: revision.to_owned(), digest: digest.short().to_owned() };
    let answers = &input.manifest.dataset;
    Some(Revisions { labels: of(labels.revision, labels.digest), answers: of(&answers.revision, &answers.digest) })
}

pub(crate) fn revision(Revision { revision, digest }: &Revision) -> String {
    format!("revision {revision}, digest {digest}")
}

/// How many queries are not asked of all tools of a size, and of how many they are.
pub(crate) fn candidates(manifest: &Manifest) -> Option<String> {
    let OwnCandidates { queries, mean, most } = manifest.candidates?;
    Some(format!(
        "{} of {}, {mean:.1} tools on average and {} at most",
        grouped(queries as u64),
        grouped(manifest.selection.queries as u64),
        grouped(most as u64)
    ))
}

/// How many tools were changed, and how many by which rule.
pub(crate) fn rewritten(done: &SchemaRewrites) -> String {
    let mut rules: BTreeMap<&str, u64> = BTreeMap::new();
    for tool in &done.tools {
        let mut own: Vec<&str> = tool.rewrites.iter().map(|rewrite| rewrite.rule.as_str()).collect();
        own.sort_unstable();
        own.dedup();
        for rule in own {
            *rules.entry(rule).or_default() += 1;
        }
    }
    let mut rules: Vec<(&str, u64)> = rules.into_iter().collect();
    rules.sort_by_key(|&(_, tools)| std::cmp::Reverse(tools));
    let rules: Vec<String> = rules.into_iter().map(|(rule, tools)| format!("{rule} {}", grouped(tools))).collect();
    let by = if rules.is_empty() { String::new() } else { format!(" ({})", rules.join(", ")) };
    format!("{} of {}{by}", grouped(done.tools.len() as u64), plural(done.of as u64, "tool", "tools"))
}

/// Where, when and from what the run was made: for the report file, too long for a terminal.
pub(crate) fn provenance(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let mut provenance = vec![
        ("dataset digest", manifest.dataset.digest.short().to_owned()),
        ("licence of the dataset", manifest.dataset.licence.clone()),
        ("toolgauge", manifest.toolgauge.clone()),
        ("started", manifest.started.clone()),
        ("host", manifest.host.clone()),
    ];
    if let Some(tested) = manifest.endpoint.as_ref().and_then(|endpoint| endpoint.profile.tested.as_ref()) {
        provenance.push(("endpoint probed", format!("{} by toolgauge {}", tested.at, tested.toolgauge)));
    }
    if let Some(finish) = &manifest.finish {
        provenance.push(("ended", format!("{}, {}", finish.at, finish.how)));
        provenance.push(("failed attempts", finish.failed_attempts.to_string()));
        if finish.wasted_tokens > 0 {
            provenance.push(("tokens of answers that could not be used", grouped(finish.wasted_tokens)));
        }
        provenance.push(("possibly billed requests", finish.possibly_billed.to_string()));
        if finish.most_in_flight > 0 {
            provenance.push(("requests in flight at most", finish.most_in_flight.to_string()));
        }
        let probes = finish.schemas.as_ref().map(|schemas| schemas.probes.to_string());
        provenance.extend(probes.map(|probes| ("requests spent on refused schemas", probes)));
    }
    if let Some(caps) = &manifest.capped {
        let cap = |value: Option<String>, unit: &str| value.map(|value| format!("{value} {unit}"));
        let caps = [
            cap(caps.max_tokens.map(grouped), "tokens"),
            cap(caps.max_cost.map(|usd| usd.to_string()), "US dollars"),
            cap(caps.max_minutes.map(|minutes| minutes.to_string()), "minutes"),
        ];
        provenance.push(("planned to stop at", caps.into_iter().flatten().collect::<Vec<_>>().join(", ")));
    }
    provenance
}

/// Name and revision.
pub(crate) fn dataset_name(manifest: &Manifest) -> String {
    format!("{} {}", manifest.dataset.name, manifest.dataset.revision)
}

/// What heads tables and plots: a plot is passed on without its settings, and confusable distractors or a query's own candidates
/// are another task.
pub(crate) fn subject(manifest: &Manifest) -> String {
    let mut name = dataset_name(manifest);
    if manifest.distractors == DistractorKind::Confusable {
        name.push_str(", confusable distractors");
    }
    if let Some(candidates) = &manifest.candidates {
        // A size says little where a query is asked of one or two tools.
        let mean = format!(", own candidates (mean {:.1} tools)", candidates.mean);
        name.push_str(&mean);
    }
    name
}

pub(crate) fn strategies(manifest: &Manifest) -> Vec<StrategySettings> {
    let strategy = |info: &harness::run::manifest::StrategyInfo| StrategySettings {
        label: info.label.clone(),
        kind: info.meta.kind.clone(),
        version: info.meta.version,
        params: info.meta.params.to_string(),
    };
    manifest.strategies.iter().map(strategy).collect()
}

/// The word that a plain enum has in JSON.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
