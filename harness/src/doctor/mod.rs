//! What an endpoint can do, found out by asking it.
//!
//! Each probe is a small question with a typed answer. What it could not decide it says: a context that held is a *tested lower
//! bound*, equal answers are *none seen to differ in n*, a count that the server left out is unknown. One examination is bounded
//! in time and in tokens; probes run in the order of what a run needs most, and what did not fit is listed as not tested.

mod choice;
mod context;
mod embed;
mod facts;
mod limits;
mod reach;
mod schemas;
mod session;
mod speed;
mod stream;
#[cfg(test)]
mod testing;
mod tools;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use self::facts::{Facts, Native};
use self::session::{Session, Stop, exchange_id};
use crate::clock::Stopwatch;
use crate::endpoint::{EndpointError, Profile, RetryPolicy, Transport};
use crate::text::plain;

pub use self::context::SearchPlan;
pub use self::session::{Event, Exchange, Observer, Used};
pub use self::write::annotated;

/// Probes do not wait long: a server that needs patience shows in the first one.
const BRISK: RetryPolicy = RetryPolicy { max_attempts: 2, base_ms: 500, cap_ms: 4_000, budget_ms: 8_000 };

/// What an examination may take and what it is about.
#[derive(Clone, Debug)]
pub struct Options {
    pub model: String,
    /// Time of everything but the search for the context.
    pub time: Duration,
    /// Tokens of all requests together.
    pub max_tokens: u64,
    /// Also ask this model for embeddings.
    pub embed_model: Option<String>,
}

/// What came of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Yes,
    /// It works with a catch, or in part.
    Partly,
    No,
    /// A figure rather than a yes or no.
    Measured,
    /// Asked, and not decided.
    Unknown,
    NotTested,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "partly",
            Self::No => "no",
            Self::Measured => "measured",
            Self::Unknown => "unknown",
            Self::NotTested => "not tested",
        }
    }
}

/// One line of the result. Texts of the server in it are harmless and bounded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub verdict: Verdict,
    pub detail: String,
    /// The exchanges that it rests on, see [`Exchange::id`].
    pub evidence: Vec<String>,
}

/// A finding without its name.
#[derive(Debug)]
struct Outcome {
    verdict: Verdict,
    detail: String,
}

impl Outcome {
    fn new(verdict: Verdict, detail: impl Into<String>) -> Self {
        Self { verdict, detail: detail.into() }
    }
}

type Probed = Result<Outcome, Stop>;

/// No completion could be had at all.
#[derive(Debug, thiserror::Error)]
#[error("{error}; {next}")]
pub struct Unusable {
    pub error: EndpointError,
    /// What to do about it.
    pub next: String,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Examination {
    pub findings: Vec<Finding>,
    /// What cannot run as things are, and why.
    pub will_not_run: Vec<String>,
    pub profile: Profile,
    /// How each key of the profile was found.
    pub notes: BTreeMap<&'static str, String>,
    pub used: Used,
    pub seconds: f64,
}

/// An examination: first [`Doctor::basics`], then perhaps [`Doctor::search_context`], then [`Doctor::finish`].
pub struct Doctor<'d> {
    session: Session<'d>,
    facts: Facts,
    findings: Vec<Finding>,
    embed_model: Option<String>,
    watch: Stopwatch,
}

impl fmt::Debug for Doctor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doctor").field("findings", &self.findings).finish_non_exhaustive()
    }
}

impl<'d> Doctor<'d> {
    pub fn new(transport: &'d dyn Transport, options: &Options, observe: Observer<'d>) -> Self {
        Self {
            session: Session::new(transport, observe, options.max_tokens, options.time),
            facts: Facts { model: options.model.clone(), ..Facts::default() },
            findings: Vec::new(),
            embed_model: options.embed_model.clone(),
            watch: Stopwatch::start(),
        }
    }

    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Everything that fits the time, what a run needs most first. Ends at once if there is no completion to be had.
    pub async fn basics(&mut self) -> Result<(), Unusable> {
        let Self { session, facts, findings, embed_model, .. } = self;
        let session: &Session<'_> = session;
        findings.push(named(session, "models", reach::models(session, facts)).await);
        session.begin("completion");
        let before = session.used().requests;
        let outcome = reach::complete(session, facts).await.map_err(|error| reach::unusable(error, facts, findings))?;
        findings.push(finding(session, "completion", before, outcome));
        session.set_policy(BRISK);

        findings.push(named(session, "speed", speed::speed(session, facts)).await);
        findings.push(named(session, "native tools", tools::native(session, facts)).await);
        findings.push(named(session, "tool results", tools::echo(session, facts)).await);
        findings.push(named(session, "json schema", choice::json_schema(session, facts)).await);
        let asks_in_words = facts.native != Native::Calls && facts.schema_binds != Some(true);
        if asks_in_words {
            findings.push(named(session, "choice in words", choice::text(session, facts)).await);
        }
        if let Some(model) = embed_model {
            findings.push(named(session, "embeddings", embed::embeddings(session, facts, model)).await);
        }
        findings.push(named(session, "output limit", reach::output_limit(session, facts)).await);
        findings.push(named(session, "tool names", limits::names(session, facts)).await);
        findings.push(named(session, "context", context::moderate(session, facts)).await);
        speed::refine(session, facts, findings);
        findings.push(named(session, "determinism", speed::determinism(session, facts)).await);
        findings.push(named(session, "streaming", stream::streaming(session, facts)).await);
        findings.push(named(session, "schemas", schemas::quirks(session, facts)).await);
        findings.push(named(session, "tool limit", limits::tool_limit(session, facts)).await);
        findings.push(named(session, "forced tools", tools::tool_choice(session, facts)).await);
        findings.push(named(session, "cached tokens", speed::cached(session, facts)).await);
        findings.push(named(session, "parallel calls", tools::parallel(session, facts)).await);
        if !asks_in_words {
            findings.push(named(session, "choice in words", choice::text(session, facts)).await);
        }
        findings.extend(speed::free(session, facts));
        Ok(())
    }

    /// What the search for the context would take, from what is known now.
    pub fn plan_search(&self) -> SearchPlan {
        context::plan(&self.session, &self.facts)
    }

    /// Looks for the largest prompt that is read whole. Bounded in tokens only. Its finding replaces the one of the basics.
    pub async fn search_context(&mut self) {
        self.session.lift_time();
        let found = named(&self.session, "context", context::search(&self.session, &mut self.facts)).await;
        match self.findings.iter_mut().find(|finding| finding.name == found.name) {
            Some(known) => *known = found,
            None => self.findings.push(found),
        }
    }

    /// The result. `base`: what was known of the endpoint before, which stays where nothing was found; `at`: now, RFC 3339.
    pub fn finish(self, base: &Profile, at: &str) -> Examination {
        let Self { session, facts, findings, embed_model, watch } = self;
        let mut base = base.clone();
        base.embed_model = embed_model.or(base.embed_model);
        let (profile, notes) = write::profile(&facts, &findings, &base, at);
        let will_not_run = write::will_not_run(&facts, &profile);
        let (used, seconds) = (session.used(), watch.elapsed_ms() / 1e3);
        Examination { findings, will_not_run, profile, notes, used, seconds }
    }
}

/// Runs a probe and gives its outcome a name and its evidence.
async fn named(session: &Session<'_>, name: &'static str, probe: impl Future<Output = Probed>) -> Finding {
    let before = session.used().requests;
    session.begin(name);
    let outcome = probe.await.unwrap_or_else(|stop| {
        let verdict = if matches!(stop, Stop::Endpoint(_)) { Verdict::Unknown } else { Verdict::NotTested };
        Outcome::new(verdict, stop.to_string())
    });
    finding(session, name, before, outcome)
}

fn finding(session: &Session<'_>, name: &'static str, before: u32, outcome: Outcome) -> Finding {
    let Outcome { verdict, detail } = outcome;
    let evidence = (before + 1..=session.used().requests).map(exchange_id).collect();
    Finding { name, verdict, detail, evidence }
}

/// The beginning of a text from outside, harmless, in quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", short(text, 60))
}

/// The beginning of a text from outside, harmless.
fn short(text: &str, limit: usize) -> String {
    let line = plain(text.trim());
    if line.chars().count() <= limit {
        return line;
    }
    line.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

/// A server's refusal in few words.
fn refused(error: &EndpointError) -> String {
    short(&error.to_string(), 200)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::Value;

    use super::testing::{Paced, good, refuses};
    use super::*;
    use crate::endpoint::{ErrorKind, Scripted};

    fn options(seconds: u64) -> Options {
        Options { model: "m".to_owned(), time: Duration::from_secs(seconds), max_tokens: 100_000, embed_model: None }
    }

    async fn examine(transport: &dyn Transport, options: &Options) -> Result<Examination, Unusable> {
        let mut doctor = Doctor::new(transport, options, &|_: Event<'_>| ());
        doctor.basics().await?;
        Ok(doctor.finish(&Profile::hosted("https://api.example.com/v1", "m"), "2026-12-01T10:00:00Z"))
    }

    fn lines(examination: &Examination) -> String {
        let line = |finding: &Finding| {
            let evidence = finding.evidence.first().map_or("", String::as_str);
            format!("{:<15} {:<10} {} [{evidence}]", finding.name, finding.verdict.as_str(), finding.detail)
        };
        examination.findings.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_server_is_found_good() {
        let transport = Scripted::with(|_, body| Ok(good(body)));
        let examination = examine(&transport, &options(60)).await.unwrap();
        insta::assert_snapshot!("good", lines(&examination));
        insta::assert_snapshot!(
            "good_profile",
            annotated(&examination.profile, &examination.notes, "https://api.example.com/v1")
        );
        assert_eq!(examination.will_not_run, Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_poor_server_is_found_poor_and_what_will_not_run_is_said() {
        let poor = |body: &Value| {
            if body["tools"].is_array() {
                refuses(400, "this model does not support tools")
            } else if body["response_format"].is_object() {
                refuses(400, "response_format is not supported")
            } else if body.to_string().len() > 9_000 {
                refuses(400, "This model's maximum context length is 2048 tokens")
            } else {
                good(body)
            }
        };
        let transport = Scripted::with(move |_, body| Ok(poor(body)));
        let examination = examine(&transport, &options(60)).await.unwrap();
        insta::assert_snapshot!("poor", lines(&examination));
        insta::assert_snapshot!("poor_will_not_run", examination.will_not_run.join("\n"));
        let profile = examination.profile;
        assert_eq!((profile.protocol, profile.context_tokens), (crate::endpoint::Protocol::Text, Some(2_048)));
    }

    /// The bundled model on two cores.
    fn slow() -> Paced {
        Paced { prompt_per_s: 40.0, output_per_s: 9.0, queue: Some(tokio::sync::Mutex::default()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_gets_what_fits_into_the_minute() {
        let start = tokio::time::Instant::now();
        let examination = examine(&slow(), &options(60)).await.unwrap();
        assert!(start.elapsed().as_secs() <= 60);
        let verdict = |name| examination.findings.iter().find(|finding| finding.name == name).unwrap().verdict;
        for name in ["completion", "native tools", "tool results", "json schema", "tool names", "context"] {
            assert!(matches!(verdict(name), Verdict::Yes | Verdict::Measured), "{name}");
        }
        assert_eq!(verdict("tool limit"), Verdict::NotTested);
        insta::assert_snapshot!("slow", lines(&examination));
        let all = examine(&slow(), &Options { max_tokens: 200_000, ..options(3_600) }).await.unwrap();
        assert!(all.findings.iter().all(|finding| finding.verdict != Verdict::NotTested), "{}", lines(&all));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_completion_nothing_else_is_asked() {
        let transport = Scripted::with(|_, _| Ok(refuses(401, "no")));
        let seen = Mutex::new(Vec::new());
        let observe = |event: Event<'_>| {
            if let Event::Exchange(exchange) = event {
                seen.lock().unwrap().push(exchange.probe);
            }
        };
        let mut doctor = Doctor::new(&transport, &options(60), &observe);
        assert_eq!(doctor.basics().await.unwrap_err().error.kind, ErrorKind::Unauthorized);
        assert_eq!(*seen.lock().unwrap(), ["models", "completion"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_replaces_the_finding_of_the_basics() {
        let transport = Scripted::with(|_, body| Ok(good(body)));
        let mut doctor = Doctor::new(&transport, &options(60), &|_: Event<'_>| ());
        doctor.basics().await.unwrap();
        let plan = doctor.plan_search();
        assert!(plan.tokens <= 100_000 && plan.largest <= plan.tokens, "{plan:?}");
        doctor.search_context().await;
        let context: Vec<_> = doctor.findings().iter().filter(|finding| finding.name == "context").collect();
        assert_eq!(context.len(), 1);
        assert!(context[0].detail.contains("at least"), "{}", context[0].detail);
        let examination = doctor.finish(&Profile::hosted("https://api.example.com/v1", "m"), "now");
        assert!(examination.used.tokens <= 100_000, "the tokens are a limit: {:?}", examination.used);
        assert!(examination.profile.context_tested_tokens.unwrap() > 6_000);
    }
}
