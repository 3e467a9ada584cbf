//! One session with one server, whatever carries it: greet, list, page by page, leave.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use datasets::import::mcp::Listing;
use harness::text::plural;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomResult, ErrorCode, Implementation, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerResult,
};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::IntoTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, ServiceError};
use serde_json::Value;

use super::Limits;

/// Most pages of one listing.
const MOST_PAGES: usize = 1_000;
/// Most bytes of one listing, as JSON.
const MOST_BYTES: usize = 64 << 20;
/// Time to say goodbye. A session that is not ended well is the server's loss.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why a session ended without a listing.
#[derive(Debug)]
pub enum Failure {
    /// The other side is gone.
    Closed {
        awaited: String,
    },
    /// The time is up.
    Late {
        awaited: String,
        seconds: f64,
    },
    /// It does not know the handshake that it was greeted with.
    NoHandshake(String),
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { awaited } => write!(f, "it closed the connection without an answer to {awaited}"),
            Self::Late { awaited, seconds } => {
                write!(f, "no answer to {awaited} within {seconds} s; --timeout allows more")
            }
            Self::NoHandshake(reason) | Self::Other(reason) => f.write_str(reason),
        }
    }
}

/// The ways to greet a server, the usual one first.
pub fn lifecycles() -> [ClientLifecycleMode; 2] {
    let preferred_versions = vec![ProtocolVersion::LATEST];
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions }]
}

/// Lists the tools of the server behind `transport`.
pub async fn list<T, E, A>(transport: T, lifecycle: ClientLifecycleMode, limits: Limits) -> Result<Listing, Failure>
where
    T: IntoTransport<RoleClient, E, A>,
    E: Error + Send + Sync + 'static,
{
    let client = Implementation::new("toolgauge", env!("CARGO_PKG_VERSION"));
    let mut config = ClientConfig::new(ClientCapabilities::default(), client);
    config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
    // What is waited for, to be told if nothing comes.
    let awaited = Mutex::new("`initialize`".to_owned());
    let work = async {
        let service = config
            .serve_with_lifecycle(transport, lifecycle)
            .await
            .map_err(|error| greeting_failed(error, &awaited))?;
        let listing = listing(&service, limits.tools, &awaited).await;
        Ok((service, listing))
    };
    let Ok(done) = tokio::time::timeout(limits.time, work).await else {
        return Err(Failure::Late { awaited: text(&awaited), seconds: limits.time.as_secs_f64() });
    };
    let (mut service, listing) = done?;
    let _ = service.close_with_timeout(GOODBYE).await;
    listing
}

fn text(awaited: &Mutex<String>) -> String {
    awaited.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn listing(
    service: &RunningService<RoleClient, ClientConfig>,
    most: usize,
    awaited: &Mutex<String>,
) -> Result<Listing, Failure> {
    let mut listing = Listing::default();
    if let Some(info) = service.peer_info() {
        info.protocol_version.as_str().clone_into(&mut listing.protocol);
        listing.instructions = info.instructions.as_ref().is_some_and(|text| !text.trim().is_empty());
        if let Some(said) = &info.server_info {
            listing.name.clone_from(&said.name);
            listing.version.clone_from(&said.version);
            listing.title.clone_from(&said.title);
            listing.description.clone_from(&said.description);
        }
    }
    let (mut cursor, mut cursors, mut bytes) = (None, HashSet::new(), 0);
    for page in 1..=MOST_PAGES {
        *awaited.lock().unwrap_or_else(PoisonError::into_inner) =
            if page == 1 { "`tools/list`".to_owned() } else { format!("page {page} of `tools/list`") };
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request = match params.cursor {
            None => ListToolsRequest::default(),
            Some(_) => ListToolsRequest::with_param(params),
        };
        let answer = service.send_request(ClientRequest::ListToolsRequest(request)).await;
        let answer = answer.map_err(|error| listing_failed(error, awaited))?;
        let (tools, next) = page_of(answer)?;
        bytes += tools.iter().map(|tool| tool.to_string().len()).sum::<usize>();
        listing.tools.extend(tools);
        if listing.tools.len() > most {
            let most = plural(most as u64, "tool", "tools");
            return Err(Failure::Other(format!("it lists more than {most}; --max-tools allows more")));
        }
        if bytes > MOST_BYTES {
            return Err(Failure::Other(format!("it lists more than {} MiB of tools", MOST_BYTES >> 20)));
        }
        match next {
            None => return Ok(listing),
            Some(next) if !cursors.insert(next.clone()) => {
                let reason =
                    format!("page {page} of its tools points to a page that was asked for before, without end");
                return Err(Failure::Other(reason));
            }
            Some(next) => cursor = Some(next),
        }
    }
    Err(Failure::Other(format!("its tools go on after {MOST_PAGES} pages")))
}

/// The entries of a page as JSON, and the cursor of the next.
fn page_of(answer: ServerResult) -> Result<(Vec<Value>, Option<String>), Failure> {
    let unfit = |what: &str| Failure::Other(format!("its answer to `tools/list` {what}"));
    let mut page = match answer {
        ServerResult::CustomResult(CustomResult(page)) => page,
        typed => serde_json::to_value(typed).map_err(|_| unfit("cannot be read"))?,
    };
    let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
        return Err(unfit("holds no array `tools`"));
    };
    match page.get_mut("nextCursor").map(Value::take) {
        // An empty cursor is how some servers say that there is no next page.
        None | Some(Value::Null) => Ok((tools, None)),
        Some(Value::String(next)) => Ok((tools, Some(next).filter(|next| !next.is_empty()))),
        Some(_) => Err(unfit("has a `nextCursor` that is no text")),
    }
}

fn greeting_failed(error: ClientInitializeError, awaited: &Mutex<String>) -> Failure {
    match error {
        ClientInitializeError::ConnectionClosed(_) => Failure::Closed { awaited: text(awaited) },
        ClientInitializeError::JsonRpcError(error) => {
            let reason = format!("it answers `initialize` with error {}: {}", error.code.0, error.message);
            match error.code {
                ErrorCode::METHOD_NOT_FOUND | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => Failure::NoHandshake(reason),
                _ => Failure::Other(reason),
            }
        }
        ClientInitializeError::ExpectedInitResult(_) => {
            Failure::Other("its answer to `initialize` is not what the protocol asks for".to_owned())
        }
        ClientInitializeError::TransportError { error, .. } => Failure::Other(chain(error.error.as_ref())),
        other => Failure::Other(chain(&other)),
    }
}

fn listing_failed(error: ServiceError, awaited: &Mutex<String>) -> Failure {
    match error {
        ServiceError::TransportClosed => Failure::Closed { awaited: text(awaited) },
        ServiceError::McpError(error) => {
            Failure::Other(format!("it answers `tools/list` with error {}: {}", error.code.0, error.message))
        }
        ServiceError::TransportSend(error) => Failure::Other(chain(error.error.as_ref())),
        other => Failure::Other(chain(&other)),
    }
}

/// An error and its causes.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}
