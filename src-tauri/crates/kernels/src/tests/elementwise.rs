//! Norms, softmax, rotation, scaling, addition, rows of keys and values.

use cairn_gguf::DType;

use super::{Noise, assert_near, bits, usable};
use crate::{KV_TYPES, Variant};

/// Lengths around the lanes, and ones that models have.
const LENGTHS: [usize; 12] = [0, 1, 2, 15, 16, 17, 31, 32, 33, 64, 128, 2050];

/// Runs `kernel` for all lengths and variants on unaligned slices, and compares the results with `oracle`. Errors may
/// be at most `bound * (1 + |expected|)`.
pub(super) fn check(
    what: &str,
    bound: f64,
    kernel: impl Fn(&Variant, &mut [f32], &[f32]),
    oracle: impl Fn(&[f32], &[f32]) -> Vec<f64>,
) {
    for len in LENGTHS {
        let mut noise = Noise(len as u64 + 5);
        let mut x = noise.activations(len + 1);
        let y = noise.activations(len + 1);
        let expected = oracle(&x[1..], &y[1..]);
        let input = x.clone();
        for variant in usable() {
            x.copy_from_slice(&input);
            kernel(variant, &mut x[1..], &y[1..]);
            let what = format!("{} {what} of {len}", variant.name);
            assert_near(&what, &x[1..], &expected, |i| bound * (1.0 + expected[i].abs()));
        }
    }
}

fn normed(x: &[f32], weight: &[f32]) -> Vec<f64> {
    let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / x.len() as f64;
    let inverse = 1.0 / (mean + 1e-5).sqrt();
    x.iter().zip(weight).map(|(&x, &w)| f64::from(x) * inverse * f64::from(w)).collect()
}

#[test]
fn rms_norm_divides_by_the_root_of_the_mean_square() {
    check("rms_norm_in_place", 1e-6, |v, x, w| (v.rms_norm_in_place)(x, w, 1e-5), normed);
    for variant in usable() {
        for len in LENGTHS {
            let mut noise = Noise(len as u64);
            let (mut x, weight) = (noise.activations(len), noise.floats(len));
            let mut out = vec![0.0; len];
            (variant.rms_norm)(&x, &weight, 1e-6, &mut out);
            (variant.rms_norm_in_place)(&mut x, &weight, 1e-6);
            assert_eq!(bits(&out), bits(&x), "{}: both forms of {len} are one function", variant.name);
        }
    }
}

fn layer_normed(x: &[f32], weight: &[f32]) -> Vec<f64> {
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let inverse = 1.0 / (variance + 1e-5).sqrt();
    x.iter().zip(weight).map(|(&x, &w)| (f64::from(x) - mean) * inverse * f64::from(w)).collect()
}

#[test]
fn layer_norm_subtracts_the_mean_and_divides_by_the_deviation() {
    check("layer_norm", 1e-5, |v, x, w| (v.layer_norm)(x, w, 1e-5), layer_normed);
    let shifted = |v: &Variant, x: &mut [f32], w: &[f32]| {
        x.iter_mut().for_each(|x| *x += 300.0);
        (v.layer_norm)(x, w, 1e-5);
    };
    // The mean is two hundred times the deviation, and a sum of squares would show little else.
    check("layer_norm far from zero", 2e-4, shifted, layer_normed);
}

#[test]
fn softmax_sums_to_one() {
    let shares = |x: &[f32], _: &[f32]| -> Vec<f64> {
        let sum: f64 = x.iter().map(|&x| f64::from(x).exp()).sum();
        x.iter().map(|&x| f64::from(x).exp() / sum).collect()
    };
    check("softmax", 1e-6, |v, x, _| (v.softmax)(x), shares);
    for variant in usable() {
        let mut x = [1000.0, 0.0, 1000.0, -1000.0];
        (variant.softmax)(&mut x);
        assert_eq!(x, [0.5, 0.0, 0.5, 0.0], "{}: large scores do not overflow", variant.name);
    }
}

#[test]
fn scale_and_add_scaled_match_the_formula() {
    let scaled = |x: &[f32], _: &[f32]| x.iter().map(|&x| f64::from(x) * 2.5).collect();
    check("scale", 1e-7, |v, x, _| (v.scale)(x, 2.5), scaled);
    let sums = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(&x, &y)| f64::from(x) - 0.3f64 * f64::from(y)).collect();
    check("add_scaled", 3e-6, |v, x, y| (v.add_scaled)(x, y, -0.3), sums);
}

#[test]
fn add_product_matches_the_formula() {
    let sums = |x: &[f32], y: &[f32]| {
        let [first, last] = [x[0], x[x.len() - 1]].map(f64::from);
        let pairs = x.iter().zip(y).map(|(&x, &y)| (f64::from(x), f64::from(y)));
        pairs.map(|(x, y)| x + y * (y + last - first)).collect()
    };
    // The second factor differs from the first, so that each is seen to be read.
    check(
        "add_product",
        1e-5,
        |v, x, y| {
            if let [first, .., last] = *x {
                let z: Vec<f32> = y.iter().map(|y| y + last - first).collect();
                (v.add_product)(x, y, &z);
            } else if let [_] = x {
                (v.add_product)(x, y, y);
            }
        },
        |x, y| if x.is_empty() { Vec::new() } else { sums(x, y) },
    );
}

#[test]
fn mul_matches_the_formula() {
    let products = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).collect();
    check("mul", 1e-7, |v, x, y| (v.mul)(x, y), products);
}

#[test]
fn add_matches_the_formula() {
    check(
        "add",
        1e-7,
        |v, x, y| (v.add)(x, y),
        |x, y| x.iter().zip(y).map(|(&x, &y)| f64::from(x) + f64::from(y)).collect(),
    );
}

#[test]
fn rope_rotates_pairs_and_keeps_other_elements() {
    for pairs in [0, 1, 7, 8, 16, 17, 32, 64] {
        let mut noise = Noise(pairs as u64);
        let x = noise.floats(2 * pairs + 5);
        let angles: Vec<f64> = (0..pairs).map(|_| f64::from(noise.unit()) * 3.0).collect();
        let cos: Vec<f32> = angles.iter().map(|angle| angle.cos() as f32).collect();
        let sin: Vec<f32> = angles.iter().map(|angle| angle.sin() as f32).collect();
        for interleaved in [false, true] {
            let mut expected: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for (i, angle) in angles.iter().enumerate() {
                let (a, b) = if interleaved { (2 * i, 2 * i + 1) } else { (i, i + pairs) };
                let (x, y) = (expected[a], expected[b]);
                expected[a] = x * angle.cos() - y * angle.sin();
                expected[b] = x * angle.sin() + y * angle.cos();
            }
            for variant in usable() {
                let mut got = x.clone();
                (variant.rope)(&mut got, &cos, &sin, interleaved);
                let what = format!("{} rope of {pairs}, interleaved {interleaved}", variant.name);
                assert_near(&what, &got, &expected, |_| 3e-7);
                assert_eq!(bits(&got[2 * pairs..]), bits(&x[2 * pairs..]), "{what}: elements past the pairs stay");
            }
        }
    }
}

#[test]
fn binary16_rounds_to_even_and_reads_exactly() {
    let all: Vec<f32> = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32()).collect();
    for (bits, &expected) in (0..=u16::MAX).zip(&all) {
        let got = crate::portable::arith::widen(bits);
        assert!(
            got.to_bits() == expected.to_bits() || expected.is_nan() && got.is_nan(),
            "{bits:#x}: {got} {expected}"
        );
    }
    let mut noise = Noise(3);
    let mut x: Vec<f32> = (0..100_000).map(|_| f32::from_bits(noise.bits() as u32)).filter(|x| !x.is_nan()).collect();
    // Every number, and every midpoint between neighbours, where ties show.
    x.extend(all.iter().filter(|x| !x.is_nan()));
    x.extend(all.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).filter(|x| !x.is_nan()));
    for variant in usable() {
        for (len, skip) in [(x.len(), 0), (33, 1), (15, 3), (0, 0)] {
            let x = &x[skip..(skip + len).min(x.len())];
            let mut got = vec![0; 2 * x.len()];
            (variant.encode_row)(DType::F16, x, &mut got);
            for (&x, &got) in x.iter().zip(got.as_chunks().0) {
                assert_eq!(got, half::f16::from_f32(x).to_le_bytes(), "{}: {x:e} in binary16", variant.name);
            }
        }
    }
}

#[test]
fn encode_row_equals_the_type_definition() {
    let mut noise = Noise(5);
    let mut x = noise.activations(32 * 500);
    // Any bits: subnormal numbers, infinities, whatever overflows a scale.
    x.extend((0..32 * 500).map(|_| f32::from_bits(noise.bits() as u32)).map(|x| if x.is_nan() { 0.0 } else { x }));
    // Under a largest of 127, or of -8 and 8, others lie on the grid or midway between two of its steps, or next to that.
    for largest in [127.0f32, -127.0, 8.0, -8.0] {
        for nudge in [-1, 0, 1] {
            let midway = (0..largest.abs() as i32 * 4).map(|at| at as f32 / 2.0 - largest.abs());
            // Zero has no bits below it.
            let near = midway.map(|x| f32::from_bits(x.to_bits().saturating_add_signed(nudge)));
            for part in near.collect::<Vec<_>>().chunks(31) {
                x.push(largest);
                x.extend(part);
                x.resize(x.len().next_multiple_of(32), 0.0);
            }
        }
    }
    x.extend([0.0; 32]);
    x.extend([-0.0; 32]);
    x.extend([1.0, -1.0].repeat(16));
    x.extend([-1.0, 1.0].repeat(16));
    for dtype in KV_TYPES {
        let mut expected = Vec::new();
        dtype.encode(&x, &mut expected).expect("whole blocks");
        for variant in usable() {
            let mut got = vec![0; expected.len()];
            (variant.encode_row)(dtype, &x, &mut got);
            let wrong = got.iter().zip(&expected).position(|(got, expected)| got != expected);
            let block = wrong.map(|at| &x[at / dtype.block_bytes() * dtype.block()..][..dtype.block()]);
            assert_eq!(block, None, "{} to {dtype}: byte {wrong:?} is another", variant.name);
        }
    }
}
