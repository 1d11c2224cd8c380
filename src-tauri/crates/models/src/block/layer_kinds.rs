//! Layers of hybrid models: some have attention, and the others are recurrent.

use cairn_gguf::{Array, Value};

use crate::error::LoadError;
use crate::hparams::{Keys, MAX_WIDTH};

const KV_HEADS: &str = "attention.head_count_kv";
const RECURRENT: &str = "attention.recurrent_layers";
const INTERVAL: &str = "full_attention_interval";

/// Which layers have attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerKinds {
    /// Key/value heads of the layers with attention.
    pub(crate) kv_heads: usize,
    /// By layer. Empty if all layers have attention.
    attention: Vec<bool>,
}

impl LayerKinds {
    /// Reads `attention.head_count_kv`: one number for each layer, which is 0 for recurrent layers, or one for all.
    pub(crate) fn read(keys: &Keys<'_>) -> Result<Self, LoadError> {
        let Some(counts) = keys.list(KV_HEADS)? else {
            return Ok(Self { kv_heads: keys.count(KV_HEADS, None, MAX_WIDTH)?, attention: Vec::new() });
        };
        let mut heads = counts.iter().copied().filter(|&count| count > 0);
        let kv_heads = heads.next().ok_or_else(|| keys.invalid(KV_HEADS, "no layer has attention"))?;
        if let Some(other) = heads.find(|&count| count != kv_heads) {
            let what = format!("a model with layers of {kv_heads} and {other} key/value heads");
            return Err(LoadError::Unsupported { what });
        }
        Ok(Self { kv_heads: kv_heads as usize, attention: counts.iter().map(|&count| count > 0).collect() })
    }

    /// Completes the kinds of a model that may list them elsewhere: in `attention.recurrent_layers`, or as the last of each
    /// `full_attention_interval` layers (default 4). The list precedes the interval, as in llama.cpp.
    pub(crate) fn or_interval(self, keys: &Keys<'_>, layers: usize) -> Result<Self, LoadError> {
        let listed = listed_attention(keys)?;
        if let Some(listed) = listed.as_ref().filter(|listed| listed.len() < layers) {
            return Err(keys.invalid(RECURRENT, format!("{} values for {layers} layers", listed.len())));
        }
        if self.attention.contains(&false) {
            self.check(keys, layers)?;
            let mut pairs = listed.iter().flatten().zip(&self.attention);
            if let Some(layer) = pairs.position(|(listed, counted)| listed != counted) {
                let [kind, heads] = if self.attention[layer] { ["recurrent", "some"] } else { ["not recurrent", "no"] };
                let why = format!("layer {layer} is {kind}, but `{KV_HEADS}` gives it {heads} heads");
                return Err(keys.invalid(RECURRENT, why));
            }
            return Ok(self);
        }
        let (key, mut attention): (_, Vec<bool>) = match listed {
            Some(attention) => (RECURRENT, attention),
            None => {
                let interval = keys.count(INTERVAL, Some(4), u32::MAX)?;
                (INTERVAL, (1..=layers).map(|layer| layer.is_multiple_of(interval)).collect())
            }
        };
        if attention.len() < layers {
            return Err(keys.invalid(key, format!("{} values for {layers} layers", attention.len())));
        }
        // Layers that predict further tokens come last.
        attention.truncate(layers);
        if !attention.contains(&true) {
            // Without keys and values, pages would have no size, and the cache no limit.
            return Err(keys.invalid(key, format!("none of {layers} layers has attention")));
        }
        Ok(Self { attention, ..self })
    }

    /// Checks the number of layers.
    pub(crate) fn check(&self, keys: &Keys<'_>, layers: usize) -> Result<(), LoadError> {
        match self.attention.len() {
            0 => Ok(()),
            len if len == layers => Ok(()),
            len => Err(keys.invalid(KV_HEADS, format!("{len} numbers for {layers} layers"))),
        }
    }

    /// Whether a layer has attention.
    pub(crate) fn has_attention(&self, layer: usize) -> bool {
        self.attention.get(layer).copied().unwrap_or(true)
    }
}

/// Reads which layers have attention from `attention.recurrent_layers`: truth values, or 0 and 1 as llama.cpp saves models.
fn listed_attention(keys: &Keys<'_>) -> Result<Option<Vec<bool>>, LoadError> {
    let numbers = match keys.get(RECURRENT) {
        None => return Ok(None),
        Some(Value::Array(Array::Bool(recurrent))) => {
            return Ok(Some(recurrent.iter().map(|recurrent| !recurrent).collect()));
        }
        Some(_) => keys.list(RECURRENT)?,
    };
    let is_truth = |numbers: &Vec<u32>| numbers.iter().all(|number| *number <= 1);
    let numbers =
        numbers.filter(is_truth).ok_or_else(|| keys.invalid(RECURRENT, "it is not a list of truth values"))?;
    Ok(Some(numbers.into_iter().map(|number| number == 0).collect()))
}
