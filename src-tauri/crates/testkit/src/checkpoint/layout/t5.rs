//! Tensors of T5 in checkpoints.

use cairn_gguf::Tensor;

use super::add;
use crate::checkpoint::{CheckpointSpec, SourceTensor};

/// Adds a tensor. Returns the values of the model after the conversion.
pub(super) fn store(
    spec: &CheckpointSpec,
    tensor: &Tensor,
    mut values: Vec<f32>,
    sources: &mut Vec<SourceTensor>,
) -> Vec<f32> {
    let dims: Vec<usize> = tensor.dims.iter().map(|&dim| dim as usize).collect();
    let up = if (spec.model.family.has_tensor)("enc.blk.0.ffn_gate.weight") { "wi_1" } else { "wi" };
    let name = name(&tensor.name, up);
    // The library divides rows by the root before it multiplies them by a tied embedding. The root is a power of two.
    let root = (spec.model.width as f32).sqrt();
    let is_scaled = spec.model.tied && tensor.name == "dec.output_norm.weight";
    if is_scaled {
        assert_eq!(root.log2().fract(), 0.0, "the factor of a tied embedding is exact");
        values.iter_mut().for_each(|value| *value *= root);
    }
    let mut stored = add(spec, &name, "weight", &dims, values.clone(), sources);
    if is_scaled {
        stored.iter_mut().for_each(|value| *value /= root);
    }
    if tensor.name == "token_embd.weight" {
        // Some checkpoints have copies.
        add(spec, "decoder.embed_tokens", "weight", &dims, values.clone(), sources);
        if spec.model.tied {
            add(spec, "lm_head", "weight", &dims, values, sources);
        }
    }
    stored
}

/// Returns the name without the ending. `up` is the name of the first matrix of an MLP, or of that behind the gate.
fn name(name: &str, up: &str) -> String {
    let path = name.strip_suffix(".weight").expect("all tensors are weights");
    let (side, rest) = match path.split_once('.') {
        Some(("enc", rest)) => ("encoder", rest),
        Some(("dec", rest)) => ("decoder", rest),
        _ if path == "token_embd" => return "shared".to_owned(),
        _ if path == "output" => return "lm_head".to_owned(),
        _ => panic!("no checkpoint of T5 has {path}"),
    };
    let Some((layer, part)) = rest.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) else {
        assert_eq!(rest, "output_norm");
        return format!("{side}.final_layer_norm");
    };
    let mlp = if side == "encoder" { 1 } else { 2 };
    let part = match part {
        "attn_norm" => "0.layer_norm".to_owned(),
        "attn_rel_b" => "0.SelfAttention.relative_attention_bias".to_owned(),
        "cross_attn_norm" => "1.layer_norm".to_owned(),
        "ffn_norm" => format!("{mlp}.layer_norm"),
        "ffn_down" => format!("{mlp}.DenseReluDense.wo"),
        "ffn_gate" => format!("{mlp}.DenseReluDense.wi_0"),
        "ffn_up" => format!("{mlp}.DenseReluDense.{up}"),
        part => match (part.strip_prefix("attn_"), part.strip_prefix("cross_attn_")) {
            (Some(matrix), _) => format!("0.SelfAttention.{matrix}"),
            (_, Some(matrix)) => format!("1.EncDecAttention.{matrix}"),
            _ => panic!("no layer of T5 has {part}"),
        },
    };
    format!("{side}.block.{layer}.layer.{part}")
}
