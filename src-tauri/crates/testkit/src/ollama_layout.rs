//! Model files in Ollama's own layout, and files of the same weights that the engine reads without a translation.
//!
//! The layouts are those of models in Ollama's registry, as its converter
//! (<https://github.com/ollama/ollama/tree/main/convert>) and the code that reads them describe. Each file is made from
//! one in llama.cpp's layout: keys and tensors are renamed or omitted, and what the layout adds is added.

use cairn_gguf::{Array, DType, Gguf, Value, Writer};

use crate::families::{
    DEEPSEEK2, GEMMA_EMBEDDING, GEMMA3, GEMMA3N, GEMMA4_SPLIT_EXPERTS, GPT_OSS, LLAMA, LLAMA4, MISTRAL3,
    NEMOTRON_H_LATENT, OLMO2, QWEN2VL, QWEN3NEXT, QWEN3VL, QWEN3VLMOE, QWEN35, QWEN35MOE,
};
use crate::presets::tiny;
use crate::spec::{Family, ModelSpec, RopeScaling};
use crate::vocabulary::CONTROL;
use crate::write;

/// Files with the same weights.
#[derive(Debug)]
pub struct EqualFiles {
    /// The models with this layout.
    pub name: &'static str,
    /// A file of a family of the engine, in llama.cpp's layout.
    pub expected: Vec<u8>,
    /// Architectures and files that must be computed alike. The last file is in Ollama's layout.
    pub files: Vec<(&'static str, Vec<u8>)>,
}

/// Changes of a model file. Keys are without the prefix of the architecture; those of the tokenizer have none.
#[derive(Debug, Default)]
struct Changes {
    architecture: Option<&'static str>,
    without: &'static [&'static str],
    keys: Vec<(&'static str, Value)>,
    /// Texts in names of tensors, and their replacements.
    renames: &'static [(&'static str, &'static str)],
    /// Additional tensors of zeros.
    tensors: &'static [(&'static str, &'static [u64])],
    /// Tensors with two additional rows of zeros.
    padded: &'static [&'static str],
    /// Additional tokens at the end of the vocabulary.
    tokens: &'static [&'static str],
}

/// A few tensors of a vision tower and its projector, in the names of Ollama's converter.
const TOWER: &[(&str, &[u64])] = &[
    ("v.patch_embedding.weight", &[14, 14, 3, 8]),
    ("v.blk.0.attn_k.weight", &[32, 32]),
    ("v.blk.0.attn_k.bias", &[32]),
    ("mm.mm_input_projection.weight", &[64, 32]),
];

/// Factor of YaRN, and original context, of models that extend their context.
const FACTOR: f32 = 4.0;
const ORIGINAL_CONTEXT: u32 = 256;
const YARN: RopeScaling = RopeScaling::Yarn { factor: FACTOR, original_context: ORIGINAL_CONTEXT };

/// Returns a model of fewer weights than [`tiny`].
fn small(family: &'static Family) -> ModelSpec {
    ModelSpec { width: 64, heads: 4, head_dim: 16, ffn: 96, vocab: 320, context: 1024, ..tiny(family) }
}

/// Gemma 3 from 4 billion weights: no keys of norms and rotations, a vision tower, and a token without an embedding.
pub fn gemma3_with_tower() -> EqualFiles {
    let rope_scaling = RopeScaling::Linear(8.0);
    let spec = ModelSpec { layers: 7, norm_epsilon: 1e-6, context: 131_072, rope_scaling, ..small(&GEMMA3) };
    let expected =
        changed(&write(&spec), Changes { without: &["attention.sliding_window_pattern"], ..Changes::default() });
    let ollama = Changes {
        without: &[
            "attention.layer_norm_rms_epsilon",
            "rope.freq_base",
            "rope.scaling.type",
            "rope.scaling.factor",
            "rope.dimension_count",
            "vocab_size",
            "tokenizer.chat_template",
        ],
        keys: vec![
            ("mm.tokens_per_image", 256u32.into()),
            ("vision.block_count", 27u32.into()),
            ("vision.embedding_length", 1152u32.into()),
            ("vision.image_size", 896u32.into()),
            ("vision.attention.head_count", 16u32.into()),
            ("tokenizer.ggml.scores", vec![0f32; spec.vocab as usize + 1].into()),
        ],
        tensors: TOWER,
        tokens: &["<image_soft_token>"],
        ..Changes::default()
    };
    let files = vec![("gemma3", changed(&expected, ollama))];
    EqualFiles { name: "Gemma 3 with a vision tower", expected, files }
}

/// Gemma 3 of 1 billion weights: other names of the keys of rotations.
pub fn gemma3_text() -> EqualFiles {
    let spec = ModelSpec { rope_base: 500_000.0, ..small(&GEMMA3) };
    let expected =
        changed(&write(&spec), Changes { keys: vec![("rope.freq_base_swa", 20_000f32.into())], ..Changes::default() });
    let ollama = Changes {
        without: &["rope.freq_base", "rope.freq_base_swa"],
        keys: vec![
            ("rope.global.freq_base", 500_000f32.into()),
            ("rope.local.freq_base", 20_000f32.into()),
            ("tokenizer.ggml.add_padding_token", false.into()),
            ("tokenizer.ggml.add_unknown_token", false.into()),
        ],
        ..Changes::default()
    };
    let files = vec![("gemma3", changed(&expected, ollama))];
    EqualFiles { name: "Gemma 3 without a vision tower", expected, files }
}

/// EmbeddingGemma: the architecture of Gemma 3, and other names of three tensors.
pub fn embedding_gemma() -> EqualFiles {
    let spec = ModelSpec { layers: 7, ..small(&GEMMA_EMBEDDING) };
    let expected =
        changed(&write(&spec), Changes { without: &["attention.sliding_window_pattern"], ..Changes::default() });
    let ollama = Changes {
        architecture: Some("gemma3"),
        without: &["dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out", "vocab_size"],
        keys: vec![("attention.causal", true.into()), ("attention.sliding_window_pattern", 3u32.into())],
        renames: &[
            ("dense_2.weight", "dense.0.weight"),
            ("dense_3.weight", "dense.1.weight"),
            ("output_norm.weight", "norm.weight"),
        ],
        ..Changes::default()
    };
    let files = vec![("gemma3", changed(&expected, ollama))];
    EqualFiles { name: "EmbeddingGemma", expected, files }
}

/// Gemma 3n: embeddings of tokens without layer inputs, and the name of another tokenizer.
pub fn gemma3n() -> EqualFiles {
    let expected = write(&small(&GEMMA3N));
    let ollama = Changes { padded: &["token_embd.weight"], tokens: &["<unused0>", "<0x0A>"], ..Changes::default() };
    let files = vec![("gemma3n", changed(&expected, ollama))];
    EqualFiles { name: "Gemma 3n", expected, files }
}

/// Gemma 4 with experts: the name of another tokenizer, another name of a tensor, and towers.
pub fn gemma4() -> EqualFiles {
    let expected = write(&small(&GEMMA4_SPLIT_EXPERTS));
    let ollama = Changes {
        keys: vec![("tokenizer.ggml.model", "llama".into()), ("vision.block_count", 27u32.into())],
        renames: &[(".ffn_down_exps.scale", ".ffn_gate_inp.per_expert_scale")],
        tensors: &[("a.blk.0.attn_k.weight", &[32, 32]), ("v.patch_embd.weight", &[16, 16, 3, 8])],
        ..Changes::default()
    };
    let files = vec![("gemma4", changed(&expected, ollama))];
    EqualFiles { name: "Gemma 4 with experts", expected, files }
}

/// GLM 4.7 Flash: the architecture `glm4moelite`, and keys of the widths of heads with each other's values.
pub fn glm_flash() -> EqualFiles {
    let spec = small(&DEEPSEEK2);
    let count = |value: u64| Value::from(u32::try_from(value).expect("a model's counts fit into a u32"));
    let expected =
        changed(&write(&spec), Changes { keys: vec![("tokenizer.ggml.pre", "glm4".into())], ..Changes::default() });
    let (plain, rotated, latent) = (spec.head_dim, spec.head_dim / 2, 4 * spec.head_dim);
    let ollama = Changes {
        architecture: Some("glm4moelite"),
        keys: vec![
            ("attention.head_count_kv", count(spec.heads)),
            ("attention.key_length", count(plain + rotated)),
            ("attention.key_length_mla", count(latent + rotated)),
            ("attention.value_length", count(plain)),
            ("attention.value_length_mla", count(latent)),
        ],
        ..Changes::default()
    };
    let files = vec![("glm4moelite", changed(&expected, ollama))];
    EqualFiles { name: "GLM 4.7 Flash", expected, files }
}

/// gpt-oss: the architecture `gptoss`, other names of tensors, and no keys of experts and context extension.
pub fn gpt_oss() -> EqualFiles {
    let expected = write(&ModelSpec { rope_scaling: YARN, ..small(&GPT_OSS) });
    let ollama = Changes {
        architecture: Some("gptoss"),
        without: &["rope.scaling.type", "expert_feed_forward_length"],
        keys: vec![("tokenizer.ggml.pre", "default".into())],
        renames: &[
            (".attn_output.", ".attn_out."),
            (".attn_sinks.weight", ".attn_sinks"),
            (".post_attention_norm.", ".ffn_norm."),
        ],
        ..Changes::default()
    };
    let files = vec![("gptoss", changed(&expected, ollama))];
    EqualFiles { name: "gpt-oss", expected, files }
}

/// OLMo 3: the architecture `olmo3`.
pub fn olmo3() -> EqualFiles {
    let expected = changed(
        &write(&ModelSpec { layers: 4, rope_scaling: YARN, ..small(&OLMO2) }),
        Changes { keys: vec![("attention.sliding_window", 40u32.into())], ..Changes::default() },
    );
    let files = vec![("olmo3", changed(&expected, Changes { architecture: Some("olmo3"), ..Changes::default() }))];
    EqualFiles { name: "OLMo 3", expected, files }
}

/// Llama 4: keys of its own, and a vision tower.
pub fn llama4() -> EqualFiles {
    let expected = write(&small(&LLAMA4));
    let keys = vec![("use_qk_norm", true.into()), ("vision.block_count", 34u32.into())];
    let ollama = Changes { keys, tensors: TOWER, ..Changes::default() };
    let files = vec![("llama4", changed(&expected, ollama))];
    EqualFiles { name: "Llama 4", expected, files }
}

/// Mistral 3 with a context extension: other names of four keys.
pub fn mistral3() -> EqualFiles {
    let mut llama_cpp = Changes::default();
    llama_cpp.keys.push(("rope.scaling.yarn_beta_fast", 16f32.into()));
    llama_cpp.keys.push(("rope.scaling.yarn_beta_slow", 2f32.into()));
    let expected = changed(&write(&ModelSpec { rope_scaling: YARN, ..small(&MISTRAL3) }), llama_cpp);
    let mut ollama = Changes {
        without: &[
            "tokenizer.ggml.pre",
            "rope.scaling.yarn_beta_fast",
            "rope.scaling.yarn_beta_slow",
            "rope.scaling.yarn_log_multiplier",
            "attention.temperature_scale",
        ],
        tensors: TOWER,
        ..Changes::default()
    };
    ollama.keys.push(("rope.scaling.beta_fast", 16f32.into()));
    ollama.keys.push(("rope.scaling.beta_slow", 2f32.into()));
    ollama.keys.push(("rope.scaling.mscale_all_dim", 1f32.into()));
    ollama.keys.push(("rope.scaling_beta", 0.1f32.into()));
    let files = vec![("mistral3", changed(&expected, ollama))];
    EqualFiles { name: "Mistral 3", expected, files }
}

/// Qwen 2.5 VL: the architecture `qwen25vl`, and another name of the sections of a rotation.
pub fn qwen25vl() -> EqualFiles {
    let expected = write(&small(&QWEN2VL));
    let ollama = Changes {
        architecture: Some("qwen25vl"),
        without: &["rope.dimension_sections"],
        keys: vec![("rope.mrope_section", vec![3i32, 3, 2].into()), ("vision.block_count", 32u32.into())],
        tensors: TOWER,
        ..Changes::default()
    };
    let files = vec![("qwen25vl", changed(&expected, ollama))];
    EqualFiles { name: "Qwen 2.5 VL", expected, files }
}

/// Qwen 3 VL: no key of the sections of a rotation.
pub fn qwen3vl() -> EqualFiles {
    without_sections("Qwen 3 VL", &QWEN3VL)
}

/// Qwen 3 VL with experts.
pub fn qwen3vlmoe() -> EqualFiles {
    without_sections("Qwen 3 VL with experts", &QWEN3VLMOE)
}

fn without_sections(name: &'static str, family: &'static Family) -> EqualFiles {
    let expected = write(&small(family));
    let ollama = Changes {
        without: &["rope.dimension_sections", "n_deepstack_layers"],
        keys: vec![
            ("rope.mrope_section", vec![3i32, 3, 2].into()),
            ("vision.deepstack_visual_indexes", vec![8i32, 16].into()),
            ("vision.block_count", 27u32.into()),
        ],
        tensors: TOWER,
        ..Changes::default()
    };
    let files = vec![(family.name, changed(&expected, ollama))];
    EqualFiles { name, expected, files }
}

/// Qwen 3.5: a list of key/value heads, three sections of a rotation, another name of a tensor, a vision tower, and a layer that
/// predicts further tokens.
pub fn qwen35() -> EqualFiles {
    linear_attention("Qwen 3.5", &QWEN35, TOWER_AND_PREDICTION)
}

/// Qwen 3.5 with experts.
pub fn qwen35moe() -> EqualFiles {
    linear_attention("Qwen 3.5 with experts", &QWEN35MOE, TOWER_AND_PREDICTION)
}

/// Qwen 3 Next: a list of key/value heads, and another name of a tensor.
pub fn qwen3next() -> EqualFiles {
    linear_attention("Qwen 3 Next", &QWEN3NEXT, &[("mtp.fc.weight", &[128, 64])])
}

/// A few tensors of a vision tower, and of a layer that predicts further tokens.
const TOWER_AND_PREDICTION: &[(&str, &[u64])] = &[
    ("v.patch_embed.weight", &[14, 14, 2, 24]),
    ("v.blk.0.attn_k.weight", &[32, 32]),
    ("mtp.fc.weight", &[128, 64]),
    ("mtp.layers.0.attn_q.weight", &[64, 128]),
];

fn linear_attention(
    name: &'static str,
    family: &'static Family,
    tensors: &'static [(&'static str, &'static [u64])],
) -> EqualFiles {
    let spec = small(family);
    let expected = write(&spec);
    let kv_heads = u32::try_from(spec.kv_heads).expect("it is a small model");
    let is_next = family.name == QWEN3NEXT.name;
    let mut ollama = Changes {
        without: &["attention.head_count_kv", "rope.dimension_sections", "full_attention_interval"],
        keys: vec![("attention.head_count_kv", vec![0, kv_heads].into())],
        renames: &[(".ssm_dt.bias", ".ssm_dt")],
        tensors,
        ..Changes::default()
    };
    if !is_next {
        ollama.keys.push(("rope.dimension_sections", vec![2i32, 1, 1].into()));
        ollama.keys.push(("ssm.v_head_reordered", true.into()));
        ollama.keys.push(("rope.mrope_interleaved", true.into()));
    }
    let files = vec![(family.name, changed(&expected, ollama))];
    EqualFiles { name, expected, files }
}

/// Nemotron 3: other names of the projections around experts, and a layer that predicts further tokens.
pub fn nemotron3() -> EqualFiles {
    let expected = write(&small(&NEMOTRON_H_LATENT));
    let ollama = Changes {
        without: &["moe_latent_size"],
        renames: &[(".ffn_latent_down.", ".ffn_latent_in."), (".ffn_latent_up.", ".ffn_latent_out.")],
        tensors: &[("mtp.layers.0.eh_proj.weight", &[128, 64])],
        ..Changes::default()
    };
    let files = vec![(NEMOTRON_H_LATENT.name, changed(&expected, ollama))];
    EqualFiles { name: "Nemotron 3", expected, files }
}

/// Returns the files of all layouts of decoders.
pub fn decoders() -> Vec<EqualFiles> {
    vec![
        gemma3_with_tower(),
        gemma3_text(),
        gemma3n(),
        gemma4(),
        glm_flash(),
        gpt_oss(),
        olmo3(),
        llama4(),
        mistral3(),
        nemotron3(),
        qwen25vl(),
        qwen3vl(),
        qwen3vlmoe(),
        qwen3next(),
        qwen35(),
        qwen35moe(),
    ]
}

/// Returns a file of a small Llama that names another architecture.
pub fn other_architecture(architecture: &'static str) -> Vec<u8> {
    changed(&write(&small(&LLAMA)), Changes { architecture: Some(architecture), ..Changes::default() })
}

/// Returns a file with changes.
fn changed(file: &[u8], changes: Changes) -> Vec<u8> {
    let gguf = Gguf::parse(file).expect("the file is valid GGUF");
    let old = gguf.metadata().required_str("general.architecture").expect("a model has an architecture");
    let new = changes.architecture.unwrap_or(old);
    let prefix = format!("{old}.");
    let mut writer = Writer::default();
    writer.set("general.architecture", new);
    let mut set = |key: &str, value: Value| {
        let is_full = key.starts_with("tokenizer.") || key.starts_with("general.");
        writer.set(if is_full { key.to_owned() } else { format!("{new}.{key}") }, value);
    };
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| *key != "general.architecture") {
        let key = key.strip_prefix(&prefix).unwrap_or(key);
        if !changes.without.contains(&key) {
            set(key, with_tokens(key, value, changes.tokens));
        }
    }
    for (key, value) in changes.keys {
        set(key, value);
    }
    for tensor in gguf.tensors() {
        let renamed = |name: String, (from, to): &(&str, &str)| name.replacen(from, to, 1);
        let name = changes.renames.iter().fold(tensor.name.clone(), renamed);
        let bytes = &file[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize];
        let (mut dims, mut bytes) = (tensor.dims.clone(), bytes.to_vec());
        if changes.padded.contains(&tensor.name.as_str()) {
            bytes.resize(bytes.len() / dims[1] as usize * (dims[1] as usize + 2), 0);
            dims[1] += 2;
        }
        writer.tensor(name, tensor.dtype, &dims, bytes).expect("a parsed tensor is valid");
    }
    for (name, dims) in changes.tensors {
        let bytes = DType::F16.row_bytes(dims.iter().product::<u64>() as usize);
        writer.tensor(*name, DType::F16, dims, vec![0; bytes]).expect("the names are new");
    }
    writer.finish()
}

/// Returns the value of a key with more tokens.
fn with_tokens(key: &str, value: &Value, tokens: &[&str]) -> Value {
    match (key, value) {
        ("tokenizer.ggml.tokens", Value::Array(Array::String(texts))) => {
            let texts = texts.iter().chain(tokens.iter().copied()).map(str::to_owned);
            texts.collect::<Vec<_>>().into()
        }
        ("tokenizer.ggml.token_type", Value::Array(Array::I32(types))) => {
            let more = tokens.iter().map(|_| CONTROL);
            types.iter().copied().chain(more).collect::<Vec<_>>().into()
        }
        _ => value.clone(),
    }
}
