//! The variants for x86-64.
//!
//! Every kernel is a safe function with target features; what is unsafe is the crossing into it, in
//! [`crate::compiled`], and loads and stores through pointers, in [`memory`].

mod avx2;
mod avx512;
mod memory;
mod panel;
mod quants;

pub(crate) use avx2::AVX2_FMA_F16C;
pub(crate) use avx512::AVX512_VNNI;
pub(crate) use panel::Panel;

use crate::block::Kind;
use crate::matmul::MatMul;

/// The blocks of a strip's rows, the last row standing in for those past it.
// Closures in a function with target features have them too, and are then not inlined where the library calls them; so
// this has none, and loops over blocks use none. An array that the library filled would hide that all rows have `blocks`
// blocks, and each use of one would be checked again.
#[inline(always)]
fn strip<'a, T: Kind, const ROWS: usize>(m: &MatMul<'a>, first: usize, blocks: usize) -> [&'a [T::Block]; ROWS] {
    let mut rows = [T::blocks(m.row(first), blocks); ROWS];
    for (r, row) in rows.iter_mut().enumerate() {
        *row = T::blocks(m.row((first + r).min(m.rows - 1)), blocks);
    }
    rows
}

/// The blocks of a panel's rows.
#[inline(always)]
fn rows_of_blocks<T: Kind, const ROWS: usize>(rows: [&[u8]; ROWS], blocks: usize) -> [&[T::Block]; ROWS] {
    rows.map(|row| T::blocks(row, blocks))
}
