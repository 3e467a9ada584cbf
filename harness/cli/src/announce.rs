//! What a plan announces before anything is sent.

use harness::metric::stats::smallest_difference;
use harness::run::manifest::Axis;
use harness::run::plan::Estimate;
use harness::text::{grouped, plain, plural};
use harness::usage::{Price, Usage};

use crate::outlook::Outlook;
use crate::print::say;
use crate::setup::Planned;

/// Share of pairs on which two strategies differ that the plan assumes; the report uses what was observed.
const ASSUMED_DISCORDANCE: f64 = 0.10;

pub fn print_plan(planned: &Planned) {
    let manifest = &planned.manifest;
    let selection = &manifest.selection;
    let sampled = if selection.sampled {
        format!(", a random subset of {}", grouped(selection.of as u64))
    } else {
        String::new()
    };
    let queries = plural(selection.queries as u64, "query", "queries");
    say!(
        "plan: {} {} · split {} · {queries}{sampled} · {}",
        plain(&manifest.dataset.name),
        plain(&manifest.dataset.revision),
        plain(&selection.split),
        plural(manifest.jobs as u64, "episode", "episodes")
    );
    print_asked(planned);
    if let Some(own) = &manifest.candidates {
        say!(
            "{} asked of candidates of their own, {:.1} tools on average and {} at most, and not of the whole catalogue",
            plural(own.queries as u64, "query is", "queries are"),
            own.mean,
            grouped(own.most as u64)
        );
    }
    let asks = |row: &&Outlook| row.estimate.requests > 0 || row.never_runs() || row.doubts().is_some();
    let asking: Vec<&Outlook> = planned.outlooks.iter().filter(asks).collect();
    if asking.is_empty() {
        say!("no model is asked");
        return;
    }
    let price = manifest.endpoint.as_ref().and_then(|endpoint| endpoint.price);
    say!(
        "{:<24} {:>6} {:>9} {:>9} {:>16} {:>10}",
        "strategy",
        manifest.axis.noun(),
        "episodes",
        "requests",
        "tokens (est.)",
        "price"
    );
    for row in asking {
        print_outlook(row, price);
    }
    let comparisons = manifest.strategies.iter().filter(|info| info.meta.drives_model).count().saturating_sub(1);
    let pairs = selection.queries as u64;
    let alpha = 0.05 / comparisons.max(1) as f64;
    if comparisons > 0 {
        let shown = smallest_difference(pairs, ASSUMED_DISCORDANCE, alpha).map_or_else(
            || format!("none: {}", plural(pairs, "pair is too few", "pairs are too few")),
            |difference| plural((100.0 * difference).round() as u64, "point", "points"),
        );
        say!(
            "smallest difference in success this plan could show: {shown} (80 % power, {}, if {:.0} % of the pairs disagree)",
            plural(comparisons as u64, "comparison", "comparisons"),
            100.0 * ASSUMED_DISCORDANCE
        );
    }
}

/// Where not all queries are asked, and why.
fn print_asked(planned: &Planned) {
    let Planned { manifest, asked, skills, .. } = planned;
    let planned = manifest.selection.queries;
    let queries = plural(planned as u64, "query", "queries");
    if let Some((there, of)) = skills {
        say!("{} of {} a tool there", grouped(*there as u64), plural(*of as u64, "skill holds", "skills hold"));
    }
    let fewer = asked.iter().filter(|(_, asked)| *asked < planned);
    match manifest.axis {
        Axis::Tools => {
            for (size, asked) in fewer {
                let (at, asked) = (manifest.axis.count(*size), grouped(*asked as u64));
                say!("at {at}: {asked} of {queries}; what does the job of the others is not always there");
            }
        }
        // All sets of skills are asked the same.
        Axis::Skills { .. } => {
            for (size, asked) in fewer.take(1) {
                let (at, asked) = (manifest.axis.count(*size), grouped(*asked as u64));
                say!("at every number of skills: {asked} of {queries}, those that {at} can answer");
            }
        }
    }
}

/// A line of the plan. What will not run takes no requests.
fn print_outlook(row: &Outlook, price: Option<Price>) {
    let Estimate { strategy, size, episodes, requests, input_tokens, output_tokens, .. } = &row.estimate;
    let start = format!("{:<24} {size:>6} {episodes:>9}", plain(strategy));
    let doubts = row.doubts();
    if row.never_runs() {
        say!("{start} {}", doubts.unwrap_or_default());
        return;
    }
    let cost = price.map(|price| {
        price.cost(&Usage { input_tokens: *input_tokens, output_tokens: *output_tokens, ..Usage::default() })
    });
    let price = cost.map_or("unknown".to_owned(), |cost| format!("${cost:.2}"));
    let tokens = format!("{}{}", if row.at_most { "at most " } else { "" }, input_tokens + output_tokens);
    let doubts = doubts.map_or_else(String::new, |doubts| format!("  {doubts}"));
    say!("{start} {requests:>9} {tokens:>16} {price:>10}{doubts}");
}
