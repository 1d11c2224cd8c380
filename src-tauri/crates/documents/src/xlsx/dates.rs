//! Dates of XLSX: numbers of days in the style of a date.

use std::collections::HashMap;

use crate::Error;
use crate::package::Package;
use crate::xml::{Node, attribute};

/// Days from 1899-12-30 to 1970-01-01, and from 1904-01-01.
const DAYS_1900: i64 = 25_569;
const DAYS_1904: i64 = 24_107;
/// Last day of the year 9999, the last that Excel shows.
const MAX_DAYS: f64 = 2_958_465.0;
const SECONDS_A_DAY: f64 = 86_400.0;

/// Styles of cells that show a number as a date.
pub(super) struct DateStyles {
    is_date: Vec<bool>,
    epoch_days: i64,
}

impl DateStyles {
    pub(super) const fn none() -> Self {
        Self { is_date: Vec::new(), epoch_days: DAYS_1900 }
    }

    pub(super) fn read(package: &mut Package<'_>, starts_1904: bool) -> Result<Self, Error> {
        let mut custom: HashMap<u32, bool> = HashMap::new();
        let (mut is_date, mut in_cell_styles) = (Vec::new(), false);
        package.read("xl/styles.xml", |node| {
            match node {
                Node::Start(element) => match element.local_name().as_ref() {
                    "numFmt" => {
                        let id = attribute(element, "numFmtId").and_then(|id| id.parse().ok());
                        if let (Some(id), Some(code)) = (id, attribute(element, "formatCode")) {
                            custom.insert(id, shows_date(&code));
                        }
                    }
                    "cellXfs" => in_cell_styles = true,
                    "xf" if in_cell_styles => {
                        let id = attribute(element, "numFmtId").and_then(|id| id.parse().ok()).unwrap_or_default();
                        // ECMA-376 part 1, 18.8.30: formats that every workbook has.
                        let built_in = matches!(id, 14..=22 | 27..=36 | 45..=47 | 50..=58);
                        is_date.push(custom.get(&id).copied().unwrap_or(built_in));
                    }
                    _ => {}
                },
                Node::End("cellXfs") => in_cell_styles = false,
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self { is_date, epoch_days: if starts_1904 { DAYS_1904 } else { DAYS_1900 } })
    }

    /// Returns the date of a number in a cell with this style; `None` if it is not a date.
    pub(super) fn show(&self, style: usize, value: &str) -> Option<String> {
        let days: f64 = value.trim().parse().ok()?;
        if !*self.is_date.get(style)? || !(0.0..=MAX_DAYS).contains(&days) {
            return None;
        }
        let seconds = (days.fract() * SECONDS_A_DAY).round() as i64;
        let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if days < 1.0 {
            return Some(time);
        }
        let (year, month, day) = civil(days as i64 - self.epoch_days);
        let date = format!("{year:04}-{month:02}-{day:02}");
        Some(if seconds == 0 { date } else { format!("{date} {time}") })
    }
}

/// Whether a format code shows a date: it has a letter of dates outside of quotes and brackets.
fn shows_date(code: &str) -> bool {
    let (mut in_quotes, mut in_brackets) = (false, false);
    code.chars().any(|c| {
        match c {
            '"' => in_quotes = !in_quotes,
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        !in_quotes && !in_brackets && matches!(c, 'y' | 'Y' | 'd' | 'D' | 'h' | 'H')
    })
}

/// Returns year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Days since 0000-03-01: leap days come last in a year that starts in March.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_date_styles_become_dates() {
        let dates = DateStyles { is_date: vec![false, true], epoch_days: DAYS_1900 };
        let check = |style, value: &str, expected: Option<&str>| {
            assert_eq!(dates.show(style, value).as_deref(), expected, "{value} in style {style}");
        };
        check(1, "45292", Some("2024-01-01"));
        check(1, "45351", Some("2024-02-29"));
        check(1, "36525.5", Some("1999-12-31 12:00:00"));
        check(1, "0.75", Some("18:00:00"));
        check(0, "45292", None);
        check(7, "45292", None);
        check(1, "text", None);
        check(1, "1e300", None);
        check(1, "NaN", None);
        assert!(
            shows_date("dd/mm/yyyy") && shows_date("h:mm") && !shows_date("0.00") && !shows_date("[Red]0 \"days\"")
        );
    }
}
