//! How JSON is written: white space and escapes.

use llguidance::JsonCompileOptions;
use serde_json::Value;

/// White space between two JSON tokens. Without a limit, an unlikely token sequence could repeat for ever.
const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,40}";

/// Escapes in JSON strings. Without `u`, every string has one spelling, so that a property cannot pass for another one.
const ESCAPES: &str = r#"nrbtf\""#;

/// Adds the options of the compiler to a normalised schema.
pub(crate) fn json_grammar_source(mut schema: Value) -> Value {
    let options = JsonCompileOptions {
        whitespace_pattern: Some(WHITE_SPACE.to_owned()),
        json_allowed_escapes: Some(ESCAPES.to_owned()),
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut schema);
    schema
}
