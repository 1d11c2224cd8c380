//! Servers in the JSON of other apps.
//!
//! Most apps have an object of servers by name, under `mcpServers` (Claude Desktop, Cursor, LM Studio and others), `servers` (VS
//! Code) or `context_servers` (Zed). Pages of servers often show only a part of it: one entry with its name, or one server alone.
//! All of these forms are read.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::{Map, Value};

use crate::config::{ConfigError, Endpoint, MAX_NAME_BYTES, ServerConfig};
use crate::text::{cut, one_line};

/// Longest text.
pub const MAX_IMPORT_BYTES: usize = 256 << 10;
/// Most servers of one text.
pub const MAX_IMPORTED_SERVERS: usize = 64;
/// Keys of an object of servers by name.
const LISTS: [&str; 3] = ["mcpServers", "servers", "context_servers"];
/// Keys of the URL of a server.
const URLS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// A server of an imported text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedServer {
    /// The server.
    pub config: ServerConfig,
    /// Whether the other app used it.
    pub is_enabled: bool,
}

/// Why a text cannot be imported. Has no values of variables and headers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The text is too long.
    #[error("the text has more than {MAX_IMPORT_BYTES} bytes")]
    TooLong,
    /// The text is not JSON.
    #[error("the text is not valid JSON: line {line}, column {column}")]
    Json {
        /// Line of the error.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// The text has no server.
    #[error("the text has no server; paste an object with \"mcpServers\", or one server with \"command\" or \"url\"")]
    Empty,
    /// There are too many servers.
    #[error("the text has more than {MAX_IMPORTED_SERVERS} servers")]
    TooMany,
    /// A value has another type than expected.
    #[error("{key:?} of the server {server:?} is not {expected}")]
    Type {
        /// Name of the server.
        server: String,
        /// Key of the value.
        key: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A server has neither a command nor a URL.
    #[error("the server {0:?} has neither \"command\" nor \"url\"")]
    NoEndpoint(String),
    /// A server has the older transport over HTTP.
    #[error(
        "the server {0:?} has the type \"sse\", which is not supported; use its URL for streamable HTTP, often ending in /mcp"
    )]
    Sse(String),
    /// A value must be replaced by the user.
    #[error("{key:?} of the server {server:?} has a placeholder like ${{…}}; replace it with its value")]
    Placeholder {
        /// Name of the server.
        server: String,
        /// Key of the value.
        key: String,
    },
    /// Two servers have the same name.
    #[error("two servers have the name {0:?}")]
    Twice(String),
    /// A server is invalid.
    #[error("the server {server:?} is invalid: {cause}")]
    Invalid {
        /// Name of the server.
        server: String,
        /// The cause.
        cause: ConfigError,
    },
}

/// Reads the servers in a text.
///
/// # Errors
/// If the text is not one of the supported forms, or one of its servers is invalid.
pub fn parse_servers(text: &str) -> Result<Vec<ImportedServer>, ImportError> {
    if text.len() > MAX_IMPORT_BYTES {
        return Err(ImportError::TooLong);
    }
    let Value::Object(object) = parse(text)? else { return Err(ImportError::Empty) };
    let servers = list(&object);
    if servers.len() > MAX_IMPORTED_SERVERS {
        return Err(ImportError::TooMany);
    }
    let mut imported: Vec<ImportedServer> = Vec::new();
    for (name, server) in servers {
        let server = read(&name, server)?;
        if imported.iter().any(|other| other.config.name == server.config.name) {
            return Err(ImportError::Twice(server.config.name));
        }
        imported.push(server);
    }
    if imported.is_empty() { Err(ImportError::Empty) } else { Ok(imported) }
}

/// Parses a text, or an entry of an object without the object's braces.
fn parse(text: &str) -> Result<Value, ImportError> {
    let text = text.trim().trim_start_matches('\u{feff}');
    let is_entry = text.starts_with('"');
    let braced = if is_entry { format!("{{{}}}", text.trim_end_matches(',')) } else { text.to_owned() };
    serde_json::from_str(&braced).map_err(|error| ImportError::Json {
        line: error.line(),
        column: error.column().saturating_sub(usize::from(is_entry && error.line() == 1)),
    })
}

/// Returns the servers of an object by name. The name is empty if the text has none.
fn list(object: &Map<String, Value>) -> Vec<(String, &Map<String, Value>)> {
    if is_server(object) {
        let name = object.get("name").and_then(Value::as_str).unwrap_or_default();
        return vec![(name.to_owned(), object)];
    }
    let nested = LISTS.iter().find_map(|key| object.get(*key)?.as_object());
    // VS Code's settings have the servers under "mcp".
    let in_settings = || object.get("mcp")?.as_object().and_then(|mcp| mcp.get("servers")?.as_object());
    let servers = nested.or_else(in_settings).unwrap_or(object);
    let is_whole = std::ptr::eq(servers, object);
    let servers = servers.iter().filter_map(|(name, value)| Some((name.clone(), value.as_object()?)));
    // Without a key of a list, other objects may be beside the servers.
    servers.filter(|(_, server)| !is_whole || is_server(server)).collect()
}

fn is_server(object: &Map<String, Value>) -> bool {
    object.contains_key("command") || URLS.iter().any(|key| object.contains_key(*key))
}

fn read(given: &str, server: &Map<String, Value>) -> Result<ImportedServer, ImportError> {
    let name = name(given, server);
    let reader = Reader { name: &name, server };
    let kind = server.get("type").or_else(|| server.get("transport")).and_then(Value::as_str).unwrap_or_default();
    let url = URLS.iter().find(|key| server.contains_key(**key));
    let endpoint = match url {
        _ if kind == "sse" => return Err(ImportError::Sse(name)),
        Some(key) if kind != "stdio" => Endpoint::Http { url: reader.text(key)?, headers: reader.map("headers")? },
        _ if server.contains_key("command") => {
            let (command, args) = reader.command()?;
            Endpoint::Stdio { command, args, env: reader.map("env")? }
        }
        _ => return Err(ImportError::NoEndpoint(name)),
    };
    let flag = |key: &str| server.get(key).and_then(Value::as_bool);
    let is_enabled = flag("disabled") != Some(true) && flag("enabled") != Some(false);
    let config = ServerConfig { name: name.clone(), endpoint };
    config.check().map_err(|cause| ImportError::Invalid { server: name, cause })?;
    Ok(ImportedServer { config, is_enabled })
}

/// Returns a valid name: the given one, or one from the host of the URL or from the command.
fn name(given: &str, server: &Map<String, Value>) -> String {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let host = || URLS.iter().find_map(|key| Url::parse(text(key)?).ok()?.host_str().map(str::to_owned));
    let first = || server.get("command")?.as_array()?.first()?.as_str();
    let program =
        || text("command").or_else(first).and_then(|command| command.rsplit(['/', '\\']).next()).map(str::to_owned);
    let raw = if given.trim().is_empty() { host().or_else(program).unwrap_or_default() } else { given.to_owned() };
    let valid: String =
        raw.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' }).collect();
    let valid = valid.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if valid.is_empty() { "server".to_owned() } else { cut(valid, MAX_NAME_BYTES).to_owned() }
}

/// Reads the values of one server.
struct Reader<'a> {
    name: &'a str,
    server: &'a Map<String, Value>,
}

impl Reader<'_> {
    fn wrong(&self, key: &str, expected: &'static str) -> ImportError {
        ImportError::Type { server: self.name.to_owned(), key: one_line(key, 64), expected }
    }

    fn checked(&self, key: &str, text: &str) -> Result<String, ImportError> {
        match text.contains("${") {
            true => Err(ImportError::Placeholder { server: self.name.to_owned(), key: one_line(key, 64) }),
            false => Ok(text.to_owned()),
        }
    }

    fn text(&self, key: &str) -> Result<String, ImportError> {
        let text = self.server.get(key).and_then(Value::as_str).ok_or_else(|| self.wrong(key, "a text"))?;
        self.checked(key, text)
    }

    /// The command and its arguments. Some apps have both in one list.
    fn command(&self) -> Result<(String, Vec<String>), ImportError> {
        let mut words = match self.server.get("command") {
            Some(Value::Array(_)) => self.list("command")?,
            _ => vec![self.text("command")?],
        };
        if self.server.contains_key("args") {
            words.extend(self.list("args")?);
        }
        let mut words = words.into_iter();
        Ok((words.next().unwrap_or_default(), words.collect()))
    }

    fn list(&self, key: &str) -> Result<Vec<String>, ImportError> {
        let wrong = || self.wrong(key, "a list of texts");
        let items = self.server.get(key).and_then(Value::as_array).ok_or_else(wrong)?;
        items.iter().map(|item| self.checked(key, item.as_str().ok_or_else(wrong)?)).collect()
    }

    /// Texts by name. Numbers and booleans become texts, as in an environment.
    fn map(&self, key: &str) -> Result<BTreeMap<String, String>, ImportError> {
        let Some(value) = self.server.get(key).filter(|value| !value.is_null()) else { return Ok(BTreeMap::new()) };
        let wrong = || self.wrong(key, "an object of texts");
        let entry = |(name, value): (&String, &Value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                _ => return Err(wrong()),
            };
            Ok((name.clone(), self.checked(name, &text)?))
        };
        value.as_object().ok_or_else(wrong)?.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(name: &str, command: &str, args: &[&str], env: &[(&str, &str)]) -> ImportedServer {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let endpoint = Endpoint::Stdio { command: command.to_owned(), args, env };
        ImportedServer { config: ServerConfig { name: name.to_owned(), endpoint }, is_enabled: true }
    }

    fn http(name: &str, url: &str) -> ImportedServer {
        let endpoint = Endpoint::Http { url: url.to_owned(), headers: BTreeMap::new() };
        ImportedServer { config: ServerConfig { name: name.to_owned(), endpoint }, is_enabled: true }
    }

    #[test]
    fn forms_of_other_apps_are_read() {
        let files = stdio("files", "npx", &["-y", "server-files", "/tmp"], &[("LEVEL", "3")]);
        let server = r#"{"command":"npx","args":["-y","server-files","/tmp"],"env":{"LEVEL":3}}"#;
        for text in [
            format!(r#"{{"mcpServers":{{"files":{server}}}}}"#),
            format!(r#"{{"inputs":[],"servers":{{"files":{server}}}}}"#),
            format!(r#"{{"mcp":{{"servers":{{"files":{server}}}}}}}"#),
            format!(r#"{{"context_servers":{{"files":{server}}}}}"#),
            format!(r#"{{"files":{server}}}"#),
            format!(" \"files\": {server},\n"),
            format!("\u{feff}{{\"files\":{server}}}"),
        ] {
            assert_eq!(parse_servers(&text), Ok(vec![files.clone()]), "{text}");
        }
    }

    #[test]
    fn server_alone_gets_a_name() {
        assert_eq!(
            parse_servers(r#"{"command":"/opt/bin/my files"}"#),
            Ok(vec![stdio("my-files", "/opt/bin/my files", &[], &[])])
        );
        let url = "https://mcp.example.com/mcp";
        assert_eq!(parse_servers(&format!(r#"{{"url":"{url}"}}"#)), Ok(vec![http("mcp.example.com", url)]));
        assert_eq!(parse_servers(&format!(r#"{{"name":"docs","serverUrl":"{url}"}}"#)), Ok(vec![http("docs", url)]));
        assert_eq!(
            parse_servers(r#"{"command":["uvx","a"],"args":["b"]}"#),
            Ok(vec![stdio("uvx", "uvx", &["a", "b"], &[])])
        );
    }

    #[test]
    fn disabled_servers_are_marked() {
        for flag in [r#""disabled":true"#, r#""enabled":false"#] {
            let servers = parse_servers(&format!(r#"{{"mcpServers":{{"a":{{"command":"x",{flag}}}}}}}"#)).unwrap();
            assert!(!servers[0].is_enabled, "{flag}");
        }
    }

    #[test]
    fn texts_without_servers_are_refused() {
        for text in ["{}", "[]", "1", r#"{"mcpServers":{}}"#, r#"{"a":{"b":{}}}"#] {
            assert_eq!(parse_servers(text), Err(ImportError::Empty), "{text}");
        }
        assert_eq!(parse_servers("{\n  x"), Err(ImportError::Json { line: 2, column: 3 }));
        assert_eq!(parse_servers(&" ".repeat(MAX_IMPORT_BYTES + 1)), Err(ImportError::TooLong));
        let many: Vec<String> = (0..=MAX_IMPORTED_SERVERS).map(|i| format!(r#""s{i}":{{"command":"x"}}"#)).collect();
        assert_eq!(parse_servers(&format!("{{{}}}", many.join(","))), Err(ImportError::TooMany));
        assert!(parse_servers(&"[".repeat(1000)).is_err(), "nested deeply");
    }

    #[test]
    fn invalid_servers_are_refused_without_their_secrets() {
        let check = |server: &str, expected: &str| {
            let error = parse_servers(&format!(r#"{{"mcpServers":{{"a":{server}}}}}"#)).unwrap_err().to_string();
            assert!(error.contains(expected), "{server}: {error}");
            assert!(!error.contains("sk-1"), "{error}");
        };
        check(r#"{"args":[]}"#, "neither");
        check(r#"{"command":1}"#, "not a text");
        check(r#"{"command":"x","args":"-y"}"#, "not a list of texts");
        check(r#"{"command":"x","env":{"KEY":["sk-1"]}}"#, "not an object of texts");
        check(r#"{"command":"x","env":{"KEY":"${input:sk-1}"}}"#, "placeholder");
        check(r#"{"type":"sse","url":"https://example.com/sse"}"#, "sse");
        check(r#"{"url":"http://example.com/","headers":{"X-Key":"sk-1"}}"#, "unencrypted");
        check(r#"{"command":"","env":{"KEY":"sk-1"}}"#, "command is empty");
        let twice = parse_servers(r#"{"a b":{"command":"x"},"a-b":{"command":"y"}}"#);
        assert_eq!(twice, Err(ImportError::Twice("a-b".to_owned())));
    }
}
