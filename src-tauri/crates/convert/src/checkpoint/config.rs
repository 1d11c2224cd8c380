//! Typed access to `config.json`, its section of a vision tower, and the settings of a preprocessor.
//!
//! Anyone can write them. So counts have limits, because memory is reserved for them, and numbers are finite.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::error::{ConvertError, invalid};

pub(super) const CONFIG: &str = "config.json";

/// Key of whether the embedding is the output matrix.
pub(super) const TIED: &str = "tie_word_embeddings";
/// Objects with the parameters of the rotation, the newer one first.
pub(super) const ROTATIONS: [&str; 2] = ["rope_parameters", "rope_scaling"];
/// Keys with the kind of a rotation, the newer one first.
pub(super) const ROTATION_KINDS: [&str; 2] = ["rope_type", "type"];

/// Larger than in any model, as in `cairn_models`.
pub(super) const MAX_LAYERS: u32 = 4096;
/// Upper limit of widths and of counts of heads and experts.
pub(super) const MAX_WIDTH: u32 = 1 << 22;
/// Upper limit of heads with rows in another order, of which each has entries in a list.
pub(super) const MAX_ORDERED_HEADS: u32 = 1 << 14;

/// A `config.json`, or another object of settings. Values of `text_config`, which describes the text part of a model with
/// images, replace those beside it.
#[derive(Debug)]
pub(super) struct Config {
    /// An object.
    root: Value,
    architecture: String,
    /// Name of the file.
    file: &'static str,
    /// Beginning of the names of keys in errors.
    section: &'static str,
}

impl Config {
    pub(super) fn new(mut root: Value) -> Result<Self, ConvertError> {
        let architecture = root["architectures"][0].as_str().map(str::to_owned);
        let architecture = architecture.ok_or_else(|| invalid(CONFIG, "it has no architectures"))?;
        // The model with images decides whether its embedding is the output matrix.
        let is_tied = root[TIED] == true;
        let text = root.as_object_mut().and_then(|all| all.remove("text_config"));
        if let (Some(all), Some(Value::Object(text))) = (root.as_object_mut(), text) {
            all.extend(text);
            if is_tied {
                all.insert(TIED.to_owned(), true.into());
            }
        }
        Ok(Self { root, architecture, file: CONFIG, section: "" })
    }

    /// Returns the settings of an object in a file. Errors have `section` in front of the names of keys.
    pub(super) fn of_object(root: Map<String, Value>, file: &'static str, section: &'static str) -> Self {
        Self { root: Value::Object(root), architecture: String::new(), file, section }
    }

    /// Returns the error of an invalid value.
    pub(super) fn refused(&self, key: &str, reason: impl Display) -> ConvertError {
        invalid(self.file, format!("{}{key} {reason}", self.section))
    }

    /// Returns the first entry of `architectures`.
    pub(super) fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Returns the value of a key; null if it is missing.
    pub(super) fn value(&self, key: &str) -> &Value {
        &self.root[key]
    }

    /// Whether a key is there and has no value. Some models have another default.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.root.get(key).is_some_and(Value::is_null)
    }

    /// Sets the value of a key that has none.
    pub(super) fn set_default(&mut self, key: &str, value: impl Into<Value>) {
        if self.root[key].is_null() {
            self.root[key] = value.into();
        }
    }

    /// Replaces the value of a key.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.root[key] = value.into();
    }

    /// Gives the values of keys with other names their usual ones.
    pub(super) fn rename(&mut self, names: &[(&str, &str)]) {
        for (from, to) in names {
            self.set_default(to, self.root[*from].clone());
        }
    }

    /// Returns a count from 0 to `max`.
    pub(super) fn whole(&self, key: &str, max: u32) -> Result<Option<u32>, ConvertError> {
        if self.root[key] == 0 { Ok(Some(0)) } else { self.optional_count(&[key], max) }
    }

    /// Returns a flag.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ConvertError> {
        match &self.root[key] {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            other => Err(self.refused(key, format_args!("is {}, not true or false", excerpt(other)))),
        }
    }

    /// Returns the names of the kinds of all layers, if there are any.
    pub(super) fn layer_kinds(&self, key: &str) -> Result<Option<Vec<&str>>, ConvertError> {
        let layers = self.count("num_hidden_layers", MAX_LAYERS)? as usize;
        let refused = || self.refused(key, format_args!("is not a list of {layers} layers"));
        match &self.root[key] {
            Value::Null => Ok(None),
            Value::Array(kinds) if kinds.len() == layers => {
                kinds.iter().map(Value::as_str).collect::<Option<_>>().map(Some).ok_or_else(refused)
            }
            _ => Err(refused()),
        }
    }

    /// Returns the first of these keys that has a value, and the value.
    fn first<'a>(&'a self, keys: &[&'a str]) -> Option<(&'a str, &'a Value)> {
        keys.iter().map(|&key| (key, &self.root[key])).find(|(_, value)| !value.is_null())
    }

    /// Returns a count from 1 to `max`, of the first of these keys that has a value.
    pub(super) fn optional_count(&self, keys: &[&str], max: u32) -> Result<Option<u32>, ConvertError> {
        let Some((key, value)) = self.first(keys) else { return Ok(None) };
        match value.as_u64().filter(|&count| count > 0).map(|count| (count, u32::try_from(count))) {
            Some((_, Ok(count))) if count <= max => Ok(Some(count)),
            Some((count, _)) => Err(self.refused(key, format_args!("is {count}, and the limit is {max}"))),
            None => Err(self.refused(key, format_args!("is {}, not a count", excerpt(value)))),
        }
    }

    /// Returns a count from 1 to `max`.
    pub(super) fn count(&self, key: &str, max: u32) -> Result<u32, ConvertError> {
        let count = self.optional_count(&[key], max)?;
        count.ok_or_else(|| self.refused(key, "is null, not a count"))
    }

    /// Returns a finite number, of the first of these keys that has a value.
    pub(super) fn optional_number(&self, keys: &[&str]) -> Result<Option<f32>, ConvertError> {
        self.first(keys).map(|(key, value)| self.finite(key, value)).transpose()
    }

    /// Returns a finite number.
    pub(super) fn number(&self, key: &str) -> Result<f32, ConvertError> {
        self.finite(key, &self.root[key])
    }

    fn finite(&self, key: &str, value: &Value) -> Result<f32, ConvertError> {
        finite(value).ok_or_else(|| self.refused(key, format_args!("is {}, not a number", excerpt(value))))
    }

    /// Returns a list of `N` finite numbers.
    pub(super) fn numbers<const N: usize>(&self, key: &str) -> Result<[f32; N], ConvertError> {
        let value = &self.root[key];
        let list = value.as_array().filter(|list| list.len() == N);
        let numbers = list.and_then(|list| list.iter().map(finite).collect::<Option<Vec<f32>>>());
        let numbers = numbers.and_then(|numbers| <[f32; N]>::try_from(numbers).ok());
        numbers.ok_or_else(|| self.refused(key, format_args!("is {}, not {N} numbers", excerpt(value))))
    }

    /// Returns a list of at most `max` whole numbers, if there is one.
    pub(super) fn whole_numbers(&self, key: &str, max: usize) -> Result<Option<Vec<u64>>, ConvertError> {
        match &self.root[key] {
            Value::Null => Ok(None),
            Value::Array(list) if list.len() > max => {
                Err(self.refused(key, format_args!("has {} numbers, and the limit is {max}", list.len())))
            }
            Value::Array(list) if list.iter().all(Value::is_u64) => {
                Ok(Some(list.iter().filter_map(Value::as_u64).collect()))
            }
            value => Err(self.refused(key, format_args!("is {}, not a list of whole numbers", excerpt(value)))),
        }
    }

    /// Returns the parameters of the rotation of layers with full attention: those of `rope_parameters`, then those of
    /// `rope_scaling` of older configs. If only the latter declare the kind, they are first.
    pub(super) fn rotations(&self) -> [&Value; 2] {
        let [newer, older] = ROTATIONS.map(|name| {
            let (all, full) = (&self.root[name], &self.root[name]["full_attention"]);
            if full.is_null() { all } else { full }
        });
        let has_kind = |values: &Value| ROTATION_KINDS.iter().any(|key| !values[*key].is_null());
        if has_kind(older) && !has_kind(newer) { [older, newer] } else { [newer, older] }
    }

    /// Returns a value of the rotation, of the first parameters that have it.
    pub(super) fn rotation(&self, key: &str) -> &Value {
        let [first, second] = self.rotations().map(|values| &values[key]);
        if first.is_null() { second } else { first }
    }

    /// Returns a finite number of the rotation.
    pub(super) fn rotation_number(&self, key: &str) -> Result<Option<f64>, ConvertError> {
        let value = self.rotation(key);
        if value.is_null() { Ok(None) } else { number(key, value).map(|_| value.as_f64()) }
    }

    /// Returns a text.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&str>, ConvertError> {
        match &self.root[key] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            other => Err(self.refused(key, format_args!("is {}, not a text", excerpt(other)))),
        }
    }
}

/// Converts a value to a finite number above zero.
pub(super) fn positive(key: &str, value: &Value) -> Result<f32, ConvertError> {
    match number(key, value)? {
        number if number > 0.0 => Ok(number),
        _ => Err(invalid(CONFIG, format!("{key} is {}, not a number above 0", excerpt(value)))),
    }
}

/// Converts a value to a number from 0 to 1.
pub(super) fn share(key: &str, value: &Value) -> Result<f32, ConvertError> {
    match number(key, value)? {
        share if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(invalid(CONFIG, format!("{key} is {}, not a share from 0 to 1", excerpt(value)))),
    }
}

/// Converts a value to a count from 1 to `max`.
pub(super) fn count(key: &str, value: &Value, max: u32) -> Result<u32, ConvertError> {
    match value.as_u64().filter(|&count| count > 0).map(|count| (count, u32::try_from(count))) {
        Some((_, Ok(count))) if count <= max => Ok(count),
        Some((count, _)) => Err(invalid(CONFIG, format!("{key} is {count}, and the limit is {max}"))),
        None => Err(invalid(CONFIG, format!("{key} is {}, not a count", excerpt(value)))),
    }
}

/// Converts a value of `config.json` to a finite number.
pub(super) fn number(key: &str, value: &Value) -> Result<f32, ConvertError> {
    finite(value).ok_or_else(|| invalid(CONFIG, format!("{key} is {}, not a number", excerpt(value))))
}

fn finite(value: &Value) -> Option<f32> {
    value.as_f64().map(|value| value as f32).filter(|value| value.is_finite())
}

/// Returns the beginning of a value's text.
pub(super) fn excerpt(value: &Value) -> String {
    cairn_wire::excerpt(&value.to_string()).into_owned()
}
