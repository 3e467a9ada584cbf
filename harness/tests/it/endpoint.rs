//! The HTTP transport against a server that misbehaves in every way we know of.

use harness::endpoint::{
    Answered, Attempt, EndpointError, ErrorKind, OpenAi, OpenAiConfig, RetryPolicy, Route, Secret, Transport,
    TransportError, WireResponse, classify, with_retries,
};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

const KEY: &str = "sk-do-not-show-0123456789";
const QUICK: RetryPolicy = RetryPolicy { max_attempts: 3, base_ms: 1, cap_ms: 2, budget_ms: 5_000 };

fn transport(server: &Server) -> OpenAi {
    let config = OpenAiConfig { base_url: server.base_url(), api_key: Some(Secret::new(KEY)), timeout_ms: 30_000 };
    OpenAi::new(&config).unwrap()
}

fn completion() -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": "a", "extra": [1]}}], "usage": null, "x": "ö"})
}

async fn once(reply: Reply) -> Result<WireResponse, TransportError> {
    let server = Server::always(reply).await;
    transport(&server).post(Route::Chat, &json!({})).await
}

/// One attempt, understood.
async fn error(reply: Reply) -> EndpointError {
    match once(reply).await {
        Ok(response) => classify(Route::Chat, &response).unwrap_err(),
        Err(error) => error.into(),
    }
}

async fn retried(server: &Server, policy: RetryPolicy) -> Result<Answered, (EndpointError, Vec<Attempt>)> {
    let transport = transport(server);
    // A task of its own, as the runner does it: the future must be free to move between threads.
    tokio::spawn(
        async move { with_retries(&transport, Route::Chat, &json!({"model": "m"}), &policy, 1, &mut |_| ()).await },
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn exactly_the_attempts_of_the_policy_are_sent() {
    let openai_shaped = json!({"error": {"message": "slow down", "type": "rate_limit", "param": null, "code": null}});
    for body in [openai_shaped, json!("slow down")] {
        for max_attempts in [1, 3] {
            let server = Server::always(Reply::json(429, &body)).await;
            let (error, attempts) = retried(&server, RetryPolicy { max_attempts, ..QUICK }).await.unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (ErrorKind::RateLimited, "slow down"));
            assert_eq!(attempts.len(), max_attempts as usize);
            assert_eq!(server.seen().len(), max_attempts as usize);
        }
    }
}

#[tokio::test]
async fn resets_and_server_errors_are_retried_only_by_us() {
    for reply in [Reply::Reset(Vec::new()), Reply::cut("{", 9), Reply::new(500, &[], "")] {
        let server = Server::always(reply.clone()).await;
        let (_, attempts) = retried(&server, RetryPolicy { max_attempts: 1, ..QUICK }).await.unwrap_err();
        assert_eq!((attempts.len(), server.seen().len()), (1, 1), "{reply:?}");
    }
    let server = Server::start(|number, _| match number {
        0 => Reply::Reset(Vec::new()),
        1 => Reply::new(503, &["retry-after: 0"], "<html><title>Busy</title>"),
        _ => Reply::json(200, &completion()),
    })
    .await;
    let answered = retried(&server, QUICK).await.unwrap();
    let kinds: Vec<_> = answered.attempts.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [ErrorKind::Broken, ErrorKind::Server]);
    assert_eq!((answered.value, server.seen().len()), (completion(), 3));
}

#[tokio::test]
async fn requests_and_answers_pass_unchanged() {
    let server = Server::start(|_, seen| match seen.path.as_str() {
        "/v1/chat/completions" => Reply::new(200, &["x-request-id: req-7"], completion().to_string()),
        "/v1/embeddings" => Reply::json(200, &json!({"data": [{"embedding": [0.25]}]})),
        _ => Reply::new(404, &[], ""),
    })
    .await;
    let transport = transport(&server);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "ö", "signature": "t"}], "z": 1, "a": 2});
    let response = transport.post(Route::Chat, &body).await.unwrap();
    assert_eq!((response.status, response.request_id.as_deref()), (200, Some("req-7")));
    assert_eq!(response.body, completion().to_string());
    let response = transport.post(Route::Embed, &json!({"model": "e", "input": ["x"]})).await.unwrap();
    assert!(classify(Route::Embed, &response).is_ok());
    let seen = server.seen();
    assert_eq!(seen[0].body.to_string(), body.to_string(), "with the order of keys");
    assert_eq!(seen[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(seen[0].header("openai-organization"), None);
    assert_eq!(seen[0].header("accept-encoding"), None, "nothing is unpacked that could become large");
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let server = Server::always(Reply::json(200, &completion())).await;
    for api_key in [None, Some(Secret::new(" "))] {
        let config = OpenAiConfig { base_url: server.base_url() + "/", api_key, timeout_ms: 30_000 };
        OpenAi::new(&config).unwrap().post(Route::Chat, &json!({})).await.unwrap();
    }
    let seen: Vec<_> =
        server.seen().iter().map(|seen| (seen.path.clone(), seen.header("authorization").is_some())).collect();
    assert_eq!(seen, vec![("/v1/chat/completions".to_owned(), false); 2]);
}

#[tokio::test]
async fn a_placeholder_for_a_key_does_not_maim_answers() {
    for (key, refused) in [("hunter2", "***"), ("sk-no-key-required", "sk-no-key-required"), ("EMPTY", "EMPTY")] {
        let server = Server::start(move |number, _| {
            Reply::json(if number == 0 { 200 } else { 401 }, &json!(format!("the box is {key}")))
        })
        .await;
        let config = OpenAiConfig { base_url: server.base_url(), api_key: Some(Secret::new(key)), timeout_ms: 30_000 };
        let transport = OpenAi::new(&config).unwrap();
        for word in [key, refused] {
            let body = transport.post(Route::Chat, &json!({})).await.unwrap().body;
            assert_eq!(body, format!("\"the box is {word}\""));
        }
    }
}

#[tokio::test]
async fn the_status_survives_bodies_of_every_kind() {
    let gemini = json!([{"error": {"code": 400, "message": "bad enum", "status": "INVALID_ARGUMENT"}}]);
    let numbered = json!({"error": {"code": 400, "message": "too much", "type": "exceed_context_size_error"}});
    let page = "<!doctype html><title>Sign in</title>";
    for (reply, status, kind) in [
        (Reply::json(401, &json!({"error": {"message": "no", "code": 401}})), 401, ErrorKind::Unauthorized),
        (Reply::new(403, &[], page), 403, ErrorKind::Unauthorized),
        (Reply::new(404, &[], "404 page not found"), 404, ErrorKind::ModelNotFound),
        (Reply::json(400, &gemini), 400, ErrorKind::BadRequest),
        (Reply::json(400, &numbered), 400, ErrorKind::ContextOverflow),
        (Reply::new(502, &[], ""), 502, ErrorKind::Server),
        (Reply::new(200, &[], page), 200, ErrorKind::Decode),
        (Reply::json(200, &json!({"object": "chat.completion"})), 200, ErrorKind::Decode),
        (Reply::new(200, &[], r#"{"choices": [{"message""#), 200, ErrorKind::Decode),
        (Reply::json(200, &json!({"error": {"code": 429, "message": "upstream"}})), 200, ErrorKind::RateLimited),
    ] {
        let error = error(reply).await;
        assert_eq!((error.status, error.kind), (Some(status), kind), "{error}");
    }
}

#[tokio::test]
async fn broken_answers_are_told_from_short_ones() {
    let head = b"HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{\"choices\"".to_vec();
    let large = vec![b' '; (16 << 20) + 1];
    for (reply, words) in [
        (Reply::Reset(head), "cannot be read"),
        (Reply::cut("{\"choices\": []}", 10), "cannot be read"),
        (Reply::Bytes(b"SSH-2.0-x\r\n".to_vec()), "cannot be read"),
        (Reply::new(200, &["content-encoding: gzip"], [0x1f, 0x8b, 0xff]), "no UTF-8 (content encoding: gzip)"),
        (Reply::new(200, &[], large), "larger than 16777216 bytes"),
    ] {
        let error = error(reply).await;
        assert_eq!((error.kind, error.status), (ErrorKind::Broken, None), "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn nobody_there_and_nobody_answering() {
    let server = Server::always(Reply::Hang).await;
    let config = OpenAiConfig { base_url: server.base_url(), api_key: None, timeout_ms: 50 };
    let result = OpenAi::new(&config).unwrap().post(Route::Chat, &json!({})).await;
    assert_eq!(result, Err(TransportError::Timeout { after_ms: 50 }));
    drop(server);
    // A bound socket that does not listen refuses every connection, and nobody else can take its port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let config =
        OpenAiConfig { base_url: format!("http://{}", socket.local_addr().unwrap()), timeout_ms: 30_000, ..config };
    let result = OpenAi::new(&config).unwrap().post(Route::Chat, &json!({})).await;
    assert!(matches!(&result, Err(TransportError::Connect { host, .. }) if host == "127.0.0.1"), "{result:?}");
}

#[tokio::test]
async fn a_stream_is_read_to_its_end_with_the_times_of_its_pieces() {
    let words = format!("data: {{\"choices\":[],\"x\":\"{KEY}\"}}\n\ndata: [DONE]\n\n");
    let server = Server::always(Reply::new(200, &["content-type: text/event-stream"], &words)).await;
    let streamed = transport(&server).stream(&json!({"stream": true})).await.unwrap();
    assert_eq!(streamed.response.body, words.replace(KEY, "***"));
    assert!(streamed.arrivals.is_empty(), "what was redacted no longer ends where it did");
    let seen = &server.seen()[0];
    assert_eq!((seen.path.as_str(), &seen.body), ("/v1/chat/completions", &json!({"stream": true})));
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let plain = Server::always(Reply::new(200, &[], "data: 1\n\n")).await;
    let streamed = transport(&plain).stream(&json!({})).await.unwrap();
    assert_eq!(streamed.arrivals.last().unwrap().0, "data: 1\n\n".len());
}

#[tokio::test]
async fn the_list_of_models_is_asked_for_with_the_key() {
    let server = Server::always(Reply::json(200, &json!({"data": [{"id": "m"}]}))).await;
    let response = transport(&server).models().await.unwrap();
    assert_eq!((response.status, response.body.as_str()), (200, r#"{"data":[{"id":"m"}]}"#));
    let seen = &server.seen()[0];
    assert_eq!((seen.path.as_str(), &seen.body), ("/v1/models", &Value::Null));
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
}

#[tokio::test]
async fn retry_after_is_carried() {
    for (header, expected) in [
        ("retry-after: 2", Some(2_000)),
        ("Retry-After: 80000", Some(600_000)),
        ("Retry-After: 1000000", None),
        ("retry-after: Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
        ("retry-after: later", None),
        ("retry-after-ms: 40", Some(40)),
    ] {
        assert_eq!(once(Reply::new(429, &[header], "")).await.unwrap().retry_after_ms, expected, "{header}");
    }
    let server = Server::always(Reply::new(429, &["retry-after: 30"], "wait")).await;
    let (error, attempts) = retried(&server, QUICK).await.unwrap_err();
    assert_eq!((attempts.len(), server.seen().len()), (1, 1), "thirty seconds exceed a budget of five");
    assert!(error.message.starts_with("gave up"), "{error}");
}

#[tokio::test]
async fn redirects_are_reported_and_never_followed() {
    let target = Server::always(Reply::json(200, &completion())).await;
    for status in [301, 302, 307, 308] {
        let location = format!("location: {}/elsewhere", target.base_url());
        let error = error(Reply::new(status, &[&location], "")).await;
        assert_eq!((error.kind, error.status), (ErrorKind::Redirected, Some(status)));
        assert!(error.message.contains(&target.base_url()), "{error}");
    }
    assert!(target.seen().is_empty());
}

#[tokio::test]
async fn the_key_shows_nowhere() {
    let echo = |status, headers: &'static [&'static str]| {
        Server::start(move |_, seen| {
            let authorization = seen.header("authorization").unwrap_or_default();
            let headers: Vec<_> = headers.iter().map(|header| header.replace("KEY", authorization)).collect();
            let headers: Vec<_> = headers.iter().map(String::as_str).collect();
            Reply::new(
                status,
                &headers,
                json!({"error": {"message": format!("bad {authorization}\u{1b}[2J")}}).to_string(),
            )
        })
    };
    let mut shown = Vec::new();
    for (status, headers) in
        [(401, &[][..]), (500, &["x-request-id: KEY"]), (200, &[]), (302, &["location: http://localhost/?token=KEY"])]
    {
        let server = echo(status, headers).await;
        let transport = transport(&server);
        shown.push(format!("{transport:?}"));
        shown.push(format!("{:?}", transport.post(Route::Chat, &json!({})).await));
        let failed = retried(&server, QUICK).await.unwrap_err();
        shown.push(format!("{} {failed:?} {}", failed.0, serde_json::to_string(&failed).unwrap()));
        assert!(failed.0.message.contains("***"), "the place of the key is marked: {}", failed.0);
        assert!(!failed.0.message.contains('\u{1b}'));
    }
    // What is no text is not kept, and neither is what its header says it is.
    let headers = format!("content-encoding: {KEY}");
    shown.push(format!("{:?}", once(Reply::new(200, &[&headers], [0xff])).await));
    let mut told = completion();
    told["model"] = json!(KEY);
    told["choices"][0]["message"]["content"] = json!(format!("Bearer {KEY}"));
    shown.push(once(Reply::json(200, &told)).await.unwrap().body);
    let config =
        OpenAiConfig { base_url: "http://localhost".to_owned(), api_key: Some(Secret::new(KEY)), timeout_ms: 1 };
    shown.push(format!("{config:?}"));
    for text in shown {
        assert!(!text.contains("do-not-show"), "{text}");
    }
}
