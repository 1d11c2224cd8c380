//! A server as a user configures it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::text::one_line;

/// Longest name of a server.
pub const MAX_NAME_BYTES: usize = 64;
/// Longest command.
const MAX_COMMAND_BYTES: usize = 4096;
/// Most arguments of a command.
const MAX_ARGS: usize = 128;
/// Longest argument, and longest value of a variable or header.
const MAX_VALUE_BYTES: usize = 32 << 10;
/// Most variables, and most headers.
const MAX_VALUES: usize = 64;
/// Longest URL.
const MAX_URL_BYTES: usize = 2048;

/// A server of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerConfig {
    /// Its name: letters, digits, `.`, `-` and `_`, beginning with a letter or digit.
    pub name: String,
    /// How it is reached.
    #[serde(flatten)]
    pub endpoint: Endpoint,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Endpoint {
    /// A program that reads requests from its input and writes responses to its output.
    Stdio {
        /// The program: a path, or a name that is looked up in the `PATH`.
        command: String,
        /// Its arguments.
        #[serde(default)]
        args: Vec<String>,
        /// Variables of its environment, besides the few that it inherits. They may be secrets.
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// A server with streamable HTTP.
    Http {
        /// Its URL.
        url: String,
        /// Headers of each request. They may be secrets.
        #[serde(default)]
        headers: BTreeMap<String, String>,
    },
}

/// Omits values of variables and headers, and the query of a URL.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &env.keys())
                .finish(),
            Self::Http { url, headers } => {
                f.debug_struct("Http").field("url", &url.split('?').next()).field("headers", &headers.keys()).finish()
            }
        }
    }
}

/// Why a configuration is invalid. Has no values of variables and headers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The name is invalid.
    #[error(
        "{0:?} is not a valid name of a server; use 1 to {MAX_NAME_BYTES} letters, digits, '.', '-' or '_', and begin with a \
         letter or digit"
    )]
    Name(String),
    /// The command is missing or too long.
    #[error("the command is empty, longer than {MAX_COMMAND_BYTES} bytes, or has a NUL character")]
    Command,
    /// The arguments are too many or too long.
    #[error(
        "the command has more than {MAX_ARGS} arguments, or one longer than {MAX_VALUE_BYTES} bytes or with a NUL character"
    )]
    Args,
    /// A variable is invalid.
    #[error(
        "the variable {0:?} has an invalid name, or a value longer than {MAX_VALUE_BYTES} bytes or with a NUL character"
    )]
    Variable(String),
    /// There are too many variables or headers.
    #[error("the server has more than {MAX_VALUES} variables or headers")]
    Values,
    /// The URL is invalid.
    #[error("the URL is invalid; use for example https://example.com/mcp, without a user or a password")]
    Url,
    /// A header is invalid.
    #[error("the header {0:?} has an invalid name or value")]
    Header(String),
    /// Headers would be sent unencrypted to another machine.
    #[error("the headers would be sent unencrypted to another machine; use https://")]
    PlainHeaders,
}

impl ServerConfig {
    /// Checks the limits and the syntax.
    ///
    /// # Errors
    /// The first value that is invalid.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !is_name(&self.name) {
            return Err(ConfigError::Name(one_line(&self.name, MAX_NAME_BYTES)));
        }
        match &self.endpoint {
            Endpoint::Stdio { command, args, env } => check_stdio(command, args, env),
            Endpoint::Http { url, headers } => check_http(url, headers),
        }
    }
}

/// Whether a text can be the name of a server.
pub(crate) fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphanumeric();
    name.len() <= MAX_NAME_BYTES
        && name.starts_with(is_first)
        && name.chars().all(|c| is_first(c) || matches!(c, '.' | '-' | '_'))
}

fn check_stdio(command: &str, args: &[String], env: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    if command.trim().is_empty() || command.len() > MAX_COMMAND_BYTES || command.contains('\0') {
        return Err(ConfigError::Command);
    }
    let is_value = |value: &String| value.len() <= MAX_VALUE_BYTES && !value.contains('\0');
    if args.len() > MAX_ARGS || !args.iter().all(is_value) {
        return Err(ConfigError::Args);
    }
    if env.len() > MAX_VALUES {
        return Err(ConfigError::Values);
    }
    let is_key = |key: &str| !key.is_empty() && key.len() <= 256 && !key.contains(['=', '\0']);
    match env.iter().find(|(key, value)| !is_key(key) || !is_value(value)) {
        Some((key, _)) => Err(ConfigError::Variable(one_line(key, 64))),
        None => Ok(()),
    }
}

fn check_http(url: &str, headers: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let parsed = Url::parse(url).map_err(|_| ConfigError::Url)?;
    let has_user = !parsed.username().is_empty() || parsed.password().is_some();
    let is_web = matches!(parsed.scheme(), "http" | "https") && parsed.host_str().is_some_and(|host| !host.is_empty());
    if !is_web || has_user || url.len() > MAX_URL_BYTES {
        return Err(ConfigError::Url);
    }
    if headers.len() > MAX_VALUES {
        return Err(ConfigError::Values);
    }
    for (name, value) in headers {
        if header(name, value).is_none() {
            return Err(ConfigError::Header(one_line(name, 64)));
        }
    }
    if parsed.scheme() == "http" && !headers.is_empty() && !is_loopback(&parsed) {
        return Err(ConfigError::PlainHeaders);
    }
    Ok(())
}

/// Returns a header, if it is valid. Its value is marked as a secret.
pub(crate) fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name: HeaderName = name.parse().ok()?;
    let mut value: HeaderValue = value.parse().ok().filter(|_| value.len() <= MAX_VALUE_BYTES)?;
    value.set_sensitive(true);
    Some((name, value))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(url: &str, headers: &[(&str, &str)]) -> Result<(), ConfigError> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ServerConfig { name: "a".to_owned(), endpoint: Endpoint::Http { url: url.to_owned(), headers } }.check()
    }

    fn stdio(name: &str, command: &str, args: &[&str], env: &[(&str, &str)]) -> ServerConfig {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        ServerConfig { name: name.to_owned(), endpoint: Endpoint::Stdio { command: command.to_owned(), args, env } }
    }

    #[test]
    fn headers_are_sent_encrypted_or_on_this_machine_only() {
        let key = [("Authorization", "Bearer x")];
        assert_eq!(http("https://example.com/mcp", &key), Ok(()));
        assert_eq!(http("http://[::1]:8000/mcp", &key), Ok(()));
        assert_eq!(http("http://localhost/mcp", &key), Ok(()));
        assert_eq!(http("http://192.168.1.2/mcp", &[]), Ok(()));
        assert_eq!(http("http://192.168.1.2/mcp", &key), Err(ConfigError::PlainHeaders));
        assert_eq!(http("http://localhost.example.com/mcp", &key), Err(ConfigError::PlainHeaders));
    }

    #[test]
    fn invalid_urls_and_headers_are_refused() {
        for url in ["", "example.com", "ftp://example.com", "file:///etc/passwd", "https://user:key@example.com/mcp"] {
            assert_eq!(http(url, &[]), Err(ConfigError::Url), "{url:?}");
        }
        let refused = http("https://example.com", &[("X-Key", "a\r\nHost: b")]);
        assert_eq!(refused, Err(ConfigError::Header("X-Key".to_owned())));
    }

    #[test]
    fn invalid_names_commands_and_variables_are_refused() {
        assert_eq!(stdio("files", "npx", &["-y"], &[("KEY", "x")]).check(), Ok(()));
        for name in ["", "-a", "a b", "a/b", &"a".repeat(65)] {
            assert!(matches!(stdio(name, "npx", &[], &[]).check(), Err(ConfigError::Name(_))), "{name:?}");
        }
        assert_eq!(stdio("a", " ", &[], &[]).check(), Err(ConfigError::Command));
        assert_eq!(stdio("a", "npx", &["\0"], &[]).check(), Err(ConfigError::Args));
        assert_eq!(stdio("a", "npx", &[], &[("A=B", "x")]).check(), Err(ConfigError::Variable("A=B".to_owned())));
    }

    #[test]
    fn debug_text_has_no_secrets() {
        let server = stdio("a", "npx", &["--key=sk-1"], &[("KEY", "sk-1")]);
        assert!(!format!("{server:?}").contains("sk-1"), "{server:?}");
        let headers = BTreeMap::from([("X-Key".to_owned(), "sk-1".to_owned())]);
        let server = Endpoint::Http { url: "https://example.com/mcp?key=sk-1".to_owned(), headers };
        assert!(!format!("{server:?}").contains("sk-1"), "{server:?}");
    }

    #[test]
    fn stored_form_is_read_again() {
        let server = stdio("a", "npx", &["-y"], &[("KEY", "x")]);
        let text = serde_json::to_string(&server).unwrap();
        assert_eq!(text, r#"{"name":"a","kind":"stdio","command":"npx","args":["-y"],"env":{"KEY":"x"}}"#);
        assert_eq!(serde_json::from_str::<ServerConfig>(&text).unwrap(), server);
    }
}
