//! Mistral Small 3.1 and 3.2, and Ministral 3: other names of keys of the context extension and of the growth of queries,
//! and the tensors of a vision tower in the file.

use super::layout::{Layout, Marker, VISION};
use super::step::Step;

pub(super) const MISTRAL3: Layout = Layout {
    model: "Mistral 3",
    architectures: &["mistral3"],
    markers: &[
        Marker::TensorPrefix(VISION),
        Marker::Key("rope.scaling.beta_fast"),
        Marker::Key("rope.scaling.mscale_all_dim"),
        Marker::Key("rope.scaling_beta"),
    ],
    steps: &[
        Step::Copy("rope.scaling.beta_fast", "rope.scaling.yarn_beta_fast"),
        Step::Copy("rope.scaling.beta_slow", "rope.scaling.yarn_beta_slow"),
        Step::Copy("rope.scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"),
        Step::Copy("rope.scaling_beta", "attention.temperature_scale"),
        Step::PreTokenizer("tekken"),
        Step::Skip(VISION),
    ],
    tower: &[],
};
