//! Norm, rotation, activation, addition, binary16.

use super::{Noise, assert_near, bits, usable};
use crate::Variant;

/// Lengths around the lanes, and ones that models have.
const LENGTHS: [usize; 12] = [0, 1, 2, 15, 16, 17, 31, 32, 33, 64, 128, 2050];

/// Runs `kernel` for all lengths and variants, at odd offsets, and compares with `oracle`, the bound being relative to
/// `1 + |expected|`.
fn check(
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

#[test]
fn swiglu_multiplies_by_the_gate() {
    check(
        "swiglu",
        1e-6,
        |v, gate, up| (v.swiglu)(gate, up),
        |gate, up| {
            gate.iter().zip(up).map(|(&g, &u)| f64::from(g) / (1.0 + (-f64::from(g)).exp()) * f64::from(u)).collect()
        },
    );
    for variant in usable() {
        let mut gate = [-1e30, -200.0, -90.0, 90.0, 1e30, 0.0, f32::INFINITY, f32::NAN];
        (variant.swiglu)(&mut gate, &[1.0; 8]);
        let [far, low, below, above, high, zero, infinite, nan] = gate;
        assert!(far == 0.0 && low.abs() < 1e-30 && below.abs() < 1e-30, "{}: closed {gate:?}", variant.name);
        assert!(above == 90.0 && high == 1e30 && zero == 0.0, "{}: open {gate:?}", variant.name);
        assert!(infinite == f32::INFINITY && nan.is_nan(), "{}: special {gate:?}", variant.name);
    }
}

#[test]
fn the_exponential_is_right_to_two_units_in_the_last_place() {
    // silu(-x) * (1 + exp(x)) / -x is 1, so a gate shows the exponential; steps of 0.013 reach every octave.
    for variant in usable() {
        let x: Vec<f32> = (-6600..6600).map(|i| i as f32 * 0.013 + 0.001).collect();
        let mut gate: Vec<f32> = x.iter().map(|x| -x).collect();
        (variant.swiglu)(&mut gate, &vec![1.0; x.len()]);
        for (&x, &got) in x.iter().zip(&gate) {
            let exact = -f64::from(x) / (1.0 + f64::from(x).exp());
            let error = (f64::from(got) / exact - 1.0).abs() * 2f64.powi(24);
            assert!(error < 6.0, "{}: silu({}) is {got}, {error} half units away from {exact}", variant.name, -x);
        }
    }
}

#[test]
fn add_adds() {
    check(
        "add",
        1e-7,
        |v, x, y| (v.add)(x, y),
        |x, y| x.iter().zip(y).map(|(&x, &y)| f64::from(x) + f64::from(y)).collect(),
    );
}

#[test]
fn rope_turns_pairs_and_leaves_the_rest() {
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
fn binary16_is_rounded_to_even_and_read_exactly() {
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
            let mut got = vec![0; x.len()];
            (variant.to_f16)(x, &mut got);
            for (&x, &got) in x.iter().zip(&got) {
                assert_eq!(got, half::f16::from_f32(x).to_bits(), "{}: {x:e} in binary16", variant.name);
            }
        }
    }
}
