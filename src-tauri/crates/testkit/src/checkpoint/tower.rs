//! Vision towers in checkpoints: names, shapes and order of their tensors, their section of the config, and the settings of the
//! preprocessor.

mod qwen;

use cairn_gguf::{DType, Gguf, Writer};
use serde_json::{Value, json};

use super::layout::{halves, reorder};
use super::{SourceTensor, tokenizer};
use crate::tower::{GEMMA4_POSITIONS, TowerKind, TowerSpec};

/// The embedding of the token behind a line.
const BREAK: &str = "v.token_embd.img_break";

/// Name, dimensions and values in the layout of llama.cpp.
type Tensor = (String, Vec<u64>, Vec<f32>);

/// A tensor of a tower as a checkpoint has it.
struct Stored {
    name: String,
    /// Rows first.
    shape: Vec<u64>,
    values: Vec<f32>,
}

impl Stored {
    /// A tensor with these dimensions, row length first.
    fn new(name: String, mut dims: Vec<u64>, values: Vec<f32>) -> Self {
        dims.reverse();
        Self { name, shape: dims, values }
    }
}

/// Adds a tower to a checkpoint. Returns the settings of its preprocessor, and its GGUF file after a conversion to F32.
pub(super) fn store(spec: &TowerSpec, config: &mut Value, sources: &mut Vec<SourceTensor>) -> (Value, Vec<u8>) {
    config["vision_config"] = section(spec);
    let mut tensors = spec.tensors();
    for (name, _, values) in &mut tensors {
        match (&spec.kind, name.as_str()) {
            // The conversion has it in this type always.
            (TowerKind::Gemma3, "mm.input_projection.weight") => round(values),
            // It is a row of the text model.
            (TowerKind::Pixtral { .. }, BREAK) => *values = embedding(sources, values.len()),
            _ => {}
        }
    }
    let keys: Vec<(&str, cairn_gguf::Value)> = match &spec.kind {
        // In contrast to files of other converters, a checkpoint has the activation of the model.
        TowerKind::Gemma4 => {
            config["text_config"]["use_bidirectional_attention"] = json!("vision");
            vec![("use_gelu", true.into()), ("vision.causal_rows", false.into())]
        }
        TowerKind::Pixtral { group } => {
            config["spatial_merge_size"] = json!(group);
            config["multimodal_projector_bias"] = json!(true);
            vec![("vision.attention.layer_norm_epsilon", 1e-5f32.into())]
        }
        TowerKind::Llava { sizes, .. } => {
            let last = u32::try_from(spec.layers - 1).expect("a tower has few layers");
            config["vision_feature_layer"] = json!(-2);
            // A config has the height first.
            let pairs = sizes.as_chunks::<2>().0.iter();
            config["image_grid_pinpoints"] = pairs.map(|[width, height]| json!([height, width])).collect();
            vec![
                ("vision.block_count", last.into()),
                ("vision.feature_layer", vec![last.cast_signed()].into()),
                ("vision.projection_dim", u32::try_from(spec.output).expect("a tower is narrow").into()),
            ]
        }
        _ => Vec::new(),
    };
    // The last layer of LLaVA is not computed. Checkpoints have it.
    let skipped = matches!(spec.kind, TowerKind::Llava { .. }).then(|| format!("v.blk.{}.", spec.layers - 1));
    let is_computed = |(name, ..): &&Tensor| skipped.as_ref().is_none_or(|skipped| !name.starts_with(skipped));
    let computed: Vec<Tensor> = tensors.iter().filter(is_computed).cloned().collect();
    let file = replaced(&spec.write(), keys, &computed);
    let stored: Vec<Stored> = match &spec.kind {
        TowerKind::Gemma3 => tensors.into_iter().map(gemma3).collect(),
        TowerKind::Gemma4 => tensors.into_iter().map(|tensor| gemma4(spec, tensor)).collect(),
        TowerKind::Pixtral { .. } => tensors.into_iter().filter_map(|tensor| pixtral(spec, tensor)).collect(),
        TowerKind::Qwen25 { .. } => qwen::qwen25(spec, tensors),
        TowerKind::Qwen3 { deepstack } => qwen::qwen3(spec, deepstack, tensors),
        TowerKind::Llava { .. } => tensors.into_iter().map(llava).collect(),
    };
    for Stored { name, shape, values } in stored {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        sources.push(SourceTensor { name, dtype: "F32", shape, bytes });
    }
    (preprocessor(spec), file)
}

/// Returns the embedding of the token behind a line.
fn embedding(sources: &[SourceTensor], width: usize) -> Vec<f32> {
    let table = sources.iter().find(|source| source.name.ends_with("embed_tokens.weight"));
    let table = table.expect("a model has embeddings");
    assert_eq!((table.dtype, table.shape[1]), ("F32", width as u64), "embeddings of the text model");
    let row = &table.bytes[tokenizer::break_token(table.shape[0]) as usize * width * 4..][..width * 4];
    row.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn round(values: &mut [f32]) {
    let mut bytes = Vec::new();
    DType::F16.encode(values, &mut bytes).expect("the type has an encoder");
    DType::F16.decode(&bytes, values);
}

/// Returns a GGUF file with other values of keys of the tower, and of its tensors.
fn replaced(file: &[u8], keys: Vec<(&'static str, cairn_gguf::Value)>, tensors: &[Tensor]) -> Vec<u8> {
    let gguf = Gguf::parse(file).expect("the written file is valid");
    let mut writer = Writer::default();
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, value.clone());
    }
    for (key, value) in keys {
        writer.set(format!("clip.{key}"), value);
    }
    for (name, dims, values) in tensors {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        writer.tensor(name.clone(), DType::F32, dims, bytes).expect("the tensors of a valid file");
    }
    writer.finish()
}

/// Returns the section `vision_config`.
fn section(spec: &TowerSpec) -> Value {
    let &TowerSpec { image_size, patch_size, width, heads, ffn, layers, output, .. } = spec;
    let common = json!({"patch_size": patch_size, "hidden_size": width, "intermediate_size": ffn});
    let own = match &spec.kind {
        TowerKind::Gemma3 => json!({
            "model_type": "siglip_vision_model", "image_size": image_size, "num_attention_heads": heads,
            "num_hidden_layers": layers, "vision_use_head": false
        }),
        TowerKind::Gemma4 => json!({
            "model_type": "gemma4_vision", "num_attention_heads": heads, "num_key_value_heads": heads,
            "num_hidden_layers": layers, "head_dim": width / heads, "pooling_kernel_size": 3,
            "position_embedding_size": GEMMA4_POSITIONS, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6,
            "standardize": true, "use_clipped_linears": true
        }),
        TowerKind::Pixtral { .. } => json!({
            "model_type": "pixtral", "image_size": image_size, "num_attention_heads": heads, "num_hidden_layers": layers,
            "head_dim": width / heads, "hidden_act": "silu", "rope_theta": 10_000.0
        }),
        TowerKind::Qwen25 { full_interval } => json!({
            "model_type": "qwen2_5_vl", "num_heads": heads, "depth": layers, "hidden_act": "silu", "window_size": 112,
            "out_hidden_size": output, "spatial_merge_size": 2, "temporal_patch_size": 2,
            "fullatt_block_indexes": (1..=layers / u64::from(*full_interval))
                .map(|nth| nth * u64::from(*full_interval) - 1).collect::<Vec<u64>>()
        }),
        TowerKind::Qwen3 { deepstack } => json!({
            "num_heads": heads, "depth": layers, "hidden_act": "gelu_pytorch_tanh", "out_hidden_size": output,
            "spatial_merge_size": 2, "temporal_patch_size": 2, "deepstack_visual_indexes": deepstack,
            "num_position_embeddings": (image_size / patch_size).pow(2)
        }),
        TowerKind::Llava { .. } => json!({
            "model_type": "clip_vision_model", "image_size": image_size, "num_attention_heads": heads,
            "num_hidden_layers": layers, "layer_norm_eps": 1e-6, "hidden_act": "quick_gelu", "projection_dim": 7
        }),
    };
    let [Value::Object(mut all), Value::Object(own)] = [common, own] else { unreachable!("both are objects") };
    all.extend(own);
    all.into()
}

/// Returns the settings of the preprocessor.
fn preprocessor(spec: &TowerSpec) -> Value {
    let [mean, deviation] = spec.colors();
    let [mean, deviation] = [mean, deviation].map(|color| vec![color; 3]);
    let mut settings = json!({"image_mean": mean, "image_std": deviation, "rescale_factor": 1.0 / 255.0});
    if spec.kind == TowerKind::Gemma3 {
        let side = spec.image_size / spec.patch_size / 4;
        settings["image_seq_length"] = json!(side * side);
    }
    settings
}

/// Replaces parts of a name.
fn renamed(name: &str, parts: &[(&str, &str)]) -> String {
    parts.iter().fold(name.to_owned(), |name, (from, to)| name.replacen(from, to, 1))
}

fn gemma3((name, dims, mut values): Tensor) -> Stored {
    let parts = [
        ("v.patch_embd.", "vision_tower.vision_model.embeddings.patch_embedding."),
        ("v.position_embd.", "vision_tower.vision_model.embeddings.position_embedding."),
        ("v.post_ln.", "vision_tower.vision_model.post_layernorm."),
        ("v.blk.", "vision_tower.vision_model.encoder.layers."),
        (".ln1.", ".layer_norm1."),
        (".ln2.", ".layer_norm2."),
        (".attn_q.", ".self_attn.q_proj."),
        (".attn_k.", ".self_attn.k_proj."),
        (".attn_v.", ".self_attn.v_proj."),
        (".attn_out.", ".self_attn.out_proj."),
        (".ffn_up.", ".mlp.fc1."),
        (".ffn_down.", ".mlp.fc2."),
        ("mm.input_projection.weight", "multi_modal_projector.mm_input_projection_weight"),
        ("mm.soft_emb_norm.", "multi_modal_projector.mm_soft_emb_norm."),
    ];
    if name.starts_with("mm.soft_emb_norm") {
        values.iter_mut().for_each(|value| *value -= 1.0);
    }
    Stored::new(renamed(&name, &parts), dims, values)
}

fn llava((name, dims, values): Tensor) -> Stored {
    let parts = [
        ("v.patch_embd.", "vision_tower.vision_model.embeddings.patch_embedding."),
        ("v.position_embd.", "vision_tower.vision_model.embeddings.position_embedding."),
        ("v.class_embd", "vision_tower.vision_model.embeddings.class_embedding"),
        ("v.pre_ln.", "vision_tower.vision_model.pre_layrnorm."),
        ("model.image_newline", "image_newline"),
        ("mm.0.", "multi_modal_projector.linear_1."),
        ("mm.2.", "multi_modal_projector.linear_2."),
    ];
    let Stored { name, shape, values } = gemma3((name, dims, values));
    Stored { name: renamed(&name, &parts), shape, values }
}

fn gemma4(spec: &TowerSpec, (name, dims, mut values): Tensor) -> Stored {
    let parts = [
        ("v.patch_embd.", "model.vision_tower.patch_embedder.input_proj."),
        ("v.position_embd.weight", "model.vision_tower.patch_embedder.position_embedding_table"),
        ("v.std_", "model.vision_tower.std_"),
        ("v.blk.", "model.vision_tower.encoder.layers."),
        (".ln1.", ".input_layernorm."),
        (".ln2.", ".pre_feedforward_layernorm."),
        (".attn_post_norm.", ".post_attention_layernorm."),
        (".ffn_post_norm.", ".post_feedforward_layernorm."),
        (".attn_q_norm.", ".self_attn.q_norm."),
        (".attn_k_norm.", ".self_attn.k_norm."),
        (".attn_q.", ".self_attn.q_proj."),
        (".attn_k.", ".self_attn.k_proj."),
        (".attn_v.", ".self_attn.v_proj."),
        (".attn_out.", ".self_attn.o_proj."),
        (".ffn_gate.", ".mlp.gate_proj."),
        (".ffn_up.", ".mlp.up_proj."),
        (".ffn_down.", ".mlp.down_proj."),
        ("_proj.weight", "_proj.linear.weight"),
        ("input_proj.linear.weight", "input_proj.weight"),
        (".out_scale.weight", ".layer_scalar"),
        ("mm.input_projection.", "model.embed_vision.embedding_projection."),
    ];
    let stored = renamed(&name, &parts);
    if name.starts_with("v.patch_embd.") {
        // The three colors of a pixel are together.
        let area = (spec.patch_size * spec.patch_size) as usize;
        let row = |row: &[f32]| (0..3 * area).map(|at| row[at % 3 * area + at / 3]).collect::<Vec<f32>>();
        values = values.chunks(3 * area).flat_map(row).collect();
        return Stored::new(stored, vec![3 * area as u64, spec.width], values);
    }
    // Limits are scalars.
    let is_limit = name.ends_with("_min") || name.ends_with("_max");
    Stored::new(stored, if is_limit { Vec::new() } else { dims }, values)
}

fn pixtral(spec: &TowerSpec, (name, dims, mut values): Tensor) -> Option<Stored> {
    let parts = [
        ("v.patch_embd.", "vision_tower.patch_conv."),
        ("v.pre_ln.", "vision_tower.ln_pre."),
        ("v.blk.", "vision_tower.transformer.layers."),
        (".ln1.", ".attention_norm."),
        (".ln2.", ".ffn_norm."),
        (".attn_q.", ".attention.q_proj."),
        (".attn_k.", ".attention.k_proj."),
        (".attn_v.", ".attention.v_proj."),
        (".attn_out.", ".attention.o_proj."),
        (".ffn_gate.", ".feed_forward.gate_proj."),
        (".ffn_up.", ".feed_forward.up_proj."),
        (".ffn_down.", ".feed_forward.down_proj."),
        ("mm.input_norm.", "multi_modal_projector.norm."),
        ("mm.patch_merger.", "multi_modal_projector.patch_merger.merging_layer."),
        ("mm.1.", "multi_modal_projector.linear_1."),
        ("mm.2.", "multi_modal_projector.linear_2."),
    ];
    if name.contains("attn_q") || name.contains("attn_k") {
        values = reorder(&values, spec.heads as usize, spec.width as usize, halves);
    }
    (name != BREAK).then(|| Stored::new(renamed(&name, &parts), dims, values))
}
