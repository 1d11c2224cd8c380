//! Steps of a state space model. A row of a block stays in registers for several tokens, because rows are independent of each other.

use super::Arith;
use super::arith::{LANES, Lanes};
use crate::scan::{SCAN_COLUMNS, SCAN_TOKENS, Scan, ScanToken};

/// Vectors in a row of a whole block.
const VECTORS: usize = SCAN_COLUMNS / LANES;

/// The steps of some tokens on a block of columns.
#[inline(always)]
pub(crate) fn scan<A: Arith>(scan: Scan<'_>) {
    let columns = scan.check();
    let Scan { state, tokens, skip, out } = scan;
    if columns < SCAN_COLUMNS {
        let each = tokens.iter().zip(out.chunks_exact_mut(columns));
        return each.for_each(|(token, out)| narrow::<A>(state, token, skip, out));
    }
    let rows: &mut [[Lanes; VECTORS]] = state.as_chunks_mut::<LANES>().0.as_chunks_mut().0;
    let out: &mut [[Lanes; VECTORS]] = out.as_chunks_mut::<LANES>().0.as_chunks_mut().0;
    match (tokens.as_array::<SCAN_TOKENS>(), out.as_mut_array::<SCAN_TOKENS>()) {
        (Some(tokens), Some(out)) => whole::<A, SCAN_TOKENS>(rows, tokens, skip, out),
        _ => {
            let each = tokens.as_chunks::<1>().0.iter().zip(out.as_chunks_mut::<1>().0);
            each.for_each(|(token, out)| whole::<A, 1>(rows, token, skip, out));
        }
    }
}

#[inline(always)]
fn whole<A: Arith, const TOKENS: usize>(
    rows: &mut [[Lanes; VECTORS]],
    tokens: &[ScanToken<'_>; TOKENS],
    skip: f32,
    out: &mut [[Lanes; VECTORS]; TOKENS],
) {
    let size = rows.len();
    let (b, c) = (tokens.each_ref().map(|token| &token.b[..size]), tokens.each_ref().map(|token| &token.c[..size]));
    let decays = tokens.each_ref().map(|token| token.decay);
    let mut inputs = [[[0.0; LANES]; VECTORS]; TOKENS];
    for (input, token) in inputs.iter_mut().zip(tokens) {
        input.as_flattened_mut().iter_mut().zip(token.x).for_each(|(input, x)| *input = token.step * x);
    }
    let mut sums = [[[0.0; LANES]; VECTORS]; TOKENS];
    for (at, row) in rows.iter_mut().enumerate() {
        let mut x = *row;
        for token in 0..TOKENS {
            for vector in 0..VECTORS {
                let mut next = x[vector].map(|x| decays[token] * x);
                A::fma_splat(b[token][at], &inputs[token][vector], &mut next);
                A::fma_splat(c[token][at], &next, &mut sums[token][vector]);
                x[vector] = next;
            }
        }
        *row = x;
    }
    for ((out, sums), token) in out.iter_mut().zip(&sums).zip(tokens) {
        let each = out.as_flattened_mut().iter_mut().zip(sums.as_flattened()).zip(token.x);
        each.for_each(|((out, &sum), &x)| *out = A::fma(skip, x, sum));
    }
}

/// The same for the last columns of a head and one token, in the same order.
#[inline(always)]
fn narrow<A: Arith>(state: &mut [f32], token: &ScanToken<'_>, skip: f32, out: &mut [f32]) {
    out.fill(0.0);
    for (row, (&b, &c)) in state.chunks_exact_mut(out.len()).zip(token.b.iter().zip(token.c)) {
        for ((state, &x), sum) in row.iter_mut().zip(token.x).zip(&mut *out) {
            *state = A::fma(b, token.step * x, token.decay * *state);
            *sum = A::fma(c, *state, *sum);
        }
    }
    out.iter_mut().zip(token.x).for_each(|(out, &x)| *out = A::fma(skip, x, *out));
}
