//! The date and time that a template may print, by Python's `strftime`. The caller reads the clock.

use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};

/// The supported directives of Python's `strftime`.
const DIRECTIVES: &str = "dmHIMSyjYBbhAapeFTD%";

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// Date and time of day in local time. The default is the first second of 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime(DateTime);

impl Default for LocalTime {
    fn default() -> LocalTime {
        LocalTime(EPOCH)
    }
}

impl From<DateTime> for LocalTime {
    fn from(time: DateTime) -> LocalTime {
        LocalTime(time)
    }
}

impl LocalTime {
    /// Converts seconds since 1970 in local time. Saturates at the years -9999 and 9999.
    pub fn from_unix_s(seconds: i64) -> LocalTime {
        LocalTime(EPOCH.saturating_add(SignedDuration::from_secs(seconds)))
    }

    /// The same time on the previous day.
    pub(crate) fn yesterday(self) -> LocalTime {
        LocalTime(self.0.yesterday().unwrap_or(DateTime::MIN))
    }

    /// Formats by the directives of Python's `strftime` in the C locale. Unknown directives are copied literally.
    pub fn strftime(self, format: &str) -> String {
        // jiff has more directives than Python, and widths that a template could misuse, so all others are escaped.
        let mut escaped = String::with_capacity(format.len());
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('%') {
            escaped.push_str(before);
            let unpadded = after.strip_prefix('-');
            rest = unpadded.unwrap_or(after);
            match (rest.chars().next(), unpadded) {
                (Some('d' | 'm' | 'H' | 'I' | 'M' | 'S' | 'y' | 'j'), Some(_)) => escaped.push_str("%-"),
                (Some(directive), _) if DIRECTIVES.contains(directive) => escaped.push('%'),
                (Some(_), _) => escaped.push_str("%%"),
                (None, Some(_)) => escaped.push_str("%%-"),
                (None, None) => escaped.push_str("%%"),
            }
            let directive = rest.chars().next().map_or(0, char::len_utf8);
            let (directive, after) = rest.split_at_checked(directive).unwrap_or((rest, ""));
            escaped.push_str(directive);
            rest = after;
        }
        escaped.push_str(rest);
        // Writing to a string does not fail.
        self.0.strftime(&escaped).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, wanted: &str) {
        let time = LocalTime(datetime(2026, 2, 5, 13, 4, 9, 0));
        assert_eq!(time.strftime(format), wanted, "{format:?}");
    }

    #[test]
    fn strftime_formats_each_directive() {
        check("%Y-%m-%d", "2026-02-05");
        check("%d %b %Y, %-d %B %y", "05 Feb 2026, 5 February 26");
        check("%A %a %j", "Thursday Thu 036");
        check("%H:%M:%S %I %p %T", "13:04:09 01 PM 13:04:09");
        check("%e|%h|%D|%F|%-I|%-", " 5|Feb|02/05/26|2026-02-05|1|%-");
        check("100%% %q %", "100% %q %");
    }

    #[test]
    fn yesterday_crosses_months_and_leap_days() {
        let check = |day: i64, wanted: &str| {
            let before = LocalTime::from_unix_s(day * 86_400).yesterday();
            assert_eq!(before.strftime("%F"), wanted, "the day before day {day}");
            assert_eq!(before, LocalTime::from_unix_s((day - 1) * 86_400), "equals day {day} minus 86,400 s");
        };
        check(0, "1969-12-31");
        check(59, "1970-02-28");
        check(11_017, "2000-02-29");
        check(20_000, "2024-10-03");
    }

    #[test]
    fn unix_seconds_convert_to_dates() {
        let wanted =
            [(0, "1970-01-01 00:00:00 Thu"), (951_868_799, "2000-02-29 23:59:59 Tue"), (-1, "1969-12-31 23:59:59 Wed")];
        for (seconds, wanted) in wanted {
            assert_eq!(LocalTime::from_unix_s(seconds).strftime("%Y-%m-%d %H:%M:%S %a"), wanted, "{seconds} s");
        }
        LocalTime::from_unix_s(i64::MAX);
        LocalTime::from_unix_s(i64::MIN);
    }
}
