//! As much of HTTP/1.1 (RFC 9112) as clients of a registry send.

use std::io::{self, BufRead};

/// The head of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, ...
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case, with their values.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// Reads a head; `None` when the client has closed.
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

    /// The value of a header, whose name is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The first and last byte that `Range: bytes=first-last` asks for, of `total`.
    pub(super) fn range(&self, total: u64) -> Option<(u64, u64)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let last = if last.is_empty() { total.checked_sub(1)? } else { last.parse().ok()? };
        Some((first.parse().ok()?, last))
    }
}
