//! Falcon: the queries of heads that share a key are together with that key and its value in checkpoints.

use super::super::config::{CONFIG, Config, MAX_ORDERED_HEADS, MAX_WIDTH};
use super::super::decoder::{Decoder, Dim, OUTPUT, Order, PLAIN, Row, head_dim, row};
use super::super::error::{ConvertError, invalid, unsupported};

/// Context of all models, which configs lack.
const CONTEXT: u32 = 2048;

const TABLES: &[Row] = &[
    row("word_embeddings", "token_embd", &[Dim::Width, Dim::Any]),
    row("ln_f", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const LAYER: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("ln_mlp", "attn_norm", &[Dim::Width]),
    row("ln_attn", "attn_norm_2", &[Dim::Width]),
    row("self_attention.query_key_value", "attn_qkv", &[Dim::Width, Dim::Fused]).order(by_parts),
    row("self_attention.dense", "attn_output", &[Dim::Query, Dim::Width]),
    row("mlp.dense_h_to_4h", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mlp.dense_4h_to_h", "ffn_down", &[Dim::Inner, Dim::Width]),
];

pub(super) const FALCON: Decoder = Decoder {
    architectures: &["FalconForCausalLM", "RWForCausalLM"],
    name: "falcon",
    tables: TABLES,
    layer: &[LAYER],
    activations: &["gelu", "gelu_new", "gelu_pytorch_tanh"],
    prepare,
    more: |config, _| {
        let is_sequential =
            config.flag("parallel_attn")? == Some(false) && config.flag("new_decoder_architecture")? != Some(true);
        if is_sequential || config.flag("alibi")? == Some(true) {
            return Err(unsupported("falcon with alibi or without parallel_attn"));
        }
        Ok(())
    },
    ..PLAIN
};

fn prepare(config: &mut Config) -> Result<(), ConvertError> {
    config.rename(&[
        ("n_layer", "num_hidden_layers"),
        ("n_head", "num_attention_heads"),
        ("n_embed", "hidden_size"),
        ("ffn_hidden_size", "intermediate_size"),
    ]);
    // Without this architecture or a number, all heads share one key.
    let is_new = config.flag("new_decoder_architecture")? == Some(true);
    let heads = config.count("num_attention_heads", MAX_WIDTH)?;
    let kv_heads = match config.optional_count(&["num_kv_heads", "n_head_kv"], MAX_WIDTH)? {
        Some(count) if is_new || config.flag("multi_query")? == Some(false) => count,
        None if config.flag("multi_query")? == Some(false) => heads,
        _ => 1,
    };
    config.set_default("num_key_value_heads", kv_heads);
    let width = config.count("hidden_size", MAX_WIDTH)?;
    config.set_default("intermediate_size", width.saturating_mul(4));
    config.set_default("max_position_embeddings", CONTEXT);
    Ok(())
}

/// The queries of all heads, then the keys, then the values.
fn by_parts(config: &Config) -> Result<Order, ConvertError> {
    let count = |key: &str| config.count(key, MAX_ORDERED_HEADS).map(u64::from);
    let (heads, groups, dim) = (count("num_attention_heads")?, count("num_key_value_heads")?, head_dim(config)?);
    if !heads.is_multiple_of(groups) {
        return Err(invalid(CONFIG, format!("{groups} key/value heads do not divide {heads} heads")));
    }
    let (shared, of_group) = (heads / groups * dim, (heads / groups + 2) * dim);
    let part = move |first: u64, len: u64| {
        (0..groups).map(move |group| group * of_group + first..group * of_group + first + len)
    };
    Ok(Order::rows(part(0, shared).chain(part(shared, dim)).chain(part(shared + dim, dim))))
}
