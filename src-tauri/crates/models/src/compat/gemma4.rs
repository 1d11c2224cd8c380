//! Gemma 4: the name of another tokenizer, another name of the factors of experts, and the tensors of towers for images and sounds.
//!
//! Gates and linear parts of experts are two tensors, which the family reads too.

use cairn_gguf::Metadata;

use super::layout::{Layout, Marker, VISION};
use super::step::{Constant, Place, Step};

/// Prefixes of the tensors of towers and their projectors.
const TOWERS: &[&str] = &["a.", "v.", "mm.", "model.vision_tower."];

const TOKENIZER: &str = "tokenizer.ggml.model";

pub(super) const GEMMA4: Layout = Layout {
    model: "Gemma 4",
    architectures: &["gemma4"],
    markers: &[Marker::TensorPrefix(TOWERS), Marker::Check(has_other_tokenizer)],
    steps: &[
        Step::Set(TOKENIZER, Constant::Str("gemma4")),
        Step::Rename(Place::End, ".ffn_gate_inp.per_expert_scale", ".ffn_down_exps.scale"),
        Step::Skip(TOWERS),
    ],
    tower: &[
        Step::SetDimension { key: "vision.projection_dim", tensor: "token_embd.weight", axis: 0 },
        Step::Family("clip"),
        Step::Set("projector_type", Constant::Str("gemma4v")),
        Step::Inject("vision.attention.layer_norm_epsilon", Constant::F32(1e-6)),
        Step::Inject("vision.image_mean", Constant::F32s(&[0.0; 3])),
        Step::Inject("vision.image_std", Constant::F32s(&[1.0; 3])),
        Step::Keep(VISION),
    ],
};

fn has_other_tokenizer(metadata: &Metadata) -> bool {
    metadata.str(TOKENIZER) == Ok(Some("llama"))
}
