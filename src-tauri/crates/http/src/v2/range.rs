//! Byte range requests (RFC 9110, section 14).

use std::ops::Range;

/// Range of a blob that a request selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestedRange {
    /// The whole blob: no `Range` header, or one that is ignored.
    Whole,
    /// A range with at least one byte.
    Part(Range<u64>),
    /// A range past the end of the blob.
    Unsatisfiable,
}

/// Parses a `Range` header for a blob of `size_bytes`. Ignores multiple ranges and units other than bytes, as the RFC
/// permits.
pub(super) fn parse_range(header: Option<&str>, size_bytes: u64) -> RequestedRange {
    let Some((first, last)) =
        header.and_then(|text| text.strip_prefix("bytes=")).and_then(|range| range.trim().split_once('-'))
    else {
        return RequestedRange::Whole;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(size_bytes),
        (Ok(first), Err(_)) if last.is_empty() => first..size_bytes,
        // A suffix: the last `count` bytes.
        (Err(_), Ok(count)) if first.is_empty() => size_bytes.saturating_sub(count)..size_bytes,
        _ => return RequestedRange::Whole,
    };
    if range.start < range.end { RequestedRange::Part(range) } else { RequestedRange::Unsatisfiable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_range_accepts_every_form() {
        let check =
            |header: &str, expected: RequestedRange| assert_eq!(parse_range(Some(header), 100), expected, "{header:?}");
        check("bytes=0-0", RequestedRange::Part(0..1));
        check("bytes=10-19", RequestedRange::Part(10..20));
        check("bytes=90-", RequestedRange::Part(90..100));
        check("bytes=90-1000", RequestedRange::Part(90..100));
        check("bytes=0-18446744073709551615", RequestedRange::Part(0..100));
        check("bytes=-10", RequestedRange::Part(90..100));
        check("bytes=-1000", RequestedRange::Part(0..100));
        for empty in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            check(empty, RequestedRange::Unsatisfiable);
        }
        for ignored in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=0-1,5-6", "lines=0-1", "bytes=a-b", "bytes=-1-2"]
        {
            check(ignored, RequestedRange::Whole);
        }
        assert_eq!(parse_range(None, 100), RequestedRange::Whole, "no header");
        assert_eq!(parse_range(Some("bytes=0-"), 0), RequestedRange::Unsatisfiable, "an empty blob");
    }
}
