//! What a schema costs to compile, as far as the compiler does not limit it.

use serde_json::Value;

use super::place::Place;
use crate::error::Error;
use crate::limits::{MAX_COMMON_MULTIPLE, MAX_PATTERN_PAIRS};

/// Counts of a whole schema.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Schemas that are merged with others, since both apply to the same value.
    pub(super) merges: usize,
    patterns: usize,
    /// Where there were the most patterns.
    most_patterns: Option<(usize, Place)>,
    multiple: Option<Multiple>,
}

/// Least common multiple of all `multipleOf`.
#[derive(Debug)]
struct Multiple {
    /// Its digits without the decimal point; none if there are too many.
    digits: Option<u64>,
    /// How many of the digits are fractional.
    decimals: u32,
    /// Where the last factor was.
    place: Place,
}

impl Cost {
    pub(super) fn add_patterns(&mut self, count: usize, place: &Place) {
        self.patterns += count;
        if self.most_patterns.as_ref().is_none_or(|(most, _)| count > *most) {
            self.most_patterns = Some((count, place.clone()));
        }
    }

    pub(super) fn add_factor(&mut self, factor: &Value, place: &Place) {
        let (digits, decimals) = decimal(factor);
        let (before, decimals_before) =
            self.multiple.as_ref().map_or((Some(1), 0), |multiple| (multiple.digits, multiple.decimals));
        let common = decimals_before.max(decimals);
        let scale = |digits: Option<u64>, from: u32| digits?.checked_mul(10_u64.checked_pow(common - from)?);
        let digits = match (scale(before, decimals_before), scale(digits, decimals)) {
            (Some(first), Some(second)) => least_common_multiple(first, second),
            _ => None,
        };
        self.multiple = Some(Multiple { digits, decimals: common, place: place.clone() });
    }

    /// # Errors
    /// When the schema costs too much.
    pub(super) fn check(&self) -> Result<(), Error> {
        // Each merge of objects compares all of their patterns.
        let pairs = self.patterns.saturating_mul(self.patterns) / 2;
        if let Some((_, place)) = &self.most_patterns
            && pairs.saturating_mul(self.merges + 1) > MAX_PATTERN_PAIRS
        {
            return Err(place.unsupported("patternProperties", "too many patterns"));
        }
        if let Some(multiple) = &self.multiple
            && self.merges > 0
            && multiple.digits.is_none_or(|digits| digits > MAX_COMMON_MULTIPLE)
        {
            return Err(multiple.place.unsupported("multipleOf", "its common multiple with others is too large"));
        }
        Ok(())
    }
}

/// The digits of a positive number without the decimal point, and how many of them are fractional.
fn decimal(number: &Value) -> (Option<u64>, u32) {
    let text = number.as_f64().unwrap_or_default().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    (format!("{whole}{fraction}").parse().ok(), fraction.len() as u32)
}

fn least_common_multiple(first: u64, second: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (first, second);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (first / divisor.max(1)).checked_mul(second)
}
