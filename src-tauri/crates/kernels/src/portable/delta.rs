//! One step of the gated delta rule. A block of columns stays in the first-level cache for all tokens of a batch.

use super::Arith;
use super::arith::{LANES, Lanes};
use crate::delta::{DELTA_COLUMNS, DeltaStep};

/// Vectors in a row of a whole block.
const VECTORS: usize = DELTA_COLUMNS / LANES;

/// One step on a block of columns.
#[inline(always)]
pub(crate) fn step<A: Arith>(step: DeltaStep<'_>) {
    step.check();
    if step.v.len() == DELTA_COLUMNS { whole::<A>(step) } else { narrow::<A>(step) }
}

/// The sums over even and odd keys are independent, so that an addition need not wait for the one before it.
#[inline(always)]
fn whole<A: Arith>(step: DeltaStep<'_>) {
    let DeltaStep { state, k, q, v, decay, beta, out } = step;
    let rows: &mut [[Lanes; VECTORS]] = state.as_chunks_mut::<LANES>().0.as_chunks_mut().0;
    let mut sums = [[[0.0; LANES]; VECTORS]; 2];
    for (key, (row, &k)) in rows.iter().zip(k).enumerate() {
        for (x, sum) in row.iter().zip(&mut sums[key % 2]) {
            A::fma_splat(k, x, sum);
        }
    }
    let mut error = [[0.0; LANES]; VECTORS];
    for (index, (error, &v)) in error.as_flattened_mut().iter_mut().zip(v).enumerate() {
        let sum = sums[0].as_flattened()[index] + sums[1].as_flattened()[index];
        *error = beta * A::fma(-decay, sum, v);
    }
    let mut sums = [[[0.0; LANES]; VECTORS]; 2];
    for (key, (row, (&k, &q))) in rows.iter_mut().zip(k.iter().zip(q)).enumerate() {
        for ((x, error), sum) in row.iter_mut().zip(&error).zip(&mut sums[key % 2]) {
            let mut next = x.map(|x| decay * x);
            A::fma_splat(k, error, &mut next);
            *x = next;
            A::fma_splat(q, &next, sum);
        }
    }
    for (index, out) in out.iter_mut().enumerate() {
        *out = sums[0].as_flattened()[index] + sums[1].as_flattened()[index];
    }
}

/// The same for the last columns of a head, in the same order.
#[inline(always)]
fn narrow<A: Arith>(step: DeltaStep<'_>) {
    let DeltaStep { state, k, q, v, decay, beta, out } = step;
    let columns = v.len();
    let mut sums = [[0.0; DELTA_COLUMNS]; 2];
    for (key, (row, &k)) in state.chunks_exact(columns).zip(k).enumerate() {
        for (&x, sum) in row.iter().zip(&mut sums[key % 2]) {
            *sum = A::fma(k, x, *sum);
        }
    }
    let mut error = [0.0; DELTA_COLUMNS];
    for (index, (error, &v)) in error.iter_mut().zip(v).enumerate() {
        *error = beta * A::fma(-decay, sums[0][index] + sums[1][index], v);
    }
    let mut sums = [[0.0; DELTA_COLUMNS]; 2];
    for (key, (row, (&k, &q))) in state.chunks_exact_mut(columns).zip(k.iter().zip(q)).enumerate() {
        for ((x, &error), sum) in row.iter_mut().zip(&error).zip(&mut sums[key % 2]) {
            *x = A::fma(k, error, decay * *x);
            *sum = A::fma(q, *x, *sum);
        }
    }
    for (index, out) in out.iter_mut().enumerate() {
        *out = sums[0][index] + sums[1][index];
    }
}
