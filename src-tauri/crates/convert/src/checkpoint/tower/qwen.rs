//! The towers of Qwen 2.5 VL, and of Qwen 3 VL and 3.5. The projection of patches has a matrix of each of two frames.

use std::ops::Range;

use cairn_gguf::{Array, Value};

use super::TowerKind;
use super::plan::{TowerConfig, TowerPlan, TowerSizes, check_text};
use crate::checkpoint::error::{ConvertError, unsupported};
use crate::checkpoint::family::Layout;

/// Epsilon of all norms, which is not in configs.
const EPSILON: f32 = 1e-6;
/// Patches of a side of a group.
const GROUP_SIZE: u32 = 2;
const FRAMES: u64 = 2;
/// Pixels of a side that llama.cpp's converter writes for towers without learned positions.
const IMAGE_SIZE_25: u32 = 560;
/// Pixels of a side of a window of Qwen 2.5 VL.
const WINDOW_PIXELS: u32 = 112;
/// Layers of Qwen 2.5 VL with attention to all patches, if a config does not list them.
const FULL_LAYERS: [u64; 4] = [7, 15, 23, 31];
/// Layers of Qwen 3 VL with projected rows, if a config does not list them.
pub(in crate::checkpoint) const DEEPSTACK: [u64; 3] = [8, 16, 24];
/// More than layers of any tower.
const MAX_LISTED: usize = 1 << 10;

const PATCH: &str = "visual.patch_embed.proj";
const COUNTS: [&str; 2] = ["depth", "num_heads"];
const WIDTHS: [&str; 2] = ["hidden_size", "intermediate_size"];

pub(super) const QWEN_2_5: TowerKind = TowerKind {
    architectures: &["Qwen2_5_VLForConditionalGeneration"],
    models: &["qwen2_5_vl", "qwen2_5_vl_vision"],
    defaults: &[
        ("hidden_size", 3584),
        ("intermediate_size", 3420),
        ("depth", 32),
        ("num_heads", 16),
        ("patch_size", 14),
    ],
    prefixes: &["visual."],
    has_vision_model: false,
    unused: &[],
    types: &[],
    plan: plan_25,
};

pub(super) const QWEN_3: TowerKind = TowerKind {
    architectures: &[
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
    ],
    models: &[
        "qwen3_vl",
        "qwen3_vl_vision",
        "qwen3_vl_moe",
        "qwen3_vl_moe_vision",
        "qwen3_5",
        "qwen3_5_vision",
        "qwen3_5_moe",
        "qwen3_5_moe_vision",
    ],
    defaults: &[
        ("hidden_size", 1152),
        ("intermediate_size", 4304),
        ("depth", 27),
        ("num_heads", 16),
        ("patch_size", 16),
        ("num_position_embeddings", 2304),
    ],
    prefixes: &["visual."],
    has_vision_model: false,
    unused: &[],
    types: &[],
    plan: plan_3,
};

fn plan_25(config: &TowerConfig<'_>, plan: &mut TowerPlan) -> Result<(), ConvertError> {
    let sizes = plan.add_keys(config, COUNTS, WIDTHS, Some(IMAGE_SIZE_25))?;
    config.head_dim(&sizes)?;
    check_groups(config, &sizes)?;
    check_window(config)?;
    check_text(&config.vision, "hidden_act", &["silu"])?;
    plan.set("projector_type", "qwen2.5vl_merger");
    plan.set("use_silu", true);
    plan.set("vision.attention.layer_norm_epsilon", EPSILON);
    plan.set("vision.n_wa_pattern", full_interval(config, sizes.layers)?);
    add_patches(plan, &sizes);
    let TowerSizes { width, inner, .. } = sizes;
    for layer in 0..sizes.layers {
        let from = |part: &str| format!("visual.blocks.{layer}.{part}");
        let to = |part: &str| format!("v.blk.{layer}.{part}");
        for (norm, name) in [("norm1", "ln1"), ("norm2", "ln2")] {
            plan.add(format!("{}.weight", from(norm)), format!("{}.weight", to(name)), &[width]);
        }
        for (nth, name) in (0..).zip(["attn_q", "attn_k", "attn_v"]) {
            let rows = nth * width..(nth + 1) * width;
            let (weight, bias) = (from("attn.qkv.weight"), from("attn.qkv.bias"));
            plan.add(weight, format!("{}.weight", to(name)), &[width, width]).rows([rows.clone()]);
            plan.add(bias, format!("{}.bias", to(name)), &[width]).rows([rows]);
        }
        for (part, name, shape) in [
            ("attn.proj", "attn_out", [width, width]),
            ("mlp.gate_proj", "ffn_gate", [width, inner]),
            ("mlp.up_proj", "ffn_up", [width, inner]),
            ("mlp.down_proj", "ffn_down", [inner, width]),
        ] {
            plan.add_linear(&from(part), &to(name), shape);
        }
    }
    let joined = group_width(width);
    plan.add("visual.merger.ln_q.weight", "v.post_ln.weight", &[width]);
    plan.add_linear("visual.merger.mlp.0", "mm.0", [joined, joined]);
    plan.add_linear("visual.merger.mlp.2", "mm.2", [joined, sizes.output]);
    Ok(())
}

fn plan_3(config: &TowerConfig<'_>, plan: &mut TowerPlan) -> Result<(), ConvertError> {
    let positions = config.vision.count("num_position_embeddings", u32::MAX)?;
    let patch = config.vision.count("patch_size", u32::MAX)?;
    let sizes = plan.add_keys(config, COUNTS, WIDTHS, Some(positions.isqrt().saturating_mul(patch)))?;
    config.head_dim(&sizes)?;
    check_groups(config, &sizes)?;
    check_text(&config.vision, "hidden_act", &["gelu_pytorch_tanh"])?;
    plan.set("projector_type", "qwen3vl_merger");
    plan.set("use_gelu", true);
    plan.set("vision.spatial_merge_size", GROUP_SIZE);
    plan.set("vision.attention.layer_norm_epsilon", EPSILON);
    let TowerSizes { width, inner, layers, output, .. } = sizes;
    let listed = config.vision.whole_numbers("deepstack_visual_indexes", MAX_LISTED)?;
    let has_default = config.text.architecture().starts_with("Qwen3VL");
    let deepstack = listed.unwrap_or_else(|| if has_default { DEEPSTACK.to_vec() } else { Vec::new() });
    if let Some(layer) = deepstack.iter().find(|&&layer| layer >= layers) {
        let reason = format!("has the layer {layer}, but the tower has {layers}");
        return Err(config.vision.refused("deepstack_visual_indexes", reason));
    }
    if let Some(layer) = deepstack.iter().enumerate().find(|(nth, layer)| deepstack[..*nth].contains(layer)) {
        return Err(config.vision.refused("deepstack_visual_indexes", format_args!("has the layer {} twice", layer.1)));
    }
    let side = positions.isqrt();
    if side.pow(2) != positions {
        let reason = format_args!("is {positions}, not the square of a number of patches");
        return Err(config.vision.refused("num_position_embeddings", reason));
    }
    let marks = (0..layers).map(|layer| deepstack.contains(&layer)).collect();
    plan.set("vision.is_deepstack_layers", Value::Array(Array::Bool(marks)));
    add_patches(plan, &sizes);
    plan.add(format!("{PATCH}.bias"), "v.patch_embd.bias", &[width]);
    plan.add("visual.pos_embed.weight", "v.position_embd.weight", &[width, positions.into()]);
    for layer in 0..layers {
        let from = |part: &str| format!("visual.blocks.{layer}.{part}");
        let to = |part: &str| format!("v.blk.{layer}.{part}");
        for (norm, name) in [("norm1", "ln1"), ("norm2", "ln2")] {
            plan.add_norm(&from(norm), &to(name), width);
        }
        for (part, name, shape) in [
            ("attn.qkv", "attn_qkv", [width, 3 * width]),
            ("attn.proj", "attn_out", [width, width]),
            ("mlp.linear_fc1", "ffn_up", [width, inner]),
            ("mlp.linear_fc2", "ffn_down", [inner, width]),
        ] {
            plan.add_linear(&from(part), &to(name), shape);
        }
    }
    let joined = group_width(width);
    plan.add_norm("visual.merger.norm", "v.post_ln", width);
    plan.add_linear("visual.merger.linear_fc1", "mm.0", [joined, joined]);
    plan.add_linear("visual.merger.linear_fc2", "mm.2", [joined, output]);
    for (nth, layer) in deepstack.into_iter().enumerate() {
        let from = |part: &str| format!("visual.deepstack_merger_list.{nth}.{part}");
        let to = |part: &str| format!("v.deepstack.{layer}.{part}");
        plan.add_norm(&from("norm"), &to("norm"), joined);
        plan.add_linear(&from("linear_fc1"), &to("fc1"), [joined, joined]);
        plan.add_linear(&from("linear_fc2"), &to("fc2"), [joined, output]);
    }
    Ok(())
}

/// Elements of a group of patches.
fn group_width(width: u64) -> u64 {
    u64::from(GROUP_SIZE * GROUP_SIZE) * width
}

/// Checks the sizes of patches and groups, in the config and in the settings of pictures.
fn check_groups(config: &TowerConfig<'_>, sizes: &TowerSizes) -> Result<(), ConvertError> {
    let pictures = [("patch_size", sizes.patch), ("merge_size", GROUP_SIZE.into()), ("temporal_patch_size", FRAMES)];
    pictures.into_iter().try_for_each(|(key, usual)| config.check_picture(key, &[usual]))?;
    let wanted = [("spatial_merge_size", GROUP_SIZE), ("temporal_patch_size", FRAMES as u32)];
    for (key, wanted) in wanted {
        let found = config.vision.optional_count(&[key], u32::MAX)?.unwrap_or(wanted);
        if found != wanted {
            return Err(unsupported(format!("a vision tower with {key} {found} instead of {wanted}")));
        }
    }
    Ok(())
}

/// Checks the size of windows, which files do not contain.
fn check_window(config: &TowerConfig<'_>) -> Result<(), ConvertError> {
    match config.vision.optional_count(&["window_size"], u32::MAX)?.unwrap_or(WINDOW_PIXELS) {
        WINDOW_PIXELS => Ok(()),
        found => Err(unsupported(format!("a vision tower with window_size {found} instead of {WINDOW_PIXELS}"))),
    }
}

/// Returns the interval of layers with attention to all patches. A file has only this number, so the list must have every such layer up
/// to the last one of the tower.
fn full_interval(config: &TowerConfig<'_>, depth: u64) -> Result<u32, ConvertError> {
    const KEY: &str = "fullatt_block_indexes";
    let mut listed = config.vision.whole_numbers(KEY, MAX_LISTED)?.unwrap_or_else(|| FULL_LAYERS.to_vec());
    // Layers that the tower does not have make no difference.
    listed.retain(|&layer| layer < depth);
    listed.sort_unstable();
    listed.dedup();
    // Without such a layer, the first one would be behind the last layer.
    let interval = listed.first().map_or(depth, |first| *first) + 1;
    let expected = (1..=depth / interval).map(|nth| nth * interval - 1);
    match u32::try_from(interval) {
        Ok(interval) if listed.into_iter().eq(expected) => Ok(interval),
        _ => Err(unsupported(format!(
            "a vision tower of {depth} layers with {KEY} that are not at equal intervals up to the last layer"
        ))),
    }
}

/// Adds the projections of patches: the pixels of a color in both frames are adjacent in checkpoints.
fn add_patches(plan: &mut TowerPlan, &TowerSizes { patch, width, .. }: &TowerSizes) {
    let area = patch * patch;
    for (frame, name) in (0..FRAMES).zip(["v.patch_embd.weight", "v.patch_embd.weight.1"]) {
        let color = |color: u64| -> Range<u64> { (color * FRAMES + frame) * area..(color * FRAMES + frame + 1) * area };
        let layout = Layout { columns: Some((0..3).map(color).collect()), ..Layout::PLAIN };
        plan.add(format!("{PATCH}.weight"), name, &[patch, patch, 3, width])
            .layout(layout)
            .of_shape(&[width, 3, FRAMES, patch, patch]);
    }
}
