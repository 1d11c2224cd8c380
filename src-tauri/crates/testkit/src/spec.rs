//! Specification of a model: family, shape, types, seed.

use cairn_gguf::{DType, Value};

/// Scaling of RoPE for contexts beyond the trained length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// All positions are divided by this factor.
    Linear(f32),
    /// Slow frequencies are divided by `factor`, fast ones are unchanged. The tensor `rope_freqs.weight` contains the
    /// divisors.
    Llama3 {
        /// Divisor of the lowest rotation frequencies.
        factor: f32,
        /// Tokens of the context before scaling.
        original_context: u32,
    },
    /// Slow frequencies are divided, and queries and keys are scaled up.
    Yarn {
        /// Divisor of the lowest rotation frequencies.
        factor: f32,
        /// Tokens of the context before scaling.
        original_context: u32,
    },
    /// Each frequency has two divisors, one for contexts up to the original one and one for longer ones: the tensors
    /// `rope_factors_short.weight` and `rope_factors_long.weight`.
    Long {
        /// Divisor of the lowest rotation frequencies for long contexts.
        factor: f32,
        /// Tokens of the context before scaling.
        original_context: u32,
        /// Factor on the magnitude of queries and keys.
        attention_factor: f32,
    },
}

impl RopeScaling {
    /// Returns the divisors of the frequencies in the tensor of this name.
    ///
    /// In [`RopeScaling::Llama3`] a frequency with a wavelength below a quarter of the original context is unchanged,
    /// one with a wavelength above the original context is divided, and those between are interpolated, as in Llama
    /// 3.1's code.
    pub fn factors(self, tensor: &str, rope_base: f32, head_dim: u64) -> Option<Vec<f32>> {
        const LOW: f64 = 1.0;
        const HIGH: f64 = 4.0;
        let pairs = head_dim / 2;
        match (self, tensor) {
            (RopeScaling::Llama3 { factor, original_context }, "rope_freqs.weight") => {
                let (factor, context) = (f64::from(factor), f64::from(original_context));
                let divisor = |pair: u64| {
                    let wave = std::f64::consts::TAU * f64::from(rope_base).powf((2 * pair) as f64 / head_dim as f64);
                    let fast = ((context / wave - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
                    (1.0 / ((1.0 - fast) / factor + fast)) as f32
                };
                Some((0..pairs).map(divisor).collect())
            }
            // Published lists increase from 1 towards the slowest pair; those for short contexts only slightly.
            (RopeScaling::Long { factor, .. }, "rope_factors_long.weight") => {
                Some((0..pairs).map(|pair| factor.powf(pair as f32 / pairs as f32)).collect())
            }
            (RopeScaling::Long { .. }, "rope_factors_short.weight") => {
                Some((0..pairs).map(|pair| 1.0 + 0.25 * pair as f32 / pairs as f32).collect())
            }
            _ => None,
        }
    }
}

/// Types of matrices. Norms and other vectors are always F32.
#[derive(Clone, Copy, Debug)]
pub enum Types {
    /// One type for all matrices.
    All(DType),
    /// llama.cpp's mix of this name: Q4_K, with Q6_K for the output matrix (a tied embedding too) and for half of the
    /// layers' `attn_v` and `ffn_down`.
    Q4KM,
    /// By the tensor's name.
    By(fn(&str) -> DType),
}

/// Properties that all test models of one architecture share: metadata values, optional tensors and scale factors.
#[derive(Debug)]
pub struct Family {
    /// `general.architecture`.
    pub name: &'static str,
    /// Value of `tokenizer.ggml.pre`.
    pub pre_tokenizer: &'static str,
    /// Whether the vocabulary has word pieces instead of byte pairs.
    pub word_pieces: bool,
    /// Value of `tokenizer.ggml.add_bos_token`.
    pub adds_bos: bool,
    /// Whether the embedding is the output matrix; `None` if the family supports both.
    pub tied: Option<bool>,
    /// Transformer blocks of small models.
    pub layers: u64,
    /// RoPE base frequency of small models.
    pub rope_base: f32,
    /// Additional keys, without the family's prefix.
    pub keys: fn(&ModelSpec) -> Vec<(&'static str, Value)>,
    /// Returns whether its models have an optional tensor. The spec determines the output matrix and RoPE factors.
    pub has_tensor: fn(&str) -> bool,
    /// Factor of embeddings.
    pub embedding_scale: fn(&ModelSpec) -> f32,
    /// Factor of the outputs of parts before they are added to the stream.
    pub residual_scale: f32,
    /// Factor of logits.
    pub logit_scale: f32,
    /// Factor of an MLP's last matrix, relative to one that keeps the variance.
    pub down_gain: f32,
    /// Whether scores of attention are not divided by the root of a head's elements.
    pub unscaled_scores: bool,
    /// Divisors of the rotation's frequencies, by the number of pairs, if all models have them.
    pub rope_factors: Option<fn(u64) -> Vec<f32>>,
}

/// Specification of a model file.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// `general.name`.
    pub name: String,
    /// Seed of all weights.
    pub seed: u64,
    /// The family.
    pub family: &'static Family,
    /// Transformer blocks.
    pub layers: u64,
    /// Elements of the residual stream.
    pub width: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Elements inside the feed-forward block.
    pub ffn: u64,
    /// Tokens in the vocabulary, at least [`crate::vocabulary::MIN_TOKENS`].
    pub vocab: u64,
    /// `context_length`.
    pub context: u32,
    /// RoPE's base frequency.
    pub rope_base: f32,
    /// RoPE's scaling.
    pub rope_scaling: RopeScaling,
    /// The epsilon of the RMSNorms.
    pub norm_epsilon: f32,
    /// Whether the embedding is also the output matrix.
    pub tied: bool,
    /// The matrices' types.
    pub types: Types,
}

impl ModelSpec {
    /// Returns the type of the matrix `name` with rows of `row_elements`. If rows are not whole blocks, uses a fallback
    /// type.
    pub fn dtype(&self, name: &str, row_elements: u64) -> DType {
        let wanted = match self.types {
            // llama.cpp does not quantise routers, nor tables that are added to the embedding.
            _ if name.ends_with(".ffn_gate_inp.weight") => DType::F32,
            _ if matches!(name, "position_embd.weight" | "token_types.weight") => DType::F32,
            Types::All(dtype) => dtype,
            Types::Q4KM => self.q4_k_m(name),
            Types::By(choose) => choose(name),
        };
        // A tied embedding needs the negative of each vector, which IQ1's grid does not contain. llama.cpp does not
        // quantise it to IQ1 either.
        let wanted = match wanted {
            DType::IQ1_S | DType::IQ1_M if self.tied && name == "token_embd.weight" => DType::Q5_K,
            wanted => wanted,
        };
        let fits = |dtype: DType| row_elements.is_multiple_of(dtype.block() as u64);
        // The fallbacks of llama.cpp.
        let fallback = wanted.narrow().unwrap_or(DType::F16);
        [wanted, fallback].into_iter().find(|&dtype| fits(dtype)).unwrap_or(DType::F16)
    }

    fn q4_k_m(&self, name: &str) -> DType {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<u64>().ok());
        let more_bits = match layer {
            Some(layer) => {
                let (eighth, layers) = (self.layers / 8, self.layers);
                let chosen = layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
                chosen && (name.ends_with(".attn_v.weight") || name.ends_with(".ffn_down.weight"))
            }
            None => name == "output.weight" || (name == "token_embd.weight" && self.tied),
        };
        if more_bits { DType::Q6_K } else { DType::Q4_K }
    }

    /// Returns the value of the key `general.file_type`: llama.cpp's number for the mix of tensor types.
    pub(crate) fn file_type(&self) -> u32 {
        const GUESSED: u32 = 1024; // LLAMA_FTYPE_GUESSED: not stated in the file
        match self.types {
            Types::Q4KM => 15,
            Types::All(dtype) => dtype.file_type().unwrap_or(GUESSED),
            Types::By(_) => GUESSED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{llama1b_shape, tiny_llama};

    #[test]
    fn q4_k_m_uses_q6_k_for_same_tensors_as_llama_cpp() {
        let spec = llama1b_shape(Types::Q4KM);
        let check = |name: &str, expected: DType| assert_eq!(spec.dtype(name, 2048), expected, "{name}");
        check("token_embd.weight", DType::Q6_K);
        check("blk.0.attn_q.weight", DType::Q4_K);
        // Sixteen layers: the first two, the last two, and every third from 4 on.
        let more = [0, 1, 4, 7, 10, 13, 14, 15];
        for layer in 0..16 {
            let expected = if more.contains(&layer) { DType::Q6_K } else { DType::Q4_K };
            check(&format!("blk.{layer}.attn_v.weight"), expected);
            check(&format!("blk.{layer}.ffn_down.weight"), expected);
        }
        let untied = ModelSpec { tied: false, ..spec };
        assert_eq!(untied.dtype("token_embd.weight", 2048), DType::Q4_K, "a separate embedding");
        assert_eq!(untied.dtype("output.weight", 2048), DType::Q6_K, "the output matrix");
    }

    #[test]
    fn rows_of_partial_blocks_use_fallback_type() {
        let spec = ModelSpec { types: Types::Q4KM, ..tiny_llama() };
        assert_eq!(spec.dtype("blk.0.attn_q.weight", 896), DType::Q5_0, "Q4_K at a width of 896");
        assert_eq!(spec.dtype("output.weight", 896), DType::Q8_0, "Q6_K at a width of 896");
        assert_eq!(spec.dtype("token_embd.weight", 40), DType::F16, "nothing else fits 40");
        let one_bit = |tied| ModelSpec { tied, types: Types::All(DType::IQ1_S), ..tiny_llama() };
        assert_eq!(one_bit(true).dtype("token_embd.weight", 256), DType::Q5_K, "a tied embedding needs negatives");
        assert_eq!(one_bit(false).dtype("token_embd.weight", 256), DType::IQ1_S, "a separate embedding does not");
    }

    #[test]
    fn llama3_scaling_divides_only_slow_frequencies() {
        let scaling = RopeScaling::Llama3 { factor: 32.0, original_context: 8192 };
        let factors = scaling.factors("rope_freqs.weight", 500_000.0, 64).expect("this scaling has factors");
        assert_eq!(factors.len(), 32, "one for each pair");
        assert_eq!((factors[0], factors[31]), (1.0, 32.0), "the fastest is unchanged, the slowest is divided");
        assert!(factors.is_sorted(), "divisors increase: {factors:?}");
        assert!(factors.iter().any(|&f| f > 1.0 && f < 32.0), "some are interpolated");
        assert_eq!(
            RopeScaling::Linear(2.0).factors("rope_freqs.weight", 1e4, 64),
            None,
            "linear scaling has no such tensor"
        );
    }
}
