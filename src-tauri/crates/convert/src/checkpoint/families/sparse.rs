//! Experts behind some layers with an MLP, and shared ones, in the names that DeepSeek and the families after it have.

use super::super::config::{Config, MAX_WIDTH};
use super::super::decoder::{Dim, Key, Row, flag, number, optional_count, row, whole};
use super::super::error::ConvertError;

/// Value of `expert_gating_func` for a softmax over all experts, and for sigmoids.
pub(super) const SOFTMAX: u32 = 1;
pub(super) const SIGMOIDS: u32 = 2;

/// Keys of the numbers and weights of experts.
pub(super) const KEYS: &[Key] = &[
    optional_count("expert_feed_forward_length", &["moe_intermediate_size"]),
    whole("expert_shared_count", &["n_shared_experts"]),
    whole("leading_dense_block_count", &["first_k_dense_replace"]),
    number("expert_weights_scale", &["routed_scaling_factor"]),
    flag("expert_weights_norm", &["norm_topk_prob"]),
    optional_count("vocab_size", &["vocab_size"]),
];

/// The bias of the router. The router and the experts have [`super::qwen::EXPERTS`].
pub(super) const ROUTER_BIAS: &[Row] = &[row("mlp.gate.e_score_correction", "exp_probs_b", &[Dim::Experts])];

/// The shared experts, which are one of their total width.
pub(super) const SHARED_EXPERTS: &[Row] = &[
    row("mlp.shared_experts.gate_proj", "ffn_gate_shexp", &[Dim::Width, Dim::Of(shared_inner)]),
    row("mlp.shared_experts.up_proj", "ffn_up_shexp", &[Dim::Width, Dim::Of(shared_inner)]),
    row("mlp.shared_experts.down_proj", "ffn_down_shexp", &[Dim::Of(shared_inner), Dim::Width]),
];

/// Returns the width inside the shared experts.
fn shared_inner(config: &Config) -> Result<u64, ConvertError> {
    let count = config.whole("n_shared_experts", MAX_WIDTH)?.unwrap_or(0);
    Ok(u64::from(count) * u64::from(config.count("moe_intermediate_size", MAX_WIDTH)?))
}
