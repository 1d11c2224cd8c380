//! Keys of metadata with values of a config.

use super::super::config::{MAX_LAYERS, MAX_WIDTH};

/// A key with a value of the config.
pub(in crate::checkpoint) struct Key {
    /// Without the prefix of the family.
    pub(super) name: &'static str,
    /// Names in the config; the first one with a value counts.
    pub(super) config: &'static [&'static str],
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count(u32),
    OptionalCount(u32),
    /// A count that may be zero.
    OptionalWhole,
    OptionalNumber,
    OptionalFlag,
}

/// A count that every config has.
pub(in crate::checkpoint) const fn count(name: &'static str, config: &'static [&'static str], max: u32) -> Key {
    Key { name, config, kind: Kind::Count(max) }
}

/// A count.
pub(in crate::checkpoint) const fn optional_count(name: &'static str, config: &'static [&'static str]) -> Key {
    Key { name, config, kind: Kind::OptionalCount(MAX_WIDTH) }
}

/// A count that may be zero.
pub(in crate::checkpoint) const fn whole(name: &'static str, config: &'static [&'static str]) -> Key {
    Key { name, config, kind: Kind::OptionalWhole }
}

/// A number.
pub(in crate::checkpoint) const fn number(name: &'static str, config: &'static [&'static str]) -> Key {
    Key { name, config, kind: Kind::OptionalNumber }
}

/// A truth value.
pub(in crate::checkpoint) const fn flag(name: &'static str, config: &'static [&'static str]) -> Key {
    Key { name, config, kind: Kind::OptionalFlag }
}

/// Names of the number of experts.
pub(super) const EXPERTS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];

/// Keys of all families.
pub(super) const COMMON_KEYS: &[Key] = &[
    count("block_count", &["num_hidden_layers"], MAX_LAYERS),
    count("context_length", &["max_position_embeddings"], u32::MAX),
    count("embedding_length", &["hidden_size"], MAX_WIDTH),
    count("feed_forward_length", &["intermediate_size"], MAX_WIDTH),
    count("attention.head_count", &["num_attention_heads"], MAX_WIDTH),
    optional_count("attention.head_count_kv", &["num_key_value_heads"]),
    number("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    number("attention.layer_norm_epsilon", &["norm_epsilon", "layer_norm_eps", "layer_norm_epsilon"]),
    optional_count("expert_count", EXPERTS),
    optional_count("expert_used_count", &["num_experts_per_tok", "moe_k"]),
];

/// Names of the width inside a shared expert.
pub(in crate::checkpoint) const SHARED_INNER: &[&str] =
    &["shared_expert_intermediate_size", "shared_intermediate_size"];
