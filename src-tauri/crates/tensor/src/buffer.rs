//! Names of the activation matrices of a plan.

/// One activation matrix `[rows, width]` of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub u32);
