//! Which type each tensor gets: the mixes of llama.cpp, which other programs know the file types by.
//!
//! Norms, routers and other small tensors stay as they are. Of the matrices, those that a model suffers most from get more
//! bits: the output, the values of attention, and what leads back into the stream in some layers. Rows that are not whole
//! blocks get a type of smaller blocks. The rules are llama.cpp's `src/llama-quant.cpp` for no importance matrix; that each
//! tensor's type equals what llama.cpp gives it is what `tests/quantise` holds.

use std::cmp::Ordering;

use cairn_gguf::{DType, Error, Gguf, Metadata, Tensor};

use crate::FileType;

/// What the rules ask of a model.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    architecture: String,
    layers: usize,
    experts: u32,
    /// Query heads for each head of keys and values, in the first layer.
    grouped: u32,
    /// Whether it is one of the models whose values eight query heads share, which get more bits.
    seventy_billion: bool,
    /// Whether the embedding is the output matrix too.
    tied: bool,
    /// Tensors that the values of attention come from.
    values: usize,
}

/// A tensor's part in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Output,
    Embedding,
    /// The values of attention, by themselves or in a matrix with others.
    Values,
    Keys,
    AttentionOutput,
    Down,
    Other,
}

/// Where a layer's number and the number of layers are not what the rules go by: how often parts have come.
#[derive(Default)]
struct Seen {
    values: usize,
    downs: usize,
}

/// Names with one of these in them belong to tensors that stay as they are: small ones, or ones that rounding ruins.
const KEPT: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// What stays as it is in `glm5-next`.
const KEPT_IN_GLM5_NEXT: &[&str] = &[
    "hc_",
    "indexer.attn_q_b",
    "indexer.attn_k",
    "indexer.proj",
    "indexer_compressor_gate",
    "indexer_compressor_ape",
    "ssm_f_a.weight",
    "ssm_f_b.weight",
    "ssm_g_a.weight",
    "ssm_g_b.weight",
    "ssm_beta.weight",
    "attn_kv_a_mqa.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
];

/// A model's tensors in the order in which llama.cpp writes them, each with the type that it gets.
pub(super) fn types(head: &Gguf, target: FileType) -> Result<Vec<(&Tensor, DType)>, Error> {
    let shape = Shape::of(head)?;
    let mut tensors: Vec<&Tensor> = head.tensors().iter().collect();
    tensors.sort_by(|a, b| in_order(&a.name, &b.name));
    let mut seen = Seen::default();
    Ok(tensors.into_iter().map(|tensor| (tensor, shape.dtype(tensor, target, &mut seen))).collect())
}

/// What belongs to no layer first, then layer by layer; names within.
fn in_order(a: &str, b: &str) -> Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}

/// The layer that a tensor's name tells.
fn layer(name: &str) -> Option<usize> {
    let number = name.strip_prefix("blk.")?;
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    number.get(..digits)?.parse().ok()
}

impl Part {
    fn of(name: &str) -> Part {
        let has = |part: &str| name.contains(part);
        match name {
            "output.weight" => Part::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Part::Embedding,
            _ if has("attn_qkv.weight") || has("attn_kv_b.weight") || has("attn_v.weight") => Part::Values,
            _ if has("attn_k.weight") => Part::Keys,
            // A query's matrix has no rule of its own, but its name may not be taken for one of those below.
            _ if has("attn_q.weight") => Part::Other,
            _ if has("attn_output.weight") => Part::AttentionOutput,
            _ if has("ffn_up") || has("ffn_gate") => Part::Other,
            _ if has("ffn_down") => Part::Down,
            _ => Part::Other,
        }
    }
}

impl Shape {
    fn of(head: &Gguf) -> Result<Shape, Error> {
        let metadata = head.metadata();
        let architecture = metadata.str("general.architecture")?.unwrap_or_default().to_owned();
        let count = |key: &str| first_count(metadata, &format!("{architecture}.{key}"));
        let layers = count("block_count")?.unwrap_or(0);
        let heads = count("attention.head_count")?.unwrap_or(0);
        let kv_heads = count("attention.head_count_kv")?.unwrap_or(heads);
        let experts = count("expert_count")?.unwrap_or(0);
        let seventy_billion = match architecture.as_str() {
            "llama" => layers == 80 && heads != kv_heads && experts != 8,
            "qwen2" | "deci" | "olmo" => layers == 80,
            "jais2" => layers == 68,
            _ => false,
        };
        Ok(Shape {
            layers: layers as usize,
            experts,
            grouped: heads.checked_div(kv_heads).unwrap_or(0),
            seventy_billion,
            tied: head.tensor("output.weight").is_none(),
            values: head.tensors().iter().filter(|tensor| Part::of(&tensor.name) == Part::Values).count(),
            architecture,
        })
    }

    /// The type that a tensor gets.
    fn dtype(&self, tensor: &Tensor, target: FileType, seen: &mut Seen) -> DType {
        if self.keeps(tensor) {
            return tensor.dtype;
        }
        if target.is_float() {
            return target.dtype();
        }
        fallback(self.mixed(tensor, target, seen), tensor)
    }

    /// Whether a tensor stays as it is, whatever the target.
    fn keeps(&self, tensor: &Tensor) -> bool {
        let name = tensor.name.as_str();
        let vector = tensor.dims.iter().skip(1).all(|&dim| dim == 1);
        let within = |names: &[&str]| names.iter().any(|part| name.contains(part));
        vector
            || !name.ends_with("weight")
            || matches!(name, "position_embd.weight" | "token_types.weight")
            || within(KEPT)
            || (self.architecture == "glm5-next" && within(KEPT_IN_GLM5_NEXT))
    }

    /// The mix's type for a tensor, if its rows are whole blocks of it.
    fn mixed(&self, tensor: &Tensor, target: FileType, seen: &mut Seen) -> DType {
        let name = tensor.name.as_str();
        let part = Part::of(name);
        let default = target.dtype();
        let within = |names: &[&str]| names.iter().any(|part| name.contains(part));
        if self.architecture == "glm5-next" && within(&["attn_q_a", "attn_q_b", "nextn.eh_proj"]) {
            return DType::Q8_0;
        }
        if part == Part::Output || (self.tied && part == Part::Embedding) {
            let eight_bits = default == DType::Q8_0
                || target == FileType::MXFP4_MOE
                || self.architecture == "falcon"
                || !whole_blocks(tensor, default);
            return if eight_bits { DType::Q8_0 } else { DType::Q6_K };
        }
        if target == FileType::MXFP4_MOE {
            let stacked = tensor.dims.get(2).is_some_and(|&experts| experts > 1);
            // That family has other matrices of three dimensions too.
            let expert = self.architecture != "bailingmoe3" || within(&["ffn_up", "ffn_gate", "ffn_down"]);
            return if stacked && expert { DType::MXFP4 } else { DType::Q8_0 };
        }
        match part {
            Part::Embedding if matches!(target, FileType::TQ1_0 | FileType::TQ2_0) => DType::Q4_K,
            Part::Values => {
                let at = seen.values;
                seen.values += 1;
                self.values(target, at)
            }
            Part::Keys if self.experts == 8 => DType::Q8_0,
            Part::Down => {
                // The stacked experts of some models come in no order, so that only the name tells the layer.
                let at = if self.experts > 1 { layer(name).unwrap_or(seen.downs) } else { seen.downs };
                seen.downs += 1;
                self.down(target, at)
            }
            Part::AttentionOutput => self.attention_output(target),
            _ => default,
        }
    }

    /// The type of the tensor number `at` of those that values come from.
    fn values(&self, target: FileType, at: usize) -> DType {
        if self.experts == 8 {
            // Beside the experts these take no room.
            return DType::Q8_0;
        }
        let shared = self.grouped >= 4;
        let dtype = match target {
            FileType::Q2_K if shared => DType::Q4_K,
            FileType::Q2_K => DType::Q3_K,
            FileType::IQ3_S if shared => DType::Q4_K,
            FileType::IQ3_M => DType::Q4_K,
            FileType::Q3_K_M if at < 2 => DType::Q5_K,
            FileType::Q3_K_M => DType::Q4_K,
            FileType::Q3_K_L => DType::Q5_K,
            FileType::IQ4_NL | FileType::IQ4_XS if shared => DType::Q5_K,
            FileType::Q4_K_M | FileType::Q5_K_M if more_bits(at, self.values) => DType::Q6_K,
            FileType::Q4_K_S if at < 4 => DType::Q5_K,
            _ => target.dtype(),
        };
        match dtype {
            DType::Q3_K | DType::Q4_K if self.seventy_billion => DType::Q5_K,
            dtype => dtype,
        }
    }

    /// The type of the matrix that leads out of layer `at`'s feed-forward block.
    fn down(&self, target: FileType, at: usize) -> DType {
        let falcon = self.architecture == "falcon";
        let (first_eighth, first_sixteenth) = (at < self.layers / 8, at < self.layers / 16);
        let more_bits = more_bits(at, self.layers);
        match target {
            FileType::Q2_K => DType::Q3_K,
            FileType::Q3_K_M if first_sixteenth => DType::Q5_K,
            FileType::Q3_K_M if !falcon || more_bits => DType::Q4_K,
            FileType::IQ3_M if first_eighth || (self.experts == 8 && more_bits) => DType::Q4_K,
            FileType::Q3_K_L if falcon => DType::Q4_K,
            FileType::Q3_K_L => DType::Q5_K,
            FileType::Q4_K_M if falcon && first_sixteenth => DType::Q6_K,
            FileType::Q4_K_M if falcon && more_bits => DType::Q5_K,
            FileType::Q4_K_M | FileType::Q5_K_M if more_bits => DType::Q6_K,
            FileType::IQ4_NL | FileType::IQ4_XS if first_eighth => DType::Q5_K,
            FileType::Q4_K_S if !falcon && first_eighth => DType::Q5_K,
            _ => target.dtype(),
        }
    }

    fn attention_output(&self, target: FileType) -> DType {
        use FileType::{IQ3_M, IQ3_S, IQ4_NL, IQ4_XS, Q2_K, Q3_K_L, Q3_K_M, Q3_K_S, Q4_K_M, Q4_K_S};
        if self.architecture == "falcon" {
            return if target == Q3_K_L { DType::Q4_K } else { target.dtype() };
        }
        match target {
            Q2_K | Q3_K_S | Q3_K_M | Q4_K_S | Q4_K_M | IQ3_S | IQ3_M | IQ4_NL | IQ4_XS if self.experts == 8 => {
                DType::Q5_K
            }
            _ if self.experts == 8 => target.dtype(),
            Q2_K => DType::Q3_K,
            Q3_K_M | IQ3_M => DType::Q4_K,
            Q3_K_L => DType::Q5_K,
            _ => target.dtype(),
        }
    }
}

/// Whether a tensor of a mix of two types gets the larger one: in the first and the last eighth, and every third between.
fn more_bits(at: usize, of: usize) -> bool {
    at < of / 8 || at >= 7 * of / 8 || (at - of / 8) % 3 == 2
}

fn whole_blocks(tensor: &Tensor, dtype: DType) -> bool {
    tensor.dims.first().is_some_and(|elements| elements.is_multiple_of(dtype.block() as u64))
}

/// A type of smaller blocks where rows are not whole blocks of `dtype`; else F16.
fn fallback(dtype: DType, tensor: &Tensor) -> DType {
    let smaller = match dtype {
        DType::IQ3_S | DType::IQ4_XS => DType::IQ4_NL,
        DType::Q2_K | DType::Q3_K | DType::TQ1_0 | DType::TQ2_0 => DType::Q4_0,
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        DType::Q6_K => DType::Q8_0,
        dtype => dtype,
    };
    [dtype, smaller].into_iter().find(|&dtype| whole_blocks(tensor, dtype)).unwrap_or(DType::F16)
}

/// The count under `key`, that of the first layer where each has its own.
fn first_count(metadata: &Metadata, key: &str) -> Result<Option<u32>, Error> {
    match metadata.u32s(key) {
        Ok(counts) => Ok(counts.and_then(|counts| counts.first().copied())),
        Err(_) => metadata.u32(key),
    }
}
