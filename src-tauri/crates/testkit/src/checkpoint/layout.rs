//! Names, order and types of tensors in checkpoints.

use cairn_gguf::{DType, Gguf, Tensor};

use super::{CheckpointSpec, SourceTensor, Storage};

/// Elements of a block of MXFP4, and its bytes.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 17;
/// Largest 8-bit float.
const MAX_FLOAT8: f32 = 448.0;

/// Adds the tensors of a checkpoint that one of the model becomes. Returns type and bytes of the model's tensor after the
/// conversion, which differ if the checkpoint's type is less precise.
pub(super) fn store<'a>(
    spec: &CheckpointSpec,
    gguf: &Gguf,
    tensor: &Tensor,
    contents: &impl Fn(&Tensor) -> &'a [u8],
    sources: &mut Vec<SourceTensor>,
) -> (DType, Vec<u8>) {
    let family = spec.model.family.name;
    let (prefix, part, ending) = split(&tensor.name);
    let bytes = contents(tensor);
    if tensor.dtype == DType::MXFP4 {
        store_blocks(gguf, tensor, contents, sources);
        return (DType::MXFP4, bytes.to_vec());
    }
    let mut values = vec![0.0; tensor.elements() as usize];
    tensor.dtype.decode(bytes, &mut values);
    let Some(path) = path(family, part) else {
        // Factors of rotary positions are in the config.
        return (DType::F32, bytes.to_vec());
    };
    if family.starts_with("gemma") && part.ends_with("norm") {
        values.iter_mut().for_each(|value| *value -= 1.0);
    }
    let dims: Vec<usize> = tensor.dims.iter().map(|&dim| dim as usize).collect();
    let name = format!("{prefix}{path}");
    let mut stored = match (family, part) {
        ("llama" | "granite" | "granitemoe" | "smollm3", "attn_q" | "attn_k") => {
            let heads = if part == "attn_q" { spec.model.heads } else { spec.model.kv_heads };
            let columns = if ending == "bias" { 1 } else { dims[0] };
            let split = reorder(&values, heads as usize, columns, halves);
            let stored = add(spec, &name, ending, &dims, split, sources);
            reorder(&stored, heads as usize, columns, interleaved)
        }
        ("gpt-oss", "ffn_gate_exps" | "ffn_up_exps") => {
            if part == "ffn_gate_exps" {
                let other = gguf.tensor(&tensor.name.replace("gate", "up")).expect("both parts are there");
                let mut others = vec![0.0; values.len()];
                other.dtype.decode(contents(other), &mut others);
                assert_eq!(ending, "bias", "experts have blocks");
                let both: Vec<f32> = values.iter().zip(&others).flat_map(|(gate, up)| [*gate, *up]).collect();
                let shape = vec![tensor.dims[1], 2 * tensor.dims[0]];
                push(sources, &format!("{name}_bias"), "BF16", shape, &bfloat16(&both));
            }
            rounded(&values)
        }
        ("gpt-oss", "ffn_down_exps") => {
            let shape = vec![tensor.dims[1], tensor.dims[0]];
            push(sources, &format!("{name}_bias"), "BF16", shape, &bfloat16(&values));
            rounded(&values)
        }
        ("granitemoe", "ffn_gate_exps" | "ffn_gate_shexp") => {
            let other = gguf.tensor(&tensor.name.replace("gate", "up")).expect("both parts are there");
            let mut others = vec![0.0; values.len()];
            other.dtype.decode(contents(other), &mut others);
            let matrix = dims[0] * dims[1];
            let parts = values.chunks_exact(matrix).zip(others.chunks_exact(matrix));
            let both: Vec<f32> = parts.flat_map(|(gate, up)| [gate, up].concat()).collect();
            let dims = [&[dims[0], 2 * dims[1]], &dims[2..]].concat();
            add(spec, &name, ending, &dims, both, sources);
            values
        }
        ("granitemoe", "ffn_up_exps" | "ffn_up_shexp") => values,
        // The output of one row.
        (_, "ffn_gate_inp_shexp") => add(spec, &name, ending, &[dims[0], 1], values, sources),
        ("gpt-oss", "attn_sinks") => {
            push(sources, &name, "BF16", tensor.dims.clone(), &bfloat16(&values));
            rounded(&values)
        }
        _ if name.contains('*') => {
            let matrix = dims[0] * dims[1];
            let experts = values.chunks_exact(matrix).enumerate().flat_map(|(expert, values)| {
                let name = name.replace('*', &expert.to_string());
                add(spec, &name, ending, &dims[..2], values.to_vec(), sources)
            });
            experts.collect()
        }
        _ => add(spec, &name, ending, &dims, values, sources),
    };
    if family.starts_with("gemma") && part.ends_with("norm") {
        stored.iter_mut().for_each(|value| *value += 1.0);
    }
    (DType::F32, stored.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// Splits a name of GGUF: the checkpoint's prefix, the part, the ending.
fn split(name: &str) -> (String, &str, &str) {
    let (stem, ending) = name.rsplit_once('.').expect("names have an ending");
    match stem.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((layer, part)) => (format!("model.layers.{layer}."), part, ending),
        None => (String::new(), stem, ending),
    }
}

/// Returns the checkpoint's name of a part; `*` is the number of an expert.
fn path(family: &str, part: &str) -> Option<&'static str> {
    let path = match (family, part) {
        (_, "token_embd") => "model.embed_tokens",
        (_, "output_norm") => "model.norm",
        (_, "output") => "lm_head",
        (_, "attn_norm") => "input_layernorm",
        (_, "attn_q") => "self_attn.q_proj",
        (_, "attn_k") => "self_attn.k_proj",
        (_, "attn_v") => "self_attn.v_proj",
        (_, "attn_qkv") => "self_attn.qkv_proj",
        (_, "attn_output") => "self_attn.o_proj",
        (_, "attn_q_norm") => "self_attn.q_norm",
        (_, "attn_k_norm") => "self_attn.k_norm",
        (_, "attn_sinks") => "self_attn.sinks",
        (_, "post_attention_norm") => "post_attention_layernorm",
        (_, "post_ffw_norm") => "post_feedforward_layernorm",
        ("gemma2" | "gemma3", "ffn_norm") => "pre_feedforward_layernorm",
        (_, "ffn_norm") => "post_attention_layernorm",
        ("phi3", "ffn_up") => "mlp.gate_up_proj",
        ("starcoder2", "ffn_up") => "mlp.c_fc",
        ("starcoder2", "ffn_down") => "mlp.c_proj",
        (_, "ffn_gate") => "mlp.gate_proj",
        (_, "ffn_up") => "mlp.up_proj",
        (_, "ffn_down") => "mlp.down_proj",
        ("llama", "ffn_gate_inp") => "block_sparse_moe.gate",
        ("llama", "ffn_gate_exps") => "block_sparse_moe.experts.*.w1",
        ("llama", "ffn_down_exps") => "block_sparse_moe.experts.*.w2",
        ("llama", "ffn_up_exps") => "block_sparse_moe.experts.*.w3",
        ("granitemoe", "ffn_gate_inp") => "block_sparse_moe.router.layer",
        ("granitemoe", "ffn_gate_exps" | "ffn_up_exps") => "block_sparse_moe.input_linear",
        ("granitemoe", "ffn_down_exps") => "block_sparse_moe.output_linear",
        ("granitemoe", "ffn_gate_shexp" | "ffn_up_shexp") => "shared_mlp.input_linear",
        ("granitemoe", "ffn_down_shexp") => "shared_mlp.output_linear",
        (_, "ffn_gate_shexp") => "mlp.shared_expert.gate_proj",
        (_, "ffn_up_shexp") => "mlp.shared_expert.up_proj",
        (_, "ffn_down_shexp") => "mlp.shared_expert.down_proj",
        (_, "ffn_gate_inp_shexp") => "mlp.shared_expert_gate",
        ("gpt-oss", "ffn_gate_inp") => "mlp.router",
        ("gpt-oss", "ffn_gate_exps" | "ffn_up_exps") => "mlp.experts.gate_up_proj",
        ("gpt-oss", "ffn_down_exps") => "mlp.experts.down_proj",
        (_, "ffn_gate_inp") => "mlp.gate",
        (_, "ffn_gate_exps") => "mlp.experts.*.gate_proj",
        (_, "ffn_up_exps") => "mlp.experts.*.up_proj",
        (_, "ffn_down_exps") => "mlp.experts.*.down_proj",
        _ => return None,
    };
    Some(path)
}

/// Position in the other order of row `row` of a head of `rows`: the first halves of pairs, then the second ones.
fn halves(row: usize, rows: usize) -> usize {
    if row < rows / 2 { 2 * row } else { 2 * (row - rows / 2) + 1 }
}

/// Position in the other order of row `row` of a head of `rows`: pairs are adjacent.
fn interleaved(row: usize, rows: usize) -> usize {
    row / 2 + row % 2 * (rows / 2)
}

/// Reorders the rows of heads. `source` returns the row that is at a position of the new order.
fn reorder(values: &[f32], heads: usize, columns: usize, source: fn(usize, usize) -> usize) -> Vec<f32> {
    let rows = values.len() / columns / heads;
    let row = |index: usize| {
        let start = (index / rows * rows + source(index % rows, rows)) * columns;
        &values[start..start + columns]
    };
    (0..heads * rows).flat_map(row).copied().collect()
}

fn push(sources: &mut Vec<SourceTensor>, name: &str, dtype: &'static str, shape: Vec<u64>, bytes: &[u8]) {
    sources.push(SourceTensor { name: name.to_owned(), dtype, shape, bytes: bytes.to_vec() });
}

/// Adds a tensor. Returns the values that it has in the checkpoint.
fn add(
    spec: &CheckpointSpec,
    name: &str,
    ending: &str,
    dims: &[usize],
    values: Vec<f32>,
    sources: &mut Vec<SourceTensor>,
) -> Vec<f32> {
    let shape: Vec<u64> = dims.iter().rev().map(|&dim| dim as u64).collect();
    let full = format!("{name}.{ending}");
    let is_projection = name.ends_with("_proj") && shape.len() == 2;
    let dtype = match spec.storage {
        Storage::Float(dtype) => dtype,
        Storage::Float8Blocks(block) if is_projection => {
            return add_float8(&full, "weight_scale_inv", &shape, Some(block), &values, sources);
        }
        Storage::Float8Rows if is_projection => {
            return add_float8(&full, "weight_scale", &shape, None, &values, sources);
        }
        Storage::Float8Blocks(_) | Storage::Float8Rows => DType::BF16,
    };
    let mut bytes = Vec::new();
    dtype.encode(&values, &mut bytes).expect("floats have encoders");
    let mut stored = vec![0.0; values.len()];
    dtype.decode(&bytes, &mut stored);
    push(sources, &full, dtype.name(), shape, &bytes);
    stored
}

fn bfloat16(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect()
}

fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|&value| half::bf16::from_f32(value).to_f32()).collect()
}

/// All 8-bit floats from zero up: four exponent bits, three of the mantissa.
fn float8() -> [f32; 127] {
    std::array::from_fn(|code| match code / 8 {
        0 => (code % 8) as f32 / 512.0,
        exponent => (8 + code % 8) as f32 * 2f32.powi(exponent as i32 - 10),
    })
}

fn add_float8(
    name: &str,
    ending: &str,
    shape: &[u64],
    block: Option<[u64; 2]>,
    values: &[f32],
    sources: &mut Vec<SourceTensor>,
) -> Vec<f32> {
    let grid = float8();
    let &[rows, columns] = shape else { unreachable!("projections are matrices") };
    let [down, across] = block.unwrap_or([1, columns]);
    let grid_columns = columns.div_ceil(across);
    let block_of = |at: u64| (at / columns / down * grid_columns + at % columns / across) as usize;
    let mut scales = vec![0.0f32; (rows.div_ceil(down) * grid_columns) as usize];
    for (at, value) in (0..).zip(values) {
        let largest = &mut scales[block_of(at)];
        *largest = largest.max(value.abs() / MAX_FLOAT8);
    }
    let code = |(at, value): (u64, &f32)| {
        let wanted = (value / scales[block_of(at)]).abs();
        let above = grid.partition_point(|&number| number < wanted).clamp(1, grid.len() - 1);
        let nearest = if wanted - grid[above - 1] < grid[above] - wanted { above - 1 } else { above };
        nearest as u8 | u8::from(*value < 0.0) << 7
    };
    let codes: Vec<u8> = (0..).zip(values).map(code).collect();
    let number = |code: u8| if code > 127 { -grid[usize::from(code) - 128] } else { grid[usize::from(code)] };
    let stored = (0..).zip(&codes).map(|(at, &code)| number(code) * scales[block_of(at)]).collect();
    push(sources, name, "F8_E4M3", shape.to_vec(), &codes);
    let scale_shape = vec![rows.div_ceil(down), grid_columns];
    let bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    push(sources, &name.replace("weight", ending), "F32", scale_shape, &bytes);
    stored
}

/// Adds blocks of 4-bit floats and their scales. Rows of gate and linear part alternate.
fn store_blocks<'a>(
    gguf: &Gguf,
    tensor: &Tensor,
    contents: &impl Fn(&Tensor) -> &'a [u8],
    sources: &mut Vec<SourceTensor>,
) {
    let (prefix, part, _) = split(&tensor.name);
    let parts = match part {
        "ffn_gate_exps" => {
            vec![tensor, gguf.tensor(&tensor.name.replace("gate", "up")).expect("both parts are there")]
        }
        "ffn_up_exps" => return,
        _ => vec![tensor],
    };
    let name = format!("{prefix}{}", path("gpt-oss", part).expect("experts have a name"));
    let (columns, rows, experts) = (tensor.dims[0] as usize, tensor.dims[1] as usize, tensor.dims[2] as usize);
    let row_bytes = columns / BLOCK * BLOCK_BYTES;
    let (mut blocks, mut scales) = (Vec::new(), Vec::new());
    for row in 0..experts * rows {
        for part in &parts {
            for block in contents(part)[row * row_bytes..][..row_bytes].chunks_exact(BLOCK_BYTES) {
                scales.push(block[0]);
                let element =
                    |at: usize| if at < BLOCK / 2 { block[1 + at] & 15 } else { block[1 + at - BLOCK / 2] >> 4 };
                blocks.extend((0..BLOCK / 2).map(|byte| element(2 * byte) | element(2 * byte + 1) << 4));
            }
        }
    }
    let shape = [experts, rows * parts.len(), columns / BLOCK].map(|dim| dim as u64).to_vec();
    let block_shape = [&shape[..], &[BLOCK as u64 / 2]].concat();
    push(sources, &format!("{name}_blocks"), "U8", block_shape, &blocks);
    push(sources, &format!("{name}_scales"), "U8", shape, &scales);
}
