//! Products with float weights: sixteen lanes over `k`, ascending, one tree at the end, whatever is computed together.

use cairn_gguf::DType;

use super::Arith;
use super::arith::{LANES, Lanes, sum};
use crate::matmul::MatMul;

/// A float type of weights.
pub(crate) trait Weights {
    /// Bytes of one element.
    const BYTES: usize;
    /// Sixteen elements from `16 * BYTES` bytes.
    fn read<A: Arith>(bytes: &[u8]) -> Lanes;
}

/// Binary32.
pub(crate) struct F32;
/// Binary16.
pub(crate) struct F16;
/// The upper half of binary32.
pub(crate) struct BF16;

impl Weights for F32 {
    const BYTES: usize = 4;
    #[inline(always)]
    fn read<A: Arith>(bytes: &[u8]) -> Lanes {
        A::read_f32(bytes.as_array().expect("a chunk of sixteen elements"))
    }
}

impl Weights for F16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn read<A: Arith>(bytes: &[u8]) -> Lanes {
        A::read_f16(bytes.as_array().expect("a chunk of sixteen elements"))
    }
}

impl Weights for BF16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn read<A: Arith>(bytes: &[u8]) -> Lanes {
        A::read_bf16(bytes.as_array().expect("a chunk of sixteen elements"))
    }
}

/// All products, in tiles of `R` rows and `C` columns.
#[inline(always)]
pub(crate) fn matmul<A: Arith, const R: usize, const C: usize>(m: MatMul<'_>) {
    match m.dtype {
        DType::F32 => typed::<A, F32, R, C>(m),
        DType::F16 => typed::<A, F16, R, C>(m),
        DType::BF16 => typed::<A, BF16, R, C>(m),
        other => unreachable!("{other:?} is not a float type"),
    }
}

#[inline(always)]
fn typed<A: Arith, W: Weights, const R: usize, const C: usize>(mut m: MatMul<'_>) {
    let mut row = 0;
    while row + R <= m.rows {
        columns::<A, W, R, C>(&mut m, row);
        row += R;
    }
    while row < m.rows {
        columns::<A, W, 1, C>(&mut m, row);
        row += 1;
    }
}

#[inline(always)]
fn columns<A: Arith, W: Weights, const R: usize, const C: usize>(m: &mut MatMul<'_>, row: usize) {
    let mut column = 0;
    while column + C <= m.columns.count {
        tile::<A, W, R, C>(m, row, column);
        column += C;
    }
    while column < m.columns.count {
        tile::<A, W, R, 1>(m, row, column);
        column += 1;
    }
}

/// `R` rows times `C` columns in registers.
#[inline(always)]
fn tile<A: Arith, W: Weights, const R: usize, const C: usize>(m: &mut MatMul<'_>, row: usize, column: usize) {
    let chunk = LANES * W::BYTES;
    let rows: [&[u8]; R] = std::array::from_fn(|r| m.row(row + r));
    let columns: [&[[u8; 4 * LANES]]; C] = std::array::from_fn(|c| m.columns.column(column + c).as_chunks().0);
    let mut acc = [[[0.0; LANES]; C]; R];

    let whole = m.k / LANES;
    for i in 0..whole {
        let x: [Lanes; C] = std::array::from_fn(|c| A::read_f32(&columns[c][i]));
        for (row, acc) in rows.iter().zip(&mut acc) {
            let w = W::read::<A>(&row[i * chunk..(i + 1) * chunk]);
            for (x, acc) in x.iter().zip(acc) {
                A::fma_lanes(&w, x, acc);
            }
        }
    }
    if !m.k.is_multiple_of(LANES) {
        // The column is padded with zeros; so are the weights here.
        let x: [Lanes; C] = std::array::from_fn(|c| A::read_f32(&columns[c][whole]));
        for (row, acc) in rows.iter().zip(&mut acc) {
            let mut padded = [0; 4 * LANES];
            let tail = &row[whole * chunk..];
            padded[..tail.len()].copy_from_slice(tail);
            let w = W::read::<A>(&padded[..chunk]);
            for (x, acc) in x.iter().zip(acc) {
                A::fma_lanes(&w, x, acc);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        for (c, acc) in acc.iter().enumerate() {
            m.out[(column + c) * m.out_stride + row + r] = sum(acc);
        }
    }
}
