//! Llama 4: the tensors of a vision tower in the file. Its other keys are read by the family.

use super::layout::{Layout, Marker, VISION};
use super::step::Step;

pub(super) const LLAMA4: Layout = Layout {
    model: "Llama 4",
    architectures: &["llama4"],
    markers: &[Marker::TensorPrefix(VISION)],
    steps: &[Step::Skip(VISION)],
    tower: &[],
};
