//! Products with float weights: sixteen lanes over `k`, ascending, one tree at the end, whatever is computed together.

use cairn_gguf::DType;

use super::Arith;
use super::arith::{LANES, Lanes, sum};
use crate::matmul::MatMul;

/// A float type of weights.
pub(crate) trait Weights {
    /// Sixteen elements as they are stored.
    type Chunk: AsMut<[u8]>;
    /// No elements.
    const EMPTY: Self::Chunk;
    /// The first `chunks` of a row. With one number for all rows, a loop over chunks needs no further checks.
    fn chunks(row: &[u8], chunks: usize) -> &[Self::Chunk];
    /// Sixteen elements as `f32`.
    fn read<A: Arith>(chunk: &Self::Chunk) -> Lanes;
}

macro_rules! weights {
    ($($(#[$doc:meta])* $name:ident $bytes:literal $read:ident)*) => { $(
        $(#[$doc])*
        pub(crate) struct $name;
        impl Weights for $name {
            type Chunk = [u8; $bytes * LANES];
            const EMPTY: Self::Chunk = [0; $bytes * LANES];
            #[inline(always)]
            fn chunks(row: &[u8], chunks: usize) -> &[Self::Chunk] {
                &row.as_chunks().0[..chunks]
            }
            #[inline(always)]
            fn read<A: Arith>(chunk: &Self::Chunk) -> Lanes {
                A::$read(chunk)
            }
        }
    )* };
}
weights! {
    /// Binary32.
    F32 4 read_f32
    /// Binary16.
    F16 2 read_f16
    /// The upper half of binary32.
    BF16 2 read_bf16
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

/// Weight rows per block. The rows stay in the L2 cache while each group of columns, in the L1 cache, is multiplied
/// with them.
const TOGETHER: usize = 32;

#[inline(always)]
fn typed<A: Arith, W: Weights, const R: usize, const C: usize>(mut m: MatMul<'_>) {
    for start in (0..m.rows).step_by(TOGETHER) {
        let end = m.rows.min(start + TOGETHER);
        let mut column = 0;
        while column + C <= m.columns.count {
            rows::<A, W, R, C>(&mut m, start, end, column);
            column += C;
        }
        while column < m.columns.count {
            rows::<A, W, R, 1>(&mut m, start, end, column);
            column += 1;
        }
    }
}

#[inline(always)]
fn rows<A: Arith, W: Weights, const R: usize, const C: usize>(
    m: &mut MatMul<'_>,
    mut row: usize,
    end: usize,
    column: usize,
) {
    while row + R <= end {
        tile::<A, W, R, C>(m, row, column);
        row += R;
    }
    while row < end {
        tile::<A, W, 1, C>(m, row, column);
        row += 1;
    }
}

/// `R` rows times `C` columns in registers.
#[inline(always)]
fn tile<A: Arith, W: Weights, const R: usize, const C: usize>(m: &mut MatMul<'_>, row: usize, column: usize) {
    let whole = m.k / LANES;
    let rows: [&[W::Chunk]; R] = std::array::from_fn(|r| W::chunks(m.row(row + r), whole));
    let columns: [&[[u8; 4 * LANES]]; C] =
        std::array::from_fn(|c| &m.columns.column(column + c).as_chunks().0[..whole]);
    let mut acc = [[[0.0; LANES]; C]; R];
    for i in 0..whole {
        let mut x = [[0.0; LANES]; C];
        for c in 0..C {
            x[c] = A::read_f32(&columns[c][i]);
        }
        for r in 0..R {
            let w = W::read::<A>(&rows[r][i]);
            for c in 0..C {
                A::fma_lanes(&w, &x[c], &mut acc[r][c]);
            }
        }
    }
    if !m.k.is_multiple_of(LANES) {
        for (r, acc) in acc.iter_mut().enumerate() {
            // The column is padded with zeros; so are the weights here.
            let mut padded = W::EMPTY;
            let row = m.row(row + r);
            let tail = &row[row.len() / m.k * whole * LANES..];
            padded.as_mut()[..tail.len()].copy_from_slice(tail);
            let w = W::read::<A>(&padded);
            for (c, acc) in acc.iter_mut().enumerate() {
                let x = m.columns.column(column + c).as_chunks().0;
                A::fma_lanes(&w, &A::read_f32(&x[whole]), acc);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        for (c, acc) in acc.iter().enumerate() {
            m.out[(column + c) * m.out_stride + row + r] = sum(acc);
        }
    }
}
