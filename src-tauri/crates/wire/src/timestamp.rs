//! Timestamps in JSON: RFC 3339 in UTC with nanoseconds, without trailing zeros of the fraction.
//!
//! Integer algorithms of the proleptic Gregorian calendar, after
//! <https://howardhinnant.github.io/date_algorithms.html>.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::excerpt;

/// A point in time. RFC 3339 cannot express years outside 0..=9999, so they are clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub SystemTime);

/// A text that is not an RFC 3339 timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{:?} is not a time such as 2026-01-02T03:04:05Z", excerpt(.0))]
pub struct ParseError(String);

const SECONDS_PER_DAY: i64 = 86_400;
/// The last second of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;
/// The first second of the year 0.
const FIRST_SECOND: i64 = -62_167_219_200;

impl Timestamp {
    /// Creates a time from milliseconds since 1970.
    #[must_use]
    pub fn from_unix_ms(ms: i64) -> Self {
        let since = Duration::from_millis(ms.unsigned_abs());
        let time = if ms < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
        Self(time.unwrap_or(UNIX_EPOCH))
    }

    /// Returns the milliseconds since 1970; 0 for earlier times.
    #[must_use]
    pub fn unix_ms(self) -> i64 {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ns) = unix(self.0);
        let days = seconds.div_euclid(SECONDS_PER_DAY);
        let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if ns > 0 {
            write!(f, ".{}", format!("{ns:09}").trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl FromStr for Timestamp {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse(text).ok_or_else(|| ParseError(text.to_owned()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Returns seconds and nanoseconds since 1970, with seconds clamped to the range of RFC 3339.
fn unix(time: SystemTime) -> (i64, u32) {
    let (seconds, ns) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |s| -s);
            match before.subsec_nanos() {
                0 => (seconds, 0),
                ns => (seconds.saturating_sub(1), 1_000_000_000 - ns),
            }
        }
    };
    (seconds.clamp(FIRST_SECOND, LAST_SECOND), ns)
}

/// Returns year, month and day of a day number since 1970-01-01. Internally, years begin in March, so that the leap
/// day is last.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn parse(text: &str) -> Option<Timestamp> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let is = |at: usize, one_of: &[u8]| text.as_bytes().get(at).is_some_and(|b| one_of.contains(b));
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt ") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut ns = 0_u32;
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        let (digits, tail) = fraction.split_at(end);
        if digits.is_empty() {
            return None;
        }
        ns = format!("{:0<9.9}", digits).parse().ok()?;
        rest = tail;
    }
    let offset_seconds = match rest {
        "Z" | "z" => 0,
        _ => {
            let sign = match rest.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let (hours, minutes) = rest.get(1..)?.split_once(':')?;
            sign * (hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60)
        }
    };
    let seconds = days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second
        - offset_seconds.clamp(-SECONDS_PER_DAY, SECONDS_PER_DAY);
    let base = if seconds >= 0 {
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds.unsigned_abs()))?
    } else {
        UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs()))?
    };
    Some(Timestamp(base.checked_add(Duration::from_nanos(u64::from(ns)))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: i64, ns: u64, text: &str) {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let base = if seconds >= 0 { UNIX_EPOCH + whole } else { UNIX_EPOCH - whole };
        let moment = Timestamp(base + Duration::from_nanos(ns));
        assert_eq!(moment.to_string(), text, "formatted");
        assert_eq!(text.parse(), Ok(moment), "{text} parsed");
    }

    #[test]
    fn timestamp_round_trips_through_text() {
        check(0, 0, "1970-01-01T00:00:00Z");
        check(1_767_323_045, 678_901_000, "2026-01-02T03:04:05.678901Z");
        check(951_782_400, 1, "2000-02-29T00:00:00.000000001Z");
        check(-1, 0, "1969-12-31T23:59:59Z");
        check(-1, 500_000_000, "1969-12-31T23:59:59.5Z");
        check(LAST_SECOND, 0, "9999-12-31T23:59:59Z");
    }

    #[test]
    fn timestamp_round_trips_through_milliseconds() {
        for ms in [0, 1, 1_767_323_045_678] {
            assert_eq!(Timestamp::from_unix_ms(ms).unix_ms(), ms, "{ms}");
        }
        assert_eq!(Timestamp::from_unix_ms(-500).to_string(), "1969-12-31T23:59:59.5Z", "a time before 1970");
        assert_eq!(Timestamp::from_unix_ms(-500).unix_ms(), 0, "a time before 1970");
    }

    #[test]
    fn date_conversion_round_trips() {
        for days in (-800_000..3_000_000).step_by(97) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn parse_accepts_offsets_and_refuses_other_forms() {
        assert_eq!(
            "2026-01-02T05:04:05.123456789123+02:00".parse(),
            "2026-01-02T03:04:05.123456789Z".parse::<Timestamp>(),
            "an offset, and digits below a nanosecond"
        );
        for text in ["", "2026", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01T00:00:00.Z", "é026-01-01T"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text:?}");
        }
    }
}
