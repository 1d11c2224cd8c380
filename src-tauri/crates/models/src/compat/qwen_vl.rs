//! Qwen 2.5 VL and 3 VL: other names of keys, and the tensors of a vision tower in the file.

use super::layout::{Layout, Marker, VISION};
use super::step::{Constant, Head, Step};
use crate::error::LoadError;

pub(super) const QWEN25_VL: Layout = Layout {
    model: "Qwen 2.5 VL",
    architectures: &["qwen25vl"],
    markers: &[Marker::Architecture],
    steps: &[Step::Family("qwen2vl"), Step::Run(name_sections), Step::Skip(VISION)],
    tower: &[],
};

pub(super) const QWEN3_VL: Layout = Layout {
    model: "Qwen 3 VL",
    architectures: &["qwen3vl", "qwen3vlmoe"],
    markers: &[Marker::NoKey(SECTIONS)],
    steps: &[Step::Inject(SECTIONS, Constant::I32s(&[24, 20, 20, 0])), Step::Run(count_layers), Step::Skip(VISION)],
    tower: &[],
};

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

/// Sets the number of layers to which images add rows of inner layers of the vision tower.
fn count_layers(head: &mut Head<'_>) -> Result<(), LoadError> {
    if let Some(indexes) = head.i32s("vision.deepstack_visual_indexes")? {
        head.set("n_deepstack_layers", u32::try_from(indexes.len()).unwrap_or(u32::MAX));
    }
    Ok(())
}
