//! The models and prompts with which the engine is held against llama.cpp: every family with every type, and the mixes
//! that people really pull.

use cairn_gguf::DType;
use cairn_testkit::{ModelSpec, RopeScaling, Types, tiny_llama, tiny_qwen3};

/// One model.
pub struct Case {
    /// Family and types, such as "llama q4_k".
    pub name: String,
    /// The model itself, random from a seed.
    pub spec: ModelSpec,
}

impl Case {
    /// Whether nothing is quantised, so that only rounding separates any two computations.
    pub fn is_f32(&self) -> bool {
        matches!(self.spec.types, Types::All(DType::F32))
    }

    /// The name of its files, without an ending.
    pub fn file_stem(&self) -> String {
        self.name.replace(' ', "-")
    }
}

/// Lengths of the prompts, in tokens: a single row, less than a page, a page, more than a batch.
pub const PROMPTS: [usize; 4] = [1, 7, 64, 600];
/// Tokens that are generated greedily after the third prompt.
pub const GREEDY: usize = 32;

const TYPES: [DType; 8] =
    [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q5_K, DType::Q6_K];

/// All cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for family in [tiny_llama, tiny_qwen3] {
        for dtype in TYPES {
            cases.push(case(dtype.name(), ModelSpec { types: Types::All(dtype), tied: false, ..family() }));
        }
        cases.push(case("Q4_K_M tied", ModelSpec { types: Types::Q4KM, tied: true, layers: 4, ..family() }));
        // No super-block of 256 fits, so that K-quants fall back to Q5_0 and Q8_0. Models of this width have no output matrix.
        let narrow = ModelSpec { width: 896, heads: 14, ffn: 896, types: Types::Q4KM, tied: true, ..family() };
        cases.push(case("Q4_K_M width 896", narrow));
    }
    let scaled = |rope_scaling| ModelSpec { rope_scaling, types: Types::All(DType::F32), ..tiny_llama() };
    cases.push(case("F32 linear rope", scaled(RopeScaling::Linear(4.0))));
    cases.push(case("F32 llama3 rope", scaled(RopeScaling::Llama3 { factor: 8.0, original_context: 256 })));
    cases
}

fn case(types: &str, spec: ModelSpec) -> Case {
    Case { name: format!("{} {types}", spec.family.name), spec }
}

/// A prompt of ordinary tokens, the same for every model of this vocabulary.
pub fn prompt(tokens: usize, vocabulary: u64) -> Vec<u32> {
    let mut random = cairn_testkit::Random::new(tokens as u64);
    // The special tokens are the last few ids.
    (0..tokens).map(|_| random.below(vocabulary - 8) as u32).collect()
}
