//! Activations and the cap on logits, also where they leave the range of the exponential.

use super::elementwise::check;
use super::usable;

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn gelu(x: f64) -> f64 {
    x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

fn gelu_erf(x: f64) -> f64 {
    x / 2.0 * (1.0 + erf(x / 2f64.sqrt()))
}

/// The error function, as the series `2 / sqrt(pi) * exp(-x * x) * (x + 2 x^3 / 3 + 4 x^5 / 15 + ...)`.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// The oracle of a gated activation.
fn gated(activation: impl Fn(f64, f64) -> f64) -> impl Fn(&[f32], &[f32]) -> Vec<f64> {
    move |gate, up| gate.iter().zip(up).map(|(&g, &u)| activation(f64::from(g), f64::from(u))).collect()
}

#[test]
fn swiglu_multiplies_by_the_gate() {
    check("swiglu", 1e-6, |v, gate, up| (v.swiglu)(gate, up), gated(|g, u| silu(g) * u));
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
fn exp_error_is_below_two_units_in_the_last_place() {
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
fn gelu_matches_the_formula_over_its_range() {
    check("geglu", 1e-6, |v, gate, up| (v.geglu)(gate, up), gated(|g, u| gelu(g) * u));
    check("gelu", 1e-6, |v, x, _| (v.gelu)(x), gated(|g, _| gelu(g)));
    for variant in usable() {
        let mut x = [-1e30, -20.0, 20.0, 1e30, 0.0, f32::INFINITY, f32::NAN, -5.0];
        (variant.gelu)(&mut x);
        let [far, low, high, above, zero, infinite, nan, small] = x;
        assert!(far == 0.0 && low == 0.0 && zero == 0.0, "{}: closed {x:?}", variant.name);
        assert!(high == 20.0 && above == 1e30, "{}: open {x:?}", variant.name);
        assert!(infinite == f32::INFINITY && nan.is_nan(), "{}: special {x:?}", variant.name);
        // A result of -2.3e-7: a sum of 1 and tanh would have lost all of it.
        assert!((f64::from(small) / gelu(-5.0) - 1.0).abs() < 1e-5, "{}: gelu(-5) is {small:e}", variant.name);
    }
}

#[test]
fn gelu_with_the_error_function_matches_the_formula_over_its_range() {
    check("gelu_erf", 2e-7, |v, x, _| (v.gelu_erf)(x), gated(|g, _| gelu_erf(g)));
    for variant in usable() {
        let mut x = [-1e30, -20.0, 20.0, 1e30, 0.0, f32::INFINITY, f32::NAN, -5.0];
        (variant.gelu_erf)(&mut x);
        let [far, low, high, above, zero, infinite, nan, small] = x;
        assert!(far == 0.0 && low == 0.0 && zero == 0.0, "{}: closed {x:?}", variant.name);
        assert!(high == 20.0 && above == 1e30, "{}: open {x:?}", variant.name);
        assert!(infinite == f32::INFINITY && nan.is_nan(), "{}: special {x:?}", variant.name);
        assert!((f64::from(small) / gelu_erf(-5.0) - 1.0).abs() < 1e-5, "{}: gelu(-5) is {small:e}", variant.name);
        let x: Vec<f32> = (-7000..7000).map(|i| i as f32 * 1e-3).collect();
        let mut found = x.clone();
        (variant.gelu_erf)(&mut found);
        for (x, found) in x.into_iter().zip(found) {
            let exact = gelu_erf(x.into());
            let error = (f64::from(found) - exact).abs();
            assert!(error < 1.5e-7 * (1.0 + exact.abs()), "{}: gelu({x}) is {found}, not {exact}", variant.name);
        }
    }
}

#[test]
fn clamped_glu_clamps_at_its_limits() {
    let oracle = gated(|g, u| {
        let (g, u) = (g.min(7.0), u.clamp(-7.0, 7.0));
        g / (1.0 + (-1.702f32 as f64 * g).exp()) * (u + 1.0)
    });
    check("clamped_glu", 2e-6, |v, gate, up| (v.clamped_glu)(gate, up, 1.702, 7.0), oracle);
    for variant in usable() {
        let mut gate = [100.0, 100.0, -100.0, f32::NAN, 1.0];
        (variant.clamped_glu)(&mut gate, &[100.0, -100.0, 5.0, 1.0, f32::NAN], 1.702, 7.0);
        let [both, one, closed, nan, also] = gate;
        assert!(
            (both - 56.0).abs() < 1e-3 && (one + 42.0).abs() < 1e-3,
            "{}: 7 * 8 and 7 * -6: {gate:?}",
            variant.name
        );
        assert!(closed.abs() < 1e-30, "{}: a gate has no lower limit: {gate:?}", variant.name);
        assert!(nan.is_nan() && also.is_nan(), "{}: not-a-number is no limit: {gate:?}", variant.name);
    }
}

#[test]
fn silu_matches_the_formula() {
    check("silu", 1e-6, |v, x, _| (v.silu)(x), gated(|x, _| x / (1.0 + (-x).exp())));
}

#[test]
fn relu_squared_matches_the_formula() {
    check("relu_squared", 1e-7, |v, x, _| (v.relu_squared)(x), gated(|x, _| x.max(0.0).powi(2)));
    for variant in usable() {
        let mut x = [f32::NAN, -0.0, f32::INFINITY, f32::MIN, 2.0];
        (variant.relu_squared)(&mut x);
        assert!(x[0].is_nan() && x[1..] == [0.0, f32::INFINITY, 0.0, 4.0], "{}: {x:?}", variant.name);
    }
}

#[test]
fn sigmoid_approaches_zero_and_one() {
    check("sigmoid", 1e-6, |v, x, _| (v.sigmoid)(x), gated(|x, _| 1.0 / (1.0 + (-x).exp())));
    for variant in usable() {
        let mut x = [-1e30, -80.0, 80.0, f32::INFINITY, 0.0, f32::NAN];
        (variant.sigmoid)(&mut x);
        let [far, low, high, infinite, zero, nan] = x;
        assert!(far < 1e-38 && (low / 1.804_851_4e-35 - 1.0).abs() < 1e-5, "{}: low {x:?}", variant.name);
        assert!(high == 1.0 && infinite == 1.0 && zero == 0.5 && nan.is_nan(), "{}: {x:?}", variant.name);
    }
}

#[test]
fn softcap_approaches_its_limit() {
    check("softcap", 5e-6, |v, x, _| (v.softcap)(x, 30.0), gated(|x, _| 30.0 * (x / 30.0).tanh()));
    for variant in usable() {
        let mut x = [1e30, -1e30, 0.0, f32::NAN];
        (variant.softcap)(&mut x, 2.0);
        assert!(x[..3] == [2.0, -2.0, 0.0] && x[3].is_nan(), "{}: {x:?}", variant.name);
    }
}
