//! Parser for the subset of HTTP/1.1 (RFC 9112) that registry clients send.

use std::io::{self, BufRead};

/// Request line and headers of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, ...
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Lower-case names with values.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// Reads request line and headers. Returns `None` if the client has closed the connection.
    pub(crate) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut request = Self::default();
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no request line"));
        };
        (request.method, request.target) = (method.to_owned(), target.to_owned());
        loop {
            line.clear();
            if from.read_line(&mut line)? == 0 || line.trim().is_empty() {
                return Ok(Some(request));
            }
            if let Some((name, value)) = line.split_once(':') {
                request.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }

    /// Returns the value of a header by its lower-case name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first and last byte of `Range: bytes=first-last` for a body of `total` bytes.
    pub(super) fn range(&self, total: u64) -> Option<(u64, u64)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let last = if last.is_empty() { total.checked_sub(1)? } else { last.parse().ok()? };
        Some((first.parse().ok()?, last))
    }
}
