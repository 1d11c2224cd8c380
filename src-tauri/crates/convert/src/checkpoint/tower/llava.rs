//! The tower of LLaVA: CLIP's vision transformer without its last layers, and an MLP.
//!
//! llama.cpp's converter has no such towers. Its older programs make files with the same names of keys and tensors.

use cairn_wire::excerpt;

use super::plan::{TowerConfig, TowerPlan, TowerSizes, check_text};
use super::{PREPROCESSOR, TowerKind};
use crate::checkpoint::config::CONFIG;
use crate::checkpoint::error::{ConvertError, invalid, unsupported};

/// The layer with the features of pictures, counted from the end.
const FEATURE_LAYER: i64 = -2;
/// Epsilon of all norms, if a config has none.
const EPSILON: f32 = 1e-5;
/// Sizes of enlarged pictures, if a config of LLaVA 1.6 has none: height and width of each.
const GRID: [[u64; 2]; 5] = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]];
const MAX_SIZES: usize = 64;
const COUNTS: [&str; 2] = ["num_hidden_layers", "num_attention_heads"];
const WIDTHS: [&str; 2] = ["hidden_size", "intermediate_size"];
const MODEL: &str = "vision_tower.vision_model";

pub(super) const LLAVA: TowerKind = TowerKind {
    architectures: &["LlavaForConditionalGeneration", LLAVA_NEXT],
    models: &["clip_vision_model"],
    defaults: &[
        ("hidden_size", 768),
        ("intermediate_size", 3072),
        ("num_hidden_layers", 12),
        ("num_attention_heads", 12),
        ("image_size", 224),
        ("patch_size", 32),
    ],
    prefixes: &["vision_tower.", "multi_modal_projector.", "image_newline"],
    // Features are of an earlier layer, which has no norm behind it.
    has_vision_model: true,
    unused: &[".post_layernorm.", ".position_ids"],
    types: &[],
    plan,
};
const LLAVA_NEXT: &str = "LlavaNextForConditionalGeneration";

fn plan(config: &TowerConfig<'_>, plan: &mut TowerPlan) -> Result<(), ConvertError> {
    let vision = &config.vision;
    let sizes = plan.add_keys(config, COUNTS, WIDTHS, None)?;
    let TowerSizes { image, width, inner, layers, output, .. } = sizes;
    config.head_dim(&sizes)?;
    plan.set("has_text_encoder", false);
    plan.set("has_llava_projector", true);
    plan.set("projector_type", "mlp");
    match vision.optional_text("hidden_act")?.unwrap_or("quick_gelu") {
        "quick_gelu" => plan.set("use_gelu", false),
        "gelu" => plan.set("use_gelu", true),
        other => return Err(unsupported(format!("a vision tower with the activation {:?}", excerpt(other)))),
    }
    check_text(config.text, "projector_hidden_act", &["gelu"])?;
    check_text(config.text, "vision_feature_select_strategy", &["default"])?;
    ["size", "crop_size"].iter().try_for_each(|key| config.check_picture(key, &[image]))?;
    let epsilon = vision.optional_number(&["layer_norm_eps"])?.unwrap_or(EPSILON);
    plan.set("vision.attention.layer_norm_epsilon", epsilon);
    let last = config.feature_layers(FEATURE_LAYER, layers)?;
    plan.set("vision.block_count", last as u32);
    plan.set("vision.feature_layer", vec![last as i32]);
    if config.text.architecture() == LLAVA_NEXT {
        add_enlarged(config, plan, output)?;
    }
    let embeddings = format!("{MODEL}.embeddings");
    plan.add_patches(&format!("{embeddings}.patch_embedding"), &sizes);
    plan.add(format!("{embeddings}.class_embedding"), "v.class_embd", &[width]);
    let positions = config.side(&sizes)?.pow(2) + 1;
    plan.add(format!("{embeddings}.position_embedding.weight"), "v.position_embd.weight", &[width, positions]);
    plan.add_norm(&format!("{MODEL}.pre_layrnorm"), "v.pre_ln", width);
    let encoder = format!("{MODEL}.encoder.layers");
    plan.add_encoder(&encoder, [width, inner], 0..last);
    plan.skip_encoder(&encoder, [width, inner], last..layers);
    let has_biases = config.text.flag("multimodal_projector_bias")? != Some(false);
    plan.add_projector(["mm.0", "mm.2"], [width, output], has_biases);
    Ok(())
}

/// Adds the sizes of enlarged pictures, and the row behind each of their lines.
fn add_enlarged(config: &TowerConfig<'_>, plan: &mut TowerPlan, output: u64) -> Result<(), ConvertError> {
    const KEY: &str = "image_grid_pinpoints";
    let refused = || invalid(CONFIG, format!("{KEY} is not a list of 1 to {MAX_SIZES} pairs of height and width"));
    let pair = |pair: &serde_json::Value| match pair.as_array().map(Vec::as_slice) {
        Some([height, width]) => Some([height.as_u64()?, width.as_u64()?]),
        _ => None,
    };
    let usual = serde_json::json!(GRID);
    let of_model = Some(config.text.value(KEY)).filter(|sizes| !sizes.is_null()).unwrap_or(&usual);
    let of_processor = config.preprocessor.value(KEY);
    if !of_processor.is_null() && of_model != of_processor {
        return Err(unsupported(format!("a vision tower with other {KEY} in {PREPROCESSOR} than in {CONFIG}")));
    }
    let sizes = match of_model {
        serde_json::Value::Array(pairs) if (1..=MAX_SIZES).contains(&pairs.len()) => {
            pairs.iter().map(pair).collect::<Option<Vec<_>>>().ok_or_else(refused)?
        }
        _ => return Err(refused()),
    };
    let pixels = sizes.into_iter().flat_map(|[height, width]| [width, height]).map(i32::try_from);
    plan.set("vision.image_grid_pinpoints", pixels.collect::<Result<Vec<i32>, _>>().map_err(|_| refused())?);
    plan.set("vision.mm_patch_merge_type", "spatial_unpad");
    plan.add("image_newline", "model.image_newline", &[output]);
    Ok(())
}
