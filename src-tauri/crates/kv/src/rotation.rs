//! Rotation of keys from their positions to earlier ones.
//!
//! RoPE rotates each pair of a key's elements by an angle proportional to its position (Su et al., arXiv 2104.09864). A key moves `n`
//! positions towards the start by a rotation of `-n` times the frequency. The magnitude that some scaling schemes give to a key does not
//! change. Values have no position.

use cairn_gguf::DType;
use cairn_tensor::{
    BufferId, DeltaRule, Op, PAGE_TOKENS, PartAttention, Plan, Rope, RopeStyle, StateId, StateKind, StateSpace,
};

/// Why a model's keys cannot be rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RotationError {
    /// A layer's keys are changed after RoPE.
    #[error("the keys of layer {0} are changed after RoPE")]
    Changed(usize),
    /// Recurrent layers: their states depend on all tokens.
    #[error("the model has recurrent layers")]
    Recurrent,
    /// A window layer, which may lack rows before its window, or a layer with chunks: its rows would get into other
    /// chunks.
    #[error("layer {0} attends to a part of the context only")]
    Window(usize),
    /// Positions are added to the embeddings, so that all rows depend on them.
    #[error("positions are added to the embeddings")]
    Added,
}

/// Rotation of one model's keys.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// RoPE parameters by state; none if the keys have no position.
    ropes: Vec<Option<Rope>>,
    /// Head size by state.
    head_dims: Vec<usize>,
    dtype: DType,
}

impl Rotation {
    /// The rotation for a plan whose pages have rows of this type.
    ///
    /// # Errors
    /// If rotated keys would differ from those that the plan computes for the new positions.
    pub fn from_plan(plan: &Plan, dtype: DType) -> Result<Self, RotationError> {
        if plan.ops.iter().any(|op| matches!(op, Op::AddEmbedding { component: 0, .. })) {
            return Err(RotationError::Added);
        }
        if !plan.recurrent.is_empty() {
            return Err(RotationError::Recurrent);
        }
        let mut ropes = vec![None; plan.states.len()];
        for (at, op) in plan.ops.iter().enumerate() {
            // The keys of a latent begin with the elements that have a position.
            let (Op::StoreKv { state, k, .. } | Op::StoreLatent { state, k, .. }) = op else { continue };
            let state = state.0 as usize;
            if !matches!(plan.states[state].kind, StateKind::Full | StateKind::Causal) {
                return Err(RotationError::Window(state));
            }
            let rope = last_rope(&plan.ops[..at], *k).ok_or(RotationError::Changed(state))?;
            ropes[state] = rope.map(|rope| plan.ropes[rope].clone());
        }
        Ok(Self { ropes, head_dims: plan.states.iter().map(|state| state.head_dim).collect(), dtype })
    }

    /// Whether each rotation loses precision, because the type rounds blocks.
    pub(crate) fn is_coarse(&self) -> bool {
        self.dtype.block() > 1
    }

    /// Rotates the keys of a state in a section of a page by `tokens` positions towards the start, in its first `used` slots.
    pub(crate) fn rotate(&self, state: StateId, section: &mut [u8], used: usize, tokens: usize) {
        let Some(rope) = &self.ropes[state.0 as usize] else { return };
        let angle = |frequency: &f32| (-(tokens as f64) * f64::from(*frequency)).sin_cos();
        let rotations: Vec<(f32, f32)> =
            rope.inverse_frequencies.iter().map(angle).map(|(s, c)| (s as f32, c as f32)).collect();
        let mut key = vec![0.0; self.head_dims[state.0 as usize]];
        let row_bytes = self.dtype.row_bytes(key.len());
        let mut encoded = Vec::with_capacity(row_bytes);
        for head in section.chunks_exact_mut(PAGE_TOKENS * row_bytes) {
            for row in head.chunks_exact_mut(row_bytes).take(used) {
                self.dtype.decode(row, &mut key);
                for (pair, (sin, cos)) in rotations.iter().enumerate() {
                    let (i, j) = match rope.style {
                        RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
                        RopeStyle::Half => (pair, pair + rotations.len()),
                    };
                    (key[i], key[j]) = (key[i] * cos - key[j] * sin, key[i] * sin + key[j] * cos);
                }
                encoded.clear();
                self.dtype
                    .encode(&key, &mut encoded)
                    .expect("page types have encoders, and heads are multiples of the block size");
                row.copy_from_slice(&encoded);
            }
        }
    }
}

/// The RoPE op of this buffer since it was last filled; `Some(None)` without one, `None` if the buffer is changed after it.
fn last_rope(ops: &[Op], k: BufferId) -> Option<Option<usize>> {
    let mut rope = None;
    let mut changed = false;
    for op in ops.iter().rev() {
        match op {
            Op::Rope { x, rope: index, .. } if *x == k => {
                if rope.is_some() || changed {
                    return None;
                }
                rope = Some(*index);
            }
            // Parts of the keys that are copied after a rotation have no position, or that of another buffer.
            Op::CopyHeads { to, .. } | Op::MatMulHeads { to, .. } if to.buffer == k && rope.is_none() => return None,
            op if fills(op, k) => break,
            op => changed |= changes(op, k),
        }
    }
    Some(rope)
}

/// Whether an op overwrites a buffer.
fn fills(op: &Op, k: BufferId) -> bool {
    match op {
        Op::MatMul { projections, .. } | Op::MatMulAdapter { projections, .. } | Op::MatMulId { projections, .. } => {
            projections.iter().any(|p| p.out == k)
        }
        Op::CopyHeads { to, .. } | Op::MatMulHeads { to, .. } => to.buffer == k,
        Op::Embed { out, .. }
        | Op::EmbedTokens { out, .. }
        | Op::Input { out }
        | Op::Route { out, .. }
        | Op::Combine { out, .. }
        | Op::WeighInputs { out, .. }
        | Op::Attention { out, .. }
        | Op::PartAttention(PartAttention { out, .. })
        | Op::Conv { out, .. }
        | Op::DeltaRule(DeltaRule { out, .. })
        | Op::StateSpace(StateSpace { out, .. })
        | Op::Discretise { decay: out, .. }
        | Op::Gather { out, .. }
        | Op::Mean { out, .. } => *out == k,
        _ => false,
    }
}

/// Whether an op may change a buffer in place.
fn changes(op: &Op, k: BufferId) -> bool {
    match op {
        Op::RmsNorm { out, .. } | Op::LayerNorm { out, .. } | Op::Glu { out, .. } => *out == k,
        Op::Gelu { x }
        | Op::GeluErf { x }
        | Op::Sigmoid { x }
        | Op::Silu { x }
        | Op::ReluSquared { x }
        | Op::Relu { x }
        | Op::Decay { x, .. } => *x == k,
        Op::Discretise { x, .. } => *x == k,
        Op::AddHeads { to, .. } => to.buffer == k,
        Op::AddMixed { out, .. } => *out == k,
        Op::WeighInputs { routes, .. } => *routes == k,
        Op::MatchLength { x, .. } | Op::KeepOutliers { x, .. } => *x == k,
        Op::AddWeight { x, .. } | Op::MulWeight { x, .. } => *x == k,
        Op::AddAdapter { x, y, .. } => *x == k || *y == k,
        Op::Scale { x, .. } | Op::Clamp { x, .. } | Op::Softcap { x, .. } | Op::Add { x, .. } | Op::Mul { x, .. } => {
            *x == k
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
