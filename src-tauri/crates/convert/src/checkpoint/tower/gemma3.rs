//! The tower of Gemma 3: SigLIP, then a norm and a projection.

use cairn_gguf::DType;

use super::TowerKind;
use super::plan::{TowerConfig, TowerPlan, check_text};
use crate::checkpoint::config::CONFIG;
use crate::checkpoint::error::{ConvertError, invalid, unsupported};
use crate::checkpoint::family::Layout;

/// Rows of a picture, if neither the config nor the preprocessor's settings have a number.
const ROWS: u64 = 256;
/// Default of `projector.scale_factor`; llama.cpp omits the key for it.
const GROUP_SIZE: u64 = 4;
const EPSILON: f32 = 1e-6;
const PROJECTION: &str = "mm.input_projection.weight";

pub(super) const GEMMA_3: TowerKind = TowerKind {
    architectures: &["Gemma3ForConditionalGeneration"],
    models: &["siglip_vision_model"],
    defaults: &[
        ("hidden_size", 768),
        ("intermediate_size", 3072),
        ("num_hidden_layers", 12),
        ("num_attention_heads", 12),
        ("image_size", 224),
        ("patch_size", 16),
    ],
    prefixes: &["vision_tower.", "multi_modal_projector."],
    has_vision_model: true,
    unused: &["vision_model.head.", ".position_ids"],
    // llama.cpp computes pictures with these types.
    types: &[("v.patch_embd.weight", DType::F32), (PROJECTION, DType::F16)],
    plan,
};

fn plan(config: &TowerConfig<'_>, plan: &mut TowerPlan) -> Result<(), ConvertError> {
    let counts = ["num_hidden_layers", "num_attention_heads"];
    let sizes = plan.add_keys(config, counts, ["hidden_size", "intermediate_size"], None)?;
    plan.set("projector_type", "gemma3");
    check_text(&config.vision, "hidden_act", &["gelu_pytorch_tanh"])?;
    config.check_picture("size", &[sizes.image])?;
    plan.set("use_gelu", true);
    let epsilon = config.vision.optional_number(&["layer_norm_eps"])?.unwrap_or(EPSILON);
    plan.set("vision.attention.layer_norm_epsilon", epsilon);
    config.head_dim(&sizes)?;
    let side = config.side(&sizes)?;
    let group = side / lines(config, side)?;
    if group != GROUP_SIZE {
        plan.set("vision.projector.scale_factor", group as u32);
    }
    plan.add_encoder("vision_tower.vision_model.encoder.layers", [sizes.width, sizes.inner], 0..sizes.layers);
    plan.add_norm("vision_tower.vision_model.post_layernorm", "v.post_ln", sizes.width);
    let embeddings = "vision_tower.vision_model.embeddings";
    let patch = format!("{embeddings}.patch_embedding");
    plan.add_patches(&patch, &sizes);
    plan.add(format!("{patch}.bias"), "v.patch_embd.bias", &[sizes.width]);
    let positions = format!("{embeddings}.position_embedding.weight");
    plan.add(positions, "v.position_embd.weight", &[sizes.width, side * side]);
    plan.add("multi_modal_projector.mm_input_projection_weight", PROJECTION, &[sizes.output, sizes.width]);
    // Checkpoints have the distance from 1.
    plan.add("multi_modal_projector.mm_soft_emb_norm.weight", "mm.soft_emb_norm.weight", &[sizes.width])
        .layout(Layout { shift: 1.0, ..Layout::PLAIN });
    Ok(())
}

/// Returns the number of lines of rows, which are a square of whole groups of patches.
fn lines(config: &TowerConfig<'_>, side: u64) -> Result<u64, ConvertError> {
    const KEYS: [&str; 2] = ["mm_tokens_per_image", "image_seq_length"];
    let of_model = config.text.optional_count(&[KEYS[0]], u32::MAX)?;
    let of_processor = config.preprocessor.optional_count(&[KEYS[1]], u32::MAX)?;
    if let (Some(model), Some(processor)) = (of_model, of_processor)
        && model != processor
    {
        let [model_key, processor_key] = KEYS;
        return Err(unsupported(format!("a vision tower with {model_key} {model} and {processor_key} {processor}")));
    }
    let rows = of_model.or(of_processor).map_or(ROWS, u64::from);
    let lines = rows.isqrt();
    if lines * lines != rows || lines > side || !side.is_multiple_of(lines) {
        let reason = format!("{rows} rows of an image are not a square of groups of {side} x {side} patches");
        return Err(invalid(CONFIG, reason));
    }
    Ok(lines)
}
