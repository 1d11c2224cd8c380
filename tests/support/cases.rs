//! Models and prompts for the comparison of the engine with llama.cpp: every family with every type, and common
//! mixtures of types.

use cairn_gguf::DType;
use cairn_testkit::families::{self, GEMMA3, GPT_OSS, MIXTRAL, PHI3, QWEN2};
use cairn_testkit::{Family, ModelSpec, RopeScaling, Types, tiny, tiny_llama, tiny_qwen3, tiny_t5};

/// One model.
pub struct Case {
    /// Family and types, such as "llama Q4_K".
    pub name: String,
    /// The model itself, random from a seed.
    pub spec: ModelSpec,
    /// Lengths of the prompts in tokens: [`PROMPTS`] or [`SHORT_PROMPTS`].
    pub prompts: [usize; 4],
    /// Type of all matrices; `None` if the case mixes types.
    pub cell: Option<DType>,
    /// Whether its logits are recorded for tests without Python.
    pub recorded: bool,
}

impl Case {
    /// Returns whether all weights are F32, so that two computations differ only by rounding.
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
/// Shorter prompts, for types that another family tests with [`PROMPTS`]. The last exceeds a page and a window.
pub const SHORT_PROMPTS: [usize; 4] = [1, 7, 64, 130];
/// Tokens that are generated greedily after the third prompt.
pub const GREEDY: usize = 32;

/// The types that are recorded for every family. The other types are recorded only for llama.
const RECORDED: [DType; 8] =
    [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q5_K, DType::Q6_K];

/// Architectures with the plan of another one.
pub const TWINS: [&str; 5] = ["ernie4_5", "exaone", "qwen2vl", "qwen3vl", "qwen3vlmoe"];

/// The types that are recorded for [`TWINS`].
const RECORDED_OF_TWINS: [DType; 4] = [DType::F32, DType::F16, DType::Q8_0, DType::Q4_K];

/// Architectures that are also compared with the most common mix of types.
#[rustfmt::skip]
const MIXED: &[&str] = &[
    "command-r",
    "cohere2",
    "deepseek2",
    "exaone4",
    "falcon",
    "gemma",
    "glm4",
    "gpt2",
    "gptneox",
    "granitehybrid",
    "hunyuan-dense",
    "ernie4_5",
    "mistral3",
    "nemotron_h",
    "phi2",
    "exaone",
    "qwen2vl",
    "qwen3vl",
    "qwen3vlmoe",
    "seed_oss",
    "smollm3",
    "stablelm",
];

/// All cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for family in families::ALL.iter().chain(families::ENCODER_DECODERS) {
        cases.extend(DType::all().filter(|dtype| dtype.is_weight()).map(|dtype| cell(family, dtype)));
        if MIXED.contains(&family.name) {
            cases.push(mix("Q4_K_M", q4_k_m(family)));
        }
    }
    for model in [tiny_llama(), tiny_qwen3()] {
        cases.push(mix("Q4_K_M tied", ModelSpec { types: Types::Q4KM, tied: true, layers: 4, ..model.clone() }));
        // No super-block of 256 fits, so that K-quants fall back to Q5_0 and Q8_0. Models of this width have no output
        // matrix.
        let narrow = ModelSpec { width: 896, heads: 14, ffn: 896, types: Types::Q4KM, tied: true, ..model };
        cases.push(mix("Q4_K_M width 896", narrow));
    }
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_K] {
        let types = format!("{dtype} with experts");
        cases.push(mix(&types, ModelSpec { types: Types::All(dtype), ..tiny(&MIXTRAL) }));
    }
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_K] {
        let types = format!("{dtype} with experts");
        cases.push(mix(&types, ModelSpec { types: Types::All(dtype), ..tiny(&families::GRANITE_HYBRID_MOE) }));
    }
    for dtype in [DType::F32, DType::Q8_0] {
        let types = format!("{dtype} latent");
        cases.push(mix(&types, ModelSpec { types: Types::All(dtype), ..tiny(&families::NEMOTRON_H_LATENT) }));
    }
    let growing = ModelSpec { types: Types::All(DType::F32), ..tiny(&families::DEEPSEEK2_GROWTH) };
    cases.push(mix("F32 growth", growing));
    for dtype in [DType::F32, DType::Q8_0] {
        cases.push(mix(
            &format!("{dtype} without gates"),
            ModelSpec { types: Types::All(dtype), ..tiny_t5(&families::T5_PLAIN) },
        ));
    }
    // As published ones are.
    let mixed = |name: &str| if name.contains("_exps") { DType::MXFP4 } else { DType::Q8_0 };
    cases.push(mix("MXFP4 experts", ModelSpec { types: Types::By(mixed), ..tiny(&GPT_OSS) }));
    // Published ones are tied.
    cases.push(mix("Q4_K_M tied", ModelSpec { types: Types::Q4KM, tied: true, ..tiny(&GEMMA3) }));
    // llama.cpp recognises the model with windows by its number of layers.
    cases.push(mix("F32 windows", ModelSpec { layers: 64, ffn: 256, ..tiny(&families::EXAONE4_WINDOWS) }));
    cases.push(mix("F32 sections", tiny(&families::GLM4_VISION)));
    cases.push(mix("F32 40B", tiny(&families::FALCON_40B)));
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_K] {
        let types = format!("{dtype} lite");
        cases.push(mix(&types, ModelSpec { types: Types::All(dtype), ..tiny(&families::DEEPSEEK2_LITE) }));
    }
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_K] {
        let types = Types::All(dtype);
        let small = ModelSpec { layers: 4, types, ..tiny(&families::GEMMA4_SMALL) };
        cases.push(mix(&format!("{dtype} small"), small));
        cases.push(mix(&format!("{dtype} experts"), ModelSpec { types, ..tiny(&families::GEMMA4_EXPERTS) }));
    }
    cases.push(mix("F32 split experts", tiny(&families::GEMMA4_SPLIT_EXPERTS)));
    cases.push(mix("F32 sequential", tiny(&families::GPTNEOX_SEQUENTIAL)));
    for (name, model, rope_scaling) in [
        ("F32 linear rope", tiny_llama(), RopeScaling::Linear(4.0)),
        ("F32 llama3 rope", tiny_llama(), RopeScaling::Llama3 { factor: 8.0, original_context: 256 }),
        ("F32 yarn rope", tiny(&QWEN2), RopeScaling::Yarn { factor: 4.0, original_context: 512 }),
        ("F32 yarn rope", tiny(&families::MISTRAL3), RopeScaling::Yarn { factor: 4.0, original_context: 512 }),
        ("F32 yarn rope", tiny(&families::DEEPSEEK2), RopeScaling::Yarn { factor: 4.0, original_context: 512 }),
        ("F32 long rope", tiny(&PHI3), RopeScaling::Long { factor: 8.0, original_context: 512, attention_factor: 1.2 }),
        (
            "F32 short rope",
            tiny(&PHI3),
            RopeScaling::Long { factor: 8.0, original_context: 2048, attention_factor: 1.2 },
        ),
    ] {
        cases.push(mix(name, ModelSpec { rope_scaling, types: Types::All(DType::F32), ..model }));
    }
    cases
}

/// Returns the case of a family with one type for all matrices.
fn cell(family: &'static Family, dtype: DType) -> Case {
    let prompts = match family.name {
        "llama" if RECORDED.contains(&dtype) => PROMPTS,
        "qwen3" => PROMPTS,
        "llama" => SHORT_PROMPTS,
        _ if dtype == DType::F32 => PROMPTS,
        _ => SHORT_PROMPTS,
    };
    let recorded = match family.name {
        "llama" => true,
        name if TWINS.contains(&name) => RECORDED_OF_TWINS.contains(&dtype),
        _ => RECORDED.contains(&dtype),
    };
    let spec = spec(family, Types::All(dtype));
    Case { name: format!("{} {dtype}", family.name), spec, prompts, cell: Some(dtype), recorded }
}

/// Returns a small model of a family.
fn spec(family: &'static Family, types: Types) -> ModelSpec {
    // The recordings of llama and qwen3 are older than `tiny`.
    let model = match family.name {
        "llama" => tiny_llama(),
        "qwen3" => tiny_qwen3(),
        // llama.cpp requires as many heads of keys as of queries.
        "dots1" | "olmoe" => ModelSpec { kv_heads: tiny(family).heads, ..tiny(family) },
        // The usual seed has two positions where an exchanged expert outweighs a lead of four RMSE.
        "qwen3moe" => ModelSpec { seed: 2, ..tiny(family) },
        // With the usual seed, Q6_K has few clear positions.
        "gemma" => ModelSpec { seed: 2, ..tiny(family) },
        // llama.cpp has no other chunks.
        "llama4" => tiny(&families::LLAMA4_PUBLISHED),
        // With the usual seed, MXFP4 exchanges an expert at a clear position.
        "nemotron_h_moe" => ModelSpec { seed: 2, ..tiny(family) },
        // With the usual seed, IQ1_S has a wrong token at a clear position.
        "t5" => ModelSpec { seed: 2, ..tiny_t5(family) },
        // The fourth layer has no rotation.
        "smollm3" => ModelSpec { layers: 4, ..tiny(family) },
        _ => tiny(family),
    };
    ModelSpec { types, tied: family.tied.unwrap_or(false), ..model }
}

/// Returns a small model with the most common mix of types. Embedding and output matrix have one type, or else the most likely
/// tokens would be random.
fn q4_k_m(family: &'static Family) -> ModelSpec {
    let untied = |name: &str| {
        let more_bits = matches!(name, "token_embd.weight" | "output.weight")
            || [".attn_v.weight", ".ffn_down.weight"].iter().any(|part| name.ends_with(part));
        if more_bits { DType::Q6_K } else { DType::Q4_K }
    };
    match family.tied {
        Some(false) => spec(family, Types::By(untied)),
        _ => ModelSpec { tied: true, ..spec(family, Types::Q4KM) },
    }
}

/// Returns a case with matrices of several types.
fn mix(name: &str, spec: ModelSpec) -> Case {
    Case { name: format!("{} {name}", spec.family.name), spec, prompts: PROMPTS, cell: None, recorded: true }
}

/// Returns the input of an encoder to which a prompt is the decoder's answer: its first tokens, or all of a long one. So it stays the
/// same when tokens are generated after the prompt.
pub fn input(prompt: &[u32]) -> &[u32] {
    const SHORT: usize = 64;
    if prompt.len() > 2 * SHORT { prompt } else { &prompt[..prompt.len().min(SHORT)] }
}

/// A prompt of ordinary tokens, the same for every model of this vocabulary.
pub fn prompt(tokens: usize, vocabulary: u64) -> Vec<u32> {
    let mut random = cairn_testkit::Random::new(tokens as u64);
    // The special tokens are the last few ids.
    (0..tokens).map(|_| random.below(vocabulary - 8) as u32).collect()
}
