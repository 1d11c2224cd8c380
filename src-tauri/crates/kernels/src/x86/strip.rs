//! Rows of weights that are computed together, by blocks.

use crate::block::BlockType;
use crate::matmul::MatMul;

/// The blocks of a strip's rows, repeating the last row past the end.
// Closures in a function with target features have them too, and are then not inlined where the library calls them; so
// this has none, and loops over blocks use none. An array that the library filled would hide that all rows have `blocks`
// blocks, and each use of one would be checked again.
#[inline(always)]
pub(super) fn strip<'a, T: BlockType, const ROWS: usize>(
    m: &MatMul<'a>,
    first: usize,
    blocks: usize,
) -> [&'a [T::Block]; ROWS] {
    let mut rows = [T::blocks(m.row(first), blocks); ROWS];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = T::blocks(m.row((first + r).min(m.rows - 1)), blocks);
    }
    rows
}

/// The blocks of a panel's rows.
#[inline(always)]
pub(super) fn rows_of_blocks<T: BlockType, const ROWS: usize>(
    rows: [&[u8]; ROWS],
    blocks: usize,
) -> [&[T::Block]; ROWS] {
    rows.map(|row| T::blocks(row, blocks))
}
