//! `toolgauge doctor`: what an endpoint can do, as a table and as a profile.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use harness::clock::now_utc;
use harness::dataset::Dataset;
use harness::doctor::{Doctor, Event, Examination, Exchange, Options, SearchPlan, annotated};
use harness::endpoint::Profile;
use harness::registry::Registry;
use harness::run::manifest::EndpointInfo;
use harness::text::plain;
use harness::usage::{Price, Usage};
use indicatif::ProgressBar;
use serde_json::json;

use crate::args::{DoctorArgs, RunArgs, seconds};
use crate::exit::{Exit, OrExit as _, expected};
use crate::experiment::{EndpointSection, Experiment};
use crate::fit::{fits, why_not};
use crate::key;
use crate::print::{print_out, say};
use crate::setup::{endpoint, load_dataset, transport};

/// Tokens of all requests where nothing else is said: the probes take about 45,000 where nothing is refused.
const TOKENS: u64 = 60_000;
const TOKENS_WITH_CONTEXT: u64 = 400_000;
/// Too little for the first three probes.
const FEWEST_TOKENS: u64 = 1_000;
/// Width of the table where nothing says otherwise.
const WIDTH: usize = 110;

pub fn doctor(registry: &Registry, args: &DoctorArgs) -> anyhow::Result<Exit> {
    check(args)?;
    let dataset = args.dataset.as_deref().map(load_dataset).transpose()?;
    let endpoint = named_endpoint(args)?;
    let options = Options {
        model: endpoint.profile.model.clone(),
        time: Duration::from_secs_f64(seconds("--budget", &args.budget)?),
        max_tokens: args.max_tokens.unwrap_or(if args.context { TOKENS_WITH_CONTEXT } else { TOKENS }),
        embed_model: args.embed_model.clone(),
    };
    let log = args.record.as_deref().map(Log::create).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let examination = runtime.block_on(examine(args, &endpoint, &options, log.as_ref()));
    // Somebody's DNS look-up may still hang in a thread.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let (examination, how) = examination?;
    if let Some(error) = log.as_ref().and_then(Log::error) {
        return Err(expected(Exit::Usage, error));
    }
    let asked = address(&endpoint);
    write_profile(args, &annotated(&examination.profile, &examination.notes, &asked))?;
    let will_not_run = will_not_run(registry, dataset.as_ref(), &examination)?;
    let text = if args.json {
        as_json(args, &asked, &examination, &will_not_run)
    } else {
        let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(WIDTH);
        let path = log.as_ref().map(|log| log.path.as_path());
        as_text(args, &asked, &examination, &will_not_run, (path, width))
    };
    print_out(&text)?;
    Ok(how)
}

/// Whatever is wrong with the flags shows before anything is sent.
fn check(args: &DoctorArgs) -> anyhow::Result<()> {
    let usage = |message: String| Err(expected(Exit::Usage, message));
    if args.out.exists() && !args.overwrite {
        return usage(format!(
            "{}: exists; write to another file with -o, or replace it with --overwrite",
            args.out.display()
        ));
    }
    let folder = args.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return usage(format!("{}: no such folder to write {} to", folder.display(), args.out.display()));
    }
    if args.context && !args.yes && !std::io::stdin().is_terminal() {
        return usage(
            "--context may take many tokens and nobody can be asked here; agree with --yes, and bound it with --max-tokens".to_owned(),
        );
    }
    if let Some(tokens) = args.max_tokens.filter(|tokens| *tokens < FEWEST_TOKENS) {
        return usage(format!("--max-tokens {tokens}: expected at least {FEWEST_TOKENS}"));
    }
    if args.id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return usage("--id is blank, expected some text".to_owned());
    }
    Ok(())
}

/// The endpoint of flags, profile and environment, by the rules of `run`.
fn named_endpoint(args: &DoctorArgs) -> anyhow::Result<EndpointInfo> {
    let section = EndpointSection {
        kind: args.endpoint.clone(),
        base_url: args.base_url.clone(),
        model: args.model.clone(),
        api_key_env: args.api_key_env.clone(),
        api_key_file: args.api_key_file.clone(),
        profile: args.profile.clone(),
        timeout_s: None,
    };
    let experiment = Experiment { endpoint: Some(section), ..Experiment::default() };
    let run = RunArgs { prices: args.prices.clone(), ..RunArgs::default() };
    let found = endpoint(&run, &experiment, false)?;
    let mut found = found.ok_or_else(|| {
        let message = "no endpoint is named: give --base-url and --model, or set OPENAI_BASE_URL and TOOLGAUGE_MODEL (key in \
                       OPENAI_API_KEY, or in a file for --api-key-file)";
        expected(Exit::Usage, message)
    })?;
    if let Some(id) = &args.id {
        let key = key::of(&found, args.api_key_file.as_deref())?;
        key::refuse_in(key.as_ref(), &[("the id of the profile", id.as_str())])?;
        found.profile.id.clone_from(id);
    }
    Ok(found)
}

/// Where the requests go; not the identity, which may be anything.
fn address(endpoint: &EndpointInfo) -> String {
    if endpoint.kind.starts_with("scripted") {
        return endpoint.kind.clone();
    }
    let address = endpoint.base_url.clone().or_else(|| std::env::var("OPENAI_BASE_URL").ok());
    address.unwrap_or_else(|| "an unknown address".to_owned())
}

async fn examine(
    args: &DoctorArgs,
    endpoint: &EndpointInfo,
    options: &Options,
    log: Option<&Log>,
) -> anyhow::Result<(Examination, Exit)> {
    let transport = transport(endpoint, args.api_key_file.as_deref())?;
    let spent = at_most(options.max_tokens, endpoint.price);
    say!(
        "asking {} about {:?} for at most {} and {} tokens{spent}",
        plain(&address(endpoint)),
        plain(&options.model),
        args.budget,
        options.max_tokens
    );
    let progress = ProgressBar::new_spinner();
    progress.enable_steady_tick(Duration::from_millis(200));
    let observe = |event: Event<'_>| match event {
        Event::Probe(name) => progress.set_message(name),
        Event::Exchange(exchange) => {
            if let Some(log) = log {
                log.add(&exchange);
            }
        }
    };
    let mut how = Exit::Ok;
    let mut doctor = Doctor::new(transport.as_ref(), options, &observe);
    let basics = doctor.basics().await;
    if let Err(unusable) = basics {
        progress.finish_and_clear();
        return Err(expected(Exit::Endpoint, format!("{}: {unusable}", plain(&address(endpoint)))));
    }
    if args.context && agreed(args, &doctor.plan_search(), endpoint.price, &progress)? {
        // A search may take an hour; what it has found by then stands.
        tokio::select! {
            () = doctor.search_context() => {}
            _ = tokio::signal::ctrl_c() => how = Exit::Interrupted,
        }
    }
    progress.finish_and_clear();
    Ok((doctor.finish(&endpoint.profile, &now_utc()), how))
}

/// ` ($0.12 at most)`, or that nobody knows.
fn at_most(tokens: u64, price: Option<Price>) -> String {
    match price {
        // Nobody knows how many are written, so all are counted at the dearer price.
        Some(price) => {
            let all =
                |input_tokens, output_tokens| price.cost(&Usage { input_tokens, output_tokens, ..Usage::default() });
            format!(" (at most ${:.2})", all(tokens, 0).max(all(0, tokens)))
        }
        None => " (price unknown, see --prices)".to_owned(),
    }
}

/// Says what the search may take and, unless that was agreed to beforehand, asks.
fn agreed(args: &DoctorArgs, plan: &SearchPlan, price: Option<Price>, progress: &ProgressBar) -> anyhow::Result<bool> {
    let time = plan.seconds.map_or_else(
        || "time unknown".to_owned(),
        |seconds| format!("up to {:.0} min at the measured speed", (seconds / 60.0).ceil()),
    );
    let words = format!(
        "--context: prompts of up to {} tokens, {} tokens in all at most{}, {time}",
        plan.largest,
        plan.tokens,
        at_most(plan.tokens, price)
    );
    progress.suspend(|| {
        say!("{words}");
        if args.yes {
            return Ok(true);
        }
        say!("Go on? [y/N]");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).or_exit(Exit::Usage)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    })
}

fn write_profile(args: &DoctorArgs, text: &str) -> anyhow::Result<()> {
    let name = args.out.display();
    // What the endpoint said is in it: what cannot be read back must not be left behind.
    Profile::parse(text, &name.to_string())?;
    let mut options = OpenOptions::new();
    options.write(true);
    if args.overwrite {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let written = options.open(&args.out).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| expected(Exit::Usage, format!("{name}: {error}")))
}

/// Reasons of the endpoint itself, then those of the dataset.
fn will_not_run(registry: &Registry, dataset: Option<&Dataset>, found: &Examination) -> anyhow::Result<Vec<String>> {
    let mut lines = found.will_not_run.clone();
    if let Some(dataset) = dataset {
        let fits = fits(registry, dataset, &found.profile)?;
        lines.extend(fits.iter().filter_map(|fit| why_not(fit, &found.profile)));
    }
    Ok(lines)
}

fn as_json(args: &DoctorArgs, asked: &str, found: &Examination, will_not_run: &[String]) -> String {
    let result = json!({
        "endpoint": asked,
        "model": found.profile.model,
        "findings": found.findings,
        "will_not_run": will_not_run,
        "profile": found.profile,
        "profile_file": args.out.display().to_string(),
        "used": found.used,
        "seconds": found.seconds,
    });
    format!("{result:#}\n")
}

fn as_text(
    args: &DoctorArgs,
    asked: &str,
    found: &Examination,
    will_not_run: &[String],
    (log, width): (Option<&Path>, usize),
) -> String {
    const LEAD: usize = 27;
    let width = width.max(60);
    let mut text = format!("endpoint {}, model {:?}\n", plain(asked), plain(&found.profile.model));
    for finding in &found.findings {
        let ids = match (log, finding.evidence.as_slice()) {
            (None, _) | (_, []) => String::new(),
            (_, [one]) => format!(" [{one}]"),
            (_, [first, .., last]) => format!(" [{first}–{last}]"),
        };
        let detail = plain(&format!("{}{ids}", finding.detail));
        let mut lines = wrapped(&detail, width - LEAD).into_iter();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "{:<15} {:<10} {first}", finding.name, finding.verdict.as_str());
        for line in lines {
            let _ = writeln!(text, "{:LEAD$}{line}", "");
        }
    }
    let _ = writeln!(text, "{} requests, {} tokens, {:.0} s", found.used.requests, found.used.tokens, found.seconds);
    if !will_not_run.is_empty() {
        text.push_str("will not run:\n");
        for reason in will_not_run {
            for (number, line) in wrapped(&plain(reason), width - 2).iter().enumerate() {
                let _ = writeln!(text, "{}{line}", if number == 0 { "- " } else { "  " });
            }
        }
    }
    if let Some(log) = log {
        let _ = writeln!(text, "requests: {}", plain(&log.display().to_string()));
    }
    let file = plain(&args.out.display().to_string());
    let _ = writeln!(
        text,
        "profile: {file}; use it with --profile {file}, or write an experiment around it: toolgauge init --profile {file}"
    );
    text
}

/// Words in lines of at most this many characters; a longer word stands alone.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            let _ = write!(line, " {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A file with every request and answer, one JSON object a line.
struct Log {
    path: PathBuf,
    state: Mutex<(File, Option<String>)>,
}

impl Log {
    /// A new file in the folder, named by the time.
    fn create(folder: &Path) -> anyhow::Result<Self> {
        let time: String = now_utc().chars().filter(char::is_ascii_alphanumeric).collect();
        let path = folder.join(format!("doctor-{time}-{}.jsonl", std::process::id()));
        let file = std::fs::create_dir_all(folder)
            .and_then(|()| OpenOptions::new().write(true).create_new(true).open(&path))
            .map_err(|error| expected(Exit::Usage, format!("{}: {error}", path.display())))?;
        Ok(Self { path, state: Mutex::new((file, None)) })
    }

    fn add(&self, exchange: &Exchange<'_>) {
        let line = json!(exchange).to_string() + "\n";
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = state.0.write_all(line.as_bytes()) {
            state.1.get_or_insert(format!("{}: {error}", self.path.display()));
        }
    }

    /// The first write that failed.
    fn error(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use harness::doctor::{Finding, Used, Verdict};

    use super::*;

    fn arguments() -> DoctorArgs {
        use clap::Parser as _;
        let cli = crate::args::Cli::try_parse_from(["toolgauge", "doctor", "--model", "m"]).unwrap();
        let crate::args::Command::Doctor(args) = cli.command else { panic!("that is a doctor") };
        *args
    }

    #[test]
    fn the_table_is_readable_and_harmless() {
        let finding = |name, verdict, detail: &str, evidence: &[&str]| Finding {
            name,
            verdict,
            detail: detail.to_owned(),
            evidence: evidence.iter().map(|id| (*id).to_owned()).collect(),
        };
        let findings = vec![
            finding("completion", Verdict::Yes, "answered \"yes\"", &["r02"]),
            finding(
                "native tools",
                Verdict::Partly,
                "taken, but no tool was called; the answer was \"\u{1b}[31mno\"",
                &["r03", "r04"],
            ),
            finding(
                "context",
                Verdict::No,
                "SILENT TRUNCATION: about 6000 tokens were sent and accepted, the server counted 4096; a sentence that is longer than \
                 any terminal and has to be wrapped",
                &["r05"],
            ),
            finding("tool limit", Verdict::NotTested, "the time was up; allow more with --budget", &[]),
        ];
        let found = Examination {
            findings,
            will_not_run: Vec::new(),
            profile: Profile::hosted("http://127.0.0.1:8080/v1", "m"),
            notes: BTreeMap::new(),
            used: Used { requests: 12, tokens: 6_543, ..Used::default() },
            seconds: 12.3,
        };
        let reasons = ["eager at 1000 tools: \u{202e}too many".to_owned()];
        let text = as_text(
            &arguments(),
            "http://127.0.0.1:8080/v1",
            &found,
            &reasons,
            (Some(Path::new("log/doctor.jsonl")), 110),
        );
        insta::assert_snapshot!("table", text);
        let json: serde_json::Value = serde_json::from_str(&as_json(&arguments(), "a", &found, &reasons)).unwrap();
        assert_eq!((&json["findings"][2]["verdict"], &json["used"]["tokens"]), (&json!("no"), &json!(6_543)));
    }

    #[test]
    fn long_lines_are_wrapped_at_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible is long", 5), ["incomprehensible", "is", "long"]);
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn the_dearer_price_is_the_most_that_can_be_paid() {
        let price = Price { input: 1.0, output: 4.0, cache_read: Some(0.1) };
        assert_eq!(at_most(500_000, Some(price)), " (at most $2.00)");
        assert!(at_most(500_000, None).contains("price unknown"));
    }
}
