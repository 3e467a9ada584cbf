//! Repeating failed attempts, in the open: every attempt is handed out and recorded.

use std::convert::Infallible;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::{Instrument as _, trace};

use super::{EndpointError, ErrorKind, Route, Transport, WireResponse, classify, plain};
use crate::spans;
use crate::usage::Usage;

/// How often and how patiently to repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Requests for one answer, the first included; 0 counts as 1.
    pub max_attempts: u32,
    /// Longest wait before the first repetition; doubles with each further one.
    pub base_ms: u64,
    /// Longest wait of all, unless the server asks for more.
    pub cap_ms: u64,
    /// Longest sum of all waits for one answer.
    pub budget_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 4, base_ms: 500, cap_ms: 20_000, budget_ms: 120_000 }
    }
}

/// One failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub status: Option<u16>,
    pub kind: ErrorKind,
    pub message: String,
    /// Wait before the next attempt; 0 after the last one.
    pub wait_ms: u64,
    /// Time that the attempt itself took.
    pub elapsed_ms: f64,
    /// What was generated and charged for all the same, by the server's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// An answer and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    pub value: Value,
    /// The attempts that failed before.
    pub attempts: Vec<Attempt>,
    /// Time of the attempt that succeeded.
    pub latency_ms: f64,
    /// Sum of all waits.
    pub backoff_ms: u64,
}

/// Stands before every attempt of one request and hears how it ended.
pub trait Turnstile: Send {
    /// Why no further attempt may be made.
    type Closed: Send;

    /// Waits until an attempt may be made. None of this time belongs to the endpoint.
    fn enter(&mut self) -> impl Future<Output = Result<(), Self::Closed>> + Send;

    /// How the attempt ended. Whether it counts: one that failed because nobody is answered says nothing about its request, which
    /// comes again at once and is let through when the time has come.
    fn leave(&mut self, result: Result<&Value, &EndpointError>, elapsed: Duration) -> bool;

    /// Whether a failed attempt may be repeated; otherwise why not.
    fn repeat(&mut self, error: &EndpointError) -> Result<(), String>;
}

/// Why a request has no answer, and its failed attempts.
#[derive(Debug)]
pub struct GaveUp<C> {
    pub why: Why<C>,
    pub attempts: Vec<Attempt>,
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum Why<C> {
    Error(EndpointError),
    /// The turnstile closed.
    Closed(C),
}

/// Lets everything through.
struct Open;

impl Turnstile for Open {
    type Closed = Infallible;

    async fn enter(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn leave(&mut self, _: Result<&Value, &EndpointError>, _: Duration) -> bool {
        true
    }

    fn repeat(&mut self, _: &EndpointError) -> Result<(), String> {
        Ok(())
    }
}

/// [`with_turns`] for a request that waits for nobody.
pub async fn with_retries(
    transport: &dyn Transport,
    route: Route,
    body: &Value,
    policy: &RetryPolicy,
    seed: u64,
    on_attempt: &mut (dyn FnMut(&Attempt) + Send),
) -> Result<Answered, (EndpointError, Vec<Attempt>)> {
    let answered = with_turns(transport, (route, body), policy, seed, &mut Open, on_attempt).await;
    answered.map_err(|GaveUp { why, attempts }| match why {
        Why::Error(error) => (error, attempts),
        Why::Closed(never) => match never {},
    })
}

/// Sends `body` until it is answered, the error is final, the policy is used up, or the turnstile closes. `on_attempt` sees each
/// failure before the wait that follows it.
///
/// The wait is drawn evenly from zero to the current limit, which keeps many callers from coming back at once, or is
/// what the server asks for if that is longer. Equal seeds give equal waits.
pub async fn with_turns<T: Turnstile>(
    transport: &dyn Transport,
    (route, body): (Route, &Value),
    policy: &RetryPolicy,
    seed: u64,
    turnstile: &mut T,
    on_attempt: &mut (dyn FnMut(&Attempt) + Send),
) -> Result<Answered, GaveUp<T::Closed>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut attempts: Vec<Attempt> = Vec::new();
    let (mut counted, mut backoff_ms) = (0, 0);
    loop {
        if let Err(closed) = turnstile.enter().await {
            return Err(GaveUp { why: Why::Closed(closed), attempts });
        }
        let span = spans::attempt(route, attempts.len() + 1);
        trace!(parent: &span, body = %body, "sent");
        let start = Instant::now();
        let answer = transport.post(route, body).instrument(span.clone()).await;
        let elapsed = start.elapsed();
        if let Ok(response) = &answer {
            span.record("status", i64::from(response.status));
            trace!(parent: &span, body = response.body.as_str(), "received");
        }
        let elapsed_ms = elapsed.as_secs_f64() * 1e3;
        let response = answer.as_ref().ok();
        let answer =
            answer.as_ref().map_err(|error| EndpointError::from(error.clone())).and_then(|body| classify(route, body));
        let counts = turnstile.leave(answer.as_ref(), elapsed);
        let mut error = match answer {
            Ok(value) => {
                spans::attempted(&span, elapsed_ms, None);
                return Ok(Answered { value, attempts, latency_ms: elapsed_ms, backoff_ms });
            }
            Err(error) => error,
        };
        let wait = match (error.kind.retryable(), counts) {
            (false, _) => Ok(None),
            // It costs the endpoint nothing more than somebody else's turn would.
            (true, false) => Ok(Some(0)),
            (true, true) => {
                counted += 1;
                let draw = |limit: u64| rng.random_range(0..=limit);
                wait_after(&error, policy, counted, backoff_ms, draw).and_then(|wait| match wait {
                    Some(_) => turnstile.repeat(&error).map(|()| wait),
                    None => Ok(None),
                })
            }
        };
        let wait = wait.unwrap_or_else(|why| {
            error.message = plain(&format!("gave up: {why}; {}", error.message));
            None
        });
        let attempt = Attempt {
            status: error.status,
            kind: error.kind,
            message: error.message.clone(),
            wait_ms: wait.unwrap_or(0),
            elapsed_ms,
            usage: response.and_then(WireResponse::usage),
        };
        spans::attempted(&span, elapsed_ms, Some(&attempt));
        // The waiting is no part of it.
        drop(span);
        on_attempt(&attempt);
        attempts.push(attempt);
        let Some(wait_ms) = wait else { return Err(GaveUp { why: Why::Error(error), attempts }) };
        sleep(Duration::from_millis(wait_ms)).await;
        backoff_ms += wait_ms;
    }
}

/// The wait before the next attempt, in milliseconds; none after the last one, or why the next one is not made.
fn wait_after(
    error: &EndpointError,
    policy: &RetryPolicy,
    counted: u32,
    waited_ms: u64,
    draw: impl FnOnce(u64) -> u64,
) -> Result<Option<u64>, String> {
    if counted >= policy.max_attempts {
        return Ok(None);
    }
    let limit = policy.base_ms.saturating_mul(1 << (counted - 1).min(32)).min(policy.cap_ms);
    let wait_ms = draw(limit).max(error.retry_after_ms.unwrap_or(0));
    let left = policy.budget_ms.saturating_sub(waited_ms);
    if wait_ms > left {
        return Err(format!("the next wait of {wait_ms} ms exceeds the {left} ms left for waiting"));
    }
    Ok(Some(wait_ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Scripted, TransportError, WireResponse};
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy { max_attempts: 3, base_ms: 100, cap_ms: 150, budget_ms: 5_000 };

    fn good() -> WireResponse {
        json!({"choices": [{"message": {"content": "a"}}]}).into()
    }

    fn bad(status: u16, retry_after_ms: Option<u64>) -> WireResponse {
        WireResponse { status, retry_after_ms, request_id: None, body: "no".to_owned() }
    }

    async fn ask(
        replies: Vec<WireResponse>,
        policy: &RetryPolicy,
        seed: u64,
    ) -> Result<Answered, (EndpointError, Vec<Attempt>)> {
        let mut reported = Vec::new();
        let transport = Scripted::replies(replies);
        let result = with_retries(&transport, Route::Chat, &json!({}), policy, seed, &mut |attempt| {
            reported.push(attempt.clone());
        })
        .await;
        let recorded = match &result {
            Ok(answered) => &answered.attempts,
            Err((_, attempts)) => attempts,
        };
        assert_eq!(&reported, recorded, "what is reported is what is recorded");
        result
    }

    #[tokio::test(start_paused = true)]
    async fn failures_before_an_answer_are_recorded() {
        let start = Instant::now();
        let answered = ask(vec![bad(503, None), bad(429, Some(2_000)), good()], &POLICY, 1).await.unwrap();
        let kinds: Vec<_> = answered.attempts.iter().map(|attempt| (attempt.status, attempt.kind)).collect();
        assert_eq!(kinds, [(Some(503), ErrorKind::Server), (Some(429), ErrorKind::RateLimited)]);
        assert!(answered.attempts[0].wait_ms <= 100);
        assert_eq!(answered.attempts[1].wait_ms, 2_000, "the server's wish outranks the cap");
        assert_eq!(answered.backoff_ms, answered.attempts.iter().map(|attempt| attempt.wait_ms).sum::<u64>());
        assert_eq!(u128::from(answered.backoff_ms), start.elapsed().as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_useless_answer_used_is_written_down() {
        let useless = json!({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 4}});
        let answered = ask(vec![useless.into(), bad(503, None), good()], &POLICY, 1).await.unwrap();
        let used: Vec<_> = answered.attempts.iter().map(|attempt| attempt.usage.map(|usage| usage.total())).collect();
        assert_eq!(used, [Some(34), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_at_the_maximum() {
        for max_attempts in [0, 1, 3] {
            let policy = RetryPolicy { max_attempts, ..POLICY };
            let (error, attempts) = ask(vec![bad(500, None); 9], &policy, 1).await.unwrap_err();
            assert_eq!((error.kind, attempts.len()), (ErrorKind::Server, max_attempts.max(1) as usize));
            assert_eq!(attempts.last().unwrap().wait_ms, 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn final_errors_are_not_repeated() {
        for status in [400, 401, 402, 404] {
            assert_eq!(ask(vec![bad(status, None), good()], &POLICY, 1).await.unwrap_err().1.len(), 1, "{status}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_the_budget_ends_at_once() {
        let start = Instant::now();
        let replies = vec![bad(429, Some(3_000)), bad(429, Some(3_000)), good()];
        let (error, attempts) = ask(replies, &POLICY, 1).await.unwrap_err();
        assert_eq!(attempts.len(), 2);
        assert_eq!(start.elapsed().as_millis(), 3_000);
        let expected = "gave up: the next wait of 3000 ms exceeds the 2000 ms left for waiting; no";
        assert_eq!((error.message.as_str(), error.retry_after_ms), (expected, Some(3_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_follow_the_seed_and_stay_below_the_cap() {
        let policy = RetryPolicy { max_attempts: 40, ..POLICY };
        let waits = async |seed| {
            let (_, attempts) = ask(vec![bad(500, None); 40], &policy, seed).await.unwrap_err();
            attempts.iter().map(|attempt| attempt.wait_ms).collect::<Vec<_>>()
        };
        assert_eq!(waits(7).await, waits(7).await);
        assert_ne!(waits(7).await, waits(8).await);
        let drawn = waits(7).await;
        assert!(drawn.iter().all(|&wait| wait <= 150), "{drawn:?}");
        assert!(drawn.iter().any(|&wait| wait > 100), "the limit grows: {drawn:?}");
        assert!(drawn.iter().any(|&wait| wait < 50), "the whole range is used: {drawn:?}");
    }

    /// Lets so many attempts through.
    struct Turns {
        left: u32,
        counts: bool,
        repeats: bool,
    }

    impl Turnstile for Turns {
        type Closed = &'static str;

        async fn enter(&mut self) -> Result<(), &'static str> {
            self.left = self.left.checked_sub(1).ok_or("closed")?;
            Ok(())
        }

        fn leave(&mut self, _: Result<&Value, &EndpointError>, _: Duration) -> bool {
            self.counts
        }

        fn repeat(&mut self, _: &EndpointError) -> Result<(), String> {
            if self.repeats { Ok(()) } else { Err("enough".to_owned()) }
        }
    }

    async fn ask_in_turn(mut turns: Turns, replies: Vec<WireResponse>) -> Result<Answered, GaveUp<&'static str>> {
        let transport = Scripted::replies(replies);
        with_turns(&transport, (Route::Chat, &json!({})), &POLICY, 1, &mut turns, &mut |_| ()).await
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_nobody_answered_do_not_count_and_are_recorded() {
        let mut replies = vec![bad(503, None); 9];
        replies.push(good());
        let answered = ask_in_turn(Turns { left: 99, counts: false, repeats: false }, replies).await.unwrap();
        assert_eq!((answered.attempts.len(), answered.backoff_ms), (9, 0), "whoever lets it through says when");
        let final_one =
            ask_in_turn(Turns { left: 99, counts: false, repeats: true }, vec![bad(400, None), good()]).await;
        assert_eq!(final_one.unwrap_err().attempts.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turnstile_ends_a_request_and_its_repetitions() {
        let gave_up =
            ask_in_turn(Turns { left: 2, counts: true, repeats: true }, vec![bad(500, None); 9]).await.unwrap_err();
        assert!(matches!(gave_up.why, Why::Closed("closed")), "{:?}", gave_up.why);
        assert_eq!(gave_up.attempts.len(), 2);
        let gave_up =
            ask_in_turn(Turns { left: 9, counts: true, repeats: false }, vec![bad(500, None); 9]).await.unwrap_err();
        let Why::Error(error) = gave_up.why else { panic!("{:?}", gave_up.why) };
        assert_eq!((error.message.as_str(), gave_up.attempts.len()), ("gave up: enough; no", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn latency_is_that_of_the_last_attempt() {
        struct Slow(std::sync::atomic::AtomicU64);
        impl Transport for Slow {
            fn post<'a>(
                &'a self,
                _: Route,
                _: &'a Value,
            ) -> futures::future::BoxFuture<'a, Result<WireResponse, TransportError>> {
                Box::pin(async {
                    let turn = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    sleep(Duration::from_millis(if turn == 0 { 700 } else { 30 })).await;
                    if turn == 0 { Err(TransportError::Timeout { after_ms: 700 }) } else { Ok(good()) }
                })
            }
        }
        let transport = Slow(0.into());
        let answered = with_retries(&transport, Route::Chat, &json!({}), &POLICY, 1, &mut |_| ()).await.unwrap();
        assert!((answered.latency_ms - 30.0).abs() < 1e-6, "{}", answered.latency_ms);
        assert!((answered.attempts[0].elapsed_ms - 700.0).abs() < 1e-6);
        assert_eq!(answered.attempts[0].kind, ErrorKind::Timeout);
    }
}
