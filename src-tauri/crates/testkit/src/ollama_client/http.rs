//! HTTP/1.1 client with one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Read timeout of a connection.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// `http://host/path`.
#[derive(Debug, Clone)]
pub(super) struct Url {
    pub(super) host: String,
    /// Path and query, with the leading slash.
    pub(super) path: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, path) = text.strip_prefix("http://")?.split_once('/')?;
        Some(Self { host: host.to_owned(), path: format!("/{path}") })
    }
}

/// Response with parsed header and unread body.
pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    rest: BufReader<TcpStream>,
}

pub(super) fn request(method: &str, url: &Url, headers: &str) -> io::Result<Response> {
    let connection = TcpStream::connect(&url.host)?;
    connection.set_read_timeout(Some(READ_TIMEOUT))?;
    let head = format!("{method} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n", url.path, url.host);
    (&connection).write_all(head.as_bytes())?;
    let mut rest = BufReader::new(connection);
    let mut line = String::new();
    rest.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status =
        status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("no status line: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        if rest.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(Response { status, headers, rest });
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
}

impl Response {
    /// Returns the value of a header by its lower-case name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Reads the body: exactly `bytes`, or all of it.
    pub(super) fn body(mut self, bytes: Option<u64>) -> io::Result<Vec<u8>> {
        let content_length = self.header("content-length").and_then(|length| length.parse().ok());
        let mut body = Vec::new();
        if self.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
        } else {
            self.rest.take(bytes.or(content_length).unwrap_or(u64::MAX)).read_to_end(&mut body)?;
        }
        match bytes.or(content_length) {
            Some(expected) if (body.len() as u64) < expected => Err(io::ErrorKind::UnexpectedEof.into()),
            expected => {
                body.truncate(expected.map_or(body.len(), |expected| expected as usize));
                Ok(body)
            }
        }
    }

    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.rest.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("invalid chunk length: {line:?}")))?;
        let mut chunk = vec![0; length + 2];
        self.rest.read_exact(&mut chunk)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }
}
