//! The `options` object: model parameters of a request or of a model's `params` layer. They are Ollama's, and Cairn's
//! own `kv_cache_type`, `context_shift` and `adapter_scale`.
//!
//! Clients rely on these rules: an unknown key is not an error; `null` keeps a value; an integer may be written as a
//! float and is truncated; an error for a wrong type names the option and the type. Later objects override earlier
//! ones, so merging the defaults, the model's and the request's options gives Ollama's result.

use serde_json::{Map, Value};

/// Options of a request; `None` if not set.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct Options {
    pub num_keep: Option<i64>,
    pub seed: Option<i64>,
    pub num_predict: Option<i64>,
    pub top_k: Option<i64>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub repeat_last_n: Option<i64>,
    pub temperature: Option<f32>,
    pub repeat_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub stop: Option<Vec<String>>,
    pub num_ctx: Option<i64>,
    pub num_batch: Option<i64>,
    pub num_gpu: Option<i64>,
    pub main_gpu: Option<i64>,
    pub use_mmap: Option<bool>,
    pub num_thread: Option<i64>,
    pub draft_num_predict: Option<i64>,
    pub kv_cache_type: Option<String>,
    pub context_shift: Option<String>,
    pub adapter_scale: Option<f32>,
}

/// A value of the wrong type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("option {name:?} must be of type {kind}")]
pub struct OptionError {
    /// Name of the option.
    pub name: String,
    /// Expected type.
    pub kind: OptionKind,
}

/// Type of an option, with the name in errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named after its text")]
pub enum OptionKind {
    Integer,
    Boolean,
    Float32,
    Array,
    String,
}

impl std::fmt::Display for OptionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Float32 => "float32",
            Self::Array => "array",
            Self::String => "string",
        })
    }
}

/// A type of option values.
trait OptionValue: Sized {
    const KIND: OptionKind;
    fn read(value: &Value) -> Option<Self>;
}

impl OptionValue for i64 {
    const KIND: OptionKind = OptionKind::Integer;
    fn read(value: &Value) -> Option<Self> {
        // The cast saturates, as it should for numbers out of range.
        value.as_i64().or_else(|| value.as_f64().map(|float| float.trunc() as i64))
    }
}

impl OptionValue for f32 {
    const KIND: OptionKind = OptionKind::Float32;
    fn read(value: &Value) -> Option<Self> {
        value.as_f64().map(|float| float as f32)
    }
}

impl OptionValue for bool {
    const KIND: OptionKind = OptionKind::Boolean;
    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl OptionValue for String {
    const KIND: OptionKind = OptionKind::String;
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl OptionValue for Vec<String> {
    const KIND: OptionKind = OptionKind::Array;
    fn read(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    }
}

impl Options {
    /// All options with their types.
    pub const KNOWN: &[(&str, OptionKind)] = &[
        ("num_keep", OptionKind::Integer),
        ("seed", OptionKind::Integer),
        ("num_predict", OptionKind::Integer),
        ("top_k", OptionKind::Integer),
        ("top_p", OptionKind::Float32),
        ("min_p", OptionKind::Float32),
        ("typical_p", OptionKind::Float32),
        ("repeat_last_n", OptionKind::Integer),
        ("temperature", OptionKind::Float32),
        ("repeat_penalty", OptionKind::Float32),
        ("presence_penalty", OptionKind::Float32),
        ("frequency_penalty", OptionKind::Float32),
        ("stop", OptionKind::Array),
        ("num_ctx", OptionKind::Integer),
        ("num_batch", OptionKind::Integer),
        ("num_gpu", OptionKind::Integer),
        ("main_gpu", OptionKind::Integer),
        ("use_mmap", OptionKind::Boolean),
        ("num_thread", OptionKind::Integer),
        ("draft_num_predict", OptionKind::Integer),
        ("kv_cache_type", OptionKind::String),
        ("context_shift", OptionKind::String),
        ("adapter_scale", OptionKind::Float32),
    ];

    /// Returns the smallest valid value of an option, if it has one.
    #[must_use]
    pub fn least(name: &str) -> Option<i64> {
        // 0 means the default of the settings.
        (name == "num_ctx").then_some(0)
    }

    /// Merges the values of `object`. Returns unknown keys, for the log.
    ///
    /// # Errors
    /// [`OptionError`] for the first value of a wrong type.
    pub fn merge<'a>(&mut self, object: &'a Map<String, Value>) -> Result<Vec<&'a str>, OptionError> {
        let mut unknown = Vec::new();
        for (name, value) in object {
            if value.is_null() {
                continue;
            }
            match name.as_str() {
                "num_keep" => set(&mut self.num_keep, name, value)?,
                "seed" => set(&mut self.seed, name, value)?,
                "num_predict" => set(&mut self.num_predict, name, value)?,
                "top_k" => set(&mut self.top_k, name, value)?,
                "top_p" => set(&mut self.top_p, name, value)?,
                "min_p" => set(&mut self.min_p, name, value)?,
                "typical_p" => set(&mut self.typical_p, name, value)?,
                "repeat_last_n" => set(&mut self.repeat_last_n, name, value)?,
                "temperature" => set(&mut self.temperature, name, value)?,
                "repeat_penalty" => set(&mut self.repeat_penalty, name, value)?,
                "presence_penalty" => set(&mut self.presence_penalty, name, value)?,
                "frequency_penalty" => set(&mut self.frequency_penalty, name, value)?,
                "stop" => set(&mut self.stop, name, value)?,
                "num_ctx" => set(&mut self.num_ctx, name, value)?,
                "num_batch" => set(&mut self.num_batch, name, value)?,
                "num_gpu" => set(&mut self.num_gpu, name, value)?,
                "main_gpu" => set(&mut self.main_gpu, name, value)?,
                "use_mmap" => set(&mut self.use_mmap, name, value)?,
                "num_thread" => set(&mut self.num_thread, name, value)?,
                "draft_num_predict" => set(&mut self.draft_num_predict, name, value)?,
                "kv_cache_type" => set(&mut self.kv_cache_type, name, value)?,
                "context_shift" => set(&mut self.context_shift, name, value)?,
                "adapter_scale" => set(&mut self.adapter_scale, name, value)?,
                _ => unknown.push(name.as_str()),
            }
        }
        Ok(unknown)
    }
}

fn set<T: OptionValue>(slot: &mut Option<T>, name: &str, value: &Value) -> Result<(), OptionError> {
    *slot = Some(T::read(value).ok_or_else(|| OptionError { name: name.to_owned(), kind: T::KIND })?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(objects: &[Value]) -> Result<Options, String> {
        let mut options = Options::default();
        for object in objects {
            options.merge(object.as_object().unwrap()).map_err(|error| error.to_string())?;
        }
        Ok(options)
    }

    #[test]
    fn merge_overrides_earlier_values_except_by_null() {
        let model = serde_json::json!({"temperature": 0.5, "stop": ["a"], "top_k": 10});
        let request = serde_json::json!({"temperature": 1, "top_k": null, "seed": 7.9, "mirostat": 2});
        let options = merged(&[model, request]).unwrap();
        let expected = Options {
            temperature: Some(1.0),
            stop: Some(vec!["a".to_owned()]),
            top_k: Some(10),
            seed: Some(7),
            ..Options::default()
        };
        assert_eq!(
            options, expected,
            "the request overrides the model, floats are truncated, unknown keys are ignored"
        );
    }

    #[test]
    fn merge_sets_every_option_of_its_type() {
        for (name, kind) in Options::KNOWN {
            let value = match kind {
                OptionKind::Integer => serde_json::json!(1),
                OptionKind::Float32 => serde_json::json!(0.5),
                OptionKind::Boolean => serde_json::json!(true),
                OptionKind::Array => serde_json::json!(["x"]),
                OptionKind::String => serde_json::json!("x"),
            };
            let object = Map::from_iter([((*name).to_owned(), value)]);
            let mut options = Options::default();
            assert_eq!(options.merge(&object), Ok(Vec::new()), "{name} has the type {kind}");
            assert_ne!(options, Options::default(), "{name} is set");
            let other = if *kind == OptionKind::String { serde_json::json!(1) } else { serde_json::json!("x") };
            let other = Map::from_iter([((*name).to_owned(), other)]);
            let error = Options::default().merge(&other).expect_err("the value has another type");
            assert_eq!(error.kind, *kind, "{name} has this type");
        }
    }

    #[test]
    fn merge_error_names_the_option_and_type() {
        let check =
            |json: Value, expected: &str| assert_eq!(merged(&[json]).unwrap_err(), expected, "the error's text");
        check(serde_json::json!({"num_ctx": "big"}), "option \"num_ctx\" must be of type integer");
        check(serde_json::json!({"use_mmap": 1}), "option \"use_mmap\" must be of type boolean");
        check(serde_json::json!({"top_p": "x"}), "option \"top_p\" must be of type float32");
        check(serde_json::json!({"stop": "x"}), "option \"stop\" must be of type array");
        check(serde_json::json!({"stop": [1]}), "option \"stop\" must be of type array");
    }
}
