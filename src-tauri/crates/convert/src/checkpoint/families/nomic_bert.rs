//! Nomic Embed (arXiv 2402.01613): BERT with rotary positions and a gated MLP, with the tensor names of its published code.

use super::super::config::{CONFIG, Config};
use super::super::decoder::{Decoder, Dim, PLAIN, Row, row};
use super::super::error::{ConvertError, invalid, unsupported};

/// Tokens of texts in training, of configs without the number. Positions beyond it need another base of the rotation.
const TRAINED_POSITIONS: u32 = 2048;
/// Variants that are computed differently.
const VARIANTS: [&str; 8] = [
    "causal",
    "mlp_fc1_bias",
    "mlp_fc2_bias",
    "parallel_block",
    "prenorm",
    "qkv_proj_bias",
    "rotary_emb_interleaved",
    "use_rms_norm",
];

const TABLES: &[Row] = &[
    row("embeddings.word_embeddings", "token_embd", &[Dim::Width, Dim::Any]),
    row("embeddings.token_type_embeddings", "token_types", &[Dim::Width, Dim::Any]),
    row("emb_ln", "token_embd_norm", &[Dim::Width]),
];

const LAYER: &[Row] = &[
    row("attn.Wqkv", "attn_qkv", &[Dim::Width, Dim::Fused]),
    row("attn.out_proj", "attn_output", &[Dim::Query, Dim::Width]),
    row("norm1", "attn_output_norm", &[Dim::Width]),
    row("mlp.fc11", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mlp.fc12", "ffn_gate", &[Dim::Width, Dim::Inner]),
    row("mlp.fc2", "ffn_down", &[Dim::Inner, Dim::Width]),
    row("norm2", "layer_output_norm", &[Dim::Width]),
];

pub(super) const NOMIC_BERT: Decoder = Decoder {
    architectures: &["NomicBertModel"],
    name: "nomic-bert",
    tables: TABLES,
    layer: &[LAYER],
    activations: &["swiglu"],
    is_encoder: true,
    has_word_pieces: true,
    prepare,
    more: |config, metadata| {
        for key in VARIANTS {
            if config.flag(key)? == Some(true) {
                return Err(unsupported(format!("nomic-bert with {key}")));
            }
        }
        if config.whole("moe_every_n_layers", u32::MAX)?.is_some_and(|period| period > 0) {
            return Err(unsupported("nomic-bert with experts"));
        }
        if config.optional_number(&["rotary_emb_fraction"])?.is_some_and(|share| share != 1.0) {
            return Err(unsupported("nomic-bert with a rotation of a part of each head"));
        }
        if !config.value("rotary_emb_scale_base").is_null() {
            return Err(unsupported("nomic-bert with rotary_emb_scale_base"));
        }
        metadata.set("nomic-bert.attention.causal", false);
        Ok(())
    },
    ..PLAIN
};

fn prepare(config: &mut Config) -> Result<(), ConvertError> {
    config.rename(&[
        ("n_layer", "num_hidden_layers"),
        ("n_embd", "hidden_size"),
        ("n_head", "num_attention_heads"),
        ("n_inner", "intermediate_size"),
        ("rotary_emb_base", "rope_theta"),
    ]);
    let positions = config.count("n_positions", u32::MAX)?;
    let trained = config.optional_count(&["max_trained_positions"], u32::MAX)?.unwrap_or(TRAINED_POSITIONS);
    config.set("max_position_embeddings", positions.min(trained));
    match config.value("rope_theta") {
        serde_json::Value::Null => Err(invalid(CONFIG, "rotary_emb_base is null, not a number")),
        _ => Ok(()),
    }
}
