//! Qwen 2.5 VL and 3 VL: other names of keys, and the tensors of a vision tower in the file.

use cairn_gguf::{Array, Value};

use super::layout::{CLIP_COLORS, Layout, Marker, VISION};
use super::step::{Constant, Head, Place, Step};
use crate::error::LoadError;

pub(super) const QWEN25_VL: Layout = Layout {
    model: "Qwen 2.5 VL",
    architectures: &["qwen25vl"],
    markers: &[Marker::Architecture],
    steps: &[Step::Family("qwen2vl"), Step::Run(name_sections), Step::Skip(VISION)],
    tower: &[
        Step::SetDimension { key: "vision.projection_dim", tensor: "token_embd.weight", axis: 0 },
        Step::SetDimension { key: "vision.feed_forward_length", tensor: "v.blk.0.ffn_up.weight", axis: 1 },
        Step::Run(set_full_interval),
        Step::Family("clip"),
        Step::Set("projector_type", Constant::Str("qwen2.5vl_merger")),
        Step::Inject("vision.attention.layer_norm_epsilon", Constant::F32(1e-6)),
        Step::Inject("vision.image_mean", Constant::F32s(CLIP_COLORS[0])),
        Step::Inject("vision.image_std", Constant::F32s(CLIP_COLORS[1])),
        Step::Keep(VISION),
        Step::Rename(Place::Inside, "v.merger.ln_q.", "v.post_ln."),
        Step::Rename(Place::Inside, "v.merger.mlp.0.", "mm.0."),
        Step::Rename(Place::Inside, "v.merger.mlp.2.", "mm.2."),
        Step::Rename(Place::Whole, "v.patch_embd_0.weight", "v.patch_embd.weight"),
        Step::Rename(Place::Whole, "v.patch_embd_1.weight", "v.patch_embd.weight.1"),
    ],
};

pub(super) const QWEN3_VL: Layout = Layout {
    model: "Qwen 3 VL",
    architectures: &["qwen3vl", "qwen3vlmoe"],
    markers: &[Marker::NoKey(SECTIONS)],
    steps: &[Step::Inject(SECTIONS, Constant::I32s(&[24, 20, 20, 0])), Step::Run(count_layers), Step::Skip(VISION)],
    tower: QWEN3_TOWER,
};

/// The head of the tower of Qwen 3 VL and 3.5.
pub(super) const QWEN3_TOWER: &[Step] = &[
    Step::SetDimension { key: "vision.projection_dim", tensor: "token_embd.weight", axis: 0 },
    Step::SetDimension { key: "vision.feed_forward_length", tensor: "v.blk.0.mlp.linear_fc1.weight", axis: 1 },
    Step::Run(mark_layers),
    Step::Family("clip"),
    Step::Set("projector_type", Constant::Str("qwen3vl_merger")),
    Step::Inject("vision.attention.layer_norm_epsilon", Constant::F32(1e-6)),
    Step::Inject("vision.image_mean", Constant::F32s(&[0.5; 3])),
    Step::Inject("vision.image_std", Constant::F32s(&[0.5; 3])),
    Step::Keep(VISION),
    Step::Rename(Place::Inside, "v.patch_embed.", "v.patch_embd."),
    Step::Rename(Place::Inside, "v.pos_embed.", "v.position_embd."),
    Step::Rename(Place::Inside, "v.merger.norm.", "v.post_ln."),
    Step::Rename(Place::Inside, "v.merger.linear_fc1.", "mm.0."),
    Step::Rename(Place::Inside, "v.merger.linear_fc2.", "mm.2."),
    Step::Rename(Place::Inside, ".mlp.linear_fc1.", ".ffn_up."),
    Step::Rename(Place::Inside, ".mlp.linear_fc2.", ".ffn_down."),
    Step::Rename(Place::Inside, ".norm1.", ".ln1."),
    Step::Rename(Place::Inside, ".norm2.", ".ln2."),
];

/// Larger than in any tower.
const MAX_LAYERS: u32 = 1 << 10;

/// Pairs of a head that rotate by each component of a position, in llama.cpp's layout.
const SECTIONS: &str = "rope.dimension_sections";

/// Copies the sections of M-RoPE (arXiv 2409.12191), of which llama.cpp has four.
fn name_sections(head: &mut Head<'_>) -> Result<(), LoadError> {
    const KEY: &str = "rope.mrope_section";
    let Some(mut sections) = head.i32s(KEY)? else { return Ok(()) };
    if sections.len() > 4 {
        return Err(head.invalid(KEY, format!("{} sections; supported are at most 4", sections.len())));
    }
    sections.resize(4, 0);
    head.set(SECTIONS, sections);
    Ok(())
}

/// Layers of the tower with rows that the text model adds behind its first layers.
const DEEPSTACK: &str = "vision.deepstack_visual_indexes";

/// Marks the layers of the tower with projections of their rows, and names the tensors of their projections by the layer.
fn mark_layers(head: &mut Head<'_>) -> Result<(), LoadError> {
    let Some(indexes) = head.i32s(DEEPSTACK)? else { return Ok(()) };
    let layers = head.u32("vision.block_count")?.unwrap_or(0);
    if layers > MAX_LAYERS {
        return Err(head.invalid("vision.block_count", format!("{layers} layers; supported are at most {MAX_LAYERS}")));
    }
    let mut marks = vec![false; layers as usize];
    let mut last = None;
    for (nth, &index) in indexes.iter().enumerate() {
        let layer =
            usize::try_from(index).ok().filter(|&layer| layer < marks.len() && last.is_none_or(|last| last < layer));
        let Some(layer) = layer else {
            return Err(head.invalid(DEEPSTACK, format!("{indexes:?} are not ascending layers of {layers}")));
        };
        (marks[layer], last) = (true, Some(layer));
        for (from, to) in [("norm", "norm"), ("linear_fc1", "fc1"), ("linear_fc2", "fc2")] {
            let from = format!("v.deepstack_merger.{nth}.{from}.");
            head.rename(Place::Inside, &from, &format!("v.deepstack.{layer}.{to}."));
        }
    }
    head.set("vision.is_deepstack_layers", Value::Array(Array::Bool(marks)));
    Ok(())
}

/// Sets the interval of layers with attention to all patches, from the first one.
fn set_full_interval(head: &mut Head<'_>) -> Result<(), LoadError> {
    const KEY: &str = "vision.fullatt_block_indexes";
    let Some(indexes) = head.i32s(KEY)? else { return Ok(()) };
    match indexes.first().map(|&first| u32::try_from(first)) {
        Some(Ok(first)) => head.set("vision.n_wa_pattern", first.saturating_add(1)),
        _ => return Err(head.invalid(KEY, format!("{indexes:?} does not begin with a layer"))),
    }
    Ok(())
}

/// Sets the number of layers to which images add rows of inner layers of the vision tower.
fn count_layers(head: &mut Head<'_>) -> Result<(), LoadError> {
    if let Some(indexes) = head.i32s(DEEPSTACK)? {
        head.set("n_deepstack_layers", u32::try_from(indexes.len()).unwrap_or(u32::MAX));
    }
    Ok(())
}
