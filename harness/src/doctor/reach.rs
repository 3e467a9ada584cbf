//! Is there an endpoint, does it know the model, does it answer, and which parameters does it take?

use std::fmt::Write as _;

use serde_json::Value;

use super::facts::{ContextLimit, Facts, Sample, user};
use super::session::{Answer, Heard, Session, Stop};
use super::{Finding, Outcome, Probed, Unusable, Verdict, quoted};
use crate::endpoint::{EndpointError, ErrorKind, OutputLimit};
use crate::tokens;

/// Where lists of models state the length of a context that the server keeps to.
const CONTEXT_FIELDS: [&str; 4] = ["max_model_len", "context_length", "context_window", "max_context_length"];
/// Names of a list that are shown.
const NAMES_SHOWN: usize = 5;
/// The limit that a count to ten exceeds.
const COUNT_TOKENS: u32 = 4;

/// The route `models`: is the model listed, and what is said of its context?
pub(super) async fn models(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let response = session.models().await?;
    let list = serde_json::from_str::<Value>(&response.body).ok();
    let entries = list.as_ref().and_then(|list| list["data"].as_array()).filter(|_| response.status == 200);
    let Some(entries) = entries else {
        let detail = format!("the server has no list of models (status {})", response.status);
        return Ok(Outcome::new(Verdict::Unknown, detail));
    };
    let Some(entry) = entries.iter().find(|entry| entry["id"] == facts.model.as_str()) else {
        let names: Vec<_> = entries.iter().filter_map(|entry| entry["id"].as_str()).take(NAMES_SHOWN).collect();
        let names: Vec<_> = names.into_iter().map(quoted).collect();
        let more = if entries.len() > NAMES_SHOWN { ", …" } else { "" };
        let detail =
            format!("{} listed, {} not among them: {}{more}", entries.len(), quoted(&facts.model), names.join(", "));
        return Ok(Outcome::new(Verdict::Partly, detail));
    };
    let stated = CONTEXT_FIELDS.iter().find_map(|field| {
        let tokens = entry[field].as_u64().filter(|tokens| (1..1_000_000_000).contains(tokens))?;
        Some(ContextLimit { tokens, how: format!("`{field}` in the server's list of models") })
    });
    let context = stated.as_ref().map_or_else(String::new, |limit| {
        format!("; the server states a context of {} tokens ({})", limit.tokens, limit.how)
    });
    facts.stated_context = stated;
    Ok(Outcome::new(Verdict::Yes, format!("{} listed, this one among them{context}", entries.len())))
}

/// One completion. Parameters that the server refuses by name are changed, and the request is sent again.
pub(super) async fn complete(session: &Session<'_>, facts: &mut Facts) -> Result<Outcome, EndpointError> {
    let mut changed = Vec::new();
    let answer = loop {
        let body = facts.request(&user("Reply with the word yes."), 8);
        match session.chat(&body).await.map_err(no_answer)? {
            Heard::Answer(answer) => break answer,
            Heard::Refused(error) => match adapt(&error, facts) {
                Some(change) => changed.push(change),
                None => return Err(error),
            },
        }
    };
    facts.served.clone_from(&answer.reply.model);
    facts.thinks = thinks(&answer);
    facts.small = Some(answer.sample);
    let mut detail = format!("answered {}", quoted(&answer.reply.text));
    if let Some(served) = answer.reply.model.as_ref().filter(|served| **served != facts.model) {
        let _ = write!(detail, ", as {}", quoted(served));
    }
    if facts.thinks {
        detail.push_str("; it thinks before it answers, so every answer needs room for that");
    }
    for change in changed {
        let _ = write!(detail, "; {change}");
    }
    Ok(Outcome::new(Verdict::Yes, detail))
}

/// Changes what the server refused by name; says what it was.
fn adapt(error: &EndpointError, facts: &mut Facts) -> Option<&'static str> {
    let message = error.message.to_lowercase();
    if error.kind != ErrorKind::BadRequest {
        None
    } else if message.contains("max_tokens") && facts.output_limit == OutputLimit::MaxTokens {
        facts.output_limit = OutputLimit::MaxCompletionTokens;
        Some("`max_tokens` is refused, `max_completion_tokens` is sent instead")
    } else if message.contains("temperature") && !facts.omit_temperature {
        facts.omit_temperature = true;
        Some("`temperature` is refused and not sent")
    } else {
        None
    }
}

/// The model wrote something that is no answer yet.
fn thinks(answer: &Answer) -> bool {
    let message = &answer.reply.message.0;
    let reasoning = ["reasoning_content", "reasoning"];
    let wrote = reasoning.iter().any(|field| message[field].as_str().is_some_and(|text| !text.trim().is_empty()));
    let counted = answer.reply.usage.and_then(|usage| usage.reasoning_tokens).is_some_and(|tokens| tokens > 0);
    let marked = answer.reply.text.trim_start().starts_with("<think>");
    wrote || counted || marked || answer.reply.cut_short() && answer.reply.text.trim().is_empty()
}

/// There is nothing to examine without a completion, so time and tokens are errors here.
fn no_answer(stop: Stop) -> EndpointError {
    match stop {
        Stop::Endpoint(error) => error,
        other => EndpointError {
            kind: ErrorKind::Timeout,
            status: None,
            message: format!("no completion: {other}"),
            retry_after_ms: None,
        },
    }
}

/// The error of the first completion with what to do about it.
pub(super) fn unusable(error: EndpointError, facts: &Facts, findings: &[Finding]) -> Unusable {
    let next = match error.kind {
        ErrorKind::Connect => "start the server, or correct the base URL".to_owned(),
        ErrorKind::Unauthorized => {
            "put a key that may use this model into the environment variable of the key".to_owned()
        }
        ErrorKind::ModelNotFound => {
            let listed = findings.iter().find(|finding| finding.name == "models" && finding.verdict == Verdict::Partly);
            let listed = listed.map_or_else(String::new, |finding| format!(" ({})", finding.detail));
            format!("check the name of the model, {}{listed}, and the base URL", quoted(&facts.model))
        }
        ErrorKind::Redirected => "use the address that the server points to".to_owned(),
        ErrorKind::RateLimited => "wait a minute and try again".to_owned(),
        ErrorKind::QuotaExhausted => "raise the quota of the account, or use another key".to_owned(),
        ErrorKind::Timeout | ErrorKind::Broken | ErrorKind::Server => {
            "see what the server's own log says, then try again".to_owned()
        }
        _ => "the server does not take a plain chat completion; check that the base URL is that of an OpenAI-compatible API"
            .to_owned(),
    };
    Unusable { error, next }
}

/// What a parameter that limits the answer did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limited {
    Kept,
    Ignored,
    Refused,
    /// Taken, and what was seen of the answer was too short to tell.
    Taken,
}

/// `max_tokens` against `max_completion_tokens`, each asked to cut a count to ten.
pub(super) async fn output_limit(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let mut found = Vec::new();
    for limit in [OutputLimit::MaxTokens, OutputLimit::MaxCompletionTokens] {
        if limit == OutputLimit::MaxTokens && facts.output_limit != limit {
            found.push((limit, Limited::Refused));
            continue;
        }
        let asked = Facts { output_limit: limit, ..facts.clone() };
        let body = asked.request(&user("Count from one to ten in words."), COUNT_TOKENS);
        found.push((
            limit,
            match session.chat(&body).await? {
                Heard::Refused(_) => Limited::Refused,
                Heard::Answer(_) if facts.thinks => Limited::Taken,
                Heard::Answer(answer) => limited(&answer),
            },
        ));
    }
    let state = |limit: OutputLimit| found.iter().find(|(known, _)| *known == limit).map(|(_, state)| *state);
    let (current, other) = match facts.output_limit {
        OutputLimit::MaxTokens => (OutputLimit::MaxTokens, OutputLimit::MaxCompletionTokens),
        OutputLimit::MaxCompletionTokens => (OutputLimit::MaxCompletionTokens, OutputLimit::MaxTokens),
    };
    if state(current) == Some(Limited::Ignored) && state(other) == Some(Limited::Kept) {
        facts.output_limit = other;
    }
    let words: Vec<_> =
        found.iter().map(|(limit, state)| format!("`{}` is {}", limit.as_str(), state.word())).collect();
    let verdict = match state(facts.output_limit) {
        Some(Limited::Kept | Limited::Taken) => Verdict::Yes,
        _ => Verdict::Partly,
    };
    let temperature = if facts.omit_temperature { "`temperature` is refused" } else { "`temperature` is taken" };
    Ok(Outcome::new(verdict, format!("{}; {temperature}", words.join(", "))))
}

impl Limited {
    fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::Taken => "taken, its effect was not seen",
        }
    }
}

fn limited(answer: &Answer) -> Limited {
    let Sample { output, reported, .. } = answer.sample;
    let limit = u64::from(COUNT_TOKENS);
    // Tokenizers differ by less than twice on words as plain as these.
    let written = if reported { output } else { tokens::count(&answer.reply.text) };
    if written > 2 * limit {
        Limited::Ignored
    } else if answer.reply.cut_short() || written >= limit {
        Limited::Kept
    } else {
        Limited::Taken
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use serde_json::json;

    use super::super::testing::{completion, good, probe, question, refuses, says, session};
    use super::*;
    use crate::endpoint::{RetryPolicy, Route, Scripted, Transport, TransportError, WireResponse};

    async fn completed(
        server: impl Fn(&Value) -> WireResponse + Send + Sync + 'static,
    ) -> (Facts, Result<Outcome, EndpointError>) {
        let transport = Scripted::with(move |_, body| Ok(server(body)));
        let session = session(&transport);
        session.set_policy(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
        let mut facts = Facts { model: "m".to_owned(), ..Facts::default() };
        let outcome = complete(&session, &mut facts).await;
        (facts, outcome)
    }

    #[tokio::test]
    async fn parameters_that_are_refused_by_name_are_changed() {
        let (facts, outcome) = completed(|body| {
            if body.get("max_tokens").is_some() {
                refuses(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
            } else if body.get("temperature").is_some() {
                refuses(400, "'temperature' does not support 0 with this model")
            } else {
                good(body)
            }
        })
        .await;
        assert_eq!((facts.output_limit, facts.omit_temperature), (OutputLimit::MaxCompletionTokens, true));
        let detail = outcome.unwrap().detail;
        assert!(detail.contains("`max_tokens` is refused") && detail.contains("`temperature` is refused"), "{detail}");
        // A server that blames a parameter whatever is sent is not asked for ever.
        let (_, outcome) = completed(|_| refuses(400, "max_tokens and temperature are wrong")).await;
        assert_eq!(outcome.unwrap_err().kind, ErrorKind::BadRequest);
    }

    #[tokio::test]
    async fn thoughts_are_noticed() {
        for message in [
            json!({"content": "", "reasoning_content": "Well, the user wants"}),
            json!({"content": "<think>Well"}),
            json!({"content": null, "reasoning": "Well"}),
        ] {
            let (facts, outcome) = completed(move |body| completion(body, &message).into()).await;
            assert!(facts.thinks && outcome.unwrap().detail.contains("thinks before it answers"));
        }
        assert!(!completed(good).await.0.thinks);
    }

    #[tokio::test]
    async fn a_failure_comes_with_the_next_step() {
        for (status, message, words) in [
            (401, "Incorrect API key", "environment variable of the key"),
            (404, "The model `m` does not exist", "check the name of the model"),
            (402, "pay", "raise the quota"),
            (500, "boom", "server's own log"),
            (422, "no", "OpenAI-compatible"),
        ] {
            let (facts, outcome) = completed(move |_| refuses(status, message)).await;
            let unusable = unusable(outcome.unwrap_err(), &facts, &[]).to_string();
            assert!(unusable.contains(words), "{unusable}");
        }
    }

    struct Listing(Value);

    impl Transport for Listing {
        fn post<'a>(&'a self, _: Route, _: &'a Value) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
            unimplemented!("only the list is asked for")
        }

        fn models(&self) -> BoxFuture<'_, Result<WireResponse, TransportError>> {
            Box::pin(std::future::ready(Ok(self.0.clone().into())))
        }
    }

    #[tokio::test]
    async fn lists_of_models_are_read() {
        let list = |models: Value| Listing(json!({"data": models}));
        for (listing, verdict, words) in [
            (list(json!([{"id": "x"}, {"id": "m", "max_model_len": 4_096}])), Verdict::Yes, "a context of 4096 tokens"),
            (list(json!([{"id": "m", "max_model_len": "long"}])), Verdict::Yes, "1 listed, this one among them"),
            (list(json!([{"id": "x\u{1b}[2J"}])), Verdict::Partly, "not among them: \"x\\u{1b}[2J\""),
            (Listing(json!({"object": "error"})), Verdict::Unknown, "no list of models"),
        ] {
            let mut facts = Facts { model: "m".to_owned(), ..Facts::default() };
            let outcome = models(&session(&listing), &mut facts).await.unwrap();
            assert_eq!(outcome.verdict, verdict, "{}", outcome.detail);
            assert!(outcome.detail.contains(words), "{}", outcome.detail);
            assert_eq!(facts.stated_context.is_some(), outcome.detail.contains("4096"));
        }
    }

    #[tokio::test]
    async fn limits_of_the_answer_are_kept_ignored_or_refused() {
        let counts = |body: &Value, keeps: &str| {
            let long = "one, two, three, four, five, six, seven, eight, nine, ten";
            let kept = body.get(keeps).is_some() || !question(body).contains("Count");
            says(body, if kept { "one two three four" } else { long })
        };
        let mut facts = Facts::default();
        let outcome = probe(move |body| counts(body, "max_tokens"), &mut facts, output_limit).await;
        assert_eq!((outcome.verdict, facts.output_limit), (Verdict::Yes, OutputLimit::MaxTokens));
        assert!(
            outcome.detail.starts_with("`max_tokens` is kept, `max_completion_tokens` is ignored"),
            "{}",
            outcome.detail
        );
        let outcome = probe(move |body| counts(body, "max_completion_tokens"), &mut facts, output_limit).await;
        assert_eq!((outcome.verdict, facts.output_limit), (Verdict::Yes, OutputLimit::MaxCompletionTokens));
        let none = move |body: &Value| counts(body, "neither");
        assert_eq!(probe(none, &mut Facts::default(), output_limit).await.verdict, Verdict::Partly);
    }
}
