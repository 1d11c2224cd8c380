//! Parameters of rotary positions: `rope_theta` and `rope_scaling`, or `rope_parameters` of newer configs, in GGUF's keys and
//! tensors of factors.

use cairn_gguf::Metadata;
use serde_json::Value;

use super::config::{self, CONFIG, Config, MAX_WIDTH, ROTATION_KINDS, ROTATIONS, excerpt};
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
/// Key of older configs with the base of layers with a window.
const LOCAL: &str = "rope_local_base_freq";
/// Divisor of pairs that do not turn.
const STILL: f32 = 1e30;

/// The parameters of layers with full attention. Each set of them is an object or null.
struct Parameters<'a> {
    config: &'a Config,
}

impl<'a> Parameters<'a> {
    fn new(config: &'a Config) -> Result<Self, ConvertError> {
        for name in ROTATIONS {
            let all = object(name, config.value(name))?;
            object("full_attention", &all["full_attention"])?;
        }
        Ok(Self { config })
    }

    /// Returns a value of the rotation, or else of the config.
    fn value(&self, key: &str) -> &'a Value {
        let value = self.config.rotation(key);
        if value.is_null() { self.config.value(key) } else { value }
    }

    /// Returns a finite number above zero.
    fn positive(&self, key: &str) -> Result<Option<f32>, ConvertError> {
        optional(self.config.rotation(key), |value| config::positive(key, value))
    }

    fn base(&self) -> Result<Option<f32>, ConvertError> {
        const KEY: &str = "rope_theta";
        optional(self.value(KEY), |value| config::positive(KEY, value))
    }

    /// Returns the kind of scaling.
    fn kind(&self) -> Result<&'a str, ConvertError> {
        let [first, second] = self.config.rotations();
        match (declared_kind(first)?, declared_kind(second)?) {
            (Some(newer), Some(older)) if newer != older => {
                let [parameters, scaling] = ROTATIONS;
                let reason = format!("{parameters} has the rope_type {newer:?}, and {scaling} has {older:?}");
                return Err(invalid(CONFIG, reason));
            }
            (Some(kind), _) | (None, Some(kind)) => return Ok(kind),
            (None, None) => {}
        }
        let has = |key: &&str| !self.config.rotation(key).is_null();
        match ["factor", "long_factor", "short_factor"].into_iter().find(has) {
            Some(key) => Err(invalid(CONFIG, format!("the RoPE scaling has a {key}, but no rope_type"))),
            None => Ok("default"),
        }
    }

    /// Returns the trained context.
    fn original_context(&self) -> Result<Option<u32>, ConvertError> {
        const KEY: &str = "original_max_position_embeddings";
        optional(self.value(KEY), |value| config::count(KEY, value, u32::MAX))
    }

    fn factors(&self, key: &str, pairs: usize) -> Result<Vec<f32>, ConvertError> {
        let list = self.config.rotation(key).as_array().filter(|list| list.len() == pairs && pairs <= MAX_FACTORS);
        let list = list.ok_or_else(|| invalid(CONFIG, format!("{key} is not a list of {pairs} numbers")))?;
        list.iter().map(|value| config::positive(key, value)).collect()
    }
}

/// Returns the kind that parameters declare, by its newer name.
fn declared_kind(values: &Value) -> Result<Option<&str>, ConvertError> {
    for key in ROTATION_KINDS {
        match &values[key] {
            Value::Null => {}
            Value::String(kind) => {
                return Ok(Some(match kind.as_str() {
                    "su" => "longrope",
                    // It only has sections.
                    "mrope" => "default",
                    kind => kind,
                }));
            }
            other => {
                return Err(invalid(CONFIG, format!("{key} of the RoPE scaling is {}, not a text", excerpt(other))));
            }
        }
    }
    Ok(None)
}

/// Checks that a value is an object or null.
fn object<'a>(name: &str, value: &'a Value) -> Result<&'a Value, ConvertError> {
    match value {
        Value::Object(_) | Value::Null => Ok(value),
        other => Err(invalid(CONFIG, format!("{name} is {}, not an object", excerpt(other)))),
    }
}

/// Converts a value that is not null.
fn optional<T>(
    value: &Value,
    convert: impl FnOnce(&Value) -> Result<T, ConvertError>,
) -> Result<Option<T>, ConvertError> {
    if value.is_null() { Ok(None) } else { convert(value).map(Some) }
}

/// Adds the keys of the rotation.
pub(super) fn add(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let parameters = Parameters::new(config)?;
    let mut set = |key: &str, value: cairn_gguf::Value| drop(metadata.set(format!("{architecture}.rope.{key}"), value));
    if let Some(base) = parameters.base()? {
        set("freq_base", base.into());
    }
    let sliding = object("sliding_attention", &config.value("rope_parameters")["sliding_attention"])?;
    let local = [("rope_theta", &sliding["rope_theta"]), (LOCAL, config.value(LOCAL))];
    let local = local.into_iter().find(|(_, base)| !base.is_null());
    if let Some(base) = local.map(|(key, base)| config::positive(key, base)).transpose()? {
        set("freq_base_swa", base.into());
    }
    let (context, factor) = (parameters.original_context()?, parameters.positive("factor")?);
    match parameters.kind()? {
        // The scaling of `dynamic` begins beyond the context, and factors of `llama3` are a tensor.
        "default" | "dynamic" | "llama3" | PROPORTIONAL => {}
        kind @ ("linear" | "yarn") => {
            let factor = factor.ok_or_else(|| invalid(CONFIG, format!("the RoPE scaling {kind} has no factor")))?;
            set("scaling.type", kind.into());
            set("scaling.factor", factor.into());
            if kind == "yarn" {
                let context = match context {
                    Some(context) => context,
                    None => config.count("max_position_embeddings", u32::MAX)?,
                };
                set("scaling.original_context_length", context.into());
                // Of two keys with the same meaning, the last one counts.
                for (key, name) in [
                    ("extrapolation_factor", "ext_factor"),
                    ("attn_factor", "attn_factor"),
                    ("attention_factor", "attn_factor"),
                    ("beta_fast", "beta_fast"),
                    ("beta_slow", "beta_slow"),
                ] {
                    if let Some(number) = parameters.positive(key)? {
                        set(&format!("scaling.yarn_{name}"), number.into());
                    }
                }
            }
        }
        "longrope" => {
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
    let parameters = Parameters::new(config)?;
    let dims = dims.min(u64::from(MAX_WIDTH));
    match parameters.kind()? {
        "llama3" => Ok(vec![("rope_freqs.weight", llama_3(&parameters, dims)?)]),
        PROPORTIONAL => {
            const KEY: &str = "partial_rotary_factor";
            let share = optional(config.rotation(KEY), |value| config::share(KEY, value))?.unwrap_or(1.0);
            let (pairs, turning) = (dims / 2, (dims as f64 * f64::from(share) / 2.0) as u64);
            let divisors = (0..pairs).map(|pair| if pair < turning { 1.0 } else { STILL });
            Ok(vec![("rope_freqs.weight", divisors.collect())])
        }
        "longrope" => {
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
    let number = |key: &str, default: f32| Ok::<_, ConvertError>(parameters.positive(key)?.unwrap_or(default));
    let base = parameters.base()?.unwrap_or(BASE);
    let factor = number("factor", FACTOR)?;
    let (low, high) = (number("low_freq_factor", LOW)?, number("high_freq_factor", HIGH)?);
    if low > high {
        let reason = format!("low_freq_factor {low} of the RoPE scaling is above high_freq_factor {high}");
        return Err(invalid(CONFIG, reason));
    }
    let context = parameters.original_context()?.map_or(ORIGINAL_CONTEXT, |tokens| tokens as f32);
    // With the roundings of llama.cpp's converter: one of each power, and reciprocals instead of quotients.
    let divisor = |pair: u64| {
        let exponent = (2 * pair) as f32 / dims as f32;
        let frequency = 1.0 / f64::from(base).powf(f64::from(exponent)) as f32;
        let wave = (1.0 / frequency) * std::f32::consts::TAU;
        if wave < context / high {
            1.0
        } else if wave > context / low || low == high {
            factor
        } else {
            let smooth = ((1.0 / wave) * context - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    Ok((0..dims / 2).map(divisor).collect())
}
