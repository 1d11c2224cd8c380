//! Checks that computed numbers are finite. Damaged or overflowing weights give NaN and infinity, which no answer can be made of.

use crate::request::{GenerateError, NotFinite};

/// Checks a row of logits. At least one must be finite, and none may be positive infinity. A family may give tokens negative infinity, and a
/// damaged row of the output matrix makes NaN of one token only.
pub(crate) fn check_logits(logits: &[f32], has_adapter: bool) -> Result<(), GenerateError> {
    // Without an early end, so that it is computed in vectors.
    let (has_finite, has_infinite) = logits.iter().fold((false, false), |(has_finite, has_infinite), logit| {
        (has_finite | logit.is_finite(), has_infinite | (*logit == f32::INFINITY))
    });
    match (has_finite && !has_infinite, has_adapter) {
        (true, _) => Ok(()),
        (false, false) => Err(NotFinite::Logits.into()),
        (false, true) => Err(NotFinite::AdaptedLogits.into()),
    }
}

/// Checks the output rows of an encoder.
pub(crate) fn check_rows(rows: &[f32], source: NotFinite) -> Result<(), GenerateError> {
    if rows.iter().all(|x| x.is_finite()) { Ok(()) } else { Err(source.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_need_a_finite_maximum() {
        let (nan, infinite) = (f32::NAN, f32::INFINITY);
        for logits in [&[0.0][..], &[nan, 1.0, nan], &[-infinite, f32::MAX], &[f32::MIN; 40]] {
            assert!(check_logits(logits, false).is_ok(), "{logits:?}");
        }
        for logits in [&[][..], &[nan; 40], &[-infinite; 3], &[-infinite, nan], &[0.0, infinite], &[infinite; 2]] {
            for (has_adapter, names_it) in [(false, false), (true, true)] {
                let error = check_logits(logits, has_adapter).expect_err("no finite maximum").to_string();
                assert_eq!(error.contains("adapter"), names_it, "{logits:?}: {error}");
            }
        }
    }
}
