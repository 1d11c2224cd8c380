//! Gemma 3 and EmbeddingGemma. Norms already contain the 1 that Gemma adds, as in llama.cpp's files.
//!
//! Gemma 3 of 4, 12 and 27 billion weights has the tensors of its vision tower in the file, a token for images without
//! a row in the embedding table, and no keys of norms and rotations. The model of 1 billion weights has other names for
//! the keys of rotations.

use super::layout::{Layout, Marker, VISION};
use super::step::{Constant, Head, Place, Step};
use crate::error::LoadError;

pub(super) const EMBEDDING_GEMMA: Layout = Layout {
    model: "EmbeddingGemma",
    architectures: &["gemma3"],
    markers: &[Marker::Tensor("dense.0.weight")],
    steps: &[
        Step::Remove("attention.causal"),
        Step::Remove("attention.sliding_window_pattern"),
        Step::Family("gemma-embedding"),
        Step::Inject("rope.freq_base_swa", Constant::F32(10_000.0)),
        Step::SetDimension { key: "dense_2_feat_in", tensor: "dense.0.weight", axis: 0 },
        Step::SetDimension { key: "dense_2_feat_out", tensor: "dense.0.weight", axis: 1 },
        Step::SetDimension { key: "dense_3_feat_in", tensor: "dense.1.weight", axis: 0 },
        Step::SetDimension { key: "dense_3_feat_out", tensor: "dense.1.weight", axis: 1 },
        Step::Rename(Place::Whole, "dense.0.weight", "dense_2.weight"),
        Step::Rename(Place::Whole, "dense.1.weight", "dense_3.weight"),
        Step::Rename(Place::Whole, "norm.weight", "output_norm.weight"),
    ],
    tower: &[],
};

pub(super) const GEMMA3: Layout = Layout {
    model: "Gemma 3",
    architectures: &["gemma3"],
    markers: &[
        Marker::Key("mm.tokens_per_image"),
        Marker::TensorPrefix(VISION),
        Marker::Key("rope.global.freq_base"),
        Marker::Key("rope.local.freq_base"),
        Marker::Key("tokenizer.ggml.add_padding_token"),
        Marker::Key("tokenizer.ggml.add_unknown_token"),
        Marker::NoKey("attention.layer_norm_rms_epsilon"),
    ],
    steps: &[
        Step::Copy("rope.global.freq_base", "rope.freq_base"),
        Step::Copy("rope.local.freq_base", "rope.freq_base_swa"),
        Step::Inject("attention.layer_norm_rms_epsilon", Constant::F32(1e-6)),
        Step::Inject("rope.freq_base", Constant::F32(1_000_000.0)),
        Step::Inject("rope.freq_base_swa", Constant::F32(10_000.0)),
        Step::Inject("tokenizer.chat_template", Constant::Str(CHAT_TEMPLATE)),
        Step::Run(scale_long_context),
        Step::TruncateVocabulary,
        Step::Skip(VISION),
    ],
    tower: &[
        Step::SetDimension { key: "vision.projection_dim", tensor: "token_embd.weight", axis: 0 },
        Step::Family("clip"),
        Step::Set("projector_type", Constant::Str("gemma3")),
        Step::Inject("vision.attention.layer_norm_epsilon", Constant::F32(1e-6)),
        Step::Inject("vision.image_mean", Constant::F32s(&[0.5; 3])),
        Step::Inject("vision.image_std", Constant::F32s(&[0.5; 3])),
        Step::Keep(VISION),
        Step::Rename(Place::Inside, "v.patch_embedding.", "v.patch_embd."),
        Step::Rename(Place::Inside, "v.position_embedding.", "v.position_embd."),
        Step::Rename(Place::Inside, "v.post_layernorm.", "v.post_ln."),
        Step::Rename(Place::Inside, ".layer_norm1.", ".ln1."),
        Step::Rename(Place::Inside, ".layer_norm2.", ".ln2."),
        Step::Rename(Place::Inside, ".attn_output.", ".attn_out."),
        Step::Rename(Place::Inside, ".mlp.fc1.", ".ffn_up."),
        Step::Rename(Place::Inside, ".mlp.fc2.", ".ffn_down."),
        Step::Rename(Place::Inside, "mm.mm_input_projection.", "mm.input_projection."),
        Step::Rename(Place::Inside, "mm.mm_soft_emb_norm.", "mm.soft_emb_norm."),
    ],
};

/// Context length from which models extend their trained context by linear scaling.
const LONG_CONTEXT: u32 = 131_072;

/// Turns as in Gemma's model card (<https://ai.google.dev/gemma/docs/core/prompt-structure>): the assistant is named
/// `model`, and system messages precede the text of the next user message.
const CHAT_TEMPLATE: &str = "{{ bos_token }}{% set state = namespace(system='') %}{% for message in messages %}\
    {% if message['role'] == 'system' %}\
    {% set state.system = state.system + (message['content'] | trim) + '\\n' %}{% else %}\
    {{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}\
    {% if message['role'] == 'user' %}{{ state.system }}{% set state.system = '' %}{% endif %}\
    {{ (message['content'] | trim) + '<end_of_turn>\\n' }}{% endif %}{% endfor %}\
    {% if state.system %}{{ '<start_of_turn>user\\n' + (state.system | trim) + '<end_of_turn>\\n' }}{% endif %}\
    {% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

/// Sets the keys of linear scaling, which only files of models with a short context lack rightly.
fn scale_long_context(head: &mut Head<'_>) -> Result<(), LoadError> {
    if head.u32("context_length")?.is_some_and(|tokens| tokens >= LONG_CONTEXT) {
        Step::Inject("rope.scaling.type", Constant::Str("linear")).apply(head)?;
        Step::Inject("rope.scaling.factor", Constant::F32(8.0)).apply(head)?;
    }
    Ok(())
}
