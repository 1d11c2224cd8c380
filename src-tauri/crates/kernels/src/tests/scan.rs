//! Steps of a state space model against the formula in `f64`, and any split of columns and tokens against the whole.

use super::{Noise, assert_near, bits, usable};
use crate::{SCAN_COLUMNS, SCAN_TOKENS, Scan, ScanToken, Variant};

const SKIP: f32 = 0.7;

/// Inputs of some steps.
struct Inputs {
    size: usize,
    columns: usize,
    state: Vec<f32>, // [size, columns]
    b: Vec<f32>,     // [tokens, size]
    c: Vec<f32>,     // [tokens, size]
    x: Vec<f32>,     // [tokens, columns]
    steps: Vec<f32>, // [tokens]
}

impl Inputs {
    fn new(size: usize, columns: usize, tokens: usize) -> Self {
        let mut noise = Noise((size * 100 + columns) as u64);
        let [state, b, c, x, steps] =
            [size * columns, tokens * size, tokens * size, tokens * columns, tokens].map(|len| noise.floats(len));
        Self { size, columns, state, b, c, x, steps: steps.iter().map(|x| x.abs()).collect() }
    }

    /// Returns the factor on the state before a token.
    fn decay(&self, token: usize) -> f32 {
        (-0.5 * self.steps[token]).exp()
    }

    /// Computes the columns from `first` on, in calls of up to `cut` tokens. Returns the state, and the outputs by token.
    fn run(&self, variant: &Variant, first: usize, columns: usize, cut: usize) -> (Vec<f32>, Vec<f32>) {
        let part = |row: &[f32]| row[first..first + columns].to_vec();
        let mut state: Vec<f32> = self.state.chunks(self.columns).flat_map(part).collect();
        let token = |at: usize| ScanToken {
            b: &self.b[at * self.size..][..self.size],
            c: &self.c[at * self.size..][..self.size],
            x: &self.x[at * self.columns + first..][..columns],
            step: self.steps[at],
            decay: self.decay(at),
        };
        let tokens: Vec<ScanToken<'_>> = (0..self.steps.len()).map(token).collect();
        let mut outs = vec![f32::NAN; tokens.len() * columns];
        for (tokens, out) in tokens.chunks(cut).zip(outs.chunks_mut(cut * columns)) {
            (variant.scan)(Scan { state: &mut state, tokens, skip: SKIP, out });
        }
        (state, outs)
    }
}

#[test]
fn scan_matches_the_formula() {
    for (size, columns) in [(1, 1), (2, 3), (7, 16), (16, 31), (33, 32), (128, 32)] {
        let inputs = Inputs::new(size, columns, 5);
        let mut states: Vec<f64> = inputs.state.iter().copied().map(f64::from).collect();
        let mut outs = Vec::new();
        for token in 0..5 {
            for column in 0..columns {
                let x = f64::from(inputs.x[token * columns + column]);
                let mut sum = f64::from(SKIP) * x;
                for row in 0..size {
                    let state = &mut states[row * columns + column];
                    let added = f64::from(inputs.b[token * size + row]) * f64::from(inputs.steps[token]) * x;
                    *state = f64::from(inputs.decay(token)) * *state + added;
                    sum += f64::from(inputs.c[token * size + row]) * *state;
                }
                outs.push(sum);
            }
        }
        for variant in usable() {
            let (state, out) = inputs.run(variant, 0, columns, SCAN_TOKENS);
            let what = format!("{}: {size} x {columns}", variant.name);
            assert_near(&what, &state, &states, |_| 1e-5);
            assert_near(&what, &out, &outs, |_| 1e-5 * size as f64);
        }
    }
}

#[test]
fn columns_and_tokens_do_not_depend_on_their_call() {
    let inputs = Inputs::new(128, SCAN_COLUMNS, 11);
    for variant in usable() {
        let (state, whole) = inputs.run(variant, 0, SCAN_COLUMNS, SCAN_TOKENS);
        for cut in 1..SCAN_TOKENS {
            let (other, parts) = inputs.run(variant, 0, SCAN_COLUMNS, cut);
            assert_eq!(bits(&other), bits(&state), "{}: the state of calls of {cut} tokens", variant.name);
            assert_eq!(bits(&parts), bits(&whole), "{}: outputs of calls of {cut} tokens", variant.name);
        }
        for (first, columns) in [(0, 1), (3, 16), (5, 27)] {
            let (_, part) = inputs.run(variant, first, columns, SCAN_TOKENS);
            let wanted: Vec<f32> =
                whole.chunks(SCAN_COLUMNS).flat_map(|row| row[first..first + columns].to_vec()).collect();
            assert_eq!(bits(&part), bits(&wanted), "{}: {columns} columns from {first}", variant.name);
        }
    }
}
