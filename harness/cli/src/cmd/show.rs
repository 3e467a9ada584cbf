//! `toolgauge show`: one query of a run, turn by turn, with what the model read and wrote.

use std::fmt::Write as _;

use harness::episode::{CallRecord, Episode, Level, Turn, Verdict};
use harness::run::dir::StoredRun;
use harness::store::responses::ResponseStore;
use harness::text::plain;
use serde_json::Value;

use crate::args::ShowArgs;
use crate::exit::{Exit, OrExit as _, expected, print_out};
use crate::setup::dataset_of;

/// Characters of a message shown without `--full`.
const EXCERPT: usize = 600;

pub fn show(args: &ShowArgs) -> anyhow::Result<Exit> {
    let stored = StoredRun::read(&args.run).or_exit(Exit::Usage)?;
    let responses = args.run.join("responses.jsonl");
    let store = if responses.exists() { Some(ResponseStore::read(&responses).or_exit(Exit::Usage)?) } else { None };
    let of_query = |episode: &&Episode| {
        episode.query.as_str() == args.query
            && args.strategy.as_ref().is_none_or(|strategy| *strategy == episode.strategy)
            && args.size.is_none_or(|size| size == episode.size)
    };
    let episodes: Vec<&Episode> = stored.episodes.iter().filter(of_query).collect();
    if episodes.is_empty() {
        let other = stored.plan.iter().map(|job| job.query.as_str()).filter(|query| *query != args.query);
        let known = harness::registry::nearest(&args.query, other);
        let near = harness::registry::suggestion(known.as_deref());
        let message = format!("{}: no episode of query {:?} with these filters{near}", args.run.display(), args.query);
        return Err(expected(Exit::Usage, message));
    }
    // Without `-d` the dataset may have moved or changed: the episodes can be shown all the same, without labels.
    let dataset = match dataset_of(&stored.manifest, args.dataset.as_deref(), true) {
        Err(error) if args.dataset.is_some() => return Err(error),
        Err(error) => {
            eprintln!("without question and labels: {error}");
            None
        }
        Ok(dataset) => Some(dataset),
    };
    let mut out = String::new();
    if let Some(query) = dataset.as_ref().and_then(|dataset| dataset.query(&episodes[0].query)) {
        let _ = writeln!(out, "{} · {} · {} · actor {}", query.id, query.kind.as_str(), query.language, query.actor);
        let _ = writeln!(out, "{}", plain(&query.text));
        let labels = dataset.as_ref().map(|dataset| dataset.qrels.of(&query.id).qrels()).unwrap_or_default();
        for qrel in labels.iter().filter(|qrel| qrel.relevance > 0) {
            let _ =
                writeln!(out, "  group {} relevance {}  {}", qrel.group, qrel.relevance, plain(&qrel.tool.to_string()));
        }
    }
    for episode in episodes {
        show_episode(&mut out, episode, store.as_ref(), args.full);
    }
    print_out(&out)?;
    Ok(Exit::Ok)
}

fn show_episode(out: &mut String, episode: &Episode, store: Option<&ResponseStore>, full: bool) {
    let _ = writeln!(
        out,
        "\n── {} · {} tools · order {} · repeat {} · {}",
        plain(&episode.strategy),
        episode.view_tools,
        episode.order,
        episode.repeat,
        episode.outcome.label()
    );
    if let harness::episode::Outcome::NotRunnable { detail, .. } = &episode.outcome {
        let _ = writeln!(out, "   {}", plain(detail));
    }
    if let harness::episode::Outcome::Failed { message, .. } = &episode.outcome {
        let _ = writeln!(out, "   {}", plain(message));
    }
    if let Some(ranked) = &episode.ranked {
        let first: Vec<_> = ranked
            .iter()
            .take(10)
            .map(|entry| format!("{} {:.2}", plain(&entry.tool.to_string()), entry.score))
            .collect();
        let _ = writeln!(out, "   ranked: {}", if first.is_empty() { "nothing".to_owned() } else { first.join(", ") });
    }
    if !episode.skills.is_empty() {
        let _ = writeln!(out, "   skills: {}", plain(&episode.skills.join(", ")));
    }
    let defined = episode.exposed.iter().filter(|seen| seen.level == Level::Defined).map(|seen| seen.tool.to_string());
    let defined: Vec<_> = defined.collect();
    if !defined.is_empty() {
        let _ = writeln!(out, "   defined: {}", plain(&defined.join(", ")));
    }
    let mut seen_messages = 0;
    for (number, turn) in episode.turns.iter().enumerate() {
        show_turn(out, number, turn, store, full, &mut seen_messages);
    }
}

fn show_turn(
    out: &mut String,
    number: usize,
    turn: &Turn,
    store: Option<&ResponseStore>,
    full: bool,
    seen_messages: &mut usize,
) {
    let _ = writeln!(
        out,
        " turn {} · {} · {} in, {} out ({:?}) · {:.1} s{}",
        number + 1,
        plain(&turn.label),
        turn.usage.input_tokens,
        turn.usage.output_tokens,
        turn.source,
        turn.timing.latency_ms / 1e3,
        if turn.timing.stored { ", stored" } else { "" }
    );
    let request = store.and_then(|store| store.request(&turn.key));
    let messages = request.as_ref().and_then(|request| request.body["messages"].as_array());
    if let Some(messages) = messages {
        // A conversation grows: only what is new since the last turn of the same list is shown.
        let from = if turn.label == "agent" && *seen_messages < messages.len() { *seen_messages } else { 0 };
        for message in &messages[from..] {
            show_message(out, message, full);
        }
        if turn.label == "agent" {
            *seen_messages = messages.len() + 1;
        }
    }
    if let Some(answer) = store.and_then(|store| store.get(&turn.key)) {
        show_message(out, &answer.body["choices"][0]["message"], full);
    }
    for call in &turn.calls {
        let _ =
            writeln!(out, "   call {} {} → {}", plain(&call.name), plain(&call.arguments.to_string()), verdict(call));
    }
}

fn show_message(out: &mut String, message: &Value, full: bool) {
    let role = message["role"].as_str().unwrap_or("?");
    let message = harness::chat::Message(message.clone());
    let mut text = message.text();
    if let Some(calls) = message.0["tool_calls"].as_array() {
        for call in calls {
            let _ = write!(text, " [calls {}]", call["function"]["name"].as_str().unwrap_or("?"));
        }
    }
    let cut = !full && text.chars().count() > EXCERPT;
    let shown: String = if cut { text.chars().take(EXCERPT).collect() } else { text };
    for (index, line) in shown.lines().enumerate() {
        let _ = writeln!(out, "   {:<9} {}", if index == 0 { role } else { "" }, plain(line));
    }
    if cut {
        let _ = writeln!(out, "   {:<9} … (--full shows all)", "");
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
