//! The common multiple of factors, which the compiler does not limit.

use std::rc::Rc;

use serde_json::Value;

use super::position::Position;
use crate::error::Error;
use crate::limits::MAX_COMMON_MULTIPLE;

/// Checks the values of several `multipleOf` that apply to one number.
///
/// # Errors
/// When their least common multiple is too large.
pub(super) fn check_factors(factors: &[(Value, Rc<Position>)]) -> Result<(), Error> {
    let [.., (_, position)] = factors else { return Ok(()) };
    let all: Vec<(Option<u64>, u32)> = factors.iter().map(|(factor, _)| decimal(factor)).collect();
    let decimals = all.iter().map(|(_, decimals)| *decimals).max().unwrap_or(0);
    let mut common = Some(1);
    for (digits, own_decimals) in all {
        let scaled = || digits?.checked_mul(10_u64.checked_pow(decimals - own_decimals)?);
        common = common.zip(scaled()).and_then(|(first, second)| least_common_multiple(first, second));
    }
    if factors.len() > 1 && common.is_none_or(|multiple| multiple > MAX_COMMON_MULTIPLE) {
        return Err(position.unsupported("multipleOf", "its common multiple with others is too large"));
    }
    Ok(())
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
