//! What the doctor finds of servers whose ways only a probe can show.

use std::time::Duration;

use harness::doctor::{Doctor, Event, Examination, Options, Verdict};
use harness::endpoint::Profile;

use crate::client::transport;
use crate::support::fixture;

async fn examined(fixture_name: &str, context: bool) -> Examination {
    let mock = fixture(fixture_name).await;
    let transport = transport(&mock);
    let time = Duration::from_secs(60);
    let options = Options { model: "mock".to_owned(), time, max_tokens: 400_000, embed_model: None };
    let mut doctor = Doctor::new(&transport, &options, &|_: Event<'_>| ());
    doctor.basics().await.unwrap();
    if context {
        doctor.search_context().await;
    }
    doctor.finish(&Profile::hosted(&mock.base_url(), "mock"), "2026-12-01T10:00:00Z")
}

fn found(examination: &Examination, name: &str) -> (Verdict, String) {
    let finding = examination.findings.iter().find(|finding| finding.name == name).unwrap();
    (finding.verdict, finding.detail.clone())
}

#[tokio::test]
async fn row_06_the_real_context_is_found_whatever_was_asked_for() {
    let examination = examined("num_ctx_ignored", true).await;
    let (verdict, detail) = found(&examination, "context");
    let tested = examination.profile.context_tested_tokens.unwrap_or(0);
    assert!((3_000..=4_096).contains(&tested), "{tested}: {detail}");
    assert_ne!(verdict, Verdict::Yes, "{detail}");
    assert!(detail.contains("SILENT TRUNCATION"), "{detail}");
}

#[tokio::test]
async fn rows_17_and_23_odd_streams_are_read() {
    for name in ["blank_names_in_stream", "async_filter"] {
        let (verdict, detail) = found(&examined(name, false).await, "streaming");
        assert!(matches!(verdict, Verdict::Yes | Verdict::Partly), "{name}: {detail}");
    }
}

#[tokio::test]
async fn row_20_refused_parameters_go_into_the_profile() {
    let profile = examined("max_completion_tokens", false).await.profile;
    assert_eq!(profile.output_limit.as_str(), "max_completion_tokens");
    assert!(profile.omit_temperature);
}

#[tokio::test]
async fn row_21_usage_of_a_stream_is_asked_for_and_done_without() {
    let examination = examined("stream_options_refused", false).await;
    let (verdict, detail) = found(&examination, "streaming");
    assert_eq!(verdict, Verdict::Partly, "{detail}");
    assert!(detail.contains("`stream_options` is refused"), "{detail}");
    assert_eq!(examination.profile.stream_usage, Some(false), "missing, and not zero");
}
