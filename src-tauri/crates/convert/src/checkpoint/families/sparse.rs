//! Experts behind some layers with an MLP, and shared ones, in the names that DeepSeek and the families after it have.

use super::super::config::{Config, MAX_WIDTH};
use super::super::decoder::{Dim, Key, Row, flag, number, optional_count, row, whole};
use super::super::error::ConvertError;
use super::super::family::Select;

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

/// The router and the experts, with a matrix of each, or with the matrices of all in one tensor.
pub(super) const EXPERTS: &[Row] = &[
    row("mlp.gate", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("mlp.gate.e_score_correction", "exp_probs_b", &[Dim::Experts]),
    row("mlp.experts.*.gate_proj", "ffn_gate_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts]),
    row("mlp.experts.*.up_proj", "ffn_up_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts]),
    row("mlp.experts.*.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]),
    row("mlp.experts.gate_up_proj", "ffn_gate_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::FirstHalf),
    row("mlp.experts.gate_up_proj", "ffn_up_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::SecondHalf),
    row("mlp.experts.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]),
];

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
