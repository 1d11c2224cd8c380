//! Parameters of rotary positions: `rope_theta` and `rope_scaling`, or `rope_parameters` of newer configs, in GGUF's keys and
//! tensors of factors.

use cairn_gguf::Metadata;
use serde_json::Value;

use super::config::{self, CONFIG, Config, MAX_WIDTH};
use super::error::{ConvertError, invalid, unsupported};

/// Largest number of factors in a config.
const MAX_FACTORS: usize = 1 << 16;
/// Defaults of Llama 3's scaling.
const FACTOR: f32 = 8.0;
const LOW: f32 = 1.0;
const HIGH: f32 = 4.0;
const ORIGINAL_CONTEXT: f32 = 8192.0;
const BASE: f32 = 10_000.0;
/// Kind of rotations in which a part of the pairs turns, as fast as if all turned.
const PROPORTIONAL: &str = "proportional";
/// Divisor of pairs that do not turn.
const STILL: f32 = 1e30;

/// The parameters of layers with full attention.
struct Parameters<'a> {
    config: &'a Config,
    /// An object, or null.
    values: &'a Value,
}

impl<'a> Parameters<'a> {
    fn new(config: &'a Config) -> Self {
        let all = [config.value("rope_parameters"), config.value("rope_scaling")];
        let all = all.into_iter().find(|value| value.is_object()).unwrap_or(&Value::Null);
        let values = if all["full_attention"].is_object() { &all["full_attention"] } else { all };
        Self { config, values }
    }

    /// Returns a finite number.
    fn number(&self, key: &str) -> Result<Option<f32>, ConvertError> {
        let value = &self.values[key];
        if value.is_null() { Ok(None) } else { config::number(key, value).map(Some) }
    }

    fn base(&self) -> Result<Option<f32>, ConvertError> {
        match self.number("rope_theta")? {
            Some(base) => Ok(Some(base)),
            None => self.config.optional_number(&["rope_theta"]),
        }
    }

    /// Returns the kind of scaling.
    fn kind(&self) -> &'a str {
        ["rope_type", "type"].iter().find_map(|key| self.values[*key].as_str()).unwrap_or("default")
    }

    /// Returns the trained context.
    fn original_context(&self) -> Result<Option<u32>, ConvertError> {
        const KEY: &str = "original_max_position_embeddings";
        match self.values[KEY].as_u64().and_then(|tokens| u32::try_from(tokens).ok()).filter(|&tokens| tokens > 0) {
            Some(tokens) => Ok(Some(tokens)),
            None => self.config.optional_count(&[KEY], u32::MAX),
        }
    }

    fn factors(&self, key: &str, pairs: usize) -> Result<Vec<f32>, ConvertError> {
        let list = self.values[key].as_array().filter(|list| list.len() == pairs && pairs <= MAX_FACTORS);
        let list = list.ok_or_else(|| invalid(CONFIG, format!("{key} is not a list of {pairs} numbers")))?;
        list.iter().map(|value| config::number(key, value)).collect()
    }
}

/// Adds the keys of the rotation.
pub(super) fn add(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let parameters = Parameters::new(config);
    let mut set = |key: &str, value: cairn_gguf::Value| drop(metadata.set(format!("{architecture}.rope.{key}"), value));
    if let Some(base) = parameters.base()? {
        set("freq_base", base.into());
    }
    let local = match &config.value("rope_parameters")["sliding_attention"]["rope_theta"] {
        Value::Null => config.optional_number(&["rope_local_base_freq"])?,
        base => Some(config::number("rope_theta", base)?),
    };
    if let Some(base) = local {
        set("freq_base_swa", base.into());
    }
    let context = parameters.original_context()?;
    match parameters.kind() {
        // The scaling of `dynamic` begins beyond the context, factors of `llama3` are a tensor, and `mrope` only has sections.
        "default" | "dynamic" | "llama3" | "mrope" | PROPORTIONAL => {}
        kind @ ("linear" | "yarn") => {
            let factor = parameters.number("factor")?;
            let factor = factor.ok_or_else(|| invalid(CONFIG, format!("the RoPE scaling {kind} has no factor")))?;
            set("scaling.type", kind.into());
            set("scaling.factor", factor.into());
            if kind == "yarn" {
                let context = match context {
                    Some(context) => context,
                    None => config.count("max_position_embeddings", u32::MAX)?,
                };
                set("scaling.original_context_length", context.into());
                for (keys, name) in [
                    (["extrapolation_factor", ""], "ext_factor"),
                    (["attention_factor", "attn_factor"], "attn_factor"),
                    (["beta_fast", ""], "beta_fast"),
                    (["beta_slow", ""], "beta_slow"),
                ] {
                    for key in keys.into_iter().filter(|key| !key.is_empty()).rev() {
                        if let Some(number) = parameters.number(key)? {
                            set(&format!("scaling.yarn_{name}"), number.into());
                        }
                    }
                }
            }
        }
        "su" | "longrope" => {
            let context = context.ok_or_else(|| invalid(CONFIG, "it has no original_max_position_embeddings"))?;
            let (long, original) = (config.count("max_position_embeddings", u32::MAX)?, f64::from(context));
            let scale = f64::from(long) / original;
            let factor = if scale > 1.0 && context > 1 { (1.0 + scale.ln() / original.ln()).sqrt() } else { 1.0 };
            set("scaling.original_context_length", context.into());
            set("scaling.attn_factor", (factor as f32).into());
        }
        other => return Err(unsupported(format!("the RoPE scaling {other:?}"))),
    }
    Ok(())
}

/// Returns the tensors with the divisor of each pair's angle. `dims` is the number of rotated elements of a head.
pub(super) fn factors(config: &Config, dims: u64) -> Result<Vec<(&'static str, Vec<f32>)>, ConvertError> {
    let parameters = Parameters::new(config);
    let dims = dims.min(u64::from(MAX_WIDTH));
    match parameters.kind() {
        "llama3" => Ok(vec![("rope_freqs.weight", llama_3(&parameters, dims)?)]),
        PROPORTIONAL => {
            let share = parameters.number("partial_rotary_factor")?.unwrap_or(1.0).clamp(0.0, 1.0);
            let (pairs, turning) = (dims / 2, (dims as f64 * f64::from(share) / 2.0) as u64);
            let divisors = (0..pairs).map(|pair| if pair < turning { 1.0 } else { STILL });
            Ok(vec![("rope_freqs.weight", divisors.collect())])
        }
        "su" | "longrope" => {
            let pairs = dims as usize / 2;
            let long = parameters.factors("long_factor", pairs)?;
            let short = parameters.factors("short_factor", pairs)?;
            Ok(vec![("rope_factors_long.weight", long), ("rope_factors_short.weight", short)])
        }
        _ => Ok(Vec::new()),
    }
}

/// Llama 3.1's divisors: 1 for fast pairs, the factor for slow ones, and interpolated between them.
fn llama_3(parameters: &Parameters<'_>, dims: u64) -> Result<Vec<f32>, ConvertError> {
    let number = |key: &str, default: f32| Ok::<_, ConvertError>(parameters.number(key)?.unwrap_or(default));
    let base = parameters.base()?.unwrap_or(BASE);
    let factor = number("factor", FACTOR)?;
    let (low, high) = (number("low_freq_factor", LOW)?, number("high_freq_factor", HIGH)?);
    let context = parameters.original_context()?.map_or(ORIGINAL_CONTEXT, |tokens| tokens as f32);
    // With the roundings of llama.cpp's converter: one of each power, and reciprocals instead of quotients.
    let divisor = |pair: u64| {
        let exponent = (2 * pair) as f32 / dims as f32;
        let frequency = 1.0 / f64::from(base).powf(f64::from(exponent)) as f32;
        let wave = (1.0 / frequency) * std::f32::consts::TAU;
        if wave < context / high {
            1.0
        } else if wave > context / low {
            factor
        } else {
            let smooth = ((1.0 / wave) * context - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    Ok((0..dims / 2).map(divisor).collect())
}
