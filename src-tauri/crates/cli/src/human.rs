//! Human-readable sizes, times and rates, in the format of `ollama`.

use std::time::{Duration, SystemTime};

use cairn_wire::Timestamp;

/// Bytes in decimal units: `999 B`, `4.7 GB`, `23 MB`, `2 GB`.
pub(crate) fn bytes(count: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)];
    match units.into_iter().find(|(_, unit)| count as f64 >= *unit) {
        None => format!("{count} B"),
        Some((name, unit)) => {
            let value = count as f64 / unit;
            if value >= 10.0 || value.fract() == 0.0 {
                format!("{value:.0} {name}", value = value.trunc())
            } else {
                format!("{value:.1} {name}")
            }
        }
    }
}

/// A duration with about two significant digits: `180 ms`, `1.2 s`, `11 s`, `3 min`.
pub(crate) fn short_duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.0095 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 0.9995 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}

/// A number of files: `1 file`, `2 files`.
pub(crate) fn files(count: u64) -> String {
    match count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}

/// A time relative to now: `3 minutes ago`, `4 minutes from now`.
pub(crate) fn relative(moment: Timestamp, now: SystemTime) -> String {
    match now.duration_since(moment.0) {
        Ok(ago) => format!("{} ago", approximate(ago)),
        Err(ahead) => format!("{} from now", approximate(ahead.duration())),
    }
}

/// A duration in one unit: `Less than a second`, `About an hour`, `3 weeks`.
fn approximate(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let minutes = seconds / 60;
    // Hours are rounded; all other units are truncated, as in `ollama`.
    let hours = (duration.as_secs_f64() / 3600.0).round() as u64;
    match () {
        () if seconds < 1 => "Less than a second".to_owned(),
        () if seconds == 1 => "1 second".to_owned(),
        () if seconds < 60 => format!("{seconds} seconds"),
        () if minutes == 1 => "About a minute".to_owned(),
        () if minutes < 60 => format!("{minutes} minutes"),
        () if hours == 1 => "About an hour".to_owned(),
        () if hours < 48 => format!("{hours} hours"),
        () if hours < 24 * 14 => format!("{} days", hours / 24),
        () if hours < 24 * 60 => format!("{} weeks", hours / 24 / 7),
        () if hours < 24 * 365 * 2 => format!("{} months", hours / 24 / 30),
        () => format!("{} years", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_units() {
        let check = |count: u64, text: &str| assert_eq!(bytes(count), text, "{count}");
        check(0, "0 B");
        check(999, "999 B");
        check(4_661_211_424, "4.7 GB");
        check(23_999_999, "23 MB");
        check(2_000_000_000, "2 GB");
        check(1_500, "1.5 KB");
        assert_eq!([files(0), files(1), files(2)], ["0 files", "1 file", "2 files"], "singular and plural");
    }

    #[test]
    fn short_durations_are_formatted() {
        for (us, text) in
            [(5_000, "5.0 ms"), (180_400, "180 ms"), (1_234_000, "1.2 s"), (11_200_000, "11 s"), (180_000_000, "3 min")]
        {
            assert_eq!(short_duration(Duration::from_micros(us)), text, "{us} us");
        }
    }

    #[test]
    fn relative_times_have_one_unit() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        let check = |seconds_ago: u64, text: &str| {
            let moment = Timestamp(now - Duration::from_secs(seconds_ago));
            assert_eq!(relative(moment, now), text, "{seconds_ago} seconds ago");
        };
        check(0, "Less than a second ago");
        check(1, "1 second ago");
        check(59, "59 seconds ago");
        check(60, "About a minute ago");
        check(3_599, "59 minutes ago");
        check(3_600, "About an hour ago");
        check(7_000, "2 hours ago");
        check(86_400 * 3, "3 days ago");
        check(86_400 * 15, "2 weeks ago");
        check(86_400 * 100, "3 months ago");
        check(86_400 * 1_000, "2 years ago");
        let ahead = Timestamp(now + Duration::from_secs(299));
        assert_eq!(relative(ahead, now), "4 minutes from now", "a time in the future");
    }
}
