//! The families, a row each: what their files have that files of others have not.
//!
//! Which tensors a model must have, its family in `cairn-models` says; here are only the metadata that ask for them, the tensors
//! that a model can do without but these models have, and how large numbers become, so that logits stay clear.

use cairn_gguf::Value;

use crate::spec::ModelSpec;

/// A family of models.
#[derive(Debug)]
pub struct Family {
    /// `general.architecture`.
    pub name: &'static str,
    /// The pre-tokenizer that its files name.
    pub pre_tokenizer: &'static str,
    /// Whether texts begin with a token of their own.
    pub adds_bos: bool,
    /// Whether the embedding is the output matrix, where the family has no choice.
    pub tied: Option<bool>,
    /// RoPE's base frequency in small models.
    pub rope_base: f32,
    /// Keys beyond those that all families have, without the family's prefix.
    pub keys: fn(&ModelSpec) -> Vec<(&'static str, Value)>,
    /// Whether its models have this tensor, which they could do without. The output matrix and RoPE's factors are the spec's matter.
    pub has: fn(&str) -> bool,
    /// What embeddings are multiplied by.
    pub embedding_scale: fn(&ModelSpec) -> f32,
    /// What is multiplied by this before it is added to the stream.
    pub residual_scale: f32,
    /// What logits are multiplied by.
    pub logit_scale: f32,
    /// How much larger than size-keeping an MLP's last matrix is.
    pub down_gain: f32,
}

/// What most rows have in common.
const PLAIN: Family = Family {
    name: "",
    pre_tokenizer: "llama-bpe",
    adds_bos: false,
    tied: None,
    rope_base: 10_000.0,
    keys: |_| Vec::new(),
    has: |_| false,
    embedding_scale: |_| 1.0,
    residual_scale: 1.0,
    logit_scale: 1.0,
    down_gain: 1.0,
};

/// Tokens of windows: neither whole pages nor spans, and less than the longest prompt.
const WINDOW: u32 = 100;

/// Experts of those that have them, and how many a row uses: so many that the last one hardly counts, because rounding decides
/// which one it is where two are alike to the router.
const EXPERTS: u32 = 8;
const USED_EXPERTS: u32 = 6;

/// The keys of experts that are half as wide as an MLP.
fn experts(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let width = u32::try_from(spec.ffn / 2).expect("a model's counts fit into a u32");
    vec![
        ("expert_count", EXPERTS.into()),
        ("expert_used_count", USED_EXPERTS.into()),
        ("expert_feed_forward_length", width.into()),
    ]
}

/// Gemma 2: windows in every second layer, caps on scores and logits.
pub static GEMMA2: Family = Family {
    name: "gemma2",
    tied: Some(true),
    keys: |_| {
        vec![
            ("attention.sliding_window", WINDOW.into()),
            ("attn_logit_softcapping", 5f32.into()),
            ("final_logit_softcapping", 30f32.into()),
        ]
    },
    embedding_scale: |spec| (spec.width as f32).sqrt(),
    ..PLAIN
};

/// Gemma 3: windows with a rotation of their own in every second layer; published ones have them in five of six.
pub static GEMMA3: Family = Family {
    name: "gemma3",
    rope_base: 1_000_000.0,
    keys: |_| vec![("attention.sliding_window", WINDOW.into()), ("attention.sliding_window_pattern", 2u32.into())],
    embedding_scale: |spec| (spec.width as f32).sqrt(),
    ..PLAIN
};

/// gpt-oss: sinks, windows in every second layer, biases everywhere, clamped experts.
pub static GPT_OSS: Family = Family {
    name: "gpt-oss",
    pre_tokenizer: "gpt-4o",
    tied: Some(false),
    rope_base: 150_000.0,
    keys: |spec| {
        let mut keys = experts(spec);
        keys.push(("attention.sliding_window", WINDOW.into()));
        keys
    },
    has: |name| name.ends_with(".bias") && name != "output.bias",
    ..PLAIN
};

/// Granite: four factors.
pub static GRANITE: Family = Family {
    name: "granite",
    keys: |_| {
        vec![
            ("embedding_scale", 12f32.into()),
            ("residual_scale", 0.22f32.into()),
            ("attention.scale", 0.1f32.into()),
            ("logit_scale", 8f32.into()),
        ]
    },
    embedding_scale: |_| 12.0,
    residual_scale: 0.22,
    logit_scale: 1.0 / 8.0,
    ..PLAIN
};

/// Llama: interleaved RoPE.
pub static LLAMA: Family = Family { name: "llama", adds_bos: true, ..PLAIN };

/// Llama with experts, each as wide as an MLP: Mixtral.
pub static MIXTRAL: Family =
    Family { keys: |_| vec![("expert_count", EXPERTS.into()), ("expert_used_count", USED_EXPERTS.into())], ..LLAMA };

/// Qwen 3: RoPE over halves, and an RMSNorm over each head of queries and keys.
pub static QWEN3: Family = Family { name: "qwen3", pre_tokenizer: "qwen2", rope_base: 1_000_000.0, ..PLAIN };

/// Qwen 3 with experts.
pub static QWEN3MOE: Family = Family { name: "qwen3moe", keys: experts, ..QWEN3 };

/// Qwen 2: biases on queries, keys and values.
pub static QWEN2: Family = Family {
    name: "qwen2",
    pre_tokenizer: "qwen2",
    rope_base: 1_000_000.0,
    has: |name| ["attn_q.bias", "attn_k.bias", "attn_v.bias"].iter().any(|bias| name.ends_with(bias)),
    ..PLAIN
};

/// OLMo 2: norms over what is added, and over whole rows of queries and keys.
pub static OLMO2: Family = Family { name: "olmo2", tied: Some(false), ..PLAIN };

/// Phi 3: fused tensors.
pub static PHI3: Family = Family { name: "phi3", ..PLAIN };

/// StarCoder 2: LayerNorm, and biases everywhere.
///
/// Without a gate, elements inside its MLP have a mean that is not 0: 0.28 for GELU of a normal variable. So a part of what the
/// MLP adds is the same at every token and lifts the same logits; at full size it would leave up to an eighth of the positions
/// unclear.
pub static STARCODER2: Family = Family {
    name: "starcoder2",
    pre_tokenizer: "starcoder",
    keys: |spec| vec![("attention.layer_norm_epsilon", spec.norm_epsilon.into())],
    has: |name| name.ends_with(".bias") && !name.starts_with("output."),
    down_gain: 0.5,
    ..PLAIN
};

/// All families, in the order of `cairn_models::ALL`.
#[rustfmt::skip]
pub static ALL: &[&Family] = &[
    &GEMMA2,
    &GEMMA3,
    &GPT_OSS,
    &GRANITE,
    &LLAMA,
    &OLMO2,
    &PHI3,
    &QWEN2,
    &QWEN3,
    &QWEN3MOE,
    &STARCODER2,
];
