//! The time that a template may print, by Python's `strftime`. The clock itself is the caller's.

use std::fmt::Write as _;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment in local time, on the Gregorian calendar. Values out of range print as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The year.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
}

impl Default for Moment {
    /// The first second of 1970.
    fn default() -> Moment {
        Moment { year: 1970, month: 1, day: 1, hour: 0, minute: 0, second: 0 }
    }
}

impl Moment {
    /// A moment from seconds since 1970 in local time (days to date after Howard Hinnant's `civil_from_days`).
    pub fn from_unix_s(seconds: i64) -> Moment {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Years start in March, so that a leap day is the last of its year; eras are the calendar's 400-year cycles.
        let from_march_0 = days.saturating_add(719_468);
        let (era, day_of_era) = (from_march_0.div_euclid(146_097), from_march_0.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let small = |value: i64| u8::try_from(value).unwrap_or(0);
        Moment {
            year: i32::try_from(year).unwrap_or(i32::MAX),
            month: small(month),
            day: small(day_of_year - (153 * march_month + 2) / 5 + 1),
            hour: small(rest / 3_600),
            minute: small(rest / 60 % 60),
            second: small(rest % 60),
        }
    }

    /// The same time a day before.
    pub(crate) fn yesterday(self) -> Moment {
        if self.day > 1 {
            return Moment { day: self.day - 1, ..self };
        }
        let leap = (self.year % 4 == 0 && self.year % 100 != 0) || self.year % 400 == 0;
        let (year, month) =
            if self.month > 1 { (self.year, self.month - 1) } else { (self.year.saturating_sub(1), 12) };
        let day = match month {
            2 => 28 + u8::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        Moment { year, month, day, ..self }
    }

    /// 0 for Sunday (Sakamoto's method).
    fn weekday(self) -> usize {
        const OFFSETS: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let offset = OFFSETS.get(usize::from(self.month).wrapping_sub(1)).copied().unwrap_or(0);
        let year = i64::from(self.year) - i64::from(self.month < 3);
        let sum =
            year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + offset + i64::from(self.day);
        usize::try_from(sum.rem_euclid(7)).unwrap_or(0)
    }

    /// 1 for the first of January.
    fn day_of_year(self) -> u32 {
        const BEFORE: [u32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let before = BEFORE.get(usize::from(self.month).wrapping_sub(1)).copied().unwrap_or(0);
        before + u32::from(self.day) + u32::from(leap && self.month > 2)
    }

    /// The moment by a format of Python's `strftime`, in the C locale. Unknown directives stay as they are.
    pub fn strftime(self, format: &str) -> String {
        let mut text = String::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                text.push(letter);
                continue;
            }
            match letters.next() {
                Some('-') => match letters.next() {
                    Some(directive) => self.write(&mut text, directive, false),
                    None => text.push_str("%-"),
                },
                Some(directive) => self.write(&mut text, directive, true),
                None => text.push('%'),
            }
        }
        text
    }

    fn write(self, text: &mut String, directive: char, padded: bool) {
        let month = MONTHS.get(usize::from(self.month).wrapping_sub(1)).copied().unwrap_or_default();
        let day = DAYS.get(self.weekday()).copied().unwrap_or_default();
        let hour_12 = (self.hour + 11) % 12 + 1;
        let short = |name: &'static str| name.get(..3).unwrap_or(name);
        let (number, width) = match directive {
            'd' => (u32::from(self.day), 2),
            'm' => (u32::from(self.month), 2),
            'H' => (u32::from(self.hour), 2),
            'I' => (u32::from(hour_12), 2),
            'M' => (u32::from(self.minute), 2),
            'S' => (u32::from(self.second), 2),
            'y' => (self.year.rem_euclid(100).unsigned_abs(), 2),
            'j' => (self.day_of_year(), 3),
            _ => {
                match directive {
                    'Y' => text.push_str(&self.year.to_string()),
                    'B' => text.push_str(month),
                    'b' | 'h' => text.push_str(short(month)),
                    'A' => text.push_str(day),
                    'a' => text.push_str(short(day)),
                    'p' => text.push_str(if self.hour < 12 { "AM" } else { "PM" }),
                    'e' => text.push_str(&format!("{:2}", self.day)),
                    'F' => text.push_str(&self.strftime("%Y-%m-%d")),
                    'T' => text.push_str(&self.strftime("%H:%M:%S")),
                    'D' => text.push_str(&self.strftime("%m/%d/%y")),
                    '%' => text.push('%'),
                    other => text.extend(['%', other]),
                }
                return;
            }
        };
        let width = if padded { width } else { 0 };
        // Writing to a string cannot fail.
        let _ = write!(text, "{number:0width$}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, wanted: &str) {
        let moment = Moment { year: 2026, month: 2, day: 5, hour: 13, minute: 4, second: 9 };
        assert_eq!(moment.strftime(format), wanted, "{format:?}");
    }

    #[test]
    fn directives() {
        check("%Y-%m-%d", "2026-02-05");
        check("%d %b %Y, %-d %B %y", "05 Feb 2026, 5 February 26");
        check("%A %a %j", "Thursday Thu 036");
        check("%H:%M:%S %I %p %T", "13:04:09 01 PM 13:04:09");
        check("100%% %q %", "100% %q %");
    }

    #[test]
    fn the_day_before() {
        let check = |day: i64, wanted: &str| {
            let before = Moment::from_unix_s(day * 86_400).yesterday();
            assert_eq!(before.strftime("%F"), wanted, "before day {day}");
            assert_eq!(before, Moment::from_unix_s((day - 1) * 86_400), "as the seconds have it");
        };
        check(0, "1969-12-31");
        check(59, "1970-02-28");
        check(11_017, "2000-02-29");
        check(20_000, "2024-10-03");
    }

    #[test]
    fn seconds_become_dates() {
        let wanted =
            [(0, "1970-01-01 00:00:00 Thu"), (951_868_799, "2000-02-29 23:59:59 Tue"), (-1, "1969-12-31 23:59:59 Wed")];
        for (seconds, wanted) in wanted {
            assert_eq!(Moment::from_unix_s(seconds).strftime("%Y-%m-%d %H:%M:%S %a"), wanted, "{seconds} s");
        }
        Moment::from_unix_s(i64::MAX);
        Moment::from_unix_s(i64::MIN);
    }
}
