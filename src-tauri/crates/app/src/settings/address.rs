//! `OLLAMA_HOST`: where a daemon listens, and where its clients find it.

use std::fmt;
use std::io::ErrorKind;
use std::net::TcpListener;

/// An address as Ollama's variable writes it: host, host and port, port alone, or a URL with a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// A name or an IP address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What a URL has after the port, without a slash at its end; mostly empty.
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
    /// Reads the variable's text; `None` when it has a scheme that is none of ours. A port that is no port is the
    /// default one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest, scheme_port) = match text.split_once("://") {
            None if text == "ollama.com" => ("https", text, 443),
            None => ("http", text, DEFAULT_PORT),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest, 80),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest, 443),
            Some(_) => return None,
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match authority.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            // More than one colon and no brackets: an IPv6 address alone.
            None if authority.matches(':').count() > 1 => (authority, None),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        Some(Self {
            scheme,
            host: if host.is_empty() { DEFAULT_HOST.to_owned() } else { host.to_owned() },
            port: port.map_or(scheme_port, |port| port.parse().unwrap_or(scheme_port)),
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// `host:port`, with brackets where the host needs them.
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

    /// The address that a client connects to: an address that means "every interface" is this machine.
    #[must_use]
    pub fn for_client(&self) -> Self {
        let host = match self.host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        };
        Self { host: host.to_owned(), ..self.clone() }
    }

    /// Does it name this machine only?
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// Could a daemon of this machine listen there? Another program may hold the port now, and let it go.
pub(super) fn check(text: &str) -> Result<(), String> {
    let authority = text.split_once("://").map_or(text, |(_, rest)| rest).split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').filter(|(host, _)| host.ends_with(']') || !host.contains(':'));
    if port.is_some_and(|(_, port)| !port.is_empty() && port.parse::<u16>().is_err()) {
        return Err("its port is a number up to 65535".to_owned());
    }
    let address = Address::parse(text).ok_or("it is host:port")?;
    match TcpListener::bind((address.host.as_str(), address.port)) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            Err(format!("this machine cannot listen on {}: {error}", address.authority()))
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
    fn forms() {
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
        assert_eq!(Address::parse("ftp://x"), None, "no scheme of ours");
    }

    #[test]
    fn a_client_connects_to_this_machine() {
        let everywhere = Address::parse("0.0.0.0:1").unwrap();
        assert_eq!(everywhere.for_client().authority(), "127.0.0.1:1", "not to every interface");
        assert!(!everywhere.is_loopback() && everywhere.for_client().is_loopback(), "what others can reach");
    }
}
