//! `adapter_config.json` of PEFT: ranks, scales, and features that change what an adapter computes.
//!
//! Source: <https://huggingface.co/docs/peft/package_reference/lora>. Anyone can write the file. Its size has a limit, and so
//! have its patterns, because each module is compared with them.

use serde_json::{Map, Value};

use super::super::config::{excerpt, number};
use super::super::error::{ConvertError, adapter_feature, invalid};
use super::super::files::{CheckpointFile, json};

pub(super) const CONFIG: &str = "adapter_config.json";

/// Highest rank. `cairn_models` has the same limit.
const MAX_RANK: u64 = 4096;
/// Largest number of patterns of ranks, and of alphas.
const MAX_PATTERNS: usize = 4096;
/// Longest name of a base model that is shown.
const MAX_NAME_BYTES: usize = 256;

/// Keys of features that a low-rank product cannot express, with their names. Null, false and empty lists and objects
/// mean that a feature is not used.
const FEATURES: [(&str, &str); 9] = [
    ("use_dora", "DoRA, which also changes the length of each row of a matrix (use_dora)"),
    ("modules_to_save", "the replacement of whole modules (modules_to_save)"),
    ("lora_bias", "a bias of the second matrix (lora_bias)"),
    ("layer_replication", "the repetition of layers (layer_replication)"),
    ("trainable_token_indices", "changed embeddings of tokens (trainable_token_indices)"),
    ("target_parameters", "changed matrices of experts (target_parameters)"),
    ("alora_invocation_tokens", "activation by tokens of the prompt (alora_invocation_tokens)"),
    ("invocation_string", "activation by a text of the prompt (invocation_string)"),
    ("arrow_config", "the choice of an adapter for each token (arrow_config)"),
];
/// Initialisations that also change the base's weights, and start their names.
const BASE_CHANGES: [&str; 3] = ["pissa", "olora", "corda"];

/// Ranks and scales of an adapter.
#[derive(Debug)]
pub(super) struct AdapterConfig {
    rank: u64,
    /// `lora_alpha`. Not 0.
    pub(super) alpha: f32,
    /// Whether a product is scaled by `alpha / sqrt(rank)` instead of `alpha / rank`.
    uses_root: bool,
    ranks: Vec<(Pattern, u64)>,
    alphas: Vec<(Pattern, f32)>,
    /// Name or path of the base model that the adapter was trained with.
    pub(super) base: Option<String>,
}

/// Key of `rank_pattern` or `alpha_pattern`.
#[derive(Debug)]
struct Pattern {
    name: String,
    /// Whether it is a whole name, not the last parts of one.
    is_whole: bool,
}

impl AdapterConfig {
    pub(super) fn read(files: &[CheckpointFile]) -> Result<Self, ConvertError> {
        let missing = "it is missing; ADAPTER must name the folder with it and adapter_model.safetensors";
        let config = json(files, CONFIG)?.ok_or_else(|| invalid(CONFIG, missing))?;
        let Value::Object(config) = config else { return Err(invalid(CONFIG, "it is not an object")) };
        let value = |key: &str| config.get(key).unwrap_or(&Value::Null);
        match value("peft_type") {
            Value::String(kind) if kind == "LORA" => {}
            other => {
                return Err(invalid(
                    CONFIG,
                    format!("peft_type is {}; only \"LORA\" can be converted", excerpt(other)),
                ));
            }
        }
        check_features(&config)?;
        let alpha = number("lora_alpha", value("lora_alpha")).map_err(of_adapter)?;
        if alpha == 0.0 {
            return Err(invalid(CONFIG, "lora_alpha is 0, so the adapter changes nothing"));
        }
        let base = value("base_model_name_or_path").as_str().filter(|name| name.len() <= MAX_NAME_BYTES);
        Ok(Self {
            rank: rank("r", value("r"))?,
            alpha,
            uses_root: value("use_rslora") == &Value::Bool(true),
            ranks: patterns(&config, "rank_pattern", rank)?,
            alphas: patterns(&config, "alpha_pattern", |key, value| number(key, value).map_err(of_adapter))?,
            base: base.filter(|name| !name.is_empty()).map(str::to_owned),
        })
    }

    /// Returns the rank of a module's matrices.
    pub(super) fn rank(&self, module: &str) -> u64 {
        first(&self.ranks, module).unwrap_or(self.rank)
    }

    /// Returns the factor of the second matrix, so that its product with the first one is scaled by `lora_alpha / rank`, as in
    /// GGUF, and not by the factor of this module.
    pub(super) fn factor(&self, module: &str) -> f32 {
        let share = first(&self.alphas, module).map_or(1.0, |alpha| f64::from(alpha) / f64::from(self.alpha));
        let root = if self.uses_root { (self.rank(module) as f64).sqrt() } else { 1.0 };
        (share * root) as f32
    }
}

impl Pattern {
    /// Reads a key. PEFT's are regular expressions that must match the last parts of a module's name.
    fn new(key: &str) -> Option<Self> {
        let is_whole = key.starts_with('^');
        let name = key.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        (!name.is_empty() && name.chars().all(is_plain)).then_some(Self { name, is_whole })
    }

    fn matches(&self, module: &str) -> bool {
        match module.strip_suffix(self.name.as_str()) {
            Some("") => true,
            Some(before) => !self.is_whole && before.ends_with('.'),
            None => false,
        }
    }
}

/// Returns the value of the first pattern that matches.
fn first<T: Copy>(patterns: &[(Pattern, T)], module: &str) -> Option<T> {
    patterns.iter().find(|(pattern, _)| pattern.matches(module)).map(|&(_, value)| value)
}

fn check_features(config: &Map<String, Value>) -> Result<(), ConvertError> {
    let is_used = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    };
    let refused = |what: &str| Err(adapter_feature(what));
    for (key, name) in FEATURES {
        if config.get(key).is_some_and(is_used) {
            return refused(name);
        }
    }
    // Later versions of PEFT name further kinds of adapters like this.
    let is_kind = |(key, value): &(&String, &Value)| key.starts_with("use_") && *key != "use_rslora" && is_used(value);
    if let Some((key, _)) = config.iter().find(is_kind) {
        return refused(key);
    }
    if let Some(bias) = config.get("bias").filter(|bias| is_used(bias) && *bias != "none") {
        return refused(&format!("changed biases (bias {bias})"));
    }
    let init = config.get("init_lora_weights").and_then(Value::as_str).unwrap_or_default();
    if BASE_CHANGES.iter().any(|name| init.starts_with(name)) {
        return refused(&format!("changed weights of the base (init_lora_weights {init:?})"));
    }
    Ok(())
}

fn rank(key: &str, value: &Value) -> Result<u64, ConvertError> {
    let rank = value.as_u64().filter(|rank| (1..=MAX_RANK).contains(rank));
    rank.ok_or_else(|| invalid(CONFIG, format!("{key} is {}, not a rank from 1 to {MAX_RANK}", excerpt(value))))
}

/// Reads a map of patterns, in the order of the file.
fn patterns<T>(
    config: &Map<String, Value>,
    name: &str,
    read: impl Fn(&str, &Value) -> Result<T, ConvertError>,
) -> Result<Vec<(Pattern, T)>, ConvertError> {
    let map = match config.get(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(map)) if map.len() <= MAX_PATTERNS => map,
        _ => return Err(invalid(CONFIG, format!("{name} is not an object of at most {MAX_PATTERNS} entries"))),
    };
    let entry = |(key, value): (&String, &Value)| {
        let pattern = Pattern::new(key);
        let pattern = pattern.ok_or_else(|| adapter_feature(format!("the regular expression {key:?} in {name}")))?;
        Ok((pattern, read(&format!("{name} of {key:?}"), value)?))
    };
    map.iter().map(entry).collect()
}

/// Names the adapter's config in an error.
fn of_adapter(error: ConvertError) -> ConvertError {
    match error {
        ConvertError::File { reason, .. } => invalid(CONFIG, reason),
        other => other,
    }
}
