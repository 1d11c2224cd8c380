//! The tower of Pixtral and of Mistral Small 3.1 and later. The two halves of a head of queries and keys are interleaved in files.
//!
//! The embedding of the token behind a line of patches is a tensor of the text part.

use cairn_wire::excerpt;

use super::TowerKind;
use super::plan::{TowerConfig, TowerPlan, TowerSizes, check_text};
use crate::checkpoint::config::CONFIG;
use crate::checkpoint::error::{ConvertError, invalid, unsupported};
use crate::checkpoint::family::Layout;

/// Epsilon of all norms. Those of the tower are not in configs. That of the merger is the text part's.
const EPSILON: f32 = 1e-5;
/// Base of rotations, if a file has no key.
const ROPE_BASE: f32 = 10_000.0;
/// Patches of a side of a group of Mistral Small 3.1, if a config has no number. Pixtral has no groups.
const GROUP_SIZE: u32 = 2;
/// Most patches of a side of a group, as in the engine.
const MAX_GROUP_SIZE: u32 = 4;
/// Architecture of Pixtral, which it shares with LLaVA.
const LLAVA: &str = "LlavaForConditionalGeneration";
/// Key of LLaVA's rows.
const STRATEGY: &str = "vision_feature_select_strategy";
/// The token behind a line of patches.
const BREAK: &str = "[IMG_BREAK]";
/// Names of the table of embeddings, without their common beginning.
const EMBEDDINGS: [&str; 3] =
    ["embed_tokens.weight", "language_model.model.embed_tokens.weight", "language_model.embed_tokens.weight"];
const COUNTS: [&str; 2] = ["num_hidden_layers", "num_attention_heads"];
const WIDTHS: [&str; 2] = ["hidden_size", "intermediate_size"];

pub(super) const PIXTRAL: TowerKind = TowerKind {
    architectures: &["Mistral3ForConditionalGeneration", LLAVA],
    models: &["pixtral"],
    defaults: &[
        ("hidden_size", 1024),
        ("intermediate_size", 4096),
        ("num_hidden_layers", 24),
        ("num_attention_heads", 16),
        ("image_size", 1024),
        ("patch_size", 16),
    ],
    prefixes: &["vision_tower.", "multi_modal_projector."],
    has_vision_model: false,
    unused: &[],
    types: &[],
    plan,
};

fn plan(config: &TowerConfig<'_>, plan: &mut TowerPlan) -> Result<(), ConvertError> {
    let vision = &config.vision;
    let sizes = plan.add_keys(config, COUNTS, WIDTHS, None)?;
    let TowerSizes { width, inner, heads, layers, output, .. } = sizes;
    let head = config.head_dim(&sizes)?;
    plan.set("projector_type", "pixtral");
    plan.set("vision.attention.layer_norm_epsilon", EPSILON);
    match vision.optional_text("hidden_act")?.unwrap_or("gelu") {
        "silu" => plan.set("use_silu", true),
        "gelu" => plan.set("use_gelu", true),
        other => return Err(unsupported(format!("a vision tower with the activation {:?}", excerpt(other)))),
    }
    check_text(config.text, "projector_hidden_act", &["gelu"])?;
    let is_llava = config.text.architecture() == LLAVA;
    if is_llava && config.text.optional_text(STRATEGY)? != Some("full") {
        // The first patch has no row.
        return Err(unsupported(format!("a vision tower of Pixtral with {STRATEGY} other than \"full\"")));
    }
    let last = config.feature_layers(if is_llava { -2 } else { -1 }, layers)?;
    if last != layers {
        return Err(unsupported(format!("a vision tower of Pixtral with features of layer {last} of {layers}")));
    }
    if let Some(base) = config.rope_base()?.filter(|&base| base != ROPE_BASE) {
        plan.set("vision.rope.freq_base", base);
    }
    let group = match is_llava {
        true => None,
        false => Some(config.text.optional_count(&["spatial_merge_size"], MAX_GROUP_SIZE)?.unwrap_or(GROUP_SIZE)),
    };
    if let Some(group) = group {
        plan.set("vision.spatial_merge_size", group);
        let epsilon = config.text.optional_number(&["rms_norm_eps"])?;
        if let Some(epsilon) = epsilon.filter(|&epsilon| epsilon != EPSILON) {
            let what = format!("a vision tower of a model with rms_norm_eps {epsilon} instead of {EPSILON}");
            return Err(unsupported(what));
        }
    }
    config.check_picture("size", &[sizes.image])?;
    // Some files have the pixels of a group.
    config.check_picture("patch_size", &[sizes.patch, sizes.patch * group.map_or(1, u64::from)])?;
    add_break(config, plan, output)?;
    plan.add_patches("vision_tower.patch_conv", &sizes);
    plan.add("vision_tower.ln_pre.weight", "v.pre_ln.weight", &[width]);
    if !head.is_multiple_of(2) {
        return Err(unsupported(format!("a vision tower with heads of {head} elements")));
    }
    for layer in 0..layers {
        let from = |part: &str| format!("vision_tower.transformer.layers.{layer}.{part}.weight");
        let to = |part: &str| format!("v.blk.{layer}.{part}.weight");
        plan.add(from("attention_norm"), to("ln1"), &[width]);
        plan.add(from("ffn_norm"), to("ln2"), &[width]);
        for (part, name) in [("attention.q_proj", "attn_q"), ("attention.k_proj", "attn_k")] {
            let layout = Layout { heads: Some(heads), ..Layout::PLAIN };
            plan.add(from(part), to(name), &[width, width]).layout(layout);
        }
        for (part, name, shape) in [
            ("attention.v_proj", "attn_v", [width, width]),
            ("attention.o_proj", "attn_out", [width, width]),
            ("feed_forward.gate_proj", "ffn_gate", [width, inner]),
            ("feed_forward.up_proj", "ffn_up", [width, inner]),
            ("feed_forward.down_proj", "ffn_down", [inner, width]),
        ] {
            plan.add(from(part), to(name), &shape);
        }
    }
    if let Some(group) = group.map(u64::from) {
        plan.add("multi_modal_projector.norm.weight", "mm.input_norm.weight", &[width]);
        let merger = "multi_modal_projector.patch_merger.merging_layer.weight";
        plan.add(merger, "mm.patch_merger.weight", &[group * group * width, width]);
    }
    let has_biases = config.text.flag("multimodal_projector_bias")?.unwrap_or(is_llava);
    plan.add_projector(["mm.1", "mm.2"], [width, output], has_biases);
    Ok(())
}

/// Adds the embedding of the token behind a line.
fn add_break(config: &TowerConfig<'_>, plan: &mut TowerPlan, output: u64) -> Result<(), ConvertError> {
    let token = config.description.added_token(BREAK)?;
    let token =
        token.ok_or_else(|| invalid(CONFIG, format!("the vision tower needs the token {BREAK} in the tokenizer")))?;
    for name in EMBEDDINGS {
        plan.add(name, "v.token_embd.img_break", &[output])
            .rows(std::iter::once(token..token.saturating_add(1)))
            .reshaped();
    }
    Ok(())
}
