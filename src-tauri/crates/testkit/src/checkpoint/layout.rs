//! Names, order and types of tensors in checkpoints.

pub(super) mod names;
mod orders;
mod t5;

use cairn_gguf::{DType, Gguf, Tensor};

use self::names::{Name, is_whole};
use super::{CheckpointSpec, SourceTensor, Storage};

/// Elements of a block of MXFP4, and its bytes.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 17;
/// Tokens of images and sound in models that have no inputs of layers for them.
pub(super) const EXTRA_TOKENS: u64 = 8;
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
    if family == "t5" {
        let mut values = vec![0.0; tensor.elements() as usize];
        tensor.dtype.decode(contents(tensor), &mut values);
        let stored = t5::store(spec, tensor, values, sources);
        return (DType::F32, stored.iter().flat_map(|value| value.to_le_bytes()).collect());
    }
    let gguf_name = Name::new(&tensor.name);
    let (part, ending) = (gguf_name.part, gguf_name.ending);
    let bytes = contents(tensor);
    if tensor.dtype == DType::MXFP4 {
        store_blocks(gguf, tensor, contents, sources);
        return (DType::MXFP4, bytes.to_vec());
    }
    let mut values = vec![0.0; tensor.elements() as usize];
    tensor.dtype.decode(bytes, &mut values);
    let Some(name) = gguf_name.path(family) else {
        // Factors of rotary positions are in the config.
        return (DType::F32, bytes.to_vec());
    };
    // Falcon with two norms has another name of this one.
    let has_two = gguf.tensor("blk.0.attn_norm_2.weight").is_some();
    let name = if has_two { name.replace("input_layernorm", "ln_mlp") } else { name };
    let is_linear = matches!(family, "qwen3next" | "qwen35" | "qwen35moe");
    let is_shifted = part.ends_with("norm")
        && part != "ssm_norm"
        && (family.starts_with("gemma") && family != "gemma4" && family != "gemma3n" || is_linear);
    if is_shifted {
        values.iter_mut().for_each(|value| *value -= 1.0);
    }
    let dims: Vec<usize> = tensor.dims.iter().map(|&dim| dim as usize).collect();
    // The values of another tensor of the layer.
    let other = |from: &str, to: &str| {
        let other = gguf.tensor(&tensor.name.replace(from, to)).expect("both parts are there");
        let mut values = vec![0.0; other.elements() as usize];
        other.dtype.decode(contents(other), &mut values);
        values
    };
    let is_matrix = ending == "weight" && dims.len() > 1;
    let mut stored = match (family, part) {
        ("llama" | "granite" | "granitemoe" | "granitehybrid" | "mistral3" | "smollm3", "attn_q" | "attn_k") => {
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
        ("granitemoe" | "granitehybrid", "ffn_gate_exps" | "ffn_gate_shexp" | "ffn_gate") => {
            let both = orders::joined(&values, &other("gate", "up"), values.len() / dims[0] / dims[1]);
            let dims = [&[dims[0], 2 * dims[1]][..], &dims[2..]].concat();
            add(spec, &name, ending, &dims, both, sources);
            values
        }
        ("granitemoe" | "granitehybrid", "ffn_up_exps" | "ffn_up_shexp" | "ffn_up") => values,
        ("llama4" | "qwen3vlmoe", "ffn_gate_exps") => {
            let both = orders::joined(&values, &other("gate", "up"), dims[2]);
            let both = orders::transposed(&both, 2 * dims[1], dims[0]);
            add(spec, &name, ending, &[2 * dims[1], dims[0], dims[2]], both, sources);
            values
        }
        ("llama4" | "qwen3vlmoe", "ffn_up_exps") => values,
        ("llama4" | "qwen3vlmoe", "ffn_down_exps") => {
            let turned = orders::transposed(&values, dims[1], dims[0]);
            add(spec, &name, ending, &[dims[1], dims[0], dims[2]], turned, sources);
            values
        }
        ("gemma3n", "token_embd" | "output") => {
            // Tokens of images and sound follow those of texts.
            let tokens = dims[1] + EXTRA_TOKENS as usize;
            let mut all = values;
            all.resize(tokens * dims[0], 1.0);
            let mut stored = add(spec, &name, ending, &[dims[0], tokens], all, sources);
            stored.truncate(dims[0] * dims[1]);
            stored
        }
        ("gpt2", "attn_qkv" | "attn_output" | "ffn_up" | "ffn_down") if is_matrix => {
            let turned = orders::transposed(&values, dims[1], dims[0]);
            let stored = add(spec, &name, ending, &[dims[1], dims[0]], turned, sources);
            orders::transposed(&stored, dims[0], dims[1])
        }
        ("deepseek2", "attn_k_b" | "attn_v_b") => {
            let is_key = part == "attn_k_b";
            let (keys, heads_values) = match is_key {
                true => (values, other("attn_k_b", "attn_v_b")),
                false => (other("attn_v_b", "attn_k_b"), values),
            };
            let (latent, heads) = (dims[usize::from(is_key)], dims[2]);
            let plain = keys.len() / latent / heads;
            let both = orders::joined(&orders::transposed(&keys, latent, plain), &heads_values, heads);
            let dims = [latent, both.len() / latent];
            // Both become one tensor.
            let mut unused = Vec::new();
            let stored = add(spec, &name, ending, &dims, both, if is_key { sources } else { &mut unused });
            let of_head = |head: &[f32]| match head.split_at(plain * latent) {
                (keys, _) if is_key => orders::transposed(keys, plain, latent),
                (_, values) => values.to_vec(),
            };
            stored.chunks_exact(stored.len() / heads).flat_map(of_head).collect()
        }
        ("qwen3next", "attn_qkv") => {
            let both = [&values[..], &other("attn_qkv", "attn_gate")].concat();
            let rows = both.len() / dims[0];
            let order = orders::rows(family, part, rows, &spec.model).expect("it has another order");
            let both = orders::scatter(&both, dims[0], &order);
            add(spec, &name, ending, &[dims[0], rows], both, sources);
            values
        }
        ("qwen3next", "attn_gate") => values,
        ("qwen35" | "qwen35moe", "ssm_out") => {
            let order = orders::rows(family, part, dims[0], &spec.model).expect("it has another order");
            let turned = orders::transposed(&values, dims[1], dims[0]);
            let moved = orders::transposed(&orders::scatter(&turned, dims[1], &order), dims[0], dims[1]);
            add(spec, &name, ending, &dims, moved, sources);
            values
        }
        // Logarithms of the rates.
        (_, "ssm_a") => {
            let logarithms: Vec<f32> = values.iter().map(|rate| (-rate).ln()).collect();
            let order = orders::rows(family, part, values.len(), &spec.model);
            let order = order.unwrap_or_else(|| (0..values.len()).collect());
            let moved = orders::scatter(&logarithms, 1, &order);
            let stored = orders::gather(&add(spec, &name, ending, &[moved.len()], moved, sources), 1, &order);
            stored.into_iter().map(|logarithm| -logarithm.exp()).collect()
        }
        (_, "ssm_d") | ("granitehybrid" | "nemotron_h" | "nemotron_h_moe", "ssm_norm") => {
            add(spec, &name, ending, &[values.len()], values, sources)
        }
        ("ernie4_5-moe", "exp_probs_b") => add(spec, &name, ending, &[values.len(), 1], values, sources),
        _ if orders::rows(family, part, values.len() / if is_matrix { dims[0] } else { 1 }, &spec.model).is_some() => {
            let columns = if is_matrix { dims[0] } else { 1 };
            let order = orders::rows(family, part, values.len() / columns, &spec.model).expect("it has one");
            let moved = orders::scatter(&values, columns, &order);
            let dims = if part == "ssm_conv1d" { vec![dims[0], 1, dims[1]] } else { dims };
            let stored = add(spec, &name, ending, &dims, moved, sources);
            orders::gather(&stored, columns, &order)
        }
        // A convolution of single channels.
        (_, "ssm_conv1d" | "shortconv.conv") if is_matrix => {
            add(spec, &name, ending, &[dims[0], 1, dims[1]], values, sources)
        }
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
    if is_shifted {
        stored.iter_mut().for_each(|value| *value += 1.0);
    }
    (DType::F32, stored.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// Position in the other order of row `row` of a head of `rows`: the first halves of pairs, then the second ones.
pub(super) fn halves(row: usize, rows: usize) -> usize {
    if row < rows / 2 { 2 * row } else { 2 * (row - rows / 2) + 1 }
}

/// Position in the other order of row `row` of a head of `rows`: pairs are adjacent.
fn interleaved(row: usize, rows: usize) -> usize {
    row / 2 + row % 2 * (rows / 2)
}

/// Reorders the rows of heads. `source` returns the row that is at a position of the new order.
pub(super) fn reorder(values: &[f32], heads: usize, columns: usize, source: fn(usize, usize) -> usize) -> Vec<f32> {
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
    let full = if is_whole(name) { name.to_owned() } else { format!("{name}.{ending}") };
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
    let name = Name::new(&tensor.name);
    let parts = match name.part {
        "ffn_gate_exps" => {
            vec![tensor, gguf.tensor(&tensor.name.replace("gate", "up")).expect("both parts are there")]
        }
        "ffn_up_exps" => return,
        _ => vec![tensor],
    };
    let name = name.path("gpt-oss").expect("experts have a name");
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
