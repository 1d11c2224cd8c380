//! Sizes of recurrent layers with a short convolution and states of several heads: `ssm.*` keys.

use crate::error::LoadError;
use crate::hparams::Keys;

/// Most rows of a convolution: more than in any model.
const MAX_KERNEL: u32 = 16;
/// Most heads: more than in any model.
const MAX_HEADS: u32 = 1 << 12;
/// Most elements on each side of a state: more than in any model.
const MAX_DIM: u32 = 1 << 10;
/// Most elements of a layer's state: 128 heads of 256 x 256, twice the largest model's.
const MAX_STATE: usize = 8 << 20;

/// Sizes of a model's recurrent layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SsmSizes {
    /// Rows that an output of the convolution depends on, `conv_kernel`.
    pub(crate) kernel: usize,
    /// Groups of heads, `group_count`; divides the heads.
    pub(crate) groups: usize,
    /// Heads, `time_step_rank`.
    pub(crate) heads: usize,
    /// Rows of a head's state, `state_size`.
    pub(crate) state_size: usize,
    /// Columns of a head's state: `inner_size` divided by the heads.
    pub(crate) head_dim: usize,
}

impl SsmSizes {
    /// Reads the sizes.
    pub(crate) fn read(keys: &Keys<'_>) -> Result<Self, LoadError> {
        let kernel = keys.count("ssm.conv_kernel", None, MAX_KERNEL)?;
        if kernel < 2 {
            return Err(keys.invalid("ssm.conv_kernel", "a convolution of one row has no state"));
        }
        let groups = keys.count("ssm.group_count", None, MAX_HEADS)?;
        let heads = keys.count("ssm.time_step_rank", None, MAX_HEADS)?;
        let state_size = keys.count("ssm.state_size", None, MAX_DIM)?;
        let inner = keys.count("ssm.inner_size", None, MAX_HEADS * MAX_DIM)?;
        if !heads.is_multiple_of(groups) {
            return Err(keys.invalid("ssm.group_count", format!("{groups} groups do not divide {heads} heads")));
        }
        let head_dim = inner / heads;
        if !inner.is_multiple_of(heads) || head_dim > MAX_DIM as usize {
            let why = format!("{inner} elements are not {heads} heads of 1 to {MAX_DIM} elements");
            return Err(keys.invalid("ssm.inner_size", why));
        }
        if heads * state_size * head_dim > MAX_STATE {
            let why = format!("{heads} states of {state_size} x {head_dim} have more than {MAX_STATE} elements");
            return Err(keys.invalid("ssm.state_size", why));
        }
        Ok(Self { kernel, groups, heads, state_size, head_dim })
    }

    /// Elements of all heads.
    pub(crate) fn inner(&self) -> usize {
        self.heads * self.head_dim
    }
}
