//! The weights of elements' errors, made of the importance of their columns.
//!
//! An importance matrix has a number for each column of a matrix: the mean square of the inputs that the column is
//! multiplied with. The error of an element counts as much as its column's importance, times about its magnitude. Sums are
//! taken in ggml's order, so that the encoders' bits are ggml's.

use std::array::from_fn;

use super::lanes::{Lanes, SubBlocks};

/// Elements in a block of the small types.
pub(super) const SMALL: usize = 32;

/// Returns the mean square of elements.
pub(super) fn mean_square(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |sum, x| sum + x * x) / x.len() as f32
}

/// Returns the weights of the elements' errors: the importance times the root of `spread` plus the element's square.
pub(super) fn block_weights<const LEN: usize>(x: &[f32; LEN], importance: &[f32; LEN], spread: f32) -> [f32; LEN] {
    let mut weights = *importance;
    for (weight, x) in weights.iter_mut().zip(x) {
        *weight *= (spread + x * x).sqrt();
    }
    weights
}

/// Eight small blocks of a row side by side, and the weights of their elements' errors.
pub(super) struct EightBlocks {
    pub(super) x: SubBlocks<8, SMALL>,
    pub(super) weights: SubBlocks<8, SMALL>,
    /// The number of blocks that are part of the row. The others are zeros.
    pub(super) count: usize,
}

/// Groups the blocks of a row by eight. `spread` is added to the squares of a block's elements.
pub(super) fn eight_blocks<'a>(
    x: &'a [f32],
    importance: &'a [f32],
    spread: impl Fn(&[f32; SMALL]) -> f32 + 'a,
) -> impl Iterator<Item = EightBlocks> + 'a {
    let blocks = |x: &'a [f32]| x.as_chunks::<SMALL>().0.chunks(8);
    blocks(x).zip(blocks(importance)).map(move |(x, importance)| {
        let mut weights = [[0.0; SMALL]; 8];
        for (weights, (x, importance)) in weights.iter_mut().zip(x.iter().zip(importance)) {
            *weights = block_weights(x, importance, spread(x));
        }
        let side_by_side = |blocks: &[[f32; SMALL]]| -> SubBlocks<8, SMALL> {
            from_fn(|at| {
                Lanes(from_fn(|lane| blocks.get(lane).and_then(|block| block.get(at)).copied().unwrap_or(0.0)))
            })
        };
        EightBlocks { x: side_by_side(x), weights: side_by_side(&weights), count: x.len() }
    })
}
