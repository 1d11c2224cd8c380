//! Granite 3, dense: Llama with four factors.

use super::super::decoder::{Decoder, PLAIN, number, optional_count};
use super::llama::add_rotated_dims;

pub(super) const GRANITE: Decoder = Decoder {
    architectures: &["GraniteForCausalLM"],
    name: "granite",
    keys: &[
        optional_count("vocab_size", &["vocab_size"]),
        number("attention.scale", &["attention_multiplier"]),
        number("embedding_scale", &["embedding_multiplier"]),
        number("residual_scale", &["residual_multiplier"]),
        number("logit_scale", &["logits_scaling"]),
    ],
    interleaves_heads: true,
    more: |config, metadata| add_rotated_dims(config, "granite", metadata),
    ..PLAIN
};
