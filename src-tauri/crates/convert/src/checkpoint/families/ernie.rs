//! ERNIE 4.5: Llama, with adjacent pairs in checkpoints too; with experts behind the first layers, and shared ones.

use super::super::config::{Config, MAX_LAYERS, MAX_WIDTH};
use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, NORMS, PLAIN, Row, optional_count, row, whole};
use super::super::error::{ConvertError, unsupported};
use super::qwen::EXPERTS;
use super::sparse::{ROUTER_BIAS, SHARED_EXPERTS};

pub(super) const ERNIE_4_5: Decoder =
    Decoder { architectures: &["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"], name: "ernie4_5", ..PLAIN };

/// The bias of the choice of experts.
const CHOICE: &[Row] =
    &[row("mlp.moe_statics.e_score_correction", "exp_probs_b", &[Dim::Any, Dim::Experts]).reshaped()];

pub(super) const ERNIE_4_5_MOE: Decoder = Decoder {
    architectures: &["Ernie4_5_MoeForCausalLM"],
    name: "ernie4_5-moe",
    keys: &[
        whole("leading_dense_block_count", &["moe_layer_start_index"]),
        optional_count("interleave_moe_layer_step", &["moe_layer_interval"]),
        optional_count("expert_feed_forward_length", &["moe_intermediate_size"]),
        whole("expert_shared_count", &["moe_num_shared_experts"]),
    ],
    layer: &[ATTENTION, MLP, NORMS, CHOICE, EXPERTS, ROUTER_BIAS, SHARED_EXPERTS],
    prepare: |config| {
        config.rename(&[("moe_num_shared_experts", "n_shared_experts")]);
        Ok(())
    },
    more: |config, metadata| {
        let layers = config.count("num_hidden_layers", MAX_LAYERS)?;
        let last = config.whole("moe_layer_end_index", MAX_LAYERS)?;
        if last.is_some_and(|last| last + 1 != layers) {
            return Err(unsupported("ernie4_5-moe with an MLP in the last layers"));
        }
        if let Some(inner) = shared_inner(config)? {
            metadata.set("ernie4_5-moe.expert_shared_feed_forward_length", inner);
        }
        Ok(())
    },
    ..PLAIN
};

/// Returns the width inside all shared experts together.
fn shared_inner(config: &Config) -> Result<Option<u32>, ConvertError> {
    let count = config.whole("moe_num_shared_experts", MAX_WIDTH)?.filter(|&count| count > 0);
    let inner = config.optional_count(&["moe_intermediate_size"], MAX_WIDTH)?;
    Ok(count.zip(inner).map(|(count, inner)| count.saturating_mul(inner)))
}
