//! The HTTP client of whatever is asked over the network.

use std::time::Duration;

use reqwest::Url;

use super::plain;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for one server, over rustls with ring. It repeats nothing and follows no redirects: both would happen behind the
/// caller's back, and a redirect would carry headers with keys along. It takes no compressed answers, so that the bytes that are
/// counted are the bytes that are kept. Proxies are those of the environment. `timeout`: from connecting to the last byte.
pub fn http_client(url: &str, timeout: Option<Duration>) -> Result<reqwest::Client, String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    // An error means that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("toolgauge/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never());
    if let Some(timeout) = timeout {
        builder = builder.timeout(timeout);
    }
    if url.scheme() == "http" {
        // Otherwise the system's root certificates are verified against (rustls-platform-verifier), and a machine
        // that has none, a bare container, could not even talk to a server of its own.
        builder = builder.tls_certs_only([]);
    }
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| reason(&error))
}

/// Whether what is sent there can be read on the way. Nothing is on its way from a machine to itself.
pub fn is_unencrypted(url: &str) -> bool {
    Url::parse(url.trim()).is_ok_and(|url| url.scheme() == "http" && !is_loopback(&url))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// An error and all its causes, without the URL, which the caller knows.
pub(super) fn reason(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut next: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text = if text.is_empty() { words } else { format!("{text}: {words}") };
        }
        next = cause.source();
    }
    plain(if text.is_empty() { "the request failed" } else { &text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised() {
        let loopback = |url: &str| is_loopback(&Url::parse(url).unwrap());
        assert!(
            ["http://localhost", "http://127.0.0.2:1", "http://[::1]/v1", "http://a.localhost"]
                .map(loopback)
                .iter()
                .all(|&yes| yes)
        );
        assert!(is_unencrypted(" http://10.0.0.1/v1") && !is_unencrypted("https://a/v1"));
        assert!(!is_unencrypted("http://[::1]:8080/v1") && !is_unencrypted("no URL"));
        assert!(!["http://localhost.example", "http://10.0.0.1", "http://[::2]"].map(loopback).iter().any(|&yes| yes));
    }
}
