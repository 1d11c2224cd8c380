//! Mistral Small 3.1 and 3.2, and Ministral 3: other names of keys of the context extension and of the growth of queries,
//! and the tensors of a vision tower in the file.

use cairn_gguf::{Array, Value};

use super::layout::{CLIP_COLORS, Layout, Marker, VISION};
use super::step::{Constant, Head, Place, Step};
use crate::error::LoadError;

/// Whether the rotation turns pairs of elements i and i + d/2 (Hugging Face), and not 2i and 2i + 1 (llama.cpp's converter). Only the translation of Ollama's files sets it: llama.cpp's
/// converter makes the elements of a pair adjacent.
pub(crate) const ROPE_BY_HALVES: &str = "vision.rope.is_by_halves";

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
    tower: &[
        Step::SetDimension { key: "vision.projection_dim", tensor: "token_embd.weight", axis: 0 },
        Step::Copy("spatial_merge_size", "vision.spatial_merge_size"),
        Step::Run(name_break),
        Step::Family("clip"),
        Step::Set("projector_type", Constant::Str("pixtral")),
        Step::Set("use_silu", Constant::Bool(true)),
        // Queries and keys have the order of Hugging Face.
        Step::Set(ROPE_BY_HALVES, Constant::Bool(true)),
        Step::Inject("vision.attention.layer_norm_epsilon", Constant::F32(1e-5)),
        Step::Inject("vision.image_mean", Constant::F32s(CLIP_COLORS[0])),
        Step::Inject("vision.image_std", Constant::F32s(CLIP_COLORS[1])),
        Step::Keep(VISION),
        Step::Rename(Place::Inside, "v.patch_conv.", "v.patch_embd."),
        Step::Rename(Place::Inside, "v.encoder_norm.", "v.pre_ln."),
        Step::Rename(Place::Inside, ".attn_output.", ".attn_out."),
        Step::Rename(Place::Inside, ".attn_norm.", ".ln1."),
        Step::Rename(Place::Inside, ".ffn_norm.", ".ln2."),
        Step::Rename(Place::Inside, "mm.linear_1.", "mm.1."),
        Step::Rename(Place::Inside, "mm.linear_2.", "mm.2."),
        Step::Rename(Place::Inside, "mm.patch_merger.merging_layer.", "mm.patch_merger."),
        Step::Rename(Place::Inside, "mm.norm.", "mm.input_norm."),
    ],
};

/// Names the row of the embedding table that is behind each line of a picture.
fn name_break(head: &mut Head<'_>) -> Result<(), LoadError> {
    let token = match head.get("tokenizer.ggml.tokens") {
        Some(Value::Array(Array::String(tokens))) => tokens.iter().position(|token| token == "[IMG_BREAK]"),
        _ => None,
    };
    if let Some(token) = token {
        head.add_row("v.token_embd.img_break", "token_embd.weight", token as u64);
    }
    Ok(())
}
