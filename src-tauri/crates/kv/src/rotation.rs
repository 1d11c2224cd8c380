//! Turning keys from the positions that they were computed for to earlier ones.
//!
//! RoPE turns each pair of a key's elements by an angle that grows with its position (Su et al., arXiv 2104.09864), so a key moves
//! `n` positions towards the beginning by a turn of `-n` times the frequency. The magnitude that some scaling schemes give to a key
//! is not touched. Values have no position.

use cairn_gguf::DType;
use cairn_tensor::{BufferId, Op, PAGE_TOKENS, Plan, Rope, RopeStyle, StateId, StateKind};

/// Why a model's keys cannot be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fixed {
    /// Something happens to a layer's keys after they were turned.
    #[error("the keys of layer {0} are changed after RoPE")]
    Changed(usize),
    /// A layer sees a window only, and rows before the window need not be there.
    #[error("layer {0} sees a window of the context only")]
    Window(usize),
}

/// How one model's keys are turned.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// By state: none where keys have no position.
    ropes: Vec<Option<Rope>>,
    /// By state.
    head_dims: Vec<usize>,
    dtype: DType,
}

impl Rotation {
    /// That of a plan whose pages have rows of this type.
    ///
    /// # Errors
    /// Where keys that were turned would not be those that the plan computes for the new positions.
    pub fn of(plan: &Plan, dtype: DType) -> Result<Self, Fixed> {
        let mut ropes = vec![None; plan.states.len()];
        for (at, op) in plan.ops.iter().enumerate() {
            let Op::StoreKv { state, k, .. } = op else { continue };
            let state = state.0 as usize;
            if plan.states[state].kind != StateKind::Full {
                return Err(Fixed::Window(state));
            }
            let rope = last_rope(&plan.ops[..at], *k).ok_or(Fixed::Changed(state))?;
            ropes[state] = rope.map(|rope| plan.ropes[rope].clone());
        }
        Ok(Self { ropes, head_dims: plan.states.iter().map(|state| state.head_dim).collect(), dtype })
    }

    /// Whether a key loses a little each time that it is turned, because its type rounds whole blocks.
    pub(crate) fn is_coarse(&self) -> bool {
        self.dtype.block() > 1
    }

    /// Turns the keys of a state in a section of a page by `tokens` positions towards the beginning, in its first `used` slots.
    pub(crate) fn turn(&self, state: StateId, section: &mut [u8], used: usize, tokens: usize) {
        let Some(rope) = &self.ropes[state.0 as usize] else { return };
        let angle = |frequency: &f32| (-(tokens as f64) * f64::from(*frequency)).sin_cos();
        let turns: Vec<(f32, f32)> =
            rope.inverse_frequencies.iter().map(angle).map(|(s, c)| (s as f32, c as f32)).collect();
        let mut key = vec![0.0; self.head_dims[state.0 as usize]];
        let row_bytes = self.dtype.row_bytes(key.len());
        let mut encoded = Vec::with_capacity(row_bytes);
        for head in section.chunks_exact_mut(PAGE_TOKENS * row_bytes) {
            for row in head.chunks_exact_mut(row_bytes).take(used) {
                self.dtype.decode(row, &mut key);
                for (pair, (sin, cos)) in turns.iter().enumerate() {
                    let (i, j) = match rope.style {
                        RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
                        RopeStyle::Half => (pair, pair + turns.len()),
                    };
                    (key[i], key[j]) = (key[i] * cos - key[j] * sin, key[i] * sin + key[j] * cos);
                }
                encoded.clear();
                self.dtype.encode(&key, &mut encoded).expect("types of pages have encoders, and heads whole blocks");
                row.copy_from_slice(&encoded);
            }
        }
    }
}

/// The last step of these that turns this buffer since it was filled: none inside where there is none, none at all where the buffer
/// is changed afterwards.
fn last_rope(ops: &[Op], k: BufferId) -> Option<Option<usize>> {
    let mut rope = None;
    let mut changed = false;
    for op in ops.iter().rev() {
        match op {
            Op::Rope { x, rope: turn, .. } if *x == k => {
                if rope.is_some() || changed {
                    return None;
                }
                rope = Some(*turn);
            }
            op if fills(op, k) => break,
            op => changed |= changes(op, k),
        }
    }
    Some(rope)
}

/// Whether an op writes a buffer whatever was in it.
fn fills(op: &Op, k: BufferId) -> bool {
    match op {
        Op::MatMul { projections, .. } | Op::MatMulId { projections, .. } => projections.iter().any(|p| p.out == k),
        Op::Embed { out, .. }
        | Op::Route { out, .. }
        | Op::Combine { out, .. }
        | Op::Attention { out, .. }
        | Op::Gather { out, .. } => *out == k,
        _ => false,
    }
}

/// Whether an op may work on a buffer in place.
fn changes(op: &Op, k: BufferId) -> bool {
    match op {
        Op::RmsNorm { out, .. } | Op::LayerNorm { out, .. } | Op::Glu { out, .. } => *out == k,
        Op::Gelu { x } | Op::Scale { x, .. } | Op::Softcap { x, .. } | Op::Add { x, .. } => *x == k,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
