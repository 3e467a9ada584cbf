//! Connections that end before their time, seen byte by byte.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use mock::{End, Mock};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::{bytes, calling, chat, fixture, scripted};

fn streaming() -> Value {
    let mut body = calling();
    body["stream"] = json!(true);
    body
}

#[tokio::test]
async fn resets_are_resets_and_closes_are_closes() {
    let mock = fixture("torn_connections").await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (text, error) = bytes(&mock, &calling()).await;
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
        seen.push((text.is_empty(), body, error));
    }
    let whole = seen[4].1.unwrap();
    assert!(whole > 100);
    assert_eq!(
        seen,
        [
            (true, None, Some(ErrorKind::ConnectionReset)),
            (true, None, None),
            (false, Some(40), Some(ErrorKind::ConnectionReset)),
            (false, Some(40), None),
            (false, Some(whole), None),
        ]
    );
    let log = mock.stop().await;
    let ends: Vec<_> = log.iter().map(|entry| (entry.status, entry.bytes, entry.end)).collect();
    let severed = Some(End::Severed);
    assert_eq!(
        ends,
        [
            (None, 0, severed),
            (None, 0, severed),
            (Some(200), 40, severed),
            (Some(200), 40, severed),
            (Some(200), whole as u64, Some(End::Answered)),
        ]
    );
    assert_eq!(log[0].faults, ["reset"]);
}

#[tokio::test]
async fn more_is_announced_than_comes() {
    let mock = scripted("fault = [{ name = \"close\", damage = { how = \"close\", after = 40 } }]").await;
    let (text, _) = bytes(&mock, &calling()).await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let announced: usize =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    assert!(announced > 100 && body.len() == 40, "{announced} {}", body.len());
}

#[tokio::test]
async fn streams_are_cut_between_chunks_and_inside_of_them() {
    let close = scripted("fault = [{ name = \"close\", damage = { how = \"close\", after = 300 } }]").await;
    let (text, error) = bytes(&close, &streaming()).await;
    assert!(text.ends_with("\r\n") && !text.ends_with("0\r\n\r\n"), "whole chunks, without the last: {text}");
    assert_eq!(error, None);

    let half = fixture("half_a_chunk").await;
    for body in [streaming(), calling()] {
        let (text, error) = bytes(&half, &body).await;
        assert_eq!(error, None);
        let (head, chunks) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        let (mut rest, mut sizes) = (chunks, Vec::new());
        loop {
            let (size, more) = rest.split_once("\r\n").unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            sizes.push(size);
            if more.len() < size {
                assert!(!more.is_empty(), "some of the last chunk came");
                break;
            }
            rest = &more[size + 2..];
        }
        assert_eq!(sizes[..sizes.len() - 1].iter().sum::<usize>(), 60);
        assert_eq!(chat(&half, &body).await.status, 200, "the second time it is whole");
    }
}

#[tokio::test]
async fn what_hangs_comes_no_further_and_is_let_go_with_the_client() {
    let mock = fixture("hangs").await;
    for received in [0, 40] {
        let waited = timeout(Duration::from_millis(300), bytes(&mock, &calling())).await;
        assert!(waited.is_err(), "the connection stays open after {received} bytes");
    }
    timeout(Duration::from_secs(10), mock.settled()).await.unwrap();
    let log = mock.log();
    let ends: Vec<_> = log.iter().map(|entry| (entry.status, entry.bytes, entry.end)).collect();
    assert_eq!(ends, [(None, 0, Some(End::HungUp)), (Some(200), 40, Some(End::HungUp))]);
    assert_eq!(chat(&mock, &calling()).await.status, 200);
}

#[tokio::test]
async fn delays_and_pauses_take_their_time() {
    let mock = scripted("fault = [{ name = \"slow\", delay_ms = 150, pace_ms = 30 }]").await;
    let start = Instant::now();
    chat(&mock, &calling()).await;
    assert!(start.elapsed() >= Duration::from_millis(150));
    let start = Instant::now();
    let chunks = chat(&mock, &streaming()).await.chunks().len();
    assert!(chunks >= 4 && start.elapsed() >= Duration::from_millis(150 + 30 * chunks as u64), "{:?}", start.elapsed());
    assert!(mock.log()[0].took_ms >= 150);
}

/// Asks in a task of its own, once the server has begun to answer.
async fn asking(mock: &Mock) -> JoinHandle<Result<u16, reqwest::Error>> {
    let url = format!("{}/chat/completions", mock.base_url());
    let request = harness::endpoint::http_client(&url, None).unwrap().post(url).body(calling().to_string());
    let task = tokio::spawn(async move { Ok(request.send().await?.status().as_u16()) });
    while mock.log().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    task
}

#[tokio::test]
async fn stopping_lets_answers_end_but_waits_for_none_that_hangs() {
    let mock = scripted("fault = [{ name = \"slow\", delay_ms = 300 }]").await;
    let address = mock.address();
    let answer = asking(&mock).await;
    let log = mock.stop().await;
    assert_eq!(log[0].end, Some(End::Answered));
    assert_eq!(answer.await.unwrap().unwrap(), 200);
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens any more");

    let mock = fixture("hangs").await;
    let answer = asking(&mock).await;
    let log = mock.stop().await;
    assert_eq!((log[0].end, log[0].status), (Some(End::HungUp), None));
    assert!(answer.await.unwrap().is_err());
}
