//! The tower of Gemma 4. Its projection of patches has the three colors of a pixel together in checkpoints, and each color apart
//! in files.

use std::ops::Range;

use cairn_wire::excerpt;

use super::TowerKind;
use super::plan::{TowerConfig, TowerPlan, TowerSizes};
use crate::checkpoint::config::MAX_WIDTH;
use crate::checkpoint::error::{ConvertError, unsupported};
use crate::checkpoint::family::Layout;

/// Pixels of a side that llama.cpp's converter writes. Pictures have other sizes.
const IMAGE_SIZE: u32 = 224;
/// Patches of a side of a group, if a file has no key.
const GROUP_SIZE: u32 = 3;
const EPSILON: f32 = 1e-6;
/// Base of the rotation by row and column. Files have no key for it.
const ROPE_BASE: f32 = 100.0;
/// Most rows of a picture, which files do not contain.
const MOST_ROWS: u64 = 280;
const COUNTS: [&str; 2] = ["num_hidden_layers", "num_attention_heads"];
const WIDTHS: [&str; 2] = ["hidden_size", "intermediate_size"];
/// The activation of published models.
const ACTIVATION: &str = "gelu_pytorch_tanh";
/// Key of the text part for the rows of a picture: they attend to each other if it is [`BIDIRECTIONAL`], and to earlier ones without it.
const DIRECTIONS: &str = "use_bidirectional_attention";
const BIDIRECTIONAL: &str = "vision";

pub(super) const GEMMA_4: TowerKind = TowerKind {
    architectures: &["Gemma4ForConditionalGeneration"],
    models: &["gemma4_vision"],
    defaults: &[
        ("hidden_size", 768),
        ("intermediate_size", 3072),
        ("num_hidden_layers", 16),
        ("num_attention_heads", 12),
        ("patch_size", 16),
        ("position_embedding_size", 10240),
    ],
    prefixes: &["vision_tower.", "embed_vision."],
    has_vision_model: false,
    unused: &[],
    types: &[],
    plan,
};

fn plan(config: &TowerConfig<'_>, plan: &mut TowerPlan) -> Result<(), ConvertError> {
    let vision = &config.vision;
    let sizes = plan.add_keys(config, COUNTS, WIDTHS, Some(IMAGE_SIZE))?;
    let TowerSizes { patch, width, inner, heads, layers, output, .. } = sizes;
    let head = config.head_dim(&sizes)?;
    let kv_heads = vision.optional_count(&["num_key_value_heads"], MAX_WIDTH)?.map_or(heads, u64::from);
    if kv_heads != heads {
        return Err(unsupported(format!("a vision tower with num_key_value_heads {kv_heads} instead of {heads}")));
    }
    // Without the key, files get another activation.
    match vision.optional_text("hidden_activation")?.unwrap_or(ACTIVATION) {
        ACTIVATION => plan.set("use_gelu", true),
        other => return Err(unsupported(format!("a vision tower with the activation {:?}", excerpt(other)))),
    }
    if let Some(base) = config.rope_base()?.filter(|&base| base != ROPE_BASE) {
        return Err(unsupported(format!("a vision tower with rope_theta {base} instead of {ROPE_BASE}")));
    }
    plan.set("vision.projector_type", "gemma4v");
    match config.text.optional_text(DIRECTIONS)? {
        None => plan.set("vision.causal_rows", true),
        Some(BIDIRECTIONAL) => plan.set("vision.causal_rows", false),
        Some(other) => return Err(unsupported(format!("a vision tower with {DIRECTIONS} {:?}", excerpt(other)))),
    }
    let epsilon = vision.optional_number(&["rms_norm_eps"])?.unwrap_or(EPSILON);
    plan.set("vision.attention.layer_norm_epsilon", epsilon);
    let group = vision.optional_count(&["pooling_kernel_size"], u32::MAX)?.unwrap_or(GROUP_SIZE);
    let pictures = [("patch_size", patch), ("pooling_kernel_size", group.into()), ("max_soft_tokens", MOST_ROWS)];
    pictures.into_iter().try_for_each(|(key, usual)| config.check_picture(key, &[usual]))?;
    if group != GROUP_SIZE {
        plan.set("vision.projector.scale_factor", group);
    }
    let positions = u64::from(vision.count("position_embedding_size", u32::MAX)?);
    let embedder = "vision_tower.patch_embedder";
    plan.add(format!("{embedder}.input_proj.weight"), "v.patch_embd.weight", &[patch, patch, 3, width])
        .layout(Layout { columns: Some(by_color(patch).collect()), ..Layout::PLAIN })
        .of_shape(&[width, 3 * patch * patch]);
    let table = format!("{embedder}.position_embedding_table");
    plan.add(table, "v.position_embd.weight", &[width, positions, 2]);
    // Without these flags, the model does not use the tensors, even if the files have them.
    let [is_standardized, has_limits] =
        [vision.flag("standardize")?, vision.flag("use_clipped_linears")?].map(|flag| flag == Some(true));
    for name in ["std_bias", "std_scale"] {
        let from = format!("vision_tower.{name}");
        if is_standardized {
            plan.add(from, format!("v.{name}"), &[width]);
        } else {
            plan.ignored.insert(from);
        }
    }
    for layer in 0..layers {
        let from = |part: &str| format!("vision_tower.encoder.layers.{layer}.{part}");
        let to = |part: &str| format!("v.blk.{layer}.{part}");
        for (norm, name, size) in [
            ("input_layernorm", "ln1", width),
            ("post_attention_layernorm", "attn_post_norm", width),
            ("pre_feedforward_layernorm", "ln2", width),
            ("post_feedforward_layernorm", "ffn_post_norm", width),
            ("self_attn.q_norm", "attn_q_norm", head),
            ("self_attn.k_norm", "attn_k_norm", head),
        ] {
            plan.add(format!("{}.weight", from(norm)), format!("{}.weight", to(name)), &[size]);
        }
        plan.add(from("layer_scalar"), to("out_scale.weight"), &[1]).optional();
        for (part, name, shape) in [
            ("self_attn.q_proj", "attn_q", [width, width]),
            ("self_attn.k_proj", "attn_k", [width, width]),
            ("self_attn.v_proj", "attn_v", [width, width]),
            ("self_attn.o_proj", "attn_out", [width, width]),
            ("mlp.gate_proj", "ffn_gate", [width, inner]),
            ("mlp.up_proj", "ffn_up", [width, inner]),
            ("mlp.down_proj", "ffn_down", [inner, width]),
        ] {
            plan.add(format!("{}.linear.weight", from(part)), format!("{}.weight", to(name)), &shape);
            for limit in ["input_min", "input_max", "output_min", "output_max"] {
                let from = format!("{}.{limit}", from(part));
                if has_limits {
                    plan.add(from, format!("{}.{limit}", to(name)), &[1]).optional();
                } else {
                    plan.ignored.insert(from);
                }
            }
        }
    }
    plan.add("embed_vision.embedding_projection.weight", "mm.input_projection.weight", &[width, output]);
    Ok(())
}

/// Columns of the projection of patches in the order of files.
fn by_color(patch: u64) -> impl Iterator<Item = Range<u64>> {
    let column = move |color: u64, pixel: u64| 3 * pixel + color..3 * pixel + color + 1;
    (0..3).flat_map(move |color| (0..patch * patch).map(move |pixel| column(color, pixel)))
}
