//! `OLLAMA_HOST`: the address on which the daemon listens and to which clients connect.

use std::fmt;
use std::io::ErrorKind;
use std::net::TcpListener;

use super::problem::SettingProblem;
use super::reader::Slot;

/// An address in the forms of `OLLAMA_HOST`: host, host and port, port alone, or a URL with a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// A host name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path of the URL without a trailing slash; usually empty.
    pub path: String,
}

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 11434;

impl Default for Address {
    fn default() -> Self {
        Self { scheme: "http", host: DEFAULT_HOST.to_owned(), port: DEFAULT_PORT, path: String::new() }
    }
}

impl Address {
    /// Parses the variable's text. An invalid port becomes the default port, and a user and a password are dropped.
    /// Returns `None` if the scheme is neither `http` nor `https`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let Parts { scheme, default_port, host, port, path, .. } = Parts::of(text)?;
        Some(Self {
            scheme,
            host: if host.is_empty() { DEFAULT_HOST.to_owned() } else { host.to_owned() },
            port: port.map_or(default_port, |port| port.parse().unwrap_or(default_port)),
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that a client connects to. The unspecified address becomes loopback.
    #[must_use]
    pub fn for_client(&self) -> Self {
        let host = match self.host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        };
        Self { host: host.to_owned(), ..self.clone() }
    }

    /// Whether the address names only this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// The parts of an address, as they are written.
struct Parts<'a> {
    scheme: &'static str,
    default_port: u16,
    /// Whether there is a user or a password.
    has_user: bool,
    host: &'a str,
    port: Option<&'a str>,
    path: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (scheme, rest, default_port) = match text.split_once("://") {
            None if text == "ollama.com" => ("https", text, 443),
            None => ("http", text, DEFAULT_PORT),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest, 80),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest, 443),
            Some(_) => return None,
        };
        let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match authority.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            // Several colons without brackets: an IPv6 address without a port.
            None if authority.matches(':').count() > 1 => (authority, None),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        Some(Self { scheme, default_port, has_user: user.is_some(), host, port, path })
    }

    fn has_invalid_port(&self) -> bool {
        self.port.is_some_and(|port| !port.is_empty() && port.parse::<u16>().is_err())
    }
}

/// Reads the setting. Warns about parts without effect.
pub(super) fn read(slot: &mut Slot<'_>) -> Address {
    let address = slot.parsed_or_default(Address::parse);
    if let Some(parts) = slot.text().and_then(Parts::of) {
        if parts.has_invalid_port() {
            slot.warn(&format!("has an invalid port; port {} is used", address.port));
        }
        if parts.has_user {
            slot.warn("has a user or a password, which has no effect; CAIRN_API_KEY sets the key of a server");
        }
    }
    address
}

/// Checks that a daemon of this machine can listen on the address. A port that another program uses now is accepted.
pub(super) fn check(text: &str) -> Result<(), SettingProblem> {
    if Parts::of(text).is_none_or(|parts| parts.has_invalid_port()) {
        return Err(SettingProblem::NeedsAddress);
    }
    let address = Address::parse(text).ok_or(SettingProblem::NeedsAddress)?;
    match TcpListener::bind((address.host.as_str(), address.port)) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            let reason = error.to_string();
            Err(SettingProblem::AddressUnusable { address: address.authority(), reason })
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_parses_all_forms_of_ollama() {
        let check = |text: &str, expected: &str| {
            assert_eq!(Address::parse(text).map(|address| address.to_string()).as_deref(), Some(expected), "{text:?}");
        };
        check("", "http://127.0.0.1:11434");
        check("example.org", "http://example.org:11434");
        check("example.org:80", "http://example.org:80");
        check(":1234", "http://127.0.0.1:1234");
        check("0.0.0.0", "http://0.0.0.0:11434");
        check("http://example.org", "http://example.org:80");
        check("https://example.org/ollama/", "https://example.org:443/ollama");
        check("ollama.com", "https://ollama.com:443");
        check("[::1]:5000", "http://[::1]:5000");
        check("::1", "http://[::1]:11434");
        check("example.org:99999", "http://example.org:11434");
        check("user:pw@example.org:80", "http://example.org:80");
        check("https://user:p@w/x@example.org/y", "https://example.org:443/y");
        assert_eq!(Address::parse("ftp://x"), None, "unsupported scheme");
    }

    #[test]
    fn client_address_of_unspecified_host_is_loopback() {
        let everywhere = Address::parse("0.0.0.0:1").unwrap();
        assert_eq!(everywhere.for_client().authority(), "127.0.0.1:1", "client address");
        assert!(!everywhere.is_loopback() && everywhere.for_client().is_loopback(), "loopback for the client only");
    }
}
