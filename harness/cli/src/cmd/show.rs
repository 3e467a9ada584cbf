//! `toolgauge show`: one query of a run, turn by turn, with what the model read and wrote, and how it was judged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use harness::catalogue::Subset;
use harness::dataset::{Dataset, Labels, Qrel, RELEVANCE_COVERS};
use harness::episode::{CallRecord, Episode, Level, Outcome, ScoredTool, Turn, Verdict};
use harness::ids::{QueryId, ToolId};
use harness::metric::score::{Score, Stage};
use harness::run::dir::StoredRun;
use harness::run::manifest::Axis;
use harness::store::log::LogError;
use harness::store::responses::ResponseStore;
use harness::text::{grouped, plain, plural};
use serde_json::Value;

use crate::args::ShowArgs;
use crate::cmd::report::Scorer;
use crate::exit::{Exit, OrExit as _, expected};
use crate::experiment::{expand, parse_strategy};
use crate::fit::most_skills;
use crate::print::{harmless, print_out, say};
use crate::setup::{dataset_of, subsets_of};

/// Characters of a message shown without `--full`.
const EXCERPT: usize = 600;
/// Ranked tools that are shown; later ones only if they do the job.
const RANKED: usize = 10;

pub fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let stored = StoredRun::read(&args.run).or_exit(Exit::Usage)?;
    let responses = args.run.join("responses.jsonl");
    let store = if responses.exists() { Some(ResponseStore::read(&responses).or_exit(Exit::Usage)?) } else { None };
    let labels = args.strategy.as_deref().map(labels_of);
    let chosen = |strategy: &str, size: u32| {
        labels.as_ref().is_none_or(|labels| labels.iter().any(|label| label == strategy))
            && args.size.is_none_or(|wanted| wanted == size)
    };
    let of_query = |episode: &&Episode| episode.query.as_str() == args.query && chosen(&episode.strategy, episode.size);
    let episodes: Vec<&Episode> = stored.episodes.iter().filter(of_query).collect();
    if episodes.is_empty() {
        return Err(expected(
            Exit::Usage,
            format!("{}: {}", args.run.display(), nothing_to_show(&stored, args, chosen)),
        ));
    }
    // Without `-d` the dataset may have moved or changed: the episodes can be shown all the same, without labels.
    let labelled = match labelled(&stored, args) {
        Err(error) if args.dataset.is_some() => return Err(error),
        Err(error) => {
            say!("without question and labels: {}", harmless(&error.to_string()));
            None
        }
        Ok(labelled) => Some(labelled),
    };
    let scorer = labelled.as_ref().map(|(dataset, subsets)| Scorer::new(dataset, &stored.manifest, subsets));
    let mut out = String::new();
    if let Some((dataset, _)) = &labelled {
        show_query(&mut out, dataset, &episodes[0].query);
    }
    for episode in episodes {
        let strategy = stored.manifest.strategies.iter().find(|info| info.label == episode.strategy);
        let drives_model = strategy.is_some_and(|info| info.meta.drives_model);
        let by_skills = strategy.is_some_and(|info| most_skills(&info.meta).is_some());
        let judge = |scorer: &Scorer<'_>| -> Result<Judged, String> {
            let labels = scorer.labels(&episode.query, episode.size)?;
            Ok(Judged { score: scorer.score(episode)?, labels, drives_model })
        };
        let judged = scorer.as_ref().map(judge).transpose().or_exit(Exit::Dataset)?;
        let told = Told { axis: stored.manifest.axis, by_skills, full: args.full };
        show_episode(&mut out, episode, judged.as_ref(), store.as_ref(), told).or_exit(Exit::Usage)?;
    }
    print_out(&out)?;
    Ok(Exit::Ok)
}

/// The labels that a strategy may have in a run: as given, or those that `run -s` makes of it.
fn labels_of(strategy: &str) -> Vec<String> {
    let sections = parse_strategy(strategy).map(|section| expand(&section)).unwrap_or_default();
    let made = sections.into_iter().map(|section| section.label.unwrap_or(section.kind));
    std::iter::once(strategy.to_owned()).chain(made).collect()
}

/// Why no episode is there to be shown.
fn nothing_to_show(stored: &StoredRun, args: &ShowArgs, chosen: impl Fn(&str, u32) -> bool) -> String {
    let query = &args.query;
    let planned: Vec<_> = stored.plan.iter().filter(|job| job.query.as_str() == *query).collect();
    if planned.is_empty() {
        let other = stored.plan.iter().map(|job| job.query.as_str());
        let known = harness::registry::nearest(query, other);
        let near = harness::registry::suggestion(known.as_deref());
        return format!("no query {query:?} in this run{near}");
    }
    if planned.iter().any(|job| chosen(&job.strategy, job.size)) {
        return format!("query {query:?} is planned and has no episode yet; go on with `run --resume`");
    }
    let sizes: BTreeSet<u32> = planned.iter().map(|job| job.size).collect();
    let sizes: Vec<_> = sizes.into_iter().map(|size| stored.manifest.axis.count(size)).collect();
    // In the order of the run.
    let labels = stored.manifest.strategies.iter().map(|info| plain(&info.label));
    format!(
        "query {query:?} is there, but not with these filters; strategies (-s): {}; sizes (-n): {}",
        labels.collect::<Vec<_>>().join(", "),
        sizes.join(", ")
    )
}

fn labelled(stored: &StoredRun, args: &ShowArgs) -> anyhow::Result<(Dataset, HashMap<u32, Subset>)> {
    let dataset = dataset_of(&stored.manifest, args.dataset.as_deref(), true)?;
    let subsets = subsets_of(&dataset, &stored.manifest)?;
    Ok((dataset, subsets))
}

fn show_query(out: &mut String, dataset: &Dataset, id: &QueryId) {
    let Some(query) = dataset.query(id) else { return };
    let (language, actor) = (plain(&query.language), plain(query.actor.as_str()));
    let _ = writeln!(out, "{} · {} · {language} · actor {actor}", plain(id.as_str()), query.kind.as_str());
    let _ = writeln!(out, "{}", plain(&query.text));
    for qrel in dataset.qrels.of(id).qrels().iter().filter(|qrel| qrel.relevance > 0) {
        let _ = writeln!(out, "  group {} relevance {}  {}", qrel.group, qrel.relevance, plain(&qrel.tool.to_string()));
    }
}

/// An episode by its labels, as they stand for the actor's view.
struct Judged {
    score: Score,
    labels: Labels,
    drives_model: bool,
}

impl Judged {
    /// Whether the episode did the job, or why not.
    fn outcome(&self) -> String {
        let score = &self.score;
        let unanswerable = if score.unanswerable {
            "; the view holds no tool of a required group, so that calling none is right"
        } else {
            ""
        };
        let outcome = match (score.success, score.success_args) {
            (None, _) if !self.drives_model => "a ranking, not judged end to end".to_owned(),
            (None, _) => "not judged end to end: a sequential query in mode first_call".to_owned(),
            (Some(true), None) => "success".to_owned(),
            (Some(true), Some(true)) => "success, arguments accepted".to_owned(),
            (Some(true), Some(false)) => "success, arguments not accepted".to_owned(),
            (Some(false), _) if score.coverage_success == Some(true) => {
                format!("coverage success, but no success: {}", self.why_not())
            }
            (Some(false), _) => format!("no success: {}", self.why_not()),
        };
        outcome + unanswerable
    }

    fn why_not(&self) -> String {
        let score = &self.score;
        let lost = score.groups - score.covered;
        let completed = score.outcome == "completed";
        let reasons = [
            (!completed).then(|| format!("it ended as {}", plain(&score.outcome))),
            (lost > 0).then(|| format!("{lost} of {} not covered", plural(u64::from(score.groups), "group", "groups"))),
            (completed && score.groups == 0).then(|| "a tool was called where none does the job".to_owned()),
            (score.wrong_calls > 0).then(|| plural(u64::from(score.wrong_calls), "wrong call", "wrong calls")),
            score.hinges_on_unjudged.then(|| "calls to unjudged tools decide it".to_owned()),
        ];
        reasons.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Required groups, each with how far it got.
    fn groups(&self, ranked: Option<&[ScoredTool]>) -> Vec<String> {
        let mut groups: BTreeMap<u32, Vec<&Qrel>> = BTreeMap::new();
        for qrel in self.labels.qrels().iter().filter(|qrel| qrel.relevance >= RELEVANCE_COVERS) {
            groups.entry(qrel.group).or_default().push(qrel);
        }
        let line = |((group, members), stage): ((u32, Vec<&Qrel>), &Stage)| {
            let place =
                ranked.into_iter().flatten().position(|entry| members.iter().any(|qrel| qrel.tool == entry.tool));
            let fate = match (self.drives_model, place) {
                (true, _) => how_far(*stage).to_owned(),
                (false, Some(place)) => format!("ranked {}", place + 1),
                (false, None) => "not ranked".to_owned(),
            };
            let members: Vec<_> =
                members.iter().map(|qrel| format!("{} {}", plain(&qrel.tool.to_string()), qrel.relevance)).collect();
            format!("group {group} {fate}: {}", members.join(", "))
        };
        groups.into_iter().zip(&self.score.stages).map(line).collect()
    }
}

fn how_far(stage: Stage) -> &'static str {
    match stage {
        Stage::Valid => "covered",
        Stage::Called => "not covered, called in vain",
        Stage::Defined => "not covered, only defined",
        Stage::Retrieved => "not covered, only retrieved",
        Stage::Named => "not covered, only named",
        Stage::Nowhere => "not covered, never in sight",
    }
}

/// `✓ 3`; nothing without labels.
fn mark(judged: Option<&Judged>, tool: &ToolId) -> String {
    match judged.map(|judged| judged.labels.relevance(tool)) {
        None => String::new(),
        Some(None) => "unjudged".to_owned(),
        Some(Some(0)) => "✗ 0".to_owned(),
        Some(Some(relevance)) if relevance < RELEVANCE_COVERS => format!("helper {relevance}"),
        Some(Some(relevance)) => format!("✓ {relevance}"),
    }
}

/// How an episode is told.
#[derive(Clone, Copy)]
struct Told {
    axis: Axis,
    /// The strategy works by skills, so that none is worth a word.
    by_skills: bool,
    full: bool,
}

/// What there was to choose from: `40 tools, 21 in view`.
fn amount(episode: &Episode, axis: Axis) -> String {
    let tools = axis.tools(episode.size);
    let count = plural(u64::from(tools), "tool", "tools");
    let there = match axis {
        Axis::Tools => count,
        Axis::Skills { .. } => format!("{}, {count}", axis.count(episode.size)),
    };
    if episode.view_tools == tools { there } else { format!("{there}, {} in view", grouped(episode.view_tools.into())) }
}

fn show_episode(
    out: &mut String,
    episode: &Episode,
    judged: Option<&Judged>,
    store: Option<&ResponseStore>,
    told: Told,
) -> Result<(), LogError> {
    let _ = writeln!(
        out,
        "\n── {} · {} · order {} · repeat {} · {}",
        plain(&episode.strategy),
        amount(episode, told.axis),
        episode.order,
        episode.repeat,
        plain(&episode.outcome.label())
    );
    if let Outcome::NotRunnable { detail, .. } = &episode.outcome {
        let _ = writeln!(out, "   {}", plain(detail));
    }
    if let Outcome::Failed { message, .. } = &episode.outcome {
        let _ = writeln!(out, "   {}", plain(message));
    }
    if let Some(judged) = judged {
        let _ = writeln!(out, "   {}", judged.outcome());
        for group in judged.groups(episode.ranked.as_deref()) {
            let _ = writeln!(out, "   {group}");
        }
    }
    if let Some(ranked) = &episode.ranked {
        show_ranked(out, ranked, judged);
    }
    if !episode.skills.is_empty() {
        let _ = writeln!(out, "   skills: {}", plain(&episode.skills.join(", ")));
    } else if told.by_skills && !episode.turns.is_empty() {
        let _ = writeln!(out, "   skills: none");
    }
    let defined = episode.exposed.iter().filter(|seen| seen.level == Level::Defined).map(|seen| seen.tool.to_string());
    let defined: Vec<_> = defined.collect();
    if !defined.is_empty() {
        let _ = writeln!(out, "   defined: {}", plain(&defined.join(", ")));
    }
    let mut transcript = Transcript { out, judged, store, full: told.full, messages: 0, definitions: Vec::new() };
    for (number, turn) in episode.turns.iter().enumerate() {
        transcript.turn(number, turn)?;
    }
    Ok(())
}

/// The first tools, and what does the job behind them.
fn show_ranked(out: &mut String, ranked: &[ScoredTool], judged: Option<&Judged>) {
    let _ = writeln!(out, "   ranked:{}", if ranked.is_empty() { " nothing" } else { "" });
    for (place, entry) in ranked.iter().enumerate() {
        let mark = mark(judged, &entry.tool);
        if place < RANKED || mark.starts_with('✓') {
            let _ = writeln!(
                out,
                "   {:>5}  {:>8.2}  {mark:<8}  {}",
                place + 1,
                entry.score,
                plain(&entry.tool.to_string())
            );
        }
    }
}

/// The turns of an episode, as they are written down.
struct Transcript<'a> {
    out: &'a mut String,
    judged: Option<&'a Judged>,
    store: Option<&'a ResponseStore>,
    full: bool,
    /// Messages of the agent's conversation that were shown.
    messages: usize,
    /// Definitions that were shown.
    definitions: Vec<Value>,
}

impl Transcript<'_> {
    fn turn(&mut self, number: usize, turn: &Turn) -> Result<(), LogError> {
        let _ = writeln!(
            self.out,
            " turn {} · {} · {} in, {} out ({:?}) · {:.1} s{}",
            number + 1,
            plain(&turn.label),
            turn.usage.input_tokens,
            turn.usage.output_tokens,
            turn.source,
            turn.timing.latency_ms / 1e3,
            if turn.timing.stored { ", stored" } else { "" }
        );
        if let Some(request) = self.store.map(|store| store.request(&turn.key)).transpose()?.flatten() {
            self.request(turn, &request.body);
        }
        if let Some(answer) = self.store.map(|store| store.get(&turn.key)).transpose()?.flatten() {
            // What a call holds that is no call of the conversation, such as a choice of skills, is told nowhere else.
            self.message(&answer.body["choices"][0]["message"], self.full && turn.calls.is_empty());
        }
        for call in &turn.calls {
            let judgement = call.tool.as_ref().filter(|_| call.verdict == Verdict::Valid);
            let judgement = judgement.map(|tool| mark(self.judged, tool)).filter(|mark| !mark.is_empty());
            let judgement = judgement.map(|mark| format!(", {mark}")).unwrap_or_default();
            let (name, arguments) = (plain(&call.name), plain(&call.arguments.to_string()));
            let _ = writeln!(self.out, "   call {name} {arguments} → {}{judgement}", verdict(call));
        }
        Ok(())
    }

    /// What the model read and had not read before.
    fn request(&mut self, turn: &Turn, body: &Value) {
        for tool in body["tools"].as_array().into_iter().flatten() {
            if self.full && !self.definitions.contains(tool) {
                let function = &tool["function"];
                let text = |field: &str| function[field].as_str().unwrap_or_default().to_owned();
                let parameters = &function["parameters"];
                self.lines("defined", &format!("{}: {}\n{parameters}", text("name"), text("description")));
                self.definitions.push(tool.clone());
            }
        }
        let Some(messages) = body["messages"].as_array() else { return };
        // A conversation grows: only what is new since the last turn of the same list is shown.
        let agent = turn.label == "agent";
        let from = if agent && self.messages < messages.len() { self.messages } else { 0 };
        for message in &messages[from..] {
            self.message(message, false);
        }
        if agent {
            self.messages = messages.len() + 1;
        }
    }

    fn message(&mut self, message: &Value, with_arguments: bool) {
        let role = message["role"].as_str().unwrap_or("?");
        let message = harness::chat::Message(message.clone());
        let mut text = message.text();
        if let Some(calls) = message.0["tool_calls"].as_array() {
            for call in calls {
                let function = &call["function"];
                let name = function["name"].as_str().unwrap_or("?");
                let arguments = function["arguments"].as_str().filter(|_| with_arguments);
                let arguments = arguments.map(|arguments| format!(" {arguments}")).unwrap_or_default();
                let _ = write!(text, " [calls {name}{arguments}]");
            }
        }
        let cut = !self.full && text.chars().count() > EXCERPT;
        let shown: String = if cut { text.chars().take(EXCERPT).collect() } else { text };
        self.lines(role, &shown);
        if cut {
            self.lines("", "… (--full shows all)");
        }
    }

    /// Text of others, line by line, with who or what it is from beside the first.
    fn lines(&mut self, from: &str, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let from = if index == 0 { plain(from) } else { String::new() };
            let _ = writeln!(self.out, "   {from:<9} {}", plain(line));
        }
    }
}

fn verdict(call: &CallRecord) -> String {
    let guess = if call.defined { "" } else { " (a guess: its schema was not shown)" };
    match &call.verdict {
        Verdict::Valid => format!("valid{guess}"),
        Verdict::InvalidArguments { error } => format!("invalid arguments: {}{guess}", plain(error)),
        Verdict::Ungranted => "refused: not granted".to_owned(),
        Verdict::UnknownName => "no such tool".to_owned(),
        Verdict::Own { misuse: None } => "the strategy's own tool".to_owned(),
        Verdict::Own { misuse: Some(why) } => format!("the strategy's own tool, misused: {}", plain(why)),
        Verdict::Unreadable => "no readable choice".to_owned(),
    }
}
