//! Requests in turn, as the gateway sends them: what waits, what counts, and what is written down of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all};
use harness::chat::{ChatReply, ChatRequest, Message};
use harness::endpoint::{Profile, RetryPolicy, Route, Transport, TransportError, WireResponse};
use harness::episode::LimitKind;
use harness::gateway::{Answer, AskError, Caps, Gateway, GatewayParts};
use harness::schedule::{Halt, Notice};
use harness::store::responses::ResponseStore;
use serde_json::{Value, json};

type Reply = Result<WireResponse, TransportError>;
type Say = dyn Fn(usize) -> Reply + Send + Sync;

/// Answers by the number of the request, after a while.
struct Server {
    say: Box<Say>,
    delay: Duration,
    asked: AtomicUsize,
}

impl Transport for Server {
    fn post<'a>(&'a self, _: Route, _: &'a Value) -> BoxFuture<'a, Reply> {
        let reply = (self.say)(self.asked.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            reply
        })
    }
}

fn server(delay_ms: u64, say: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Arc<Server> {
    Arc::new(Server { say: Box::new(say), delay: Duration::from_millis(delay_ms), asked: AtomicUsize::new(0) })
}

fn good() -> WireResponse {
    json!({"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 90, "completion_tokens": 10}}).into()
}

fn refused() -> Reply {
    Err(TransportError::Connect { host: "h".to_owned(), reason: "refused".to_owned() })
}

struct Way {
    gateway: Gateway,
    _dir: tempfile::TempDir,
}

fn way(server: &Arc<Server>, concurrency: usize, caps: Caps) -> Way {
    let dir = tempfile::tempdir().unwrap();
    let mut profile = Profile::hosted("http://127.0.0.1:1/v1", "m");
    profile.concurrency = concurrency;
    let gateway = Gateway::new(GatewayParts {
        transport: Some(server.clone()),
        store: ResponseStore::open(&dir.path().join("responses.jsonl")).unwrap(),
        cassettes: Vec::new(),
        profile,
        policy: RetryPolicy { max_attempts: 4, base_ms: 1, cap_ms: 1, budget_ms: 10 },
        caps,
        price: None,
    })
    .unwrap();
    Way { gateway, _dir: dir }
}

/// Different requests, all at once.
async fn ask(gateway: &Gateway, requests: usize) -> Vec<Result<Answer<ChatReply>, AskError>> {
    let ask = |n: usize| async move {
        let request = ChatRequest {
            model: "m".to_owned(),
            messages: vec![Message::user(&format!("question {n}"))],
            tools: Vec::new(),
            tool_choice: None,
            response_format: None,
            temperature: None,
            max_tokens: None,
            seed: None,
        };
        gateway.chat(&request, 90, 0).await
    };
    join_all((0..requests).map(ask)).await
}

fn told(gateway: &Gateway) -> Vec<Notice> {
    std::iter::from_fn(|| gateway.untold()).collect()
}

#[tokio::test]
async fn what_gets_no_answer_is_unfinished_and_has_not_failed() {
    let server = server(0, |n| if n < 2 { Ok(good()) } else { refused() });
    let caps = Caps { max_downtime: Some(Duration::from_millis(300)), ..Caps::default() };
    let way = way(&server, 4, caps);
    let results = ask(&way.gateway, 40).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2);
    let down = |error: &AskError| matches!(error, AskError::Down { error, .. } if error.starts_with("connect"));
    assert!(results.iter().filter_map(|result| result.as_ref().err()).all(down), "{results:?}");
    let asked = server.asked.load(Ordering::SeqCst);
    assert!(asked < 30, "{asked} requests for forty questions to nobody");
    assert_eq!(way.gateway.store().possibly_billed(), 0, "what waited was never sent");
    assert_eq!(way.gateway.store().failed_attempts(), asked - 2, "and what failed is written down");
    assert!(matches!(told(&way.gateway).last(), Some(Notice::Halted(Halt::Down { .. }))));
}

#[tokio::test]
async fn a_short_outage_is_waited_for_and_is_no_latency() {
    let begin = Instant::now();
    let server =
        server(1, move |n| if n > 3 && begin.elapsed() < Duration::from_millis(400) { refused() } else { Ok(good()) });
    let way = way(&server, 4, Caps::default());
    let answers: Vec<_> = ask(&way.gateway, 40).await.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().any(|answer| answer.queue_ms > 100.0), "somebody waited");
    assert!(answers.iter().all(|answer| answer.latency_ms < 100.0), "and no answer took long");
    let notices = told(&way.gateway);
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Paused { .. })), "{notices:?}");
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Resumed { .. })), "{notices:?}");
}

#[tokio::test]
async fn a_cap_ends_all_waiting_and_leaves_no_intent_behind() {
    let server = server(1, |_| Ok(good()));
    let way = way(&server, 1, Caps { max_tokens: Some(500), ..Caps::default() });
    let results = ask(&way.gateway, 20).await;
    let capped = |result: &&Result<_, AskError>| matches!(result, Err(AskError::Capped(LimitKind::Tokens)));
    assert_eq!(results.iter().filter(capped).count(), 15, "{results:?}");
    assert_eq!((way.gateway.spent().tokens, server.asked.load(Ordering::SeqCst)), (500, 5));
    assert_eq!(way.gateway.store().possibly_billed(), 0);
    assert_eq!(told(&way.gateway), [Notice::Halted(Halt::Cap(LimitKind::Tokens))]);
}

#[tokio::test]
async fn time_that_is_up_ends_what_waits_and_not_what_is_out() {
    let server = server(200, |_| Ok(good()));
    let way = way(&server, 2, Caps { max_time: Some(Duration::from_millis(100)), ..Caps::default() });
    let results = ask(&way.gateway, 9).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2, "{results:?}");
    let errors = results.iter().filter_map(|result| result.as_ref().err());
    assert!(errors.into_iter().all(|error| error.to_string() == "stopped at --max-minutes"));
    assert_eq!(way.gateway.store().possibly_billed(), 0);
}

#[tokio::test]
async fn no_more_are_out_than_the_limit_and_a_retry_holds_no_place() {
    let server =
        server(40, |n| if n == 0 { Err(TransportError::Broken { reason: "reset".to_owned() }) } else { Ok(good()) });
    let way = way(&server, 1, Caps::default());
    let answers: Vec<_> = ask(&way.gateway, 6).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(way.gateway.most_in_flight(), 1);
    assert_eq!(answers[0].attempts, 2);
    // It came back behind those that had queued by then.
    assert!(answers[0].queue_ms >= 160.0, "{}", answers[0].queue_ms);
    assert!(answers.iter().all(|answer| answer.latency_ms < 160.0));
}
