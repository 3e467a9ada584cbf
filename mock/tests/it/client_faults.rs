//! The harness's own client against what networks do.

use harness::endpoint::{
    ErrorKind, OpenAi, OpenAiConfig, RetryPolicy, Route, Secret, Transport, TransportError, with_retries,
};

use crate::client::{QUICK, ask, refusal, transport};
use crate::support::{calling, fixture};

/// Kinds of the failures before the good answer.
async fn failures(name: &str) -> Vec<ErrorKind> {
    let mock = fixture(name).await;
    let answered = ask(&mock, &calling()).await.unwrap();
    assert_eq!(mock.log().len(), answered.attempts.len() + 1, "exactly our attempts are sent");
    answered.attempts.iter().map(|attempt| attempt.kind).collect()
}

#[tokio::test]
async fn what_passes_is_outlasted() {
    use ErrorKind::{Broken, Decode, RateLimited, Server};
    for (name, expected) in [
        ("rate_limited", &[RateLimited, RateLimited][..]),
        ("retry_after_seconds", &[RateLimited]),
        ("retry_after_date", &[RateLimited]),
        ("server_errors", &[Server, Server]),
        ("web_pages", &[Server, Decode]),
        ("torn_connections", &[Broken, Broken, Broken, Broken]),
        ("half_a_chunk", &[Broken]),
        ("truncated", &[Decode]),
    ] {
        assert_eq!(failures(name).await, expected, "{name}");
    }
}

#[tokio::test]
async fn what_a_server_asks_for_is_waited_for_and_no_more_than_the_budget() {
    let mock = fixture("retry_after_seconds").await;
    let answered = ask(&mock, &calling()).await.unwrap();
    assert_eq!(answered.attempts[0].wait_ms, 1_000);
    let mock = fixture("retry_after_absurd").await;
    let answered = ask(&mock, &calling()).await.unwrap();
    let kinds: Vec<_> = answered.attempts.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [ErrorKind::RateLimited; 2], "years and words that are no time are none");
    assert!(answered.attempts.iter().all(|attempt| attempt.wait_ms < 1_000), "{:?}", answered.attempts);
}

#[tokio::test]
async fn what_hangs_is_given_up_and_the_server_sees_it_go() {
    let mock = fixture("hangs").await;
    let config = OpenAiConfig { base_url: mock.base_url(), api_key: None, timeout_ms: 200 };
    let transport = OpenAi::new(&config).unwrap();
    let policy = RetryPolicy { max_attempts: 3, ..QUICK };
    let answered = with_retries(&transport, Route::Chat, &calling(), &policy, 1, &mut |_| ()).await.unwrap();
    let kinds: Vec<_> = answered.attempts.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [ErrorKind::Timeout, ErrorKind::Timeout]);
    mock.settled().await;
    let ends: Vec<_> = mock.log().into_iter().map(|entry| entry.end.unwrap()).collect();
    assert_eq!(ends, [mock::End::HungUp, mock::End::HungUp, mock::End::Answered]);
}

#[tokio::test]
async fn keys_are_sent_refused_and_shown_nowhere() {
    const KEY: &str = "mock-key";
    let mock = fixture("wants_a_key").await;
    let error = refusal(&mock, &calling()).await;
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    let config = OpenAiConfig { base_url: mock.base_url(), api_key: Some(Secret::new(KEY)), timeout_ms: 20_000 };
    let transport = OpenAi::new(&config).unwrap();
    assert_eq!(transport.post(Route::Chat, &calling()).await.unwrap().status, 200);
    let mut other = calling();
    other["model"] = "other".into();
    let (error, _) = with_retries(&transport, Route::Chat, &other, &QUICK, 1, &mut |_| ()).await.unwrap_err();
    assert_eq!((error.kind, error.status), (ErrorKind::ModelNotFound, Some(404)));
    assert!(!format!("{:?}", mock.log()).contains(KEY));
}

#[tokio::test]
async fn after_a_stop_nobody_is_there() {
    let mock = fixture("plain").await;
    let transport = transport(&mock);
    mock.stop().await;
    let result = transport.post(Route::Chat, &calling()).await;
    assert!(matches!(result, Err(TransportError::Connect { .. })), "{result:?}");
}
