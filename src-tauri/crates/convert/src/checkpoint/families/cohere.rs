//! Command R, and Command R7B and A (`cohere2`): attention and MLP read one norm, and logits have a factor. Pairs of
//! the rotation are adjacent in checkpoints too.

use super::super::decoder::{ATTENTION, Decoder, Dim, Key, MLP, PLAIN, Row, number, optional_count, row};
use super::super::error::unsupported;
use super::llama::add_rotated_dims;
use super::windows;

const NORM: &[Row] = &[row("input_layernorm", "attn_norm", &[Dim::Width])];
const LOGIT_SCALE: Key = number("logit_scale", &["logit_scale"]);

pub(super) const COMMAND_R: Decoder = Decoder {
    architectures: &["CohereForCausalLM"],
    name: "command-r",
    keys: &[LOGIT_SCALE],
    layer: &[ATTENTION, MLP, NORM],
    is_tied: true,
    more: |config, metadata| {
        if config.flag("use_qk_norm")? == Some(true) {
            return Err(unsupported("command-r with use_qk_norm"));
        }
        // Configs have the length of training in the other key.
        if let Some(context) = config.optional_count(&["model_max_length"], u32::MAX)? {
            metadata.set("command-r.context_length", context);
        }
        metadata.set("command-r.rope.scaling.type", "none");
        Ok(())
    },
    ..PLAIN
};

pub(super) const COHERE_2: Decoder = Decoder {
    architectures: &["Cohere2ForCausalLM"],
    name: "cohere2",
    keys: &[
        LOGIT_SCALE,
        optional_count("attention.sliding_window", &["sliding_window"]),
        optional_count("vocab_size", &["vocab_size"]),
    ],
    prepare: |config| {
        config.rename(&[("rotary_pct", "partial_rotary_factor")]);
        Ok(())
    },
    more: |config, metadata| {
        windows::add_pattern(config, "cohere2", metadata)?;
        metadata.set("cohere2.rope.scaling.type", "none");
        add_rotated_dims(config, "cohere2", metadata)
    },
    ..COMMAND_R
};
