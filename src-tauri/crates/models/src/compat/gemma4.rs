//! Gemma 4: the name of another tokenizer, another name of the factors of experts, and the tensors of towers for images and sounds.
//!
//! Gates and linear parts of experts are two tensors, which the family reads too.

use cairn_gguf::Metadata;

use super::layout::{Layout, Marker};
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
    tower: &[],
};

fn has_other_tokenizer(metadata: &Metadata) -> bool {
    metadata.str(TOKENIZER) == Ok(Some("llama"))
}
