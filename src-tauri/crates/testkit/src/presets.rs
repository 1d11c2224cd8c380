//! Model shapes for tests and benchmarks. Change single fields with `ModelSpec { layers: 3, ..tiny_llama() }`.

use cairn_gguf::{DType, Value};

use crate::families::{LLAMA, QWEN3, QWEN3MOE, QWEN35};
use crate::spec::{Family, ModelSpec, RopeScaling, Types};

/// A Llama of 2 layers and 1.3 million weights in F32: wide enough for a K-quant super-block, grouped queries, a
/// separate output matrix.
pub fn tiny_llama() -> ModelSpec {
    ModelSpec {
        name: "tiny llama".to_owned(),
        seed: 1,
        family: &LLAMA,
        layers: 2,
        width: 256,
        heads: 4,
        kv_heads: 2,
        head_dim: 64,
        ffn: 512,
        vocab: 512,
        context: 2048,
        rope_base: 10_000.0,
        rope_scaling: RopeScaling::None,
        norm_epsilon: 1e-5,
        tied: false,
        types: Types::All(DType::F32),
    }
}

/// A model of this family in the size of [`tiny_llama`].
pub fn tiny(family: &'static Family) -> ModelSpec {
    // llama.cpp selects a vocabulary by some family names in `general.name`.
    let (name, tied) = ("tiny model".to_owned(), family.tied.unwrap_or(false));
    ModelSpec { name, family, tied, layers: family.layers, rope_base: family.rope_base, ..tiny_llama() }
}

/// A BERT in the size of [`tiny_llama`], for texts of up to 128 tokens.
pub fn tiny_bert(family: &'static Family) -> ModelSpec {
    ModelSpec { name: "tiny bert".to_owned(), context: 128, kv_heads: 4, ..tiny(family) }
}

/// A T5 in the size of [`tiny_llama`].
pub fn tiny_t5(family: &'static Family) -> ModelSpec {
    ModelSpec { name: "tiny t5".to_owned(), kv_heads: 4, context: 512, ..tiny(family) }
}

/// A Qwen3 of 2 layers and 1.4 million weights in F32: heads with more elements in total than the stream, a tied
/// embedding.
pub fn tiny_qwen3() -> ModelSpec {
    ModelSpec {
        name: "tiny qwen3".to_owned(),
        seed: 2,
        family: &QWEN3,
        heads: 4,
        kv_heads: 1,
        head_dim: 128,
        rope_base: 1_000_000.0,
        norm_epsilon: 1e-6,
        tied: true,
        ..tiny_llama()
    }
}

/// A Llama of some 30 million weights whose answers take seconds, for tests that act during an answer. Token ids
/// increase, and the end token has one of the highest ids.
pub fn slow_llama() -> ModelSpec {
    ModelSpec {
        name: "slow llama".to_owned(),
        layers: 4,
        width: 512,
        heads: 8,
        kv_heads: 4,
        ffn: 2048,
        vocab: 16_384,
        context: 32_768,
        types: Types::All(DType::Q8_0),
        ..tiny_llama()
    }
}

/// A Llama whose weights take at least `bytes`, for a sparse file.
pub fn huge_llama(bytes: u64) -> ModelSpec {
    let (layers, width) = (16, 2048);
    let matrix_row_bytes = width * size_of::<f32>() as u64;
    ModelSpec {
        name: "huge llama".to_owned(),
        layers,
        width,
        heads: 32,
        kv_heads: 8,
        // Gate, up and down have this many rows or columns each.
        ffn: bytes.div_ceil(layers * 3 * matrix_row_bytes).next_multiple_of(256),
        ..tiny_llama()
    }
}

/// The shape of Llama 3.2 1B, 1.2 billion weights.
pub fn llama1b_shape(types: Types) -> ModelSpec {
    ModelSpec {
        name: "llama 1b shape".to_owned(),
        layers: 16,
        width: 2048,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        ffn: 8192,
        vocab: 128_256,
        context: 131_072,
        rope_base: 500_000.0,
        rope_scaling: RopeScaling::Llama3 { factor: 32.0, original_context: 8192 },
        tied: true,
        types,
        ..tiny_llama()
    }
}

/// The shape of Qwen3 0.6B, 0.6 billion weights.
pub fn qwen06b_shape(types: Types) -> ModelSpec {
    ModelSpec {
        name: "qwen3 0.6b shape".to_owned(),
        layers: 28,
        width: 1024,
        heads: 16,
        kv_heads: 8,
        ffn: 3072,
        vocab: 151_936,
        context: 40_960,
        types,
        ..tiny_qwen3()
    }
}

/// A Qwen3 with experts, 2.4 billion weights, of which a token uses 0.5 billion: 4 of 32 experts.
pub fn qwen3moe_2b_shape(types: Types) -> ModelSpec {
    static FAMILY: Family = Family {
        keys: |_| {
            let keys = [("expert_count", 32), ("expert_used_count", 4), ("expert_feed_forward_length", 1024)];
            keys.into_iter().map(|(key, value): (_, u32)| (key, Value::from(value))).collect()
        },
        ..QWEN3MOE
    };
    ModelSpec { name: "qwen3moe 2b shape".to_owned(), family: &FAMILY, layers: 22, tied: true, ..qwen06b_shape(types) }
}

/// The shape of Qwen3.5 0.8B, 0.75 billion weights: linear attention in three of four layers.
pub fn qwen35_08b_shape(types: Types) -> ModelSpec {
    static FAMILY: Family = Family {
        keys: |spec| {
            let keys = (QWEN35.keys)(spec).into_iter();
            let sizes = [
                ("full_attention_interval", 4),
                ("ssm.state_size", 128),
                ("ssm.group_count", 16),
                ("rope.dimension_count", 64),
            ];
            let heads = [("ssm.time_step_rank", 16), ("ssm.inner_size", 2048)];
            let published: Vec<(&str, u32)> = sizes.into_iter().chain(heads).collect();
            let is_other =
                |key: &str| key != "rope.dimension_sections" && published.iter().all(|(name, _)| *name != key);
            let mut keys: Vec<_> = keys.filter(|(key, _)| is_other(key)).collect();
            keys.extend(published.iter().map(|(key, value)| (*key, Value::from(*value))));
            keys.push(("rope.dimension_sections", vec![11i32, 11, 10, 0].into()));
            keys
        },
        ..QWEN35
    };
    ModelSpec {
        name: "qwen3.5 0.8b shape".to_owned(),
        layers: 24,
        width: 1024,
        heads: 8,
        kv_heads: 2,
        head_dim: 256,
        ffn: 3584,
        vocab: 248_320,
        context: 262_144,
        rope_base: 10_000_000.0,
        norm_epsilon: 1e-6,
        tied: true,
        types,
        ..tiny(&FAMILY)
    }
}
