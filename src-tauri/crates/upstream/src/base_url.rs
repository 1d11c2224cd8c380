//! The address of a server: scheme, host, port and an optional path in front of its API.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use cairn_wire::excerpt;
use reqwest::Url;

/// Longest accepted address.
const MAX_URL_BYTES: usize = 1024;
/// Paths of APIs that users copy with the address.
const API_PATHS: [&str; 3] = ["/v1", "/api", "/"];

/// Base of a server's API, without `/v1` or `/api` and without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    text: String,
}

/// Why a text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text cannot be parsed.
    #[error("{0:?} is not a URL; use for example http://192.168.1.20:11434")]
    Invalid(String),
    /// The scheme is neither `http` nor `https`.
    #[error("the scheme {0:?} is not supported; use http:// or https://")]
    Scheme(String),
    /// The address has a user name, a password, a query or a fragment.
    #[error("the URL of a remote has no user, password, query or fragment; give an API key with --key")]
    Extra,
}

impl FromStr for BaseUrl {
    type Err = UrlError;

    /// Parses an address. One without a scheme gets `http://`.
    fn from_str(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        // A text with a user, a query or a fragment may have a password, and errors are logged.
        let invalid = || match text.contains(['@', '?', '#']) {
            true => UrlError::Extra,
            false => UrlError::Invalid(excerpt(text).into_owned()),
        };
        if text.is_empty() || text.len() > MAX_URL_BYTES {
            return Err(invalid());
        }
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let mut url = Url::parse(&whole).map_err(|_| invalid())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(excerpt(url.scheme()).into_owned()));
        }
        let has_extra = !url.username().is_empty() || url.password().is_some();
        if has_extra || url.query().is_some() || url.fragment().is_some() {
            return Err(UrlError::Extra);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid());
        }
        let mut path = url.path().trim_end_matches('/').to_owned();
        for api in API_PATHS {
            path = path.strip_suffix(api).unwrap_or(&path).to_owned();
        }
        url.set_path(&path);
        let text = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { url, text })
    }
}

impl BaseUrl {
    /// Returns the URL of a path that begins with a slash.
    #[must_use]
    pub fn join(&self, path: &str) -> String {
        format!("{}{path}", self.text)
    }

    /// Whether the server is on this machine, so that plain HTTP never leaves it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = self.host();
        host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Replaces the server's host and port in a text from the server, as they are in this URL. Other addresses in the text stay, such
    /// as the server's IP address if the URL has a name, or a name that only the server has.
    pub(crate) fn redact(&self, text: &str, name: &str) -> String {
        let host = self.host();
        let authority = self.url.port().map(|port| format!("{host}:{port}"));
        let bracketed = self.url.host_str().unwrap_or_default();
        let text = authority.map_or_else(|| text.to_owned(), |authority| text.replace(&authority, name));
        text.replace(bracketed, name).replace(host, name)
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_reduced_to_the_base_of_the_api() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<BaseUrl>().map(|url| url.to_string()), Ok(expected.to_owned()), "{text}");
        };
        check("http://gpu:11434", "http://gpu:11434");
        check("gpu:8000/v1/", "http://gpu:8000");
        check("https://example.org/llm/v1", "https://example.org/llm");
        check("http://gpu:11434/api", "http://gpu:11434");
        check(" 192.168.1.20:11434 ", "http://192.168.1.20:11434");
        check("http://[::1]:8000/", "http://[::1]:8000");
        let url: BaseUrl = "https://example.org/llm/v1".parse().unwrap();
        assert_eq!(url.join("/v1/models"), "https://example.org/llm/v1/models");
    }

    #[test]
    fn unusable_address_is_refused() {
        for text in ["", "http://", "ftp://gpu", "http://u:p@gpu", "http://u@gpu", "http://gpu/?a=1", "http://gpu/#x"] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
        assert!("x".repeat(2000).parse::<BaseUrl>().is_err(), "too long");
    }

    #[test]
    fn password_of_an_invalid_address_is_not_quoted() {
        for text in ["http://u:secret@gpu:99999", "u:secret@", "http://[::1/?key=secret", "http:// /#secret"] {
            let error = text.parse::<BaseUrl>().expect_err("refused").to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn loopback_names_are_recognised() {
        let is_loopback = |text: &str| text.parse::<BaseUrl>().unwrap().is_loopback();
        assert!(is_loopback("http://127.0.0.1:1") && is_loopback("localhost:1") && is_loopback("[::1]:1"));
        assert!(!is_loopback("http://192.168.1.2:1") && !is_loopback("http://localhost.example.org"));
    }

    #[test]
    fn redacted_text_has_no_address() {
        let url: BaseUrl = "http://10.0.0.7:8000".parse().unwrap();
        assert_eq!(url.redact("10.0.0.7:8000 refused; see http://10.0.0.7/x", "gpu"), "gpu refused; see http://gpu/x");
        let url: BaseUrl = "http://[fd00::7]:8000".parse().unwrap();
        assert_eq!(url.redact("no model at [fd00::7]:8000 (fd00::7)", "gpu"), "no model at gpu:8000 (gpu)");
    }
}
