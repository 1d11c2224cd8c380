//! Rotary position embedding from metadata (Su et al., arXiv 2104.09864).
//!
//! Pair `i` of `dims / 2` turns by `position * base^(-2 i / dims)`. Linear scaling divides all angles by one factor, which
//! stretches the context by it. Llama 3 divides each pair's angle by a factor of its own; files carry those factors as the
//! tensor `rope_freqs.weight`.

use cairn_tensor::{Rope, RopeStyle};

use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Adds the model's rotation to the plan and returns its index.
pub(crate) fn rope(b: &mut Builder<'_>, hparams: &Hparams, style: RopeStyle) -> Result<usize, LoadError> {
    let keys = Keys::new(b.metadata())?;
    let dims = keys.u32("rope.dimension_count")?.map_or(hparams.head_dim, |dims| dims as usize);
    if dims == 0 || !dims.is_multiple_of(2) || dims > hparams.head_dim {
        let why = format!("{dims} is not an even number up to the head's {} elements", hparams.head_dim);
        return Err(keys.wrong("rope.dimension_count", why));
    }
    let base = positive(&keys, "rope.freq_base")?.unwrap_or(10_000.0);
    let factor = scaling_factor(&keys)?;
    let factors = b.optional_values("rope_freqs.weight", dims / 2).unwrap_or_else(|| vec![1.0; dims / 2]);
    if let Some(factor) = factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
        let why = format!("{factor} is not a positive number");
        return Err(LoadError::Key { key: "rope_freqs.weight".to_owned(), why });
    }
    let frequency = |i: usize| f64::from(base).powf(-2.0 * i as f64 / dims as f64) / f64::from(factor);
    let scaled = factors.iter().enumerate().map(|(i, &factor)| (frequency(i) / f64::from(factor)) as f32);
    let inverse_frequencies: Vec<f32> = scaled.collect();
    Ok(b.plan.rope(Rope { style, inverse_frequencies, magnitude: 1.0 }))
}

/// What linear scaling divides positions by; 1 without it.
fn scaling_factor(keys: &Keys<'_>) -> Result<f32, LoadError> {
    // Files from before `rope.scaling` have one key, which means linear scaling; so does a factor without a type.
    let factor = match positive(keys, "rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => positive(keys, "rope.scale_linear")?,
    };
    match keys.str("rope.scaling.type")?.unwrap_or("linear") {
        "none" => Ok(1.0),
        "linear" => Ok(factor.unwrap_or(1.0)),
        other => Err(LoadError::Unsupported { what: format!("RoPE scaling `{}`", other.escape_debug()) }),
    }
}

/// A number above zero. Zero stands for an absent key in some files.
fn positive(keys: &Keys<'_>, key: &str) -> Result<Option<f32>, LoadError> {
    match keys.f32(key)? {
        None | Some(0.0) => Ok(None),
        Some(value) if value.is_finite() && value > 0.0 => Ok(Some(value)),
        Some(value) => Err(keys.wrong(key, format!("{value} is not a positive number"))),
    }
}
