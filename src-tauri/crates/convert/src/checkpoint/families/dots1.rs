//! dots.llm1: experts with sigmoid scores behind the first layers, shared ones, and norms over each head of queries and
//! keys.

use super::super::decoder::{ATTENTION, Decoder, MLP, NORMS, PLAIN};
use super::qwen::{EXPERTS, HEAD_NORMS};
use super::sparse::{KEYS, ROUTER_BIAS, SHARED_EXPERTS, SIGMOIDS};

pub(super) const DOTS_1: Decoder = Decoder {
    architectures: &["Dots1ForCausalLM"],
    name: "dots1",
    keys: KEYS,
    layer: &[ATTENTION, MLP, NORMS, HEAD_NORMS, EXPERTS, ROUTER_BIAS, SHARED_EXPERTS],
    more: |_, metadata| {
        metadata.set("dots1.expert_gating_func", SIGMOIDS);
        Ok(())
    },
    ..PLAIN
};
