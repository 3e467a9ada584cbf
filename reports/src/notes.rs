//! The sentences under the tables.

use harness::arguments::MOST_CHECKS;
use harness::ids::ToolId;
use harness::run::manifest::{ActorView, Axis};
use harness::tokens::TOKENIZER;

use crate::Input;
use crate::compare::ALPHA;
use crate::format::{grouped, percent, plural, points, short};
use crate::sample::Asked;
use crate::settings;
use crate::summary::{Comparison, Revisions, Row, SizeSummary, Subset, TokenSource, Verdict};
use crate::tally::{RECALL, SUCCESS};

/// Above this share of episodes decided by unjudged calls the labels need work.
const UNJUDGED_ALLOWED: f64 = 0.02;

/// Unfinished queries that are named; a capped run can leave as many as were in flight.
const NAMED: usize = 10;

/// The strategy that is handed the labels.
const ORACLE: &str = "oracle";

/// Notes of one size.
pub(crate) fn notes(input: &Input<'_>, asked: &Asked<'_>, size: &SizeSummary) -> Vec<String> {
    let rows = &size.rows;
    let mut notes = Vec::new();
    notes.extend(other_queries(input, asked));
    notes.extend(views(input, size));
    notes.extend(rows.iter().flat_map(|row| not_runnable(input, size, row)));
    notes.extend(subsets(input, rows));
    notes.extend(rows.iter().filter_map(outcomes));
    notes.extend(outside_retrieval(rows));
    let unanswerable = rows.iter().map(|row| row.unanswerable).max().unwrap_or(0);
    if unanswerable > 0 {
        let queries = plural(unanswerable, "query", "queries");
        notes.push(format!(
            "{queries} unanswerable for the actor: no member of a required group in the view; scored as no-tool"
        ));
    }
    let outside = rows.iter().filter_map(|row| Some(row.planned - row.success.as_ref()?.share.of)).max().unwrap_or(0);
    if outside > 0 {
        let queries = plural(outside, "sequential query", "sequential queries");
        notes.push(format!("success is over n - {outside}: {queries} cannot be scored in mode first_call"));
    }
    notes.extend(tokens(rows));
    notes.extend(rows.iter().filter_map(effort));
    let guesses: Vec<_> =
        rows.iter().filter(|row| row.guesses > 0).map(|row| format!("{} {}", row.strategy, row.guesses)).collect();
    if !guesses.is_empty() {
        notes.push(format!(
            "guesses (calls without the definition in sight): {}; under exposed they count as defined",
            guesses.join(", ")
        ));
    }
    notes.extend(rows.iter().filter_map(|row| own_tools(input, row)));
    notes.extend(rows.iter().filter_map(prefix_cache));
    notes.extend(checks(rows));
    notes.extend(differences(rows));
    notes.extend(two_methods(rows));
    notes.extend(no_comparison(input, rows));
    notes
}

/// What several sizes say of each other where each asks queries of its own.
fn other_queries(input: &Input<'_>, asked: &Asked<'_>) -> Option<String> {
    let everywhere = asked.everywhere()?;
    let axis = input.manifest.axis;
    let counts = asked.counts().map(|(size, queries)| format!("{} at {}", grouped(queries), axis.count(size)));
    Some(format!(
        "each size asks other queries, those that its catalogue can answer: {}; {} asked at every size. A difference between \
         sizes is also one between queries",
        counts.collect::<Vec<_>>().join(", "),
        plural(everywhere, "is", "are")
    ))
}

/// What the actors have in view, where that is less than the size.
fn views(input: &Input<'_>, size: &SizeSummary) -> Option<String> {
    let view = |view: &ActorView| {
        let skills = match size.axis {
            Axis::Tools => String::new(),
            Axis::Skills { .. } => format!(", {}", plural(view.skills as u64, "skill", "skills")),
        };
        let tools = plural(view.tools as u64, "tool", "tools");
        format!("{} {tools}{skills} ({})", view.actor, plural(view.queries as u64, "query", "queries"))
    };
    let views: Vec<String> =
        input.manifest.actor_views.iter().filter(|view| view.size == size.size).map(view).collect();
    (!views.is_empty()).then(|| format!("views: {}", views.join(", ")))
}

/// One line per reason, with what is known of the prompt and of the limit.
fn not_runnable(input: &Input<'_>, size: &SizeSummary, row: &Row) -> Vec<String> {
    let reasons = row.outcomes.iter().filter_map(|(outcome, count)| {
        let reason = outcome.strip_prefix("not_runnable(")?.strip_suffix(')')?;
        let profile = input.manifest.endpoint.as_ref().map(|endpoint| &endpoint.profile);
        let prompt = row.prompt_estimate.map(|tokens| format!("about {} tokens", short(tokens as f64)));
        let why = match reason {
            "context" => {
                let limit = profile.and_then(|profile| profile.context_tokens);
                let limit = limit.map(|limit| format!("the context holds {}", grouped(limit)));
                [prompt, limit]
            }
            "tool_limit" => {
                let tools = row.prompt_estimate.map(|_| plural(u64::from(size.axis.tools(size.size)), "tool", "tools"));
                let limit = profile.and_then(|profile| profile.max_tools);
                [tools, limit.map(|limit| format!("the endpoint takes {}", grouped(limit as u64)))]
            }
            _ => [None, None],
        };
        let why: Vec<String> = why.into_iter().flatten().collect();
        let colon = if why.is_empty() { "" } else { ": " };
        let (label, planned) = (&row.strategy, grouped(row.planned));
        Some(format!("{label}: {} of {planned} not runnable ({reason}){colon}{}", grouped(*count), why.join(", ")))
    });
    reasons.collect()
}

/// Strategies compared on the same subset share a line.
fn subsets(input: &Input<'_>, rows: &[Row]) -> Vec<String> {
    let Some(reference) = &input.manifest.reference else { return Vec::new() };
    let mut lines: Vec<((u64, u64, u64), String)> = Vec::new();
    for row in rows {
        let Some(both) = row.comparison.as_ref().and_then(|comparison| comparison.both_run) else { continue };
        let same = (both.pairs, both.of, both.reference_rate.to_bits());
        let own = format!("{} {}", row.strategy, percent(both.rate));
        match lines.iter_mut().find(|(key, _)| *key == same) {
            Some((_, line)) => line.extend([", ", &own]),
            None => lines.push((
                same,
                format!(
                    "where both run (a selected subset, {} of {}): {reference} {}, {own}",
                    grouped(both.pairs),
                    grouped(both.of),
                    percent(both.reference_rate)
                ),
            )),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Every outcome but `completed` and `not_runnable`, which has its own line.
fn outcomes(row: &Row) -> Option<String> {
    let worst = |outcome: &str| outcome.starts_with("failed(") || outcome.starts_with("limit(");
    let listed = |test: &dyn Fn(&str) -> bool| -> Vec<String> {
        let chosen = row.outcomes.iter().filter(|(outcome, _)| test(outcome));
        chosen.map(|(outcome, count)| format!("{} {outcome}", grouped(*count))).collect()
    };
    let mut at_worst = listed(&worst);
    if row.missing > 0 {
        at_worst.push(format!("{} missing", grouped(row.missing)));
    }
    let rest = listed(&|outcome| !worst(outcome) && outcome != "completed" && !outcome.starts_with("not_runnable("));
    let at_worst = (!at_worst.is_empty()).then(|| format!("{}, at the worst value and in n", at_worst.join(", ")));
    let rest = (!rest.is_empty()).then(|| format!("{}, no success", rest.join(", ")));
    let parts: Vec<String> = at_worst.into_iter().chain(rest).collect();
    (!parts.is_empty()).then(|| format!("{}: {}", row.strategy, parts.join("; ")))
}

/// A strategy whose search is never called cannot find anything, however good the search is.
fn own_tools(input: &Input<'_>, row: &Row) -> Option<String> {
    let unused = row.own_tools_unused.filter(|unused| unused.hits > 0)?;
    let info = input.manifest.strategies.iter().find(|info| info.label == row.strategy)?;
    Some(format!(
        "{}: called none of its own tools ({}) in {} of {} that need a tool",
        row.strategy,
        info.meta.own_tools.join(", "),
        grouped(unused.hits),
        plural(unused.of, "answered episode", "answered episodes")
    ))
}

fn prefix_cache(row: &Row) -> Option<String> {
    (row.cache_invalidating_turns > 0).then(|| {
        let turns = plural(row.cache_invalidating_turns, "turn", "turns");
        format!("{}: {turns} with other definitions than the turn before, which no prefix cache serves", row.strategy)
    })
}

/// Counts that a reader looks for even where they are 0.
fn checks(rows: &[Row]) -> Option<String> {
    let driven = || rows.iter().filter(|row| row.drives_model);
    let sum = |value: fn(&Row) -> u64| driven().map(value).sum::<u64>();
    let planned = sum(|row| row.planned);
    (planned > 0).then(|| {
        format!(
            "leaks: {}, truncation suspected: {}, episodes decided by a call to an unjudged tool: {} %",
            grouped(sum(|row| row.leaks)),
            grouped(sum(|row| row.truncation_suspected)),
            percent(sum(|row| row.hinges_on_unjudged) as f64 / planned as f64)
        )
    })
}

fn outside_retrieval(rows: &[Row]) -> Option<String> {
    let retrieval = rows.iter().find_map(|row| row.retrieval.as_ref())?;
    (retrieval.no_tool > 0).then(|| {
        format!(
            "retrieval means are over the {}; {}",
            plural(retrieval.n, "episode that needs a tool", "episodes that need a tool"),
            plural(retrieval.no_tool, "needs none", "need none")
        )
    })
}

fn tokens(rows: &[Row]) -> Vec<String> {
    let of = |source| {
        let rows = rows.iter().filter(move |row| row.tokens.is_some_and(|tokens| tokens.source == source));
        rows.map(|row| row.strategy.as_str()).collect::<Vec<_>>()
    };
    let mut notes = Vec::new();
    if !of(TokenSource::Estimated).is_empty() {
        notes.push(format!("~ tokens estimated with {TOKENIZER}: the endpoint did not report them"));
    }
    let mixed = of(TokenSource::Mixed);
    if !mixed.is_empty() {
        let mixed = mixed.join(", ");
        notes.push(format!(
            "mixed: some episodes of {mixed} reported tokens and some did not; the two are never added up"
        ));
    }
    notes
}

fn effort(row: &Row) -> Option<String> {
    let asked = row.effort?.episodes;
    (asked < row.planned).then(|| {
        format!(
            "{}: turns, waste and tokens per query over the {} of {} in which the model answered",
            row.strategy,
            grouped(asked),
            plural(row.planned, "episode", "episodes")
        )
    })
}

fn differences(rows: &[Row]) -> Option<String> {
    let comparisons: Vec<&Comparison> = rows.iter().filter_map(|row| row.comparison.as_ref()).collect();
    let queries = comparisons.iter().map(|comparison| comparison.pairs).max()?;
    let shown = comparisons.iter().filter_map(|comparison| comparison.smallest_difference);
    let (least, most) = shown.fold((f64::INFINITY, 0.0_f64), |(least, most), d| (least.min(d), most.max(d)));
    let nothing = comparisons.iter().any(|comparison| comparison.smallest_difference.is_none());
    let size = match (percent(least), percent(most)) {
        _ if most == 0.0 => format!("none: {}", plural(queries, "pair is too few", "pairs are too few")),
        (least, most) if least == most => format!("{most} points"),
        (least, most) => format!("{least} to {most} points, by comparison"),
    };
    let partly = if nothing && most > 0.0 { "; for some comparisons none" } else { "" };
    let alpha = ALPHA / comparisons.len() as f64;
    Some(format!(
        "smallest difference this run could show: {size}{partly} (80 % power, alpha {ALPHA} / {} = {alpha:.3}); intervals are 95 % and \
         unadjusted, p is Holm-adjusted",
        comparisons.len()
    ))
}

/// An interval without 0 beside a verdict that shows nothing, or the reverse: a reader must know which of the two decides.
fn two_methods(rows: &[Row]) -> Option<String> {
    let apart = |row: &&Row| {
        row.comparison.as_ref().is_some_and(|comparison| {
            let without_zero = comparison.interval.lower > 0.0 || comparison.interval.upper < 0.0;
            without_zero != (comparison.verdict != Verdict::NotShown)
        })
    };
    let names: Vec<&str> = rows.iter().filter(apart).map(|row| row.strategy.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: interval and verdict seem to disagree: interval and test are different methods, only the test is adjusted, and the \
             verdict goes by the test",
            names.join(", ")
        )
    })
}

/// Why a table with successes compares none of them.
fn no_comparison(input: &Input<'_>, rows: &[Row]) -> Option<String> {
    let compared = |row: &Row| row.comparison.as_ref().is_some_and(|comparison| comparison.measure == SUCCESS);
    if rows.iter().all(|row| row.success.is_none()) || rows.iter().any(compared) {
        return None;
    }
    let why = match input.manifest.reference.as_deref() {
        None => "the run names no reference".to_owned(),
        Some(reference) => match rows.iter().find(|row| row.strategy == reference) {
            None => format!("the reference, {reference}, was not asked here"),
            Some(row) if row.success.is_none() => {
                format!("the reference, {reference}, drives no model; `--reference` names another")
            }
            Some(_) => format!("{reference}, the reference, is the only strategy that drives a model"),
        },
    };
    Some(format!("success is not compared: {why}"))
}

/// What a reader must know before any number.
pub(crate) fn warnings(input: &Input<'_>, sizes: &[SizeSummary], subset: Option<&Subset>) -> Vec<String> {
    let how = input.manifest.finish.as_ref().map_or("not finished", |finish| finish.how.as_str());
    let mut warnings: Vec<String> = rescored(input).into_iter().collect();
    warnings.extend(subset.map(|subset| part(how, subset)));
    warnings.extend(candidates(input));
    let rows = || sizes.iter().flat_map(|size| size.rows.iter().map(move |row| (size.label(), row)));
    for (size, row) in rows().filter(|(_, row)| row.leaks > 0) {
        warnings.push(format!(
            "LEAK: {} showed the model {} of tools outside the actor's view at {size}; this must be 0, do not use the run",
            row.strategy,
            plural(row.leaks, "trace", "traces"),
        ));
    }
    for (size, row) in rows().filter(|(_, row)| row.truncation_suspected > 0) {
        warnings.push(format!(
            "truncation suspected in {} of {} at {size}: the endpoint seems to have cut the prompt silently",
            plural(row.truncation_suspected, "episode", "episodes"),
            row.strategy
        ));
    }
    for (size, row) in rows() {
        let share = row.hinges_on_unjudged as f64 / row.planned.max(1) as f64;
        if share > UNJUDGED_ALLOWED {
            warnings.push(format!(
                "calls to unjudged tools decided {} % of the episodes of {} at {size} (above 2 %): judge them before trusting \
                 the difference",
                percent(share),
                row.strategy
            ));
        }
    }
    warnings.extend(refused_schemas(input));
    warnings.extend(refused_parameters(input));
    warnings.extend(input.manifest.checked_in_part.iter().map(checked_in_part));
    let (planned, missing) = rows().fold((0, 0), |(p, m), (_, row)| (p + row.planned, m + row.missing));
    if missing > 0 {
        warnings.push(format!(
            "{} of {} {} as the worst value (the run is {how}){}",
            grouped(missing),
            plural(planned, "planned episode", "planned episodes"),
            if missing == 1 { "is missing and counts" } else { "are missing and count" },
            subset.map(unfinished).unwrap_or_default()
        ));
    }
    warnings
}

/// Figures by other labels must not be taken for those of the run.
fn rescored(input: &Input<'_>) -> Option<String> {
    let Revisions { labels, answers } = settings::revisions(input)?;
    Some(format!(
        "rescored: the labels are those of {} ({}), the answers were given to {}: these are not the figures of the run",
        input.manifest.dataset.name,
        settings::revision(&labels),
        settings::revision(&answers)
    ))
}

/// A size is no size of the choice where queries bring their own.
fn candidates(input: &Input<'_>) -> Option<String> {
    let candidates = settings::candidates(input.manifest)?;
    Some(format!("queries asked of their own candidates, not of the whole catalogue: {candidates}"))
}

/// What a run that was stopped is about.
fn part(how: &str, subset: &Subset) -> String {
    let Subset { begun, planned, .. } = *subset;
    let queries = plural(planned, "query", "queries");
    let rest = plural(planned - begun, "other was not begun and is", "others were not begun and are");
    format!("{how}: a random subset of {} of {queries}; {rest} in no figure", grouped(begun))
}

fn unfinished(subset: &Subset) -> String {
    let named: Vec<&str> = subset.unfinished.iter().take(NAMED).map(String::as_str).collect();
    let more = match subset.unfinished.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {} more", grouped(more as u64)),
    };
    format!(", all of queries that were begun and not finished: {}{more}", named.join(", "))
}

/// What the model was given in place of what the run asks for.
fn refused_parameters(input: &Input<'_>) -> Option<String> {
    let lessons = &input.manifest.finish.as_ref()?.lessons;
    let said: Vec<&str> = lessons.iter().map(|lesson| lesson.as_str()).collect();
    let keys: Vec<String> = lessons.iter().filter_map(|lesson| Some(format!("`{}`", lesson.profile_line()?))).collect();
    let next =
        if keys.is_empty() { String::new() } else { format!("; next step: {} in profile.toml", keys.join(", ")) };
    (!said.is_empty()).then(|| format!("the endpoint refused parameters: {}{next}", said.join(", ")))
}

/// Whose arguments a host would not have been so easy on.
fn checked_in_part(tool: &ToolId) -> String {
    let most = grouped(MOST_CHECKS);
    format!("arguments of {tool} are checked in part: its schema expands to more than {most} checks")
}

/// Tools that a warning about refused schemas names.
const MOST_NAMED: usize = 5;

/// Whose schema the endpoint refused, and what can be done about it.
fn refused_schemas(input: &Input<'_>) -> Vec<String> {
    let Some(found) = input.manifest.finish.as_ref().and_then(|finish| finish.schemas.as_ref()) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    if !found.refused.is_empty() {
        let size = input.manifest.views.iter().map(|view| input.manifest.axis.tools(view.size)).max().unwrap_or(0);
        let named = found.refused.iter().take(MOST_NAMED);
        let named: Vec<String> = named.map(|tool| format!("{} (its words: {})", tool.tool, tool.words)).collect();
        let more = found.refused.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {} more", grouped(more as u64)) } else { String::new() };
        let mut advice: Vec<&str> = found.refused.iter().flat_map(|tool| &tool.advice).map(String::as_str).collect();
        advice.sort_unstable();
        advice.dedup();
        let advice = match advice.as_slice() {
            [] => "leave what is refused out; no rule of `[schema]` changes it".to_owned(),
            lines => {
                format!("set `{}` under `[schema]` in profile.toml, or leave what is refused out", lines.join("` or `"))
            }
        };
        warnings.push(format!(
            "the endpoint refuses the schema of {} of {}: {}{more}; next step: {advice}",
            grouped(found.refused.len() as u64),
            plural(u64::from(size), "tool", "tools"),
            named.join(", ")
        ));
    }
    if found.unexplained {
        warnings.push(format!(
            "the endpoint refused a schema, and no tool was found that it refuses by itself; {} went into looking: either all \
             the tools together are too much, or `max_schema_probes` of profile.toml was too few",
            plural(found.probes as u64, "request", "requests")
        ));
    }
    warnings
}

/// Says who came out best at the largest size, and whether the difference to the reference is shown. The oracle knows the
/// labels: it is the ceiling, not a contender.
pub(crate) fn closing(input: &Input<'_>, sizes: &[SizeSummary]) -> String {
    let Some(size) = sizes.last() else { return "nothing was planned".to_owned() };
    let by_success = size.rows.iter().any(|row| row.success.is_some());
    let value = |row: &Row| if by_success { row.success.map(|success| success.rate) } else { row.retrieved(RECALL) };
    let measure = if by_success { SUCCESS } else { RECALL };
    let contends = |row: &&Row| {
        !input.manifest.strategies.iter().any(|info| info.label == row.strategy && info.meta.kind == ORACLE)
    };
    let rows = || size.rows.iter().filter(contends);
    let scored: Vec<(&Row, f64)> = rows().filter_map(|row| Some((row, value(row)?))).collect();
    let aside =
        if size.rows.iter().any(|row| !contends(&row) && value(row).is_some()) { " (oracle aside)" } else { "" };
    let best = scored.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let at = match &input.manifest.candidates {
        Some(candidates) => format!("at {} (own candidates, {:.1} on average)", size.label(), candidates.mean),
        None => format!("at {}", size.label()),
    };
    if best <= 0.0 {
        return format!("{at} no strategy{aside} had any {measure}");
    }
    let leaders: Vec<&Row> = scored.iter().filter(|(_, value)| best - value < 1e-12).map(|(row, _)| *row).collect();
    let names: Vec<&str> = leaders.iter().map(|row| row.strategy.as_str()).collect();
    let n = leaders[0].success.map_or(leaders[0].retrieval.as_ref().map_or(0, |r| r.n), |success| success.share.of);
    let lead =
        format!("{at}: highest {measure}{aside} {} % by {} (n = {})", percent(best), names.join(" and "), grouped(n));
    let reference = input.manifest.reference.as_deref();
    let comparisons: Vec<(&Row, &Comparison)> =
        rows().filter_map(|row| Some((row, row.comparison.as_ref()?))).filter(|(_, c)| c.measure == measure).collect();
    if comparisons.is_empty() {
        return format!("{lead}; no difference was tested");
    }
    if comparisons.iter().all(|(_, comparison)| comparison.verdict == Verdict::NotShown) {
        return format!(
            "{lead}; no difference to {} is shown: too small to rank",
            reference.unwrap_or("the reference")
        );
    }
    let reference = reference.unwrap_or("the reference");
    if names.contains(&reference) {
        let worse = comparisons.iter().filter(|(_, comparison)| comparison.verdict == Verdict::Worse);
        let worse: Vec<&str> = worse.map(|(row, _)| row.strategy.as_str()).collect();
        return format!("{lead}, the reference; shown to be worse: {}", worse.join(", "));
    }
    let Some((_, comparison)) = comparisons.iter().find(|(row, _)| row.strategy == names[0]) else {
        return format!("{lead}; its difference to {reference} was not tested");
    };
    let difference = format!(
        "{} points [{}, {}]",
        points(comparison.difference),
        points(comparison.interval.lower),
        points(comparison.interval.upper)
    );
    match comparison.verdict {
        Verdict::Better => format!("{lead}; shown to be better than {reference}: {difference}"),
        Verdict::Worse => format!("{lead}; shown to be worse than {reference}: {difference}"),
        Verdict::NotShown => format!("{lead}; its difference to {reference}, {difference}, is not shown"),
    }
}
