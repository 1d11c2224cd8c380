//! `modules.json` of the sentence-transformers library: the steps from a text to its vector
//! (<https://sbert.net/docs/package_reference/sentence_transformer/models.html>). The model is the first one. A pooling joins the rows
//! of a text, and matrices change the vector.

use std::collections::BTreeSet;

use cairn_gguf::Pooling;
use serde_json::Value;

use super::config::{MAX_WIDTH, excerpt};
use super::error::{ConvertError, invalid, unsupported};
use super::files::{CheckpointFile, json};

pub(super) const MODULES: &str = "modules.json";
/// Largest number of matrices that a file of the engine has.
pub(super) const MAX_DENSE: usize = 2;

/// Steps after the model.
#[derive(Debug)]
pub(super) struct Modules {
    pub(super) pooling: Pooling,
    /// Matrices, in the order of their application.
    pub(super) dense: Vec<Dense>,
}

/// A matrix without a bias and an activation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Dense {
    /// Name of its file of weights.
    pub(super) weights: String,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
}

impl Modules {
    /// Reads the modules. Without a list, or without a pooling in it, a text has the mean of its rows. Matrices are refused unless
    /// `has_dense`.
    pub(super) fn read(files: &[CheckpointFile], has_dense: bool) -> Result<Self, ConvertError> {
        let max_dense = if has_dense { MAX_DENSE } else { 0 };
        let list = json(files, MODULES)?.unwrap_or_default();
        let (mut pooling, mut dense) = (None, Vec::<Dense>::new());
        for module in list.as_array().into_iter().flatten() {
            let (kind, path) =
                (module["type"].as_str().unwrap_or_default(), module["path"].as_str().unwrap_or_default());
            match kind.rsplit('.').next() {
                // Every vector is normalised.
                Some("Transformer" | "Normalize") => {}
                Some("Pooling") if pooling.is_none() && dense.is_empty() => pooling = Some(self::pooling(files, path)?),
                Some("Dense") if dense.len() < max_dense => {
                    let matrix = Dense::read(files, path)?;
                    // The tensors of a file get one name.
                    if dense.iter().any(|other| other.weights == matrix.weights) {
                        return Err(invalid(MODULES, format!("two modules Dense have the path {path:?}")));
                    }
                    dense.push(matrix);
                }
                // Without it the vectors would be others.
                _ => return Err(unsupported(format!("the module {kind:?} of {MODULES}"))),
            }
        }
        Ok(Self { pooling: pooling.unwrap_or(Pooling::Mean), dense })
    }
}

impl Dense {
    fn read(files: &[CheckpointFile], path: &str) -> Result<Self, ConvertError> {
        let name = format!("{path}/config.json");
        let config = json(files, &name)?.ok_or_else(|| missing(&name))?;
        let count = |key: &str| {
            let value = &config[key];
            let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
            let count = count.filter(|count| (1..=MAX_WIDTH).contains(count));
            count.ok_or_else(|| invalid(&name, format!("{key} is {}, not a count up to {MAX_WIDTH}", excerpt(value))))
        };
        if !matches!(config["bias"], Value::Bool(false)) {
            return Err(unsupported(format!("a module Dense with a bias ({name})")));
        }
        let activation = config["activation_function"].as_str().unwrap_or_default();
        if activation.rsplit('.').next() != Some("Identity") {
            return Err(unsupported(format!("a module Dense with the activation {activation:?} ({name})")));
        }
        let weights = format!("{path}/model.safetensors");
        if files.iter().all(|file| file.name != weights) {
            return Err(missing(&weights));
        }
        Ok(Self { weights, inputs: count("in_features")?, outputs: count("out_features")? })
    }
}

fn missing(name: &str) -> ConvertError {
    invalid(name, format!("it is missing; a module Dense of {MODULES} needs it"))
}

/// Returns the pooling of a module.
fn pooling(files: &[CheckpointFile], path: &str) -> Result<Pooling, ConvertError> {
    let name = format!("{path}/config.json");
    let Some(module) = json(files, &name)? else { return Ok(Pooling::Mean) };
    let flags = module.as_object().into_iter().flatten().filter(|(_, value)| **value == true);
    let modes = flags.filter_map(|(key, _)| key.strip_prefix("pooling_mode_")).chain(module["pooling_mode"].as_str());
    let kinds: BTreeSet<Option<Pooling>> = modes
        .map(|mode| match mode {
            "mean_tokens" | "mean" => Some(Pooling::Mean),
            "cls_token" | "cls" => Some(Pooling::First),
            "lasttoken" => Some(Pooling::Last),
            _ => None,
        })
        .collect();
    // Several modes make a vector of several parts.
    match Vec::from_iter(kinds)[..] {
        [Some(pooling)] => Ok(pooling),
        _ => Err(unsupported(format!("the pooling of {name}"))),
    }
}
