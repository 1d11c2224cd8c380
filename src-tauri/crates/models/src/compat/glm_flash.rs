//! GLM 4.7 Flash: the architecture `glm4moelite`, with the widths of whole heads in the keys of the cache's rows, and the reverse.

use super::layout::{Layout, Marker};
use super::step::{Constant, Head, PRE_TOKENIZER, Step};
use crate::error::LoadError;

pub(super) const GLM_FLASH: Layout = Layout {
    model: "GLM 4.7 Flash",
    architectures: &["glm4moelite"],
    markers: &[Marker::Architecture],
    steps: &[Step::Family("deepseek2"), Step::Run(name_lengths), Step::Set(PRE_TOKENIZER, Constant::Str("glm4"))],
    tower: &[],
};

/// Sets the widths of whole heads, and those of the only row of a token in the cache.
fn name_lengths(head: &mut Head<'_>) -> Result<(), LoadError> {
    let latent = head.u32("attention.kv_lora_rank")?;
    let rotated = head.u32("rope.dimension_count")?;
    let cached_key = latent.zip(rotated).map(|(latent, rotated)| latent.saturating_add(rotated));
    for (part, cached) in [("key", cached_key), ("value", latent)] {
        let (own, whole) = (format!("attention.{part}_length"), format!("attention.{part}_length_mla"));
        if let Some(length) = head.u32(&own)? {
            head.set(&whole, length);
        }
        if let Some(length) = cached {
            head.set(&own, length);
        }
    }
    head.set("attention.head_count_kv", 1u32);
    Ok(())
}
