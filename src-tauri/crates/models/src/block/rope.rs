//! Rotary position embedding from metadata (Su et al., arXiv 2104.09864).
//!
//! Pair `i` of `dims / 2` turns by `position * base^(-2 i / dims)`. Context extension, as in llama.cpp:
//!
//! - linear scaling divides all angles by one factor;
//! - a factor for each pair divides its angle: Llama 3 (`rope_freqs.weight`), and LongRoPE (Ding et al., arXiv
//!   2402.13753), which has one list for sequences within the original context (`rope_factors_short.weight`) and one
//!   for longer ones (`rope_factors_long.weight`). The list is selected when the model is loaded;
//! - YaRN (Peng et al., arXiv 2309.00071) divides the angles of slow pairs only: those that turn less than `beta_slow`
//!   times within the original context; those that turn more than `beta_fast` times are unchanged, and those between
//!   are interpolated. Queries and keys grow by `1 + 0.1 ln(factor)`, which sharpens attention, divided by the same with
//!   `0.1 m ln(factor)` if `m` is `rope.scaling.yarn_log_multiplier`.
//!
//! `rope.scaling.attn_factor` multiplies that magnitude in every scheme.
//!
//! Positions of images have several components (M-RoPE: Wang et al., arXiv 2409.12191), and each pair turns by one of
//! them. The first three components of a text's position are equal, so that its rotation is the usual one.

use std::f64::consts::TAU;

use cairn_gguf::{Array, Value};
use cairn_tensor::{Growth, Rope, RopeStyle};

use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Adds the model's rotation to the plan and returns its index.
pub(crate) fn rope(b: &mut Builder<'_>, hparams: &mut Hparams, style: RopeStyle) -> Result<usize, LoadError> {
    let (rope, _) = rotation(b, hparams, style)?;
    Ok(b.plan.rope(rope))
}

/// Rotation of latent attention, in which only a part of each query and key has a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatentRope {
    /// Index into the plan's rotations.
    pub(crate) rope: usize,
    /// Factor of all scores. With YaRN, it is the growth that otherwise is in queries and keys.
    pub(crate) score_factor: f64,
}

/// Adds the rotation of latent attention to the plan.
pub(crate) fn latent_rope(b: &mut Builder<'_>, hparams: &mut Hparams) -> Result<LatentRope, LoadError> {
    let (rope, scaling) = rotation(b, hparams, RopeStyle::Interleaved)?;
    let [magnitude, growth] = scaling.latent_growth();
    let rope = b.plan.rope(Rope { magnitude: magnitude as f32, ..rope });
    Ok(LatentRope { rope, score_factor: growth * growth })
}

/// Returns the model's rotation and its scaling.
fn rotation(b: &mut Builder<'_>, hparams: &mut Hparams, style: RopeStyle) -> Result<(Rope, Scaling), LoadError> {
    let keys = Keys::new(b.metadata())?;
    let dims = rotated_dims(&keys, ROTATED_DIMS, hparams.head_dim)?;
    let components = components(&keys, dims / 2)?;
    let base = base(&keys)?;
    let scaling = Scaling::read(&keys, hparams)?;
    let factors = factors(b, hparams, scaling.original_context, dims / 2)?;
    let ramp = scaling.ramp(dims, base);
    let frequency = |i: usize| {
        let scaled = unscaled_frequency(base, dims, i) / f64::from(factors[i]);
        let kept = ramp(i);
        (scaled / scaling.factor * (1.0 - kept) + scaled * kept) as f32
    };
    let inverse_frequencies = (0..dims / 2).map(frequency).collect();
    Ok((Rope { magnitude: scaling.magnitude() as f32, components, ..Rope::new(style, inverse_frequencies) }, scaling))
}

/// Returns whether positions have several components.
pub(crate) fn has_sections(keys: &Keys<'_>) -> Result<bool, LoadError> {
    let sections = sections(keys)?;
    Ok(matches!(sections[..], [first, second, ..] if first > 0 && second > 0))
}

/// Number of pairs that turn by each component of a position. Empty if all turn by the first.
fn sections(keys: &Keys<'_>) -> Result<Vec<i64>, LoadError> {
    const KEY: &str = "rope.dimension_sections";
    let sections: Vec<i64> = match keys.get(KEY) {
        None => return Ok(Vec::new()),
        Some(Value::Array(Array::I32(sections))) => sections.iter().copied().map(i64::from).collect(),
        Some(Value::Array(Array::U32(sections))) => sections.iter().copied().map(i64::from).collect(),
        Some(_) => return Err(keys.invalid(KEY, "it is not a list of 32-bit integers")),
    };
    if sections.get(3).is_some_and(|&pairs| pairs != 0) {
        return Err(LoadError::Unsupported { what: "a rotation by a fourth component of positions".to_owned() });
    }
    Ok(sections)
}

/// The component of a position that each of `pairs` pairs turns by: time, row and column of a picture. Qwen 2 VL has one section of
/// pairs for each component. From Qwen 3 VL on, the components take turns (arXiv 2511.21631, section 2.2), and time has the pairs that
/// are left.
fn components(keys: &Keys<'_>, pairs: usize) -> Result<Vec<u8>, LoadError> {
    if !has_sections(keys)? {
        return Ok(Vec::new());
    }
    let sections = sections(keys)?;
    let count = |component: usize| sections.get(component).map_or(0, |&count| usize::try_from(count).unwrap_or(0));
    let [first, second, third] = [0, 1, 2].map(count);
    let in_turns = |pair: usize| match pair % 3 {
        1 if pair / 3 < second => 1,
        2 if pair / 3 < third => 2,
        _ => 0,
    };
    let in_sections = |pair: usize| match pair {
        pair if pair < first => 0,
        pair if pair < first.saturating_add(second) => 1,
        _ => 2,
    };
    let takes_turns = keys.architecture().starts_with("qwen3");
    Ok((0..pairs).map(|pair| if takes_turns { in_turns(pair) } else { in_sections(pair) }).collect())
}

/// Reads how queries grow with the position: the factor `attention.temperature_scale` in steps of
/// `attention.temperature_length` tokens. The family has the defaults. With the factor 0 they do not grow.
pub(crate) fn query_growth(keys: &Keys<'_>, default: Growth) -> Result<Option<Growth>, LoadError> {
    const FACTOR: &str = "attention.temperature_scale";
    let factor = match keys.f32(FACTOR)? {
        Some(_) => keys.positive(FACTOR)?.unwrap_or(0.0),
        None => default.factor,
    };
    if factor == 0.0 {
        return Ok(None);
    }
    let step = keys.count("attention.temperature_length", Some(default.step), u32::MAX)? as u32;
    Ok(Some(Growth { factor, step, ..default }))
}

/// Adds the growth of queries with heads of these many elements to the plan, as a rotation by no angle, and returns its
/// index.
pub(crate) fn growth_rope(
    b: &mut Builder<'_>,
    growth: Option<Growth>,
    head_dim: usize,
) -> Result<Option<usize>, LoadError> {
    if growth.is_some() && !head_dim.is_multiple_of(2) {
        let what = format!("a growth of queries with heads of {head_dim} elements, an odd number,");
        return Err(LoadError::Unsupported { what });
    }
    Ok(growth.map(|growth| b.plan.rope(Rope::of_growth(growth, head_dim))))
}

/// Returns the default of [`query_growth`] for families of Mistral: the steps are those of the original context.
pub(crate) fn original_steps(keys: &Keys<'_>, hparams: &Hparams) -> Result<Growth, LoadError> {
    Ok(Growth { factor: 0.0, step: original_context(keys, hparams)? as u32, offset: 0 })
}

/// Adds the rotation of layers with a sliding window. Its base comes from the metadata, else from the family, else from
/// the global rotation. It has no context extension, because these layers attend only to the window. Its heads may have another size.
pub(crate) fn local_rope(
    b: &mut Builder<'_>,
    head_dim: usize,
    style: RopeStyle,
    default_base: Option<f32>,
) -> Result<usize, LoadError> {
    let keys = Keys::new(b.metadata())?;
    let own = "rope.dimension_count_swa";
    let key = if keys.get(own).is_some() { own } else { ROTATED_DIMS };
    let dims = rotated_dims(&keys, key, head_dim)?;
    let base = match keys.positive("rope.freq_base_swa")?.or(default_base) {
        Some(base) => f64::from(base),
        None => base(&keys)?,
    };
    let inverse_frequencies = (0..dims / 2).map(|i| unscaled_frequency(base, dims, i) as f32).collect();
    Ok(b.plan.rope(Rope::new(style, inverse_frequencies)))
}

/// Returns the unscaled angle of pair `i` per position.
fn unscaled_frequency(base: f64, dims: usize, i: usize) -> f64 {
    base.powf(-2.0 * i as f64 / dims as f64)
}

fn base(keys: &Keys<'_>) -> Result<f64, LoadError> {
    Ok(f64::from(keys.positive("rope.freq_base")?.unwrap_or(10_000.0)))
}

/// Returns the context length before its extension.
fn original_context(keys: &Keys<'_>, hparams: &Hparams) -> Result<usize, LoadError> {
    let tokens = keys.u32("rope.scaling.original_context_length")?.filter(|&tokens| tokens > 0);
    Ok(tokens.map_or(hparams.context_length, |tokens| tokens as usize))
}

/// Key of the number of rotated elements of a head.
const ROTATED_DIMS: &str = "rope.dimension_count";

/// Reads the number of rotated elements of a head. All of them are the default.
fn rotated_dims(keys: &Keys<'_>, key: &str, head_dim: usize) -> Result<usize, LoadError> {
    let dims = keys.u32(key)?.map_or(head_dim, |dims| dims as usize);
    if dims == 0 || !dims.is_multiple_of(2) || dims > head_dim {
        return Err(keys.invalid(key, format!("{dims} is not an even number up to the head's {head_dim} elements")));
    }
    Ok(dims)
}

/// Returns the divisor of each pair's angle: 1 if the model has no list.
fn factors(
    b: &mut Builder<'_>,
    hparams: &mut Hparams,
    original_context: usize,
    pairs: usize,
) -> Result<Vec<f32>, LoadError> {
    let mut read = |name: &str| {
        let values = b.optional_values(name, pairs).unwrap_or_default();
        match values.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
            Some(factor) => {
                let why = format!("{factor} is not a positive number");
                Err(LoadError::Key { key: name.to_owned(), why })
            }
            None => Ok(Some(values).filter(|values| !values.is_empty())),
        }
    };
    let always = read("rope_freqs.weight")?;
    let long = read("rope_factors_long.weight")?;
    let short = read("rope_factors_short.weight")?;
    let chosen = if always.is_some() || (long.is_none() && short.is_none()) {
        always
    } else {
        hparams.long_context = Some(original_context);
        if hparams.is_long(b.context_tokens()) { long } else { short }
    };
    Ok(chosen.unwrap_or_else(|| vec![1.0; pairs]))
}

/// The keys `rope.scaling.*`.
struct Scaling {
    /// Divides angles.
    factor: f64,
    /// Context length before the extension.
    original_context: usize,
    /// Factor of the magnitude of rotated vectors: `rope.scaling.attn_factor`.
    attention_factor: f64,
    yarn: Option<Yarn>,
}

struct Yarn {
    /// Reduces the growth of queries and keys: 0 keeps it, 1 removes it.
    log_multiplier: f64,
    /// 1: as in the paper; 0: linear scaling.
    weight: f64,
    /// Pairs with at least this many turns within the original context keep their angle.
    beta_fast: f64,
    /// Angles of pairs with fewer turns within the original context are divided.
    beta_slow: f64,
}

impl Scaling {
    fn read(keys: &Keys<'_>, hparams: &Hparams) -> Result<Self, LoadError> {
        // Old files have only `rope.scale_linear`. A factor without a type means linear scaling too.
        let factor = match keys.positive("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => keys.positive("rope.scale_linear")?,
        };
        let number = |key: &str, default: f32| Ok::<_, LoadError>(f64::from(keys.positive(key)?.unwrap_or(default)));
        let kind = keys.str("rope.scaling.type")?.unwrap_or("linear");
        let yarn = match kind {
            "none" | "linear" | "longrope" => None,
            "yarn" => Some(Yarn {
                log_multiplier: number("rope.scaling.yarn_log_multiplier", 0.0)?,
                // A negative number means that the key is not set.
                weight: keys
                    .f32("rope.scaling.yarn_ext_factor")?
                    .filter(|&x| (0.0..=1.0).contains(&x))
                    .unwrap_or(1.0)
                    .into(),
                beta_fast: number("rope.scaling.yarn_beta_fast", 32.0)?,
                beta_slow: number("rope.scaling.yarn_beta_slow", 1.0)?,
            }),
            other => return Err(LoadError::Unsupported { what: format!("RoPE scaling `{}`", other.escape_debug()) }),
        };
        let factor = if kind == "none" { 1.0 } else { f64::from(factor.unwrap_or(1.0)) };
        Ok(Self {
            factor,
            original_context: original_context(keys, hparams)?,
            attention_factor: number("rope.scaling.attn_factor", 1.0)?,
            yarn,
        })
    }

    fn magnitude(&self) -> f64 {
        let growth = |multiplier: f64| 1.0 + 0.1 * multiplier * self.factor.max(1.0).ln();
        let yarn = self.yarn.as_ref().filter(|yarn| yarn.weight > 0.0);
        yarn.map_or(1.0, |yarn| growth(1.0) / growth(yarn.log_multiplier)) * self.attention_factor
    }

    /// Returns the magnitude of rotated elements, and the growth of queries and keys as a whole, in latent attention. Files have a
    /// tenth of the multiplier. Without one, rotated elements grow twice, as in llama.cpp.
    fn latent_growth(&self) -> [f64; 2] {
        let growth = |multiplier: f64| 1.0 + 0.1 * multiplier * self.factor.max(1.0).ln();
        let [magnitude, whole] = match self.yarn.as_ref().filter(|yarn| yarn.weight > 0.0) {
            None => [1.0; 2],
            Some(yarn) if yarn.log_multiplier > 0.0 => [1.0, growth(10.0 * yarn.log_multiplier)],
            Some(_) => [growth(1.0); 2],
        };
        [magnitude, whole].map(|growth| growth * self.attention_factor)
    }

    /// Returns the fraction of each pair's unscaled angle that is kept.
    fn ramp(&self, dims: usize, base: f64) -> impl Fn(usize) -> f64 + use<> {
        // The pair with this number of turns within the original context.
        let context = self.original_context as f64;
        let pair = move |turns: f64| dims as f64 * (context / (turns * TAU)).ln() / (2.0 * base.ln());
        let bounds = self.yarn.as_ref().map(|yarn| {
            let low = pair(yarn.beta_fast).floor().max(0.0);
            let high = pair(yarn.beta_slow).ceil().min(dims as f64 - 1.0);
            (low, high, yarn.weight)
        });
        move |i| match bounds {
            None => 0.0,
            Some((low, high, weight)) => (1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0)) * weight,
        }
    }
}
