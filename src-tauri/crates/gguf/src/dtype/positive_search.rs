//! The search for a scale of numbers from zero up: how the scales of sub-blocks become small integers where errors are
//! weighted, and where the search on IQ2_XXS's grid starts.

use super::lanes::nearest;
use super::scales::SMALLEST;

/// Number of passes over the elements.
const ROUNDS: usize = 5;

/// Returns the scale that leaves the least weighted error and the quants, at most `levels`.
///
/// Of nine grids around the one that puts the largest number on top, the best one is taken. Then one quant after the other
/// goes to the level that is best for the others' scale, if that leaves a smaller error, until nothing changes. An element
/// may be negative; ggml wraps its quant around, and so does this.
pub(super) fn positive_quants<const LEN: usize>(x: &[f32; LEN], weights: &[f32; LEN], levels: f32) -> (f32, [u8; LEN]) {
    let max = x.iter().fold(0.0f32, |max, &x| if x > max { x } else { max });
    // A NaN is not below the bound, as in ggml.
    if max < SMALLEST {
        return (0.0, [0; LEN]);
    }
    let level = |x: f32| {
        let x = nearest(x);
        if x < levels { x } else { levels }
    };
    let wrapped = |x: f32| x as i32 as u8;
    let error = |scale: f32, quant: &dyn Fn(f32) -> f32| {
        x.iter().zip(weights).fold(0.0f32, |sum, (&x, &w)| {
            let difference = x - scale * quant(x);
            sum + w * difference * difference
        })
    };

    let mut inverse = levels / max;
    let mut least = error(1.0 / inverse, &|x| f32::from(wrapped(nearest(inverse * x))));
    for tenths in (-4i8..=4).filter(|&tenths| tenths != 0) {
        let candidate = (0.1 * f32::from(tenths) + levels) / max;
        let error = error(1.0 / candidate, &|x| level(candidate * x));
        if error < least {
            (least, inverse) = (error, candidate);
        }
    }
    let mut quants = [0; LEN];
    let (mut sum_xq, mut sum_qq) = (0.0f32, 0.0f32);
    for (quant, (x, w)) in quants.iter_mut().zip(x.iter().zip(weights)) {
        let q = level(inverse * x);
        *quant = wrapped(q);
        (sum_xq, sum_qq) = (sum_xq + w * x * q, sum_qq + w * q * q);
    }
    for _ in 0..ROUNDS {
        let mut changed = false;
        for (quant, (x, w)) in quants.iter_mut().zip(x.iter().zip(weights)) {
            let q = f32::from(*quant);
            let (others_xq, others_qq) = (sum_xq - w * x * q, sum_qq - w * q * q);
            if !(others_xq > 0.0 && others_qq > 0.0) {
                continue;
            }
            let new = level(x * others_qq / others_xq);
            if new == q {
                continue;
            }
            let (xq, qq) = (others_xq + w * x * new, others_qq + w * new * new);
            if xq * xq * sum_qq > sum_xq * sum_xq * qq {
                *quant = wrapped(new);
                (sum_xq, sum_qq) = (xq, qq);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    (if sum_qq > 0.0 { sum_xq / sum_qq } else { 0.0 }, quants)
}
