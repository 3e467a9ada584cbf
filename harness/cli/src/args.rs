//! The command line.

#![allow(clippy::doc_markdown, reason = "these comments are the help texts")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use datasets::import::Extra;
use harness::endpoint::Profile;

use crate::exit::{Exit, expected};
use crate::observe::ObserveArgs;

/// Defaults of a run that its help names.
pub const SPLIT: &str = "test";
pub const REPEATS: u32 = 1;
pub const SEED: u64 = 1;
/// Permutations per view with order `blocked`.
pub const ORDERS: u32 = 4;

/// Measures tool-selection strategies: which way of putting tools in front of a model finds the right one, in how few turns,
/// for how many tokens.
#[derive(Debug, Parser)]
#[command(name = "toolgauge", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ok · 1 bug · 2 usage or configuration · 3 dataset invalid · 4 endpoint unusable · \
5 finished with failed episodes · 6 gate failed · 7 gate inconclusive · 8 stopped at a cap, resumable · 130 interrupted, \
resumable";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan and run an experiment; asks a model, as only `doctor` does beside it
    Run(Box<RunArgs>),
    /// Find out what an endpoint can do, within a minute, and write its profile
    Doctor(Box<DoctorArgs>),
    /// Write a commented experiment file for a dataset and an endpoint
    Init(InitArgs),
    /// Table, plots and files of a stored run
    Report(ReportArgs),
    /// Score a stored run again, against the labels as they are now
    Rescore(ReportArgs),
    /// One query of a run, turn by turn
    Show(ShowArgs),
    /// Compare a run with a committed baseline, query by query
    Gate(GateArgs),
    /// Strategies, metrics, datasets or runs
    List(ListArgs),
    /// Turn somebody else's data into a dataset folder
    Import(Box<ImportArgs>),
    /// Find faults in a dataset's tools, schemas, skills and labels
    Lint(LintArgs),
}

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// Experiment file; flags win over it, and it wins over the defaults below
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Dataset folder
    #[arg(short, long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
    /// Strategies, comma-separated; parameters as `bm25-llm:k=3:bm25.words.stem=true`, a grid as `bm25-llm:k=[1,3]`
    #[arg(short, long, value_name = "LIST")]
    pub strategies: Vec<String>,
    /// Catalogue sizes, comma-separated, or `all` [default: those that the dataset names, or else all its tools]
    #[arg(short = 'n', long, value_name = "LIST", value_delimiter = ',')]
    pub sizes: Vec<String>,
    /// Numbers of skills to compare at one catalogue size (`-n`, or the whole one), comma-separated, or `all`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub skills: Vec<String>,
    #[arg(long, help = format!("Split to ask from, or `all` [default: {SPLIT}]"))]
    pub split: Option<String>,
    /// Which queries of the split [default: all where only the whole catalogue is asked, else scaling]
    #[arg(long, value_enum)]
    pub queries: Option<QueriesArg>,
    /// Ask a stratified random subset of this many queries [default: all of them]
    #[arg(long, value_name = "N", conflicts_with = "budget")]
    pub sample: Option<usize>,
    /// Ask as many queries as fit this time, e.g. `10m`, at the speed that two requests outside the plan measure first; never
    /// fewer than 8
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    #[arg(long, value_name = "N", help = format!("Repeats of every episode [default: {REPEATS}]"))]
    pub repeats: Option<u32>,
    #[arg(long, help = format!("Seed of every random choice [default: {SEED}]"))]
    pub seed: Option<u64>,
    /// Order of tools in a prompt [default: blocked]
    #[arg(long, value_enum)]
    pub order: Option<OrderArg>,
    /// Which other tools a size holds beside those that queries need [default: random]
    #[arg(long, value_enum)]
    pub distractors: Option<DistractorsArg>,
    /// When an episode ends [default: loop]
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
    /// Wording of the base prompt [default: plain]
    #[arg(long, value_enum)]
    pub wording: Option<WordingArg>,
    /// Strategy the others are compared with [default: eager where it runs at every size, else the first that asks a model
    /// and runs, else the first; oracle and random come last]
    #[arg(long, value_name = "LABEL")]
    pub reference: Option<String>,
    /// `openai`, `scripted:first`, `scripted:lexical` or `scripted:silent`; without it OPENAI_BASE_URL and TOOLGAUGE_MODEL
    /// together select an endpoint
    #[arg(long, value_name = "KIND")]
    pub endpoint: Option<String>,
    #[arg(long, value_name = "FILE", env = "TOOLGAUGE_PROFILE", help = about_profile())]
    pub profile: Option<PathBuf>,
    /// File with the key of the endpoint, readable by its owner only; no manifest names it, so that a resumed run needs it again
    /// [default: the key is in OPENAI_API_KEY, or as the experiment file says]
    #[arg(long, value_name = "FILE")]
    pub api_key_file: Option<PathBuf>,
    /// Name of the run [default: that of the dataset]
    #[arg(long)]
    pub name: Option<String>,
    /// Folder of the run [default: a new one under ./runs]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the plan with its estimates and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Go on with a run: finished episodes stay, failed ones are tried again
    #[arg(long, value_name = "RUN", conflicts_with_all = ["config", "strategies", "sizes", "skills", "split",
        "queries", "sample", "budget", "repeats", "seed", "order", "distractors", "mode", "wording", "reference", "endpoint", "name", "out",
        "dry_run", "prices"])]
    pub resume: Option<PathBuf>,
    /// Answer from a recording only: a run folder, or a cassette
    #[arg(long, value_name = "PATH")]
    pub replay: Option<PathBuf>,
    /// Take answers from a recording where it has them and ask the endpoint for the others; they are marked as stored
    #[arg(long, value_name = "PATH", conflicts_with = "replay")]
    pub reuse: Option<PathBuf>,
    /// Send nothing: only stored answers count, the first missing one stops the run
    #[arg(long)]
    pub offline: bool,
    /// Requests in flight at once, at most; how many really are is found by trying [default: what the profile says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: Option<u16>,
    /// Stop cleanly after this many tokens; those of episodes that the stop leaves unfinished count, and requests in flight
    /// may go above it. With a cap queries are asked one by one in random order, so that what is done when it stops is a random
    /// subset of them [default: no cap]
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Stop cleanly after this many US dollars; counted like tokens [default: no cap]
    #[arg(long, value_name = "USD")]
    pub max_cost: Option<f64>,
    /// Stop cleanly after this many minutes of this process [default: no cap]
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub max_minutes: Option<f64>,
    /// End, resumable, when the endpoint has answered nobody for this time, e.g. `2h`; `0` never waits: what gets no answer fails
    /// [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = downtime)]
    pub max_downtime: Option<Duration>,
    /// Failed episodes that still end with code 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_failures: usize,
    /// Price table that replaces the built-in one, which knows no model
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    #[command(flatten)]
    pub observe: ObserveArgs,
}

fn about_profile() -> String {
    let Profile { max_output_tokens, concurrency, .. } = Profile::hosted("", "");
    format!(
        "What the endpoint can do [default: native tools, no known limits, {max_output_tokens} tokens of output, {concurrency} \
         requests at a time]"
    )
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct DoctorArgs {
    /// Address of the endpoint, up to and without /chat/completions [default: that of OPENAI_BASE_URL]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Model to ask [default: that of TOOLGAUGE_MODEL]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Name of the environment variable with the key [default: OPENAI_API_KEY]
    #[arg(long, value_name = "NAME")]
    pub api_key_env: Option<String>,
    /// File with the key, readable by its owner only
    #[arg(long, value_name = "FILE", conflicts_with = "api_key_env")]
    pub api_key_file: Option<PathBuf>,
    /// `openai`, or a `scripted:` behaviour [default: openai]
    #[arg(long, value_name = "KIND")]
    pub endpoint: Option<String>,
    /// What is known already: its identity, and every key against which nothing is found, go into the new profile
    #[arg(long, value_name = "FILE", env = "TOOLGAUGE_PROFILE")]
    pub profile: Option<PathBuf>,
    /// Identity of the endpoint in the response store [default: that of --profile, or else address and model]
    #[arg(long, value_name = "TEXT")]
    pub id: Option<String>,
    /// Profile to write
    #[arg(short, long, value_name = "FILE", default_value = "profile.toml")]
    pub out: PathBuf,
    /// Replace the file
    #[arg(long)]
    pub overwrite: bool,
    /// Say what will not run of this dataset
    #[arg(short, long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
    /// Also ask this model for embeddings
    #[arg(long, value_name = "NAME")]
    pub embed_model: Option<String>,
    /// Time for everything but --context
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub budget: String,
    /// Look for the real length of the context: prints what that may take and asks before it begins
    #[arg(long)]
    pub context: bool,
    /// Do not ask; --context needs it where nobody can answer
    #[arg(long)]
    pub yes: bool,
    /// Tokens of all requests together [default: 60000, with --context 400000]
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Write every request and its answer into a new file in this folder
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Price table that replaces the built-in one, which knows no model
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Dataset folder; without it the file leaves the dataset to `run -d`
    #[arg(short, long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
    /// What the endpoint can do, see `doctor`
    #[arg(long, value_name = "FILE", env = "TOOLGAUGE_PROFILE")]
    pub profile: Option<PathBuf>,
    /// File to write; it must not exist
    #[arg(short, long, value_name = "FILE", default_value = "experiment.toml")]
    pub out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QueriesArg {
    /// Those valid at every size
    Scaling,
    /// All of the split
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DistractorsArg {
    /// Drawn uniformly
    Random,
    /// The nearest first, by BM25, to the tools that scaling queries need
    Confusable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderArg {
    #[value(help = format!("{ORDERS} seeded permutations, queries of one run together; a file may ask for others (`orders`)"))]
    Blocked,
    /// That of the catalogue
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// When the model calls nothing more, or at a limit
    Loop,
    /// After the first turn that calls a tool of the catalogue
    // As manifests, experiment files and documents spell it.
    #[value(alias = "first_call")]
    FirstCall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WordingArg {
    Plain,
    Terse,
    Careful,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Run folder
    pub run: PathBuf,
    /// Also write the answers that the episodes rest on, as a cassette for `run --replay`
    #[arg(long, value_name = "FILE")]
    pub cassette: Option<PathBuf>,
    /// What goes to standard output
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub format: Format,
    /// Folder for the files [default: `report` in the run folder, or `rescored` where the labels are others]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Dataset folder, where it is not where the run found it
    #[arg(short, long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Human,
    Markdown,
    Json,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Run folder
    pub run: PathBuf,
    /// Query id
    pub query: String,
    /// Only this strategy: its label, or as `run` takes it, e.g. `bm25-llm:k=5` [default: all]
    #[arg(short, long)]
    pub strategy: Option<String>,
    /// Only this size [default: all]
    #[arg(short = 'n', long)]
    pub size: Option<u32>,
    /// Show prompts and definitions in full
    #[arg(long)]
    pub full: bool,
    /// Dataset folder, where it is not where the run found it
    #[arg(short, long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct GateArgs {
    /// Run folder
    pub run: PathBuf,
    /// Committed baseline
    #[arg(long, value_name = "FILE")]
    pub baseline: PathBuf,
    /// Write the baseline from this run instead of comparing
    #[arg(long)]
    pub write: bool,
    /// Fail on any query that moved, not only where a mean fell
    #[arg(long, conflicts_with = "write")]
    pub exact: bool,
    /// Dataset folder, where it is not where the run found it
    #[arg(short, long, value_name = "DIR")]
    pub dataset: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[arg(value_enum)]
    pub what: ListWhat,
    /// Where to look for datasets or runs [default: datasets/data, or runs]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListWhat {
    Strategies,
    Metrics,
    Datasets,
    Runs,
    Importers,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Format of the source, see `toolgauge list importers`
    pub format: String,
    /// File or folder to read; `synth` reads nothing, and `mcp` can do without
    #[arg(conflicts_with_all = ["command", "url"])]
    pub source: Option<PathBuf>,
    /// Dataset folder to write
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// Name of the dataset [default: that of the format]
    #[arg(long)]
    pub name: Option<String>,
    /// Name of the server that owns the tools, where the source names none [default: by its file name or title, or the format]
    #[arg(long)]
    pub server: Option<String>,
    /// Replace the folder if it is a dataset; refused if that would delete queries, labels, skills, actors, `lint.toml`, or
    /// anything else that this import does not write the same
    #[arg(long)]
    pub overwrite: bool,
    /// Treat whatever could not be mapped as an error
    #[arg(long)]
    pub strict: bool,
    /// How many tools to make, only `synth` [default: 1000]
    #[arg(long, value_name = "N")]
    pub tools: Option<usize>,
    /// How many skills to make over them, only `synth` [default: none]
    #[arg(long, value_name = "N")]
    pub skills: Option<usize>,
    /// Seed of what is made, only `synth` [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub extras: ExtraArgs,
    #[command(flatten)]
    pub live: LiveArgs,
}

/// Options that one importer has; others refuse them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of one importer")]
pub struct ExtraArgs {
    #[arg(long, help = about(Extra::Raw))]
    raw: bool,
    #[arg(long, help = about(Extra::WithInstruction))]
    with_instruction: bool,
    #[arg(long, help = about(Extra::Pooled))]
    pooled: bool,
}

fn about(extra: Extra) -> String {
    format!("{}: {}", extra.importer(), extra.about())
}

impl ExtraArgs {
    pub fn given(&self) -> BTreeSet<Extra> {
        let given = |extra: &Extra| match extra {
            Extra::Raw => self.raw,
            Extra::WithInstruction => self.with_instruction,
            Extra::Pooled => self.pooled,
        };
        Extra::ALL.into_iter().filter(given).collect()
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Live servers (import mcp)")]
pub struct LiveArgs {
    /// One server instead of a file: the command line that starts it, e.g. `npx -y @scope/server`; no shell runs it
    #[arg(long, value_name = "LINE", conflicts_with = "url")]
    pub command: Option<String>,
    /// One server instead of a file: where it answers over streamable HTTP
    #[arg(long)]
    pub url: Option<String>,
    /// Only these servers of the file, comma-separated
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Names in `env` or `headers`, or of variables of the environment, whose values are no secrets, comma-separated. All others
    /// are taken for keys: they are not shown, and a server whose tools hold one is left out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub not_secret: Vec<String>,
    /// Time that each server has, from its start to the last tool [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Servers at the same time [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub parallel: Option<u16>,
    /// A server that lists more tools than this is left out [default: 1000]
    #[arg(long, value_name = "N")]
    pub max_tools: Option<usize>,
}

impl LiveArgs {
    /// The first of these flags that was given.
    pub fn given(&self) -> Option<&'static str> {
        let Self { command, url, only, not_secret, timeout, parallel, max_tools } = self;
        [
            ("--command", command.is_some()),
            ("--url", url.is_some()),
            ("--only", !only.is_empty()),
            ("--not-secret", !not_secret.is_empty()),
            ("--timeout", timeout.is_some()),
            ("--parallel", parallel.is_some()),
            ("--max-tools", max_tools.is_some()),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }
}

/// Minutes that a run may take; fractions are fine.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.trim().parse::<f64>().ok().filter(|minutes| *minutes > 0.0 && *minutes < 1e6);
    minutes.ok_or_else(|| "expected a number of minutes above 0".to_owned())
}

fn downtime(text: &str) -> Result<Duration, String> {
    if text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    seconds("--max-downtime", text).map(Duration::from_secs_f64).map_err(|error| error.to_string())
}

/// Seconds of `10m`, `90s`, `1h`.
pub fn seconds(flag: &str, text: &str) -> anyhow::Result<f64> {
    let (number, factor) = match text.trim().strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.trim().ends_with('h') => (number, 3_600.0),
        Some(number) if text.trim().ends_with('m') => (number, 60.0),
        Some(number) => (number, 1.0),
        None => (text.trim(), 1.0),
    };
    // Nobody waits a year, and infinity is no time.
    let sensible = |seconds: &f64| *seconds > 0.0 && *seconds < 3e7;
    let seconds = number.parse::<f64>().ok().map(|seconds| seconds * factor).filter(sensible);
    seconds.ok_or_else(|| expected(Exit::Usage, format!("{flag} {text:?}: expected a time such as 90s, 10m or 1h")))
}

#[derive(Debug, Args)]
pub struct LintArgs {
    /// Dataset folder
    pub dataset: PathBuf,
    /// Accepted findings [default: `lint.toml` of the dataset folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Also show accepted findings, with their reasons; JSON and SARIF always hold them
    #[arg(long)]
    pub all: bool,
    /// What goes to standard output
    #[arg(long, value_enum, default_value_t = LintFormat::Text)]
    pub format: LintFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LintFormat {
    Text,
    Json,
    Sarif,
}
