//! Seed-OSS: as Qwen 2, but the norm before the MLP is named after the attention before it.

use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, PLAIN, Row, row};

const NORMS: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
];

pub(super) const SEED_OSS: Decoder =
    Decoder { architectures: &["SeedOssForCausalLM"], name: "seed_oss", layer: &[ATTENTION, MLP, NORMS], ..PLAIN };
