//! Products of quantised weights: the choice of the code for a type and a number of columns.

use super::dot::Dot;
use super::{decode, prefill};
use crate::block::{BlockType, dispatch, with_block_types};
use crate::matmul::MatMul;

/// Products of quantised weights. Types without vector kernels take the scalar path, which gives the same bits.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn quantised<D: Dot>(mut m: MatMul<'_>) {
    with_block_types! { dispatch!(m.dtype, T => typed::<T, D>(&mut m), else crate::scalar::quantised(m)) }
}

#[target_feature(enable = "neon")]
fn typed<T: BlockType, D: Dot>(m: &mut MatMul<'_>) {
    match (m.columns.count, T::BLOCK) {
        (1, 32) => decode::blocks_32::<T, D>(m),
        (1, _) => decode::blocks_256::<T, D>(m),
        _ => prefill::matmul::<T, D>(m),
    }
}
