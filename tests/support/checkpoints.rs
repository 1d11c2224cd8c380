//! Checkpoints to convert for the comparison with llama.cpp's converter, and the recording of its results.
//!
//! A recording has a line for each key and each tensor of a converted file. Texts and lists are hashes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cairn_convert::{CheckpointFile, Conversion, FileType};
use cairn_gguf::{DType, Gguf, Value};
use cairn_testkit::checkpoint::{CheckpointSpec, Storage, Vocabulary};
use cairn_testkit::families::{
    self, GEMMA2, GEMMA3, GPT_OSS, GRANITE, GRANITE_MOE, LLAMA, MIXTRAL, OLMO2, OLMOE, PHI3, QWEN2, QWEN2MOE, QWEN3,
    QWEN3MOE, SEED_OSS, SMOLLM3, STARCODER2,
};
use cairn_testkit::tower::{TowerKind, TowerSpec};
use cairn_testkit::{Family, ModelSpec, RopeScaling, Types, tiny};
use sha2::{Digest, Sha256};

/// Texts of values that are longer are hashed.
const MAX_TEXT: usize = 48;

/// A checkpoint and the type of the file that it becomes.
pub struct Case {
    /// Name in the recording.
    pub name: &'static str,
    /// The checkpoint.
    pub spec: CheckpointSpec,
    /// Type of the new file.
    pub target: FileType,
}

fn case(name: &'static str, family: &'static Family, architecture: &'static str, model_type: &'static str) -> Case {
    let model = ModelSpec { vocab: 520, ..tiny(family) };
    let (storage, vocabulary) = (Storage::Float(DType::F32), Vocabulary::Bytes);
    let spec = CheckpointSpec { model, architecture, model_type, storage, vocabulary, tower: None };
    Case { name, spec, target: FileType::F16 }
}

impl Case {
    fn storage(mut self, storage: Storage, target: FileType) -> Self {
        (self.spec.storage, self.target) = (storage, target);
        self
    }

    fn vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.spec.vocabulary = vocabulary;
        self
    }

    fn tower(mut self, tower: fn(u64) -> TowerSpec) -> Self {
        self.spec.tower = Some(tower(self.spec.model.width));
        self
    }

    fn rope(mut self, rope_scaling: RopeScaling) -> Self {
        self.spec.model.rope_scaling = rope_scaling;
        self
    }
}

/// Cases without a recording of llama.cpp's converter: their logits are those of the same weights in a file that llama.cpp computes
/// alike, and tensors and keys are not compared. llama.cpp's converter has no towers of LLaVA with CLIP. It takes text tensors of Gemma 4
/// with the names here for parts of the tower, and finds no tokenizer beside Mistral's tower. It keeps tokens of Gemma 3n that stand for images and sound, with rows of zero, and has small matrices of it in half precision.
pub const NOT_RECORDED: &[&str] = &[
    "gemma3n",
    "gemma4-vision-tower",
    "llava-vision-tower",
    "llava1.6-vision",
    "llava1.6-vision-tower",
    "mistral3-vision",
];

/// Cases with the common kind of checkpoint: name, family, architecture.
static OTHERS: &[(&str, &Family, &str)] = &[
    ("cohere2", &families::COHERE2, "Cohere2ForCausalLM"),
    ("command-r", &families::COMMAND_R, "CohereForCausalLM"),
    ("deepseek2", &families::DEEPSEEK2_GROWTH, "DeepseekV3ForCausalLM"),
    ("dots1", &families::DOTS1, "Dots1ForCausalLM"),
    ("exaone", &families::EXAONE, "ExaoneForCausalLM"),
    ("exaone4", &families::EXAONE4_WINDOWS, "Exaone4ForCausalLM"),
    ("gemma3n", &families::GEMMA3N, "Gemma3nForConditionalGeneration"),
    ("glm4", &families::GLM4, "Glm4ForCausalLM"),
    ("glm4moe", &families::GLM4MOE, "Glm4MoeForCausalLM"),
    ("granitehybrid", &families::GRANITE_HYBRID, "GraniteMoeHybridForCausalLM"),
    ("granitehybrid-moe", &families::GRANITE_HYBRID_MOE, "GraniteMoeHybridForCausalLM"),
    ("hunyuan-dense", &families::HUNYUAN_DENSE, "HunYuanDenseV1ForCausalLM"),
    ("lfm2", &families::LFM2, "Lfm2ForCausalLM"),
    ("llama4", &families::LLAMA4, "Llama4ForConditionalGeneration"),
    ("nemotron_h", &families::NEMOTRON_H, "NemotronHForCausalLM"),
    ("nemotron_h_moe", &families::NEMOTRON_H_LATENT, "NemotronHForCausalLM"),
    ("qwen2vl", &families::QWEN2VL, "Qwen2_5_VLForConditionalGeneration"),
    ("qwen35", &families::QWEN35, "Qwen3_5ForConditionalGeneration"),
    ("qwen35moe", &families::QWEN35MOE, "Qwen3_5MoeForConditionalGeneration"),
    ("qwen3next", &families::QWEN3NEXT, "Qwen3NextForCausalLM"),
    ("qwen3vl", &families::QWEN3VL, "Qwen3VLForConditionalGeneration"),
    ("qwen3vlmoe", &families::QWEN3VLMOE, "Qwen3VLMoeForConditionalGeneration"),
    ("stablelm", &families::STABLELM, "StableLmForCausalLM"),
];

/// Returns a checkpoint of every family, and of every kind of weights, vocabulary and rotary positions.
pub fn all() -> Vec<Case> {
    let llama = |name| case(name, &LLAMA, "LlamaForCausalLM", "llama");
    // The factor of a context of 2048 tokens that was trained with 512.
    let attention_factor = (1.0 + 4f64.ln() / 512f64.ln()).sqrt() as f32;
    let long = RopeScaling::Long { factor: 8.0, original_context: 512, attention_factor };
    let experts = |name: &str| if name.contains("_exps.weight") { DType::MXFP4 } else { DType::F32 };
    let heads = |name, family: &'static Family, architecture| {
        let mut case = case(name, family, architecture, "");
        case.spec.model.kv_heads = case.spec.model.heads;
        case
    };
    // The width of MLPs is not in the config.
    let wide = |name, family, architecture| {
        let mut case = heads(name, family, architecture);
        case.spec.model.ffn = 4 * case.spec.model.width;
        case
    };
    let mut ernie =
        case("ernie4_5-moe", &families::ERNIE4_5_MOE, "Ernie4_5_MoeForCausalLM", "").vocabulary(Vocabulary::Pieces);
    // Shared experts are as wide as the others.
    ernie.spec.model.ffn = 128;
    let gemma4 = |name, family: &'static Family| {
        case(name, family, "Gemma4ForConditionalGeneration", "gemma4").vocabulary(Vocabulary::Merges)
    };
    let falcon = |name, family: &'static Family| {
        let mut case = case(name, family, "FalconForCausalLM", "falcon");
        case.spec.model.ffn = 4 * case.spec.model.width;
        case
    };
    let mut lfm2moe = case("lfm2moe", &families::LFM2MOE, "Lfm2MoeForCausalLM", "");
    lfm2moe.spec.model.tied = true;
    let mut gpt_oss = case("gpt-oss", &GPT_OSS, "GptOssForCausalLM", "gpt_oss");
    gpt_oss.spec.model.types = Types::By(experts);
    gpt_oss.spec.model.rope_scaling = RopeScaling::Yarn { factor: 32.0, original_context: 1024 };
    let mut cases = vec![
        llama("llama"),
        llama("llama-bf16").storage(Storage::Float(DType::BF16), FileType::BF16),
        llama("llama-q8").storage(Storage::Float(DType::F16), FileType::Q8_0),
        llama("llama-fp8").storage(Storage::Float8Blocks([96, 128]), FileType::F32),
        llama("llama-fp8-rows").storage(Storage::Float8Rows, FileType::F32),
        llama("llama-pieces").vocabulary(Vocabulary::Pieces),
        llama("llama-merges").vocabulary(Vocabulary::Merges),
        llama("llama-llama3").rope(RopeScaling::Llama3 { factor: 8.0, original_context: 256 }),
        llama("llama-linear").rope(RopeScaling::Linear(4.0)),
        case("mistral", &LLAMA, "MistralForCausalLM", "mistral"),
        case("mixtral", &MIXTRAL, "MixtralForCausalLM", "mixtral"),
        case("qwen2", &QWEN2, "Qwen2ForCausalLM", "qwen2"),
        case("qwen2-yarn", &QWEN2, "Qwen2ForCausalLM", "qwen2")
            .rope(RopeScaling::Yarn { factor: 4.0, original_context: 512 }),
        case("qwen3", &QWEN3, "Qwen3ForCausalLM", "qwen3"),
        case("qwen3moe", &QWEN3MOE, "Qwen3MoeForCausalLM", "qwen3_moe"),
        case("gemma2", &GEMMA2, "Gemma2ForCausalLM", "gemma2").vocabulary(Vocabulary::Pieces),
        case("gemma3", &GEMMA3, "Gemma3ForCausalLM", "gemma3_text").vocabulary(Vocabulary::Pieces),
        case("phi3", &PHI3, "Phi3ForCausalLM", "phi3"),
        case("phi3-long", &PHI3, "Phi3ForCausalLM", "phi3").rope(long),
        case("granite", &GRANITE, "GraniteForCausalLM", "granite"),
        case("granitemoe", &GRANITE_MOE, "GraniteMoeSharedForCausalLM", "granitemoeshared"),
        case("olmoe", &OLMOE, "OlmoeForCausalLM", "olmoe"),
        case("qwen2moe", &QWEN2MOE, "Qwen2MoeForCausalLM", "qwen2_moe"),
        case("seed_oss", &SEED_OSS, "SeedOssForCausalLM", "seed_oss"),
        case("smollm3", &SMOLLM3, "SmolLM3ForCausalLM", "smollm3"),
        case("olmo2", &OLMO2, "Olmo2ForCausalLM", "olmo2"),
        case("starcoder2", &STARCODER2, "Starcoder2ForCausalLM", "starcoder2"),
        case("gemma-embedding", &families::GEMMA_EMBEDDING, "Gemma3TextModel", "gemma3_text")
            .vocabulary(Vocabulary::Pieces),
        heads("nomic-bert", &families::NOMIC_BERT, "NomicBertModel").vocabulary(Vocabulary::WordPieces),
        gpt_oss,
        ernie,
        case("ernie4_5", &families::ERNIE4_5, "Ernie4_5ForCausalLM", "").vocabulary(Vocabulary::Pieces),
        falcon("falcon", &families::FALCON),
        falcon("falcon-40b", &families::FALCON_40B),
        wide("phi2", &families::PHI2, "PhiForCausalLM"),
        lfm2moe,
        gemma4("gemma4", &families::GEMMA4),
        gemma4("gemma4-experts", &families::GEMMA4_EXPERTS),
        wide("gpt2", &families::GPT2, "GPT2LMHeadModel"),
        heads("gptneox", &families::GPTNEOX, "GPTNeoXForCausalLM"),
        case("deepseek2-fp8", &families::DEEPSEEK2, "DeepseekV3ForCausalLM", "")
            .storage(Storage::Float8Blocks([96, 128]), FileType::F32),
        case("gemma", &families::GEMMA, "GemmaForCausalLM", "gemma").vocabulary(Vocabulary::Pieces),
        case("mistral3", &families::MISTRAL3, "Mistral3ForConditionalGeneration", "mistral3")
            .rope(RopeScaling::Yarn { factor: 4.0, original_context: 512 }),
    ];
    cases.extend(towers());
    cases.extend(OTHERS.iter().map(|&(name, family, architecture)| case(name, family, architecture, "")));
    cases
}

/// Returns a checkpoint with a tower of every kind. Towers of Qwen have the same epsilon as the text part in llama.cpp.
fn towers() -> Vec<Case> {
    let gemma3 = |name| {
        let case = case(name, &GEMMA3, "Gemma3ForConditionalGeneration", "gemma3");
        case.vocabulary(Vocabulary::Pieces).tower(TowerSpec::tiny)
    };
    let mut gemma4 = case("gemma4-vision", &families::GEMMA4, "Gemma4ForConditionalGeneration", "gemma4");
    // llama.cpp's converter takes an output matrix for a part of the tower.
    gemma4.spec.model.tied = true;
    let pixtral = case("mistral3-vision", &families::MISTRAL3, "Mistral3ForConditionalGeneration", "mistral3");
    let qwen = |name, family: &'static Family, architecture, model_type, tower: fn(u64) -> TowerSpec| {
        let mut case = case(name, family, architecture, model_type).tower(tower);
        case.spec.model.norm_epsilon = 1e-6;
        case
    };
    let llava = |name, architecture, sizes: Vec<u32>| {
        let has_newline = !sizes.is_empty();
        let kind = TowerKind::Llava { has_class: true, sizes, has_norms: false, has_newline };
        let mut case = case(name, &LLAMA, architecture, "");
        case.spec.tower = Some(TowerSpec { kind, ..TowerSpec::tiny_llava(case.spec.model.width) });
        case
    };
    let qwen25 = ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl");
    vec![
        gemma3("gemma3-vision"),
        gemma3("gemma3-vision-bf16").storage(Storage::Float(DType::F32), FileType::BF16),
        gemma4.vocabulary(Vocabulary::Merges).tower(TowerSpec::tiny_gemma4),
        pixtral.rope(RopeScaling::Yarn { factor: 4.0, original_context: 512 }).tower(TowerSpec::tiny_pixtral),
        qwen("qwen2.5vl-vision", &families::QWEN2VL, qwen25.0, qwen25.1, TowerSpec::tiny_qwen25),
        qwen("qwen3vl-vision", &families::QWEN3VL, "Qwen3VLForConditionalGeneration", "", TowerSpec::tiny_qwen3),
        qwen("qwen3.5-vision", &families::QWEN35, "Qwen3_5ForConditionalGeneration", "", |width| {
            let kind = TowerKind::Qwen3 { deepstack: Vec::new() };
            TowerSpec { kind, ..TowerSpec::tiny_qwen3(width) }
        }),
        llava("llava-vision", "LlavaForConditionalGeneration", Vec::new()),
        llava("llava1.6-vision", "LlavaNextForConditionalGeneration", vec![24, 48, 48, 24]),
    ]
}

/// Opens the files of a checkpoint.
///
/// # Errors
/// A file cannot be written.
pub fn open(files: &[(String, Vec<u8>)], folder: &Path) -> anyhow::Result<Vec<CheckpointFile>> {
    let file = |(name, contents): &(String, Vec<u8>)| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().context("the path has a folder")?)?;
        File::create(&path)?.write_all(contents)?;
        Ok(CheckpointFile { name: name.clone(), file: File::open(path)? })
    };
    files.iter().map(file).collect()
}

/// Converts a checkpoint.
///
/// # Errors
/// It cannot be converted.
pub fn convert(files: &[CheckpointFile], target: FileType) -> anyhow::Result<Vec<u8>> {
    let conversion = Conversion::new(files, target)?;
    let mut out = Vec::new();
    conversion.write_to(&mut out, &mut |_| ())?;
    Ok(out)
}

/// Converts a checkpoint, and its vision tower if it has one. Returns the files with their names in the recording.
///
/// # Errors
/// One of them cannot be converted.
pub fn convert_all(name: &str, files: &[CheckpointFile], target: FileType) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let conversion = Conversion::new(files, target)?;
    let parts = [(name.to_owned(), Some(&conversion)), (format!("{name}-tower"), conversion.tower())];
    let write = |(name, conversion): (String, Option<&Conversion<'_>>)| {
        let mut out = Vec::new();
        let written = conversion?.write_to(&mut out, &mut |_| ());
        Some(written.map(|()| (name, out)).map_err(anyhow::Error::from))
    };
    parts.into_iter().filter_map(write).collect()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Keys of single families that only one of both programs writes, or with another form of the same value.
#[rustfmt::skip]
const OWN_RULES: &[&str] = &[
    // Their defaults, which llama.cpp leaves out.
    "falcon.rope.freq_base",
    "gemma.rope.freq_base",
    "gemma2.rope.freq_base",
    "gptneox.rope.freq_base",
    "phi2.rope.freq_base",
    "stablelm.rope.freq_base",
    "dots1.vocab_size",
    "glm4moe.vocab_size",
    "gpt2.rope.freq_base",
    "lfm2moe.expert_weights_norm",
    "deepseek2.attention.temperature_length",
    "deepseek2.attention.temperature_scale",
    "nemotron_h_moe.expert_gating_func",
    "nemotron_h.attention.layer_norm_rms_epsilon",
    "nemotron_h_moe.attention.layer_norm_rms_epsilon",
    "llama4.attention.chunk_size",
    "llama4.attention.temperature_length",
    "llama4.attention.temperature_scale",
    "llama4.use_qk_norm",
    // A number, or a list of its layers.
    "cohere2.attention.sliding_window_pattern",
    "exaone4.attention.sliding_window_pattern",
    "gemma-embedding.attention.sliding_window_pattern",
    "gemma3.attention.sliding_window_pattern",
    // Integers with or without a sign.
    "gemma4.attention.head_count_kv",
    // llama.cpp's converter writes the first key, and the model reads the second.
    "exaone.attention.layer_norm_epsilon",
    "exaone.attention.layer_norm_rms_epsilon",
    // The models do not depend on them.
    "falcon.tensor_data_layout",
    "stablelm.use_parallel_residual",
    "granitehybrid.context_length",
    "granitehybrid.expert_count",
    "granitehybrid.expert_shared_feed_forward_length",
    "qwen35.attention.recurrent_layers",
    "qwen35moe.attention.recurrent_layers",
    "qwen3next.attention.recurrent_layers",
    "nemotron_h.context_length",
    "nemotron_h.rope.dimension_count",
    "nemotron_h.rope.scaling.finetuned",
    "nemotron_h.vocab_size",
    "nemotron_h_moe.context_length",
    "nemotron_h_moe.rope.dimension_count",
    "nemotron_h_moe.rope.scaling.finetuned",
    "nemotron_h_moe.vocab_size",
];

/// Returns whether llama.cpp's value of a key is compared. It has other rules for the remaining ones:
///
/// - `general.*` beside the ones here comes from a model card, the name of the folder and the number of weights; settings of the
///   sampling are in the file of the text part only;
/// - `tokenizer.ggml.pre` is the first of several equal pre-tokenizers, by the pattern in `tokenizer.json` instead of a hash of
///   the vocabulary;
/// - `tokenizer.ggml.add_sep_token` is written for templates of pairs of texts, which decoders do not use;
/// - those in [`OWN_RULES`];
/// - tokens that end an answer (`tokenizer.ggml.eot_token_id`) of Gemma and GLM are those of their published vocabularies;
/// - `cls` and `seperator` begin and end a text of WordPiece; llama.cpp's converter writes `bos` and `eos`, and that both are added;
/// - `tokenizer.ggml.scores` of merges are their ranks instead of -1000, so that texts are merged in the right order, and the
///   unknown token has its own kind in `tokenizer.ggml.token_type`.
fn is_compared(case: &str, key: &str) -> bool {
    const GENERAL: [&str; 4] =
        ["general.architecture", "general.type", "general.file_type", "general.quantization_version"];
    let has_merges = ["llama-merges", "gemma4", "gemma4-experts", "gemma4-vision"].contains(&case);
    let is_general = key.starts_with("general.") && (case.ends_with("-tower") || !key.starts_with("general.sampling."));
    let is_other = match key {
        "tokenizer.ggml.pre" | "tokenizer.ggml.add_sep_token" => true,
        _ if OWN_RULES.contains(&key) => true,
        "general.file_type" => case == "gptneox",
        "tokenizer.ggml.cls_token_id"
        | "tokenizer.ggml.eos_token_id"
        | "tokenizer.ggml.add_bos_token"
        | "tokenizer.ggml.add_eos_token" => case == "nomic-bert",
        "tokenizer.ggml.eot_token_id" => ["gemma", "glm4", "glm4moe"].contains(&case),
        "tokenizer.ggml.scores" | "tokenizer.ggml.token_type" => has_merges,
        _ => false,
    };
    (!is_general || GENERAL.contains(&key)) && !is_other
}

/// Returns whether the elements of a tensor are not compared:
///
/// - exponentials of logarithms (`ssm_a`) differ in their last bit;
/// - rows inside heads of Nemotron's queries and keys have another order, which scores without a rotation do not depend on.
fn has_own_values(case: &str, name: &str) -> bool {
    let is_query_or_key = [".attn_q.weight", ".attn_k.weight"].iter().any(|end| name.ends_with(end));
    name.ends_with(".ssm_a") || case.starts_with("nemotron_h") && is_query_or_key
}

/// Dimensions of one at the end have no meaning.
fn trailing_ones(dims: &[u64]) -> usize {
    dims.iter().skip(1).rev().take_while(|&&dim| dim == 1).count()
}

/// Describes a converted file: a line for each key and tensor.
///
/// # Errors
/// It is not a GGUF file.
pub fn describe(case: &str, file: &[u8]) -> anyhow::Result<BTreeSet<String>> {
    let gguf = Gguf::parse(file).with_context(|| case.to_owned())?;
    let mut lines = BTreeSet::new();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| is_compared(case, key)) {
        let text = match value {
            Value::F32(number) => format!("F32({number:e})"),
            value => format!("{value:?}"),
        };
        let text = if text.len() > MAX_TEXT { format!("#{}", hash(text.as_bytes())) } else { text };
        lines.insert(format!("{case} {key} {text}"));
    }
    for tensor in gguf.tensors() {
        let bytes = &file[tensor.offset as usize..][..tensor.bytes as usize];
        let dims: Vec<u64> =
            tensor.dims.iter().copied().take(tensor.dims.len() - trailing_ones(&tensor.dims)).collect();
        let values = if has_own_values(case, &tensor.name) { "-".to_owned() } else { format!("#{}", hash(bytes)) };
        lines.insert(format!("{case} {} {} {dims:?} {values}", tensor.name, tensor.dtype));
    }
    Ok(lines)
}

/// Returns the path of the recording of files that llama.cpp converted.
pub fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/checkpoints.txt")
}

/// Returns the recorded lines of a case.
///
/// # Errors
/// The recording is missing.
pub fn recorded(case: &str) -> anyhow::Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(recording())?;
    let of_case = |line: &&str| line.split(' ').next() == Some(case);
    Ok(text.lines().filter(of_case).map(str::to_owned).collect())
}
