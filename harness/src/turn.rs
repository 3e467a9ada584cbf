//! One request before the scheduler: it waits for each of its attempts, and its intent is written when the first may be made.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::clock::now_utc;
use crate::endpoint::{EndpointError, ErrorKind, Turnstile};
use crate::gateway::AskError;
use crate::ids::Digest;
use crate::schedule::{Outcome, Permit, Scheduler, Trouble};
use crate::store::responses::{Request, ResponseStore};
use crate::usage::Usage;

/// A request in turn with all others of its run.
pub(crate) struct Turn<'t> {
    scheduler: &'t Arc<Scheduler>,
    store: &'t ResponseStore,
    key: &'t Digest,
    request: &'t Request,
    /// What it is expected to use.
    tokens: u64,
    permit: Option<Permit>,
    intended: bool,
    queued: Duration,
}

impl<'t> Turn<'t> {
    pub(crate) fn new(
        scheduler: &'t Arc<Scheduler>,
        store: &'t ResponseStore,
        key: &'t Digest,
        request: &'t Request,
        tokens: u64,
    ) -> Self {
        Self { scheduler, store, key, request, tokens, permit: None, intended: false, queued: Duration::ZERO }
    }

    /// For the jitter of its waits.
    pub(crate) fn seed(&self) -> u64 {
        self.key.seed()
    }

    /// How long it has waited for its attempts, apart from the waits between them that the policy asks for.
    pub(crate) fn queue_ms(&self) -> f64 {
        self.queued.as_secs_f64() * 1e3
    }
}

impl Turnstile for Turn<'_> {
    type Closed = AskError;

    async fn enter(&mut self) -> Result<(), AskError> {
        let start = Instant::now();
        let permit = self.scheduler.admit(self.seed(), self.tokens).await?;
        self.queued += start.elapsed();
        // Not before: what waits has not been sent, and a run that ends while it does owes nothing for it.
        if !self.intended {
            self.store.intend(self.key, self.request, now_utc()).await?;
            self.intended = true;
        }
        self.permit = Some(permit);
        Ok(())
    }

    fn leave(&mut self, result: Result<&Value, &EndpointError>, elapsed: Duration) -> bool {
        let permit = self.permit.take();
        permit.is_none_or(|permit| !permit.done(outcome(result, elapsed)))
    }

    fn repeat(&mut self, error: &EndpointError) -> Result<(), String> {
        // Requests that were too many are not repeated on top of others: there are fewer of them from then on.
        if error.kind == ErrorKind::RateLimited { Ok(()) } else { self.scheduler.repeat() }
    }
}

/// What the scheduler makes of the end of an attempt.
fn outcome(result: Result<&Value, &EndpointError>, elapsed: Duration) -> Outcome {
    let error = match result {
        Ok(body) => {
            let tokens = Usage::parse(&body["usage"]).map(|usage| usage.total());
            return Outcome::Answered { latency: elapsed, tokens };
        }
        Err(error) => error,
    };
    let trouble = Trouble {
        retry_after: Duration::from_millis(error.retry_after_ms.unwrap_or(0)),
        // How servers and those in front of them shed load.
        overload: error.kind == ErrorKind::Timeout || matches!(error.status, Some(503 | 529)),
        what: error.to_string(),
    };
    match error.kind {
        ErrorKind::RateLimited => Outcome::RateLimited(trouble),
        kind if kind.retryable() => Outcome::Unavailable(trouble),
        _ => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_end_is_told_to_the_scheduler() {
        let error = |kind, status| EndpointError { kind, status, message: "m".to_owned(), retry_after_ms: Some(7) };
        let heard = |kind, status| outcome(Err(&error(kind, status)), Duration::ZERO);
        let overload = |outcome: Outcome| match outcome {
            Outcome::Unavailable(trouble) => Some((trouble.overload, trouble.retry_after.as_millis())),
            _ => None,
        };
        assert_eq!(overload(heard(ErrorKind::Server, Some(503))), Some((true, 7)));
        assert_eq!(overload(heard(ErrorKind::Timeout, None)), Some((true, 7)));
        for kind in [ErrorKind::Connect, ErrorKind::Broken, ErrorKind::Server, ErrorKind::Decode] {
            assert_eq!(overload(heard(kind, None)), Some((false, 7)), "{kind:?}");
        }
        assert!(matches!(heard(ErrorKind::RateLimited, Some(429)), Outcome::RateLimited(_)));
        for kind in [ErrorKind::BadRequest, ErrorKind::ContextOverflow, ErrorKind::Filtered, ErrorKind::Unauthorized] {
            assert_eq!(heard(kind, Some(400)), Outcome::Refused, "{kind:?}");
        }
        let body = json!({"usage": {"prompt_tokens": 30, "completion_tokens": 4}});
        let latency = Duration::from_millis(5);
        assert_eq!(outcome(Ok(&body), latency), Outcome::Answered { latency, tokens: Some(34) });
        assert_eq!(outcome(Ok(&json!({})), latency), Outcome::Answered { latency, tokens: None });
    }
}
