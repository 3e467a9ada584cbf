//! Servers that answer over streamable HTTP.
//!
//! Here rmcp reads the answers, and keys of a tool that its types do not know (`execution`) end with it, uncounted. They have
//! no place in the format, so the dataset is the same as over standard input and output.

use std::collections::HashMap;

use datasets::import::mcp::Listing;
use harness::endpoint::http_client;
use http::{HeaderName, HeaderValue};
use rmcp::ClientLifecycleMode;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::Limits;
use super::session::{self, Failure};

pub async fn list(
    url: &str,
    headers: &[(String, String)],
    lifecycle: ClientLifecycleMode,
    limits: Limits,
) -> Result<Listing, Failure> {
    let client =
        http_client(url, None).map_err(|reason| Failure::Other(format!("its `url` cannot be used: {reason}")))?;
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(fields(headers)?);
    let transport = StreamableHttpClientTransport::with_client(client, config);
    session::list(transport, lifecycle, limits).await
}

fn fields(headers: &[(String, String)]) -> Result<HashMap<HeaderName, HeaderValue>, Failure> {
    let field = |(name, value): &(String, String)| {
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Failure::Other(format!("its `headers` hold {name:?}, which is no name of a header")))?;
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| Failure::Other(format!("the value of its header {name:?} fits no header")))?;
        value.set_sensitive(true);
        Ok((header, value))
    };
    headers.iter().map(field).collect()
}
