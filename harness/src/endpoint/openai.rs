//! The transport over HTTP: async-openai builds and routes the request, our service executes it exactly once.
//!
//! async-openai reads answers strictly and loses the status of error bodies it does not know, drops headers, and
//! retries on its own. So the service below puts whatever came back, status and all, into an envelope of its own and presents
//! that as a success; the envelope is all that async-openai ever parses.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use futures::future::BoxFuture;
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde_json::{Value, json};

use super::http::{http_client, reason};
use super::{Route, Secret, Streamed, Transport, TransportError, WireResponse, plain};
use crate::clock::Stopwatch;

/// Largest body that is read.
const MAX_BODY_BYTES: usize = 16 << 20;
const MAX_RETRY_AFTER_MS: u64 = 10 * 60 * 1_000;
/// The longest quotas are those of a day. What asks for more is no time, and taken at its word it would end a run.
const ABSURD_RETRY_AFTER_MS: f64 = 24.0 * 60.0 * 60.0 * 1e3;

/// Where the endpoint is and how to get in.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// `http://` or `https://`, up to and without `/chat/completions`; most servers want it to end in `/v1`.
    pub base_url: String,
    pub api_key: Option<Secret>,
    /// Limit for one attempt, from connecting to the last byte.
    pub timeout_ms: u64,
}

impl fmt::Debug for OpenAiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base_url, api_key, timeout_ms } = self;
        f.debug_struct("OpenAiConfig")
            .field("base_url", &format_args!("{}", shown(base_url)))
            .field("api_key", api_key)
            .field("timeout_ms", timeout_ms)
            .finish()
    }
}

/// The configuration cannot work.
#[derive(Debug, thiserror::Error)]
pub enum OpenAiError {
    #[error("the base URL {shown} {problem}, expected something like https://api.example.com/v1")]
    BaseUrl { shown: String, problem: &'static str },
    #[error("the API key cannot go into a header: it holds characters other than visible ASCII")]
    Key,
    #[error("the base URL (not shown) holds the API key, and an address is written down; take it out of there")]
    KeyInBaseUrl,
    #[error(
        "cannot set up TLS: {0}; install the root certificates of the system, or name a file with some in SSL_CERT_FILE"
    )]
    Tls(String),
}

/// An OpenAI-compatible endpoint.
pub struct OpenAi {
    client: Client<OpenAIConfig>,
    service: Once,
    base_url: String,
    /// Host and port, for those who ask where requests go.
    server: Option<(String, Option<u16>)>,
}

impl OpenAi {
    pub fn new(config: &OpenAiConfig) -> Result<Self, OpenAiError> {
        let key = config.api_key.clone().filter(|key| !key.is_empty());
        // First of all: what is wrong with an address is said with the address.
        if key.as_ref().is_some_and(|key| key.is_in(&config.base_url)) {
            return Err(OpenAiError::KeyInBaseUrl);
        }
        let url = base_url(&config.base_url)?;
        let authorization = match &key {
            Some(key) => {
                let mut value =
                    HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| OpenAiError::Key)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        let service = Once {
            http: http_client(url.as_str(), Some(Duration::from_millis(config.timeout_ms)))
                .map_err(OpenAiError::Tls)?,
            key,
            authorization,
            timeout_ms: config.timeout_ms,
        };
        let base_url = url.as_str().trim_end_matches('/').to_owned();
        // Every field is set: the defaults come from environment variables that are none of this endpoint's business.
        let config = OpenAIConfig::new().with_api_base(&base_url).with_api_key("").with_org_id("").with_project_id("");
        let client = Client::build(service.http.clone(), config).with_http_service(service.clone());
        let server = url.host_str().map(|host| (host.to_owned(), url.port_or_known_default()));
        Ok(Self { client, service, base_url, server })
    }

    /// Without a slash at the end.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Executes a request that async-openai has no part in: it would read a stream strictly, and drop when it came.
    async fn execute(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Streamed, TransportError> {
        let mut request = self.service.http.request(method, format!("{}/{path}", self.base_url));
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let request = request.build().map_err(|error| TransportError::Broken { reason: reason(&error) })?;
        self.service.execute(request).await
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

impl Transport for OpenAi {
    fn post<'a>(&'a self, route: Route, body: &'a Value) -> BoxFuture<'a, Result<WireResponse, TransportError>> {
        Box::pin(async move {
            let answer: Result<Envelope, OpenAIError> = match route {
                Route::Chat => self.client.chat().create_byot(body).await,
                Route::Embed => self.client.embeddings().create_byot(body).await,
            };
            answer.unwrap_or_else(|error| Err(TransportError::Broken { reason: plain(&error.to_string()) }))
        })
    }

    fn stream<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Result<Streamed, TransportError>> {
        Box::pin(async move { self.execute(Method::POST, &Route::Chat.to_string(), Some(body)).await })
    }

    fn models(&self) -> BoxFuture<'_, Result<WireResponse, TransportError>> {
        Box::pin(async move { Ok(self.execute(Method::GET, "models", None).await?.response) })
    }

    fn server(&self) -> Option<(&str, Option<u16>)> {
        self.server.as_ref().map(|(host, port)| (host.as_str(), *port))
    }
}

/// Checks a base URL without connecting. An error never repeats what may be a password.
pub fn check_base_url(text: &str) -> Result<(), OpenAiError> {
    base_url(text).map(|_| ())
}

/// A URL with a password in it must not be repeated, not even in the message that refuses it.
fn shown(url: &str) -> String {
    if url.contains(['@', '?', '#']) { "(not shown)".to_owned() } else { format!("{:?}", plain(url)) }
}

fn base_url(text: &str) -> Result<Url, OpenAiError> {
    let refuse = |problem| OpenAiError::BaseUrl { shown: shown(text), problem };
    let url = Url::parse(text.trim()).map_err(|_| refuse("is no URL"))?;
    match &url {
        url if !matches!(url.scheme(), "http" | "https") => Err(refuse("is neither http nor https")),
        url if !url.username().is_empty() || url.password().is_some() => {
            Err(refuse("holds credentials; pass the key in an environment variable or a file"))
        }
        url if url.query().is_some() || url.fragment().is_some() => Err(refuse("has a query or a fragment")),
        url if url.path().trim_end_matches('/').ends_with("/completions") => {
            Err(refuse("names a single route; leave out everything from /chat/completions on"))
        }
        _ => Ok(url),
    }
}

/// What the service hands to async-openai, and async-openai to us.
type Envelope = Result<WireResponse, TransportError>;

/// Executes a request once.
#[derive(Clone)]
struct Once {
    http: reqwest::Client,
    key: Option<Secret>,
    authorization: Option<HeaderValue>,
    timeout_ms: u64,
}

impl Once {
    async fn execute(&self, mut request: reqwest::Request) -> Result<Streamed, TransportError> {
        let watch = Stopwatch::start();
        let host = request.url().host_str().unwrap_or_default().to_owned();
        match &self.authorization {
            Some(value) => request.headers_mut().insert(AUTHORIZATION, value.clone()),
            None => request.headers_mut().remove(AUTHORIZATION),
        };
        let fault = |error: reqwest::Error| match error {
            error if error.is_connect() => {
                TransportError::Connect { host: host.clone(), reason: self.redact(&reason(&error)) }
            }
            error if error.is_timeout() => TransportError::Timeout { after_ms: self.timeout_ms },
            error => TransportError::Broken { reason: self.redact(&reason(&error)) },
        };
        let mut response = self.http.execute(request).await.map_err(fault)?;
        let status = response.status().as_u16();
        let location = header(response.headers(), LOCATION.as_str()).map(str::to_owned);
        let retry_after_ms = retry_after_ms(response.headers(), Timestamp::now());
        let request_id = header(response.headers(), "x-request-id").map(|id| plain(&self.redact(id)));
        let encoding = header(response.headers(), CONTENT_ENCODING.as_str()).unwrap_or("none").to_owned();

        let (mut bytes, mut arrivals) = (Vec::new(), Vec::new());
        while let Some(chunk) = response.chunk().await.map_err(fault)? {
            if bytes.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(TransportError::Broken { reason: format!("it is larger than {MAX_BODY_BYTES} bytes") });
            }
            bytes.extend_from_slice(&chunk);
            arrivals.push((bytes.len(), watch.elapsed_ms()));
        }
        let body = String::from_utf8(bytes).map_err(|_| TransportError::Broken {
            reason: format!("it is no UTF-8 (content encoding: {})", plain(&self.redact(&encoding))),
        })?;
        let body = match location.filter(|_| (300..400).contains(&status)) {
            Some(location) => {
                arrivals.clear();
                let message =
                    format!("the server redirects to {location}; redirects are not followed, change the base URL");
                self.redact(&json!({"error": {"message": message}}).to_string())
            }
            // A placeholder may be a word of the answer.
            None if status < 300 && self.key.as_ref().is_none_or(Secret::is_placeholder) => body,
            None => {
                let redacted = self.redact(&body);
                if redacted != body {
                    // The pieces no longer end where they did.
                    arrivals.clear();
                }
                redacted
            }
        };
        Ok(Streamed { response: WireResponse { status, retry_after_ms, request_id, body }, arrivals })
    }

    fn redact(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }
}

impl tower::Service<HttpRequestFactory> for Once {
    type Response = Response;
    type Error = OpenAIError;
    type Future = BoxFuture<'static, Result<Response, OpenAIError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequestFactory) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let envelope: Envelope = service.execute(request.build().await?).await.map(|streamed| streamed.response);
            let bytes = serde_json::to_vec(&envelope).expect("an envelope is plain data");
            Ok(http::Response::new(bytes).into())
        })
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// `Retry-After` in seconds or as a date (RFC 9110), or the finer `retry-after-ms`; bounded. `None` if it is nonsense.
fn retry_after_ms(headers: &HeaderMap, now: Timestamp) -> Option<u64> {
    let bounded = |ms: f64| {
        (0.0..=ABSURD_RETRY_AFTER_MS).contains(&ms).then(|| {
            // In range after `min`; a fraction of a millisecond is nothing.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let ms = ms.min(MAX_RETRY_AFTER_MS as f64) as u64;
            ms
        })
    };
    if let Some(ms) = header(headers, "retry-after-ms").and_then(|text| text.parse().ok()) {
        return bounded(ms);
    }
    let text = header(headers, RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse::<f64>() {
        return bounded(seconds * 1e3);
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()?;
    bounded((date.as_millisecond() - now.as_millisecond()).max(0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str, key: Option<&str>) -> Result<OpenAi, OpenAiError> {
        let config = OpenAiConfig { base_url: url.to_owned(), api_key: key.map(Secret::new), timeout_ms: 1_000 };
        OpenAi::new(&config)
    }

    #[test]
    fn base_urls_are_checked() {
        assert_eq!(open("http://localhost:8080/v1//", None).unwrap().base_url(), "http://localhost:8080/v1");
        assert_eq!(open(" http://[::1]:80 ", None).unwrap().base_url(), "http://[::1]");
        for (url, problem) in [
            ("localhost:8080/v1", "is neither http nor https"),
            ("/v1", "is no URL"),
            ("", "is no URL"),
            ("file:///etc", "is neither http nor https"),
            ("http://a/v1?key=1", "has a query"),
            ("http://a/v1/chat/completions", "names a single route"),
        ] {
            let message = open(url, None).unwrap_err().to_string();
            assert!(message.contains(problem), "{message}");
        }
        for url in ["http://user:hunter22@a/v1", "https://:hunter22@[", "hunter22@a", "http://a/v1#hunter22"] {
            let message = open(url, None).unwrap_err().to_string();
            let config = OpenAiConfig { base_url: url.to_owned(), api_key: None, timeout_ms: 1 };
            assert!(!format!("{message} {config:?}").contains("hunter22"), "{message} {config:?}");
        }
        let message = open("http://a/sk%2Dhunter22/v1", Some("sk-hunter22")).unwrap_err().to_string();
        assert!(message.contains("holds the API key") && !message.contains("hunter22"), "{message}");
    }

    #[test]
    fn keys_that_fit_no_header_are_refused_unseen() {
        let error = open("http://localhost/v1", Some("sk-ünseen\nsk-2")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("nseen"), "{error:?}");
    }

    #[test]
    fn retry_after_is_read_in_every_form_and_bounded() {
        let now: Timestamp = "2024-01-10T10:34:45Z".parse().unwrap();
        let read = |name: &'static str, text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(text).unwrap());
            retry_after_ms(&headers, now)
        };
        for (text, expected) in [
            ("0", Some(0)),
            ("7", Some(7_000)),
            (" 1.5", Some(1_500)),
            ("86400", Some(600_000)),
            ("86401", None),
            ("1e300", None),
            ("-1", None),
            ("NaN", None),
            ("soon", None),
            ("", None),
            ("Wed, 10 Jan 2024 10:35:00 GMT", Some(15_000)),
            ("Wed, 10 Jan 2024 10:34:00 GMT", Some(0)),
            ("Thu, 11 Jan 2024 10:34:00 GMT", Some(600_000)),
            ("Fri, 10 Jan 2025 10:34:00 GMT", None),
        ] {
            assert_eq!(read("retry-after", text), expected, "{text:?}");
        }
        assert_eq!(read("retry-after-ms", "250"), Some(250));
        assert_eq!(retry_after_ms(&HeaderMap::new(), now), None);
    }
}
