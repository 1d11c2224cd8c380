//! Type of each tensor, by the mixes of llama.cpp.
//!
//! Norms, routers and other small tensors keep their type. The most sensitive matrices get more bits: the output, the attention
//! values, and the down and output projections of some layers. Rows that are not a multiple of a block get a type with smaller
//! blocks. The rules are those of llama.cpp's `src/llama-quant.cpp`. Some differ if there is an importance matrix.
//! `tests/quantise` compares every tensor's type with llama.cpp's.

use std::cmp::Ordering;

use cairn_gguf::{DType, Error, Gguf, Metadata, Tensor};

use crate::FileType;

/// Facts about a model that the rules need.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    architecture: String,
    layers: usize,
    experts: u32,
    /// Query heads per key-value head, in the first layer.
    grouped: u32,
    /// Whether it is one of the models with eight query heads per value head, whose values get more bits.
    seventy_billion: bool,
    /// Whether the embedding is also the output matrix.
    tied: bool,
    /// Number of tensors that compute attention values.
    values: usize,
    /// Whether errors are weighted by an importance matrix.
    weighted: bool,
}

/// Role of a tensor in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Output,
    Embedding,
    /// Attention values, alone or in a fused matrix.
    Values,
    Keys,
    Queries,
    AttentionOutput,
    Gate,
    Up,
    Down,
    Other,
}

/// Tensors counted so far. Some rules use these counts instead of the layer number.
#[derive(Default)]
struct Counts {
    values: usize,
    downs: usize,
    gates: usize,
    ups: usize,
}

/// Parts of names of tensors that keep their type: small tensors, and tensors that are sensitive to rounding.
const UNCHANGED: &[&str] = &[
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

/// Further tensors that keep their type in `glm5-next`.
const UNCHANGED_IN_GLM5_NEXT: &[&str] = &[
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

/// Returns a model's tensors in llama.cpp's order, each with its target type.
pub(crate) fn types(head: &Gguf, target: FileType, weighted: bool) -> Result<Vec<(&Tensor, DType)>, Error> {
    let shape = Shape { weighted, ..Shape::of(head)? };
    let mut tensors: Vec<&Tensor> = head.tensors().iter().collect();
    tensors.sort_by(|a, b| in_order(&a.name, &b.name));
    let mut counts = Counts::default();
    Ok(tensors.into_iter().map(|tensor| (tensor, shape.dtype(tensor, target, &mut counts))).collect())
}

/// Orders tensors without a layer first, then by layer, then by name.
fn in_order(a: &str, b: &str) -> Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}

/// Returns the layer number in a tensor's name.
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
            _ if has("attn_q.weight") => Part::Queries,
            _ if has("attn_output.weight") => Part::AttentionOutput,
            _ if has("ffn_up") => Part::Up,
            _ if has("ffn_gate") => Part::Gate,
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
            weighted: false,
        })
    }

    /// Returns the target type of a tensor.
    fn dtype(&self, tensor: &Tensor, target: FileType, counts: &mut Counts) -> DType {
        if self.is_unchanged(tensor) {
            return tensor.dtype;
        }
        if target.is_float() {
            return target.dtype();
        }
        fallback(self.mixed(tensor, target, counts), tensor)
    }

    /// Returns whether a tensor keeps its type, whatever the target.
    fn is_unchanged(&self, tensor: &Tensor) -> bool {
        let name = tensor.name.as_str();
        let vector = tensor.dims.iter().skip(1).all(|&dim| dim == 1);
        let within = |names: &[&str]| names.iter().any(|part| name.contains(part));
        vector
            || !name.ends_with("weight")
            || matches!(name, "position_embd.weight" | "token_types.weight")
            || within(UNCHANGED)
            || (self.architecture == "glm5-next" && within(UNCHANGED_IN_GLM5_NEXT))
    }

    /// Returns the mix's type for a tensor, before the check for whole blocks.
    fn mixed(&self, tensor: &Tensor, target: FileType, counts: &mut Counts) -> DType {
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
            return match target {
                _ if eight_bits => DType::Q8_0,
                FileType::IQ3_XXS => DType::Q5_K,
                _ if is_smallest(target) => DType::Q5_K,
                _ => DType::Q6_K,
            };
        }
        if target == FileType::MXFP4_MOE {
            let stacked = tensor.dims.get(2).is_some_and(|&experts| experts > 1);
            // `bailingmoe3` has other matrices of three dimensions too.
            let expert = self.architecture != "bailingmoe3" || within(&["ffn_up", "ffn_gate", "ffn_down"]);
            return if stacked && expert { DType::MXFP4 } else { DType::Q8_0 };
        }
        // The stacked experts of some models are not sorted, so the layer number comes from the name.
        let layer_at = |count: usize| if self.experts > 1 { layer(name).unwrap_or(count) } else { count };
        if is_smallest(target) {
            return self.smallest(part, target, counts);
        }
        match part {
            Part::Embedding if matches!(target, FileType::TQ1_0 | FileType::TQ2_0) => DType::Q4_K,
            Part::Embedding if target == FileType::IQ3_XXS => DType::IQ3_S,
            Part::Values => {
                let at = counts.values;
                counts.values += 1;
                self.values(target, at)
            }
            Part::Keys if self.experts == 8 => DType::Q8_0,
            Part::Keys | Part::Queries if target == FileType::IQ3_XS => DType::IQ3_XXS,
            Part::Keys | Part::Queries if target == FileType::IQ3_XXS => DType::IQ2_S,
            Part::Gate | Part::Up => {
                let count = if part == Part::Gate { &mut counts.gates } else { &mut counts.ups };
                let at = layer_at(*count);
                *count += 1;
                let is_middle = at >= self.layers / 8 && at < 7 * self.layers / 8;
                if target == FileType::IQ3_XS && is_middle { DType::IQ3_XXS } else { default }
            }
            Part::Down => {
                let at = layer_at(counts.downs);
                counts.downs += 1;
                self.down(target, at)
            }
            Part::AttentionOutput => self.attention_output(target),
            _ => default,
        }
    }

    /// Returns the type of a tensor for a target of at most three bits.
    fn smallest(&self, part: Part, target: FileType, counts: &mut Counts) -> DType {
        let more = if matches!(target, FileType::IQ2_S | FileType::IQ2_M) { DType::IQ3_S } else { DType::Q2_K };
        match part {
            Part::Embedding => more,
            Part::Values if self.grouped >= 4 || self.experts >= 4 => DType::Q4_K,
            Part::Values => more,
            Part::Keys if self.experts == 8 => DType::Q4_K,
            Part::Down => {
                let at = counts.downs;
                counts.downs += 1;
                if at < self.layers / 8 { more } else { target.dtype() }
            }
            Part::AttentionOutput if self.experts == 8 => DType::Q5_K,
            Part::AttentionOutput if matches!(target, FileType::IQ1_S | FileType::IQ1_M) => DType::IQ2_XXS,
            Part::AttentionOutput if matches!(target, FileType::IQ2_S | FileType::IQ2_M) => DType::IQ3_S,
            _ => target.dtype(),
        }
    }

    /// Returns the type of the value tensor number `at`.
    fn values(&self, target: FileType, at: usize) -> DType {
        if self.experts == 8 {
            // These are small in comparison with the experts.
            return DType::Q8_0;
        }
        let shared = self.grouped >= 4;
        let dtype = match target {
            FileType::Q2_K if shared => DType::Q4_K,
            FileType::Q2_K => DType::Q3_K,
            FileType::Q2_K_S | FileType::IQ3_XXS | FileType::IQ3_XS | FileType::IQ3_S if shared => DType::Q4_K,
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

    /// Returns the type of the down projection of layer `at`.
    fn down(&self, target: FileType, at: usize) -> DType {
        let falcon = self.architecture == "falcon";
        let (first_eighth, first_sixteenth) = (at < self.layers / 8, at < self.layers / 16);
        let more_bits = more_bits(at, self.layers);
        match target {
            FileType::Q2_K => DType::Q3_K,
            FileType::Q2_K_S if first_eighth => DType::Q4_K,
            FileType::Q3_K_M if first_sixteenth => DType::Q5_K,
            FileType::Q3_K_M if !falcon || more_bits => DType::Q4_K,
            FileType::IQ3_M if first_eighth || (self.experts == 8 && more_bits) => DType::Q4_K,
            FileType::Q3_K_L if falcon => DType::Q4_K,
            FileType::Q3_K_L => DType::Q5_K,
            FileType::Q4_K_M if falcon && first_sixteenth => DType::Q6_K,
            FileType::Q4_K_M if falcon && more_bits => DType::Q5_K,
            FileType::Q4_K_M | FileType::Q5_K_M if more_bits => DType::Q6_K,
            FileType::IQ4_NL | FileType::IQ4_XS if first_eighth && !self.weighted => DType::Q5_K,
            // A few of the first layers are encoded badly with importance and without a minimum.
            FileType::Q4_0 if first_eighth && self.weighted => DType::Q4_1,
            FileType::Q5_0 if first_eighth && self.weighted => DType::Q5_1,
            FileType::Q4_K_S if !falcon && first_eighth => DType::Q5_K,
            _ => target.dtype(),
        }
    }

    fn attention_output(&self, target: FileType) -> DType {
        use FileType::{IQ3_M, IQ3_S, IQ3_XS, IQ3_XXS, IQ4_NL, IQ4_XS, Q2_K, Q3_K_L, Q3_K_M, Q3_K_S, Q4_K_M, Q4_K_S};
        if self.architecture == "falcon" {
            return if target == Q3_K_L { DType::Q4_K } else { target.dtype() };
        }
        match target {
            Q2_K | Q3_K_S | Q3_K_M | Q4_K_S | Q4_K_M | IQ3_XS | IQ3_XXS | IQ3_S | IQ3_M | IQ4_NL | IQ4_XS
                if self.experts == 8 =>
            {
                DType::Q5_K
            }
            _ if self.experts == 8 => target.dtype(),
            Q2_K => DType::Q3_K,
            IQ3_XXS => DType::IQ3_S,
            Q3_K_M | IQ3_M => DType::Q4_K,
            Q3_K_L => DType::Q5_K,
            _ => target.dtype(),
        }
    }
}

/// Returns whether a target has rules of its own because of its few bits.
fn is_smallest(target: FileType) -> bool {
    use FileType::{IQ1_M, IQ1_S, IQ2_M, IQ2_S, IQ2_XS, IQ2_XXS};
    matches!(target, IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS | IQ2_S | IQ2_M)
}

/// Returns whether a tensor gets the larger type of a mix: in the first and last eighth, and every third between.
fn more_bits(at: usize, of: usize) -> bool {
    at < of / 8 || at >= 7 * of / 8 || (at - of / 8) % 3 == 2
}

fn whole_blocks(tensor: &Tensor, dtype: DType) -> bool {
    tensor.dims.first().is_some_and(|elements| elements.is_multiple_of(dtype.block() as u64))
}

/// Returns a type whose blocks fit the rows: `dtype`, a type with smaller blocks, or F16.
fn fallback(dtype: DType, tensor: &Tensor) -> DType {
    let smaller = dtype.narrow().unwrap_or(dtype);
    [dtype, smaller].into_iter().find(|&dtype| whole_blocks(tensor, dtype)).unwrap_or(DType::F16)
}

/// Returns the count under `key`; for an array, that of the first layer.
fn first_count(metadata: &Metadata, key: &str) -> Result<Option<u32>, Error> {
    match metadata.u32s(key) {
        Ok(counts) => Ok(counts.and_then(|counts| counts.first().copied())),
        Err(_) => metadata.u32(key),
    }
}
