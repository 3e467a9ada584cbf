//! Spans of a run over OTLP/HTTP: to the collector that the usual variables name, by the project's own HTTP client.
//!
//! What is exported are the four kinds of spans with their numbers and names, and the events that a log holds at `info`. Words of
//! prompts and answers are in neither.

use std::env;
use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use harness::endpoint::http_client;
use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanData, SpanExporter as _};
use tokio::runtime::Handle;

use crate::exit::{Exit, expected};
use crate::log::Words;
use crate::observe::ObserveArgs;

/// Where spans go, the more particular variable first.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// A collector on this machine.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// For one batch of spans, and for all that is left at the end.
const TIMEOUT: Duration = Duration::from_secs(10);
/// An attribute whose value is a list; a span of `tracing` holds no lists.
const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// Whether spans are to be exported.
pub fn wanted(args: &ObserveArgs) -> bool {
    let disabled = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !disabled && (args.otel || endpoint().is_some())
}

fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn endpoint() -> Option<String> {
    ENDPOINTS.iter().find_map(|name| set(name))
}

/// Sends spans in batches, from a thread of its own.
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// To be called within the runtime, on which requests are sent. Connects to nobody yet.
    pub fn start(words: Words) -> anyhow::Result<Self> {
        // An address may hold a password, so no message repeats it.
        let unusable = |why: String| expected(Exit::Usage, format!("{} cannot be used: {why}", ENDPOINTS.join(" or ")));
        let address = endpoint().unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let http = http_client(&address, Some(TIMEOUT)).map_err(unusable)?;
        let client = Client { http, runtime: Handle::current() };
        let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
        let exporter = exporter.map_err(|_| unusable("it is no address of a collector".to_owned()))?;
        let resource = Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        // The variable has the last word.
        let named = set("OTEL_SERVICE_NAME").is_some();
        let resource = if named { resource } else { resource.with_service_name("toolgauge") };
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(Cleaned { inner: exporter, words })
            .build();
        Ok(Self(provider))
    }

    pub fn tracer(&self) -> SdkTracer {
        self.0.tracer("toolgauge")
    }

    /// Sends what is left.
    pub fn close(self) -> Result<(), String> {
        self.0.shutdown_with_timeout(TIMEOUT).map_err(|error| error.to_string())
    }
}

/// The project's HTTP client as the exporter wants one.
struct Client {
    http: reqwest::Client,
    runtime: Handle,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl HttpClient for Client {
    // As `async_trait` writes it.
    fn send_bytes<'s, 'f>(&'s self, request: Request<Bytes>) -> BoxFuture<'f, Result<Response<Bytes>, HttpError>>
    where
        's: 'f,
        Self: 'f,
    {
        let http = self.http.clone();
        // The thread that asks is on no runtime, and sockets need one.
        let sent = self.runtime.spawn(send(http, request));
        Box::pin(async move {
            match sent.await {
                Ok(answer) => answer,
                Err(error) => Err(error.into()),
            }
        })
    }
}

async fn send(http: reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    // An error of this client repeats the address, and that may hold a password.
    let response = http.execute(reqwest::Request::try_from(request)?).await.map_err(reqwest::Error::without_url)?;
    let mut answer = Response::builder().status(response.status());
    if let Some(headers) = answer.headers_mut() {
        headers.clone_from(response.headers());
    }
    Ok(answer.body(response.bytes().await.map_err(reqwest::Error::without_url)?)?)
}

/// Takes the key out of all words, and what steers a terminal, and cuts what is long, before they leave.
#[derive(Debug)]
struct Cleaned {
    inner: SpanExporter,
    words: Words,
}

impl opentelemetry_sdk::trace::SpanExporter for Cleaned {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            self.words.clean_span(span);
        }
        self.inner.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl Words {
    fn clean_span(&self, span: &mut SpanData) {
        span.name = self.short(&span.name).into();
        let events = span.events.events.iter_mut();
        let attributes = span.attributes.iter_mut();
        for attribute in attributes.chain(events.flat_map(|event| &mut event.attributes)) {
            let Value::String(text) = &attribute.value else { continue };
            let text = self.short(text.as_str());
            attribute.value = if attribute.key.as_str() == FINISH_REASONS {
                Value::Array(Array::String(vec![text.into()]))
            } else {
                text.into()
            };
        }
        for event in &mut span.events.events {
            event.name = self.short(&event.name).into();
        }
        if let Status::Error { description } = &mut span.status {
            *description = self.short(description).into();
        }
    }
}
