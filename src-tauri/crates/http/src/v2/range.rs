//! Ranges of bytes that clients ask for (RFC 9110, section 14).

use std::ops::Range;

/// What a `Range` header means for so many bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of them: nothing was asked, or something that a server may pass over.
    All,
    /// These, of which there is at least one.
    Part(Range<u64>),
    /// Bytes that are not there.
    Unsatisfiable,
}

/// Reads a `Range` header. Several ranges at once, and other units than bytes, are passed over, as a server may.
pub(super) fn asked(header: Option<&str>, size_bytes: u64) -> Asked {
    let Some((first, last)) =
        header.and_then(|text| text.strip_prefix("bytes=")).and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::All;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(size_bytes),
        (Ok(first), Err(_)) if last.is_empty() => first..size_bytes,
        // The last so many bytes.
        (Err(_), Ok(count)) if first.is_empty() => size_bytes.saturating_sub(count)..size_bytes,
        _ => return Asked::All,
    };
    if range.start < range.end { Asked::Part(range) } else { Asked::Unsatisfiable }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_range() {
        let check = |header: &str, expected: Asked| assert_eq!(asked(Some(header), 100), expected, "{header:?}");
        check("bytes=0-0", Asked::Part(0..1));
        check("bytes=10-19", Asked::Part(10..20));
        check("bytes=90-", Asked::Part(90..100));
        check("bytes=90-1000", Asked::Part(90..100));
        check("bytes=0-18446744073709551615", Asked::Part(0..100));
        check("bytes=-10", Asked::Part(90..100));
        check("bytes=-1000", Asked::Part(0..100));
        for nothing in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            check(nothing, Asked::Unsatisfiable);
        }
        for passed_over in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=0-1,5-6", "lines=0-1", "bytes=a-b", "bytes=-1-2"]
        {
            check(passed_over, Asked::All);
        }
        assert_eq!(asked(None, 100), Asked::All, "nothing was asked");
        assert_eq!(asked(Some("bytes=0-"), 0), Asked::Unsatisfiable, "there is not one byte");
    }
}
