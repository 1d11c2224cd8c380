//! The format of answers: `json`, a JSON Schema, or the path of a file with one.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, bail};
use serde_json::Value;

/// Largest file of a schema. Requests have a limit of their own.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the format of a request.
///
/// # Errors
/// The text is neither `json` nor a JSON object, nor the path of a file with one.
pub(super) fn parse(text: &str) -> anyhow::Result<Value> {
    if text == "json" {
        return Ok(Value::from("json"));
    }
    if text.trim_start().starts_with('{') {
        return object(text).context("invalid format: the JSON Schema is not valid JSON");
    }
    let read = || -> std::io::Result<String> {
        let mut schema = String::new();
        File::open(text)?.take(MAX_BYTES + 1).read_to_string(&mut schema)?;
        Ok(schema)
    };
    let advice = "the format must be json, a JSON Schema, or the path of a file with one";
    let schema = read().with_context(|| format!("cannot read the format {text:?}; {advice}"))?;
    if schema.len() as u64 > MAX_BYTES {
        bail!("the file {text:?} is too large for a JSON Schema: the limit is {MAX_BYTES} bytes");
    }
    object(&schema).with_context(|| format!("the file {text:?} has no JSON Schema"))
}

fn object(text: &str) -> anyhow::Result<Value> {
    let value: Value = serde_json::from_str(text)?;
    if !value.is_object() {
        bail!("a JSON Schema is a JSON object");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn format_is_a_word_a_schema_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        assert_eq!(parse("json").unwrap(), json!("json"));
        assert_eq!(parse(r#"{"type": "object"}"#).unwrap(), json!({"type": "object"}));
        assert_eq!(parse(&path("a.json", r#" {"type": "array"}"#)).unwrap(), json!({"type": "array"}));
        let check = |text: &str, part: &str| {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(part), "{text:?}: {error}");
        };
        check("yaml", "the format must be json, a JSON Schema, or the path of a file with one");
        check("{\"type\"", "not valid JSON");
        check(&path("list.json", "[]"), "a JSON Schema is a JSON object");
        check(&path("large.json", &" ".repeat((1 << 20) + 1)), "too large");
    }
}
