//! Qwen 3.5 and Qwen 3 Next: another name of one tensor in layers with linear attention, and tensors of a vision tower and of layers that
//! predict further tokens.
//!
//! The number of key/value heads of each layer and three sections of positions need no change: the family and its rotation read both
//! forms.

use super::layout::{Layout, Marker, VISION};
use super::qwen_vl::QWEN3_TOWER;
use super::step::{Place, Step};

/// Prefixes of the tensors of layers that predict further tokens.
const PREDICTING: &[&str] = &["mtp."];

pub(super) const QWEN35: Layout = Layout {
    model: "Qwen 3.5",
    architectures: &["qwen35", "qwen35moe"],
    markers: &[
        Marker::Key("vision.block_count"),
        Marker::Key("image_token_id"),
        Marker::Key("ssm.v_head_reordered"),
        Marker::Key("rope.mrope_interleaved"),
        Marker::TensorPrefix(&["mtp.", "v."]),
    ],
    steps: &[Step::Rename(Place::End, ".ssm_dt", ".ssm_dt.bias"), Step::Skip(VISION), Step::Skip(PREDICTING)],
    tower: QWEN3_TOWER,
};

pub(super) const QWEN3_NEXT: Layout = Layout {
    model: "Qwen 3 Next",
    architectures: &["qwen3next"],
    markers: &[Marker::TensorSuffix(".ssm_dt"), Marker::TensorPrefix(PREDICTING)],
    steps: &[Step::Rename(Place::End, ".ssm_dt", ".ssm_dt.bias"), Step::Skip(PREDICTING)],
    tower: &[],
};
