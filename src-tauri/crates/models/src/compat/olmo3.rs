//! OLMo 3: the architecture `olmo3` for what llama.cpp computes as `olmo2`.

use super::layout::{Layout, Marker};
use super::step::Step;

pub(super) const OLMO3: Layout = Layout {
    model: "OLMo 3",
    architectures: &["olmo3"],
    markers: &[Marker::Architecture],
    steps: &[Step::Family("olmo2")],
    tower: &[],
};
