//! Steps of the gated delta rule against the formula in `f64`, and any split of the columns against the whole.

use super::{Noise, assert_near, bits, usable};
use crate::{DELTA_COLUMNS, DeltaStep};

/// Inputs of one step.
struct Inputs {
    state: Vec<f32>, // [keys, columns]
    k: Vec<f32>,
    q: Vec<f32>,
    v: Vec<f32>,
}

fn inputs(keys: usize, columns: usize) -> Inputs {
    let mut noise = Noise((keys * 100 + columns) as u64);
    let [k, q, v] = [keys, keys, columns].map(|len| noise.floats(len));
    Inputs { state: noise.floats(keys * columns), k, q, v }
}

const DECAY: f32 = 0.83;
const BETA: f32 = 0.6;

/// Steps of the columns from `first` on.
fn run(variant: &crate::Variant, inputs: &Inputs, first: usize, columns: usize) -> (Vec<f32>, Vec<f32>) {
    let Inputs { state, k, q, v } = inputs;
    let part = |row: &[f32]| row[first..first + columns].to_vec();
    let mut state: Vec<f32> = state.chunks(v.len()).flat_map(part).collect();
    let mut out = vec![f32::NAN; columns];
    let v = &v[first..first + columns];
    (variant.delta)(DeltaStep { state: &mut state, k, q, v, decay: DECAY, beta: BETA, out: &mut out });
    (state, out)
}

#[test]
fn delta_step_matches_the_formula() {
    for (keys, columns) in [(1, 1), (2, 3), (7, 16), (16, 31), (33, 32), (128, 32)] {
        let inputs = inputs(keys, columns);
        let Inputs { state, k, q, v } = &inputs;
        let at = |key: usize, column: usize| f64::from(DECAY) * f64::from(state[key * columns + column]);
        let sum = |x: &[f32], row: &dyn Fn(usize) -> f64| -> f64 {
            x.iter().enumerate().map(|(key, &x)| f64::from(x) * row(key)).sum()
        };
        let error = |column: usize| f64::from(BETA) * (f64::from(v[column]) - sum(k, &|key| at(key, column)));
        let next = |key: usize, column: usize| at(key, column) + f64::from(k[key]) * error(column);
        let states: Vec<f64> = (0..keys * columns).map(|at| next(at / columns, at % columns)).collect();
        let outs: Vec<f64> = (0..columns).map(|column| sum(q, &|key| next(key, column))).collect();
        for variant in usable() {
            let (state, out) = run(variant, &inputs, 0, columns);
            let what = format!("{}: {keys} x {columns}", variant.name);
            assert_near(&what, &state, &states, |_| 1e-5);
            assert_near(&what, &out, &outs, |_| 1e-5 * keys as f64);
        }
    }
}

#[test]
fn columns_do_not_depend_on_their_block() {
    let inputs = inputs(128, DELTA_COLUMNS);
    for variant in usable() {
        let (_, whole) = run(variant, &inputs, 0, DELTA_COLUMNS);
        for (first, columns) in [(0, 1), (3, 16), (5, 27)] {
            let (_, part) = run(variant, &inputs, first, columns);
            assert_eq!(bits(&part), bits(&whole[first..first + columns]), "{}: {columns} from {first}", variant.name);
        }
    }
}
