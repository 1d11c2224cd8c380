//! One step of the gated delta rule. A block of columns stays in the first-level cache for all tokens of a batch.

use super::Arith;
use super::arith::{LANES, Lanes};
use crate::delta::{DELTA_COLUMNS, DeltaStep};

/// Vectors in a row of a whole block.
const VECTORS: usize = DELTA_COLUMNS / LANES;

/// A row of a whole block.
type Row = [Lanes; VECTORS];

/// One step on a block of columns.
#[inline(always)]
pub(crate) fn step<A: Arith>(step: DeltaStep<'_>) {
    step.check();
    if step.v.len() == DELTA_COLUMNS { whole::<A>(step) } else { narrow::<A>(step) }
}

/// The sums over even and odd keys are independent, so that an addition need not wait for the one before it. Keys are taken in pairs:
/// with a variable index, the sums would be in memory instead of registers.
#[inline(always)]
fn whole<A: Arith>(step: DeltaStep<'_>) {
    let DeltaStep { state, k, q, v, decay, beta, out } = step;
    let rows: &mut [Row] = state.as_chunks_mut::<LANES>().0.as_chunks_mut().0;
    let (pairs, last) = rows.as_chunks::<2>();
    let (k_pairs, last_k) = k.as_chunks::<2>();
    let [mut even, mut odd] = [Row::default(); 2];
    for ([first, second], [k0, k1]) in pairs.iter().zip(k_pairs) {
        add::<A>(*k0, first, &mut even);
        add::<A>(*k1, second, &mut odd);
    }
    last.iter().zip(last_k).for_each(|(row, k)| add::<A>(*k, row, &mut even));
    let mut error = Row::default();
    for (index, (error, &v)) in error.as_flattened_mut().iter_mut().zip(v).enumerate() {
        let sum = even.as_flattened()[index] + odd.as_flattened()[index];
        *error = beta * A::fma(-decay, sum, v);
    }
    let (pairs, last) = rows.as_chunks_mut::<2>();
    let (q_pairs, last_q) = q.as_chunks::<2>();
    let [mut even, mut odd] = [Row::default(); 2];
    for ([first, second], ([k0, k1], [q0, q1])) in pairs.iter_mut().zip(k_pairs.iter().zip(q_pairs)) {
        advance::<A>(first, decay, *k0, &error);
        advance::<A>(second, decay, *k1, &error);
        add::<A>(*q0, first, &mut even);
        add::<A>(*q1, second, &mut odd);
    }
    for (row, (k, q)) in last.iter_mut().zip(last_k.iter().zip(last_q)) {
        advance::<A>(row, decay, *k, &error);
        add::<A>(*q, row, &mut even);
    }
    for (index, out) in out.iter_mut().enumerate() {
        *out = even.as_flattened()[index] + odd.as_flattened()[index];
    }
}

/// `sum += factor * row`.
#[inline(always)]
fn add<A: Arith>(factor: f32, row: &Row, sum: &mut Row) {
    row.iter().zip(sum).for_each(|(x, sum)| A::fma_splat(factor, x, sum));
}

/// `row = decay * row + k * error`.
#[inline(always)]
fn advance<A: Arith>(row: &mut Row, decay: f32, k: f32, error: &Row) {
    for (x, error) in row.iter_mut().zip(error) {
        let mut next = x.map(|x| decay * x);
        A::fma_splat(k, error, &mut next);
        *x = next;
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
