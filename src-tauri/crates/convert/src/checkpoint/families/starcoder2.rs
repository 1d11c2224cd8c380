//! StarCoder 2: LayerNorm, an MLP without a gate, and biases everywhere.

use super::super::decoder::{ATTENTION, Decoder, Dim, NORMS, PLAIN, Row, row};

const MLP: &[Row] =
    &[row("mlp.c_fc", "ffn_up", &[Dim::Width, Dim::Inner]), row("mlp.c_proj", "ffn_down", &[Dim::Inner, Dim::Width])];

pub(super) const STARCODER_2: Decoder = Decoder {
    architectures: &["Starcoder2ForCausalLM"],
    name: "starcoder2",
    layer: &[ATTENTION, MLP, NORMS],
    activations: &["gelu_pytorch_tanh"],
    ..PLAIN
};
