//! Durations in Go's format: `5m0s`, `1.5s`, `250ms`.
//!
//! Ollama's API and command line use this format. The grammar is that of <https://pkg.go.dev/time#ParseDuration>, with
//! signed 64-bit nanoseconds.

use crate::excerpt;

/// Why a text is not a duration. The texts are Go's, which Ollama's clients expect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No number, a stray character, or a value that 64 bits cannot hold.
    #[error("time: invalid duration {:?}", excerpt(.0))]
    Invalid(String),
    /// A number without a unit, other than `0`.
    #[error("time: missing unit in duration {:?}", excerpt(.0))]
    MissingUnit(String),
    /// A unit that Go does not have, for example days.
    #[error("time: unknown unit {:?} in duration {:?}", excerpt(.unit), excerpt(.text))]
    UnknownUnit {
        /// The unit as written.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const NANOSECOND: i128 = 1;
const MICROSECOND: i128 = 1_000;
const MILLISECOND: i128 = 1_000_000;
const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

/// Parses a duration to nanoseconds.
///
/// # Errors
/// If the text is not a duration.
pub fn parse(text: &str) -> Result<i64, ParseError> {
    let invalid = || ParseError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total_ns: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit_ns = match unit {
            "" => return Err(ParseError::MissingUnit(text.to_owned())),
            "ns" => NANOSECOND,
            "us" | "µs" | "μs" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            _ => return Err(ParseError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() }),
        };
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let mut part_ns = whole.checked_mul(unit_ns).ok_or_else(invalid)?;
        // Digits past the 18th are below a nanosecond in every unit, so they cannot change the sum.
        let mut scale = 1_i128;
        for digit in fraction.bytes().take(18) {
            scale *= 10;
            part_ns += i128::from(digit - b'0') * unit_ns / scale;
        }
        total_ns = total_ns.checked_add(part_ns).ok_or_else(invalid)?;
        if total_ns > i128::from(i64::MAX) {
            return Err(invalid());
        }
        rest = tail;
    }
    let total_ns = if negative { -total_ns } else { total_ns };
    i64::try_from(total_ns).map_err(|_| invalid())
}

/// Formats nanoseconds as Go does: no unit above hours, and a fraction only in the last unit.
#[must_use]
pub fn format(ns: i64) -> String {
    if ns == 0 {
        return "0s".to_owned();
    }
    let sign = if ns < 0 { "-" } else { "" };
    let size = i128::from(ns).abs();
    if size < SECOND {
        let units = [(MILLISECOND, "ms"), (MICROSECOND, "µs"), (NANOSECOND, "ns")];
        let (unit_ns, unit) =
            units.into_iter().find(|(unit_ns, _)| size >= *unit_ns).expect("the size is at least a nanosecond");
        return format!("{sign}{}{unit}", decimal(size, unit_ns));
    }
    let (hours, minutes) = (size / HOUR, size % HOUR / MINUTE);
    let seconds = decimal(size % MINUTE, SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Returns `size / unit` as a decimal, without trailing zeros. Units are powers of ten.
fn decimal(size: i128, unit: i128) -> String {
    let (whole, fraction) = (size / unit, size % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{fraction:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, ns: i64, printed: &str) {
        assert_eq!(parse(text), Ok(ns), "{text:?} parsed");
        assert_eq!(format(ns), printed, "{text:?} formatted");
        assert_eq!(parse(printed), Ok(ns), "{printed:?} parsed");
    }

    #[test]
    fn duration_round_trips_through_text() {
        check("5m", 300_000_000_000, "5m0s");
        check("1h30m", 5_400_000_000_000, "1h30m0s");
        check("0", 0, "0s");
        check("-1m", -60_000_000_000, "-1m0s");
        check("1.5s", 1_500_000_000, "1.5s");
        check(".5ms", 500_000, "500µs");
        check("1us", 1_000, "1µs");
        check("2m0.25s", 120_250_000_000, "2m0.25s");
        check("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s");
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in ["", "-", "s", "1..5s", ".", ".s", "9999999999h", "1.2.3s"] {
            assert!(matches!(parse(text), Err(ParseError::Invalid(_))), "{text:?}: {:?}", parse(text));
        }
        assert_eq!(parse("-1").unwrap_err().to_string(), "time: missing unit in duration \"-1\"");
        assert_eq!(parse("2d").unwrap_err().to_string(), "time: unknown unit \"d\" in duration \"2d\"");
        assert!(parse("1é").is_err(), "a multi-byte character is an error, not a panic");
    }
}
