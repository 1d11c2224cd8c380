//! What an answer must match.

use llguidance::JsonCompileOptions;
use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

use crate::error::Error;
use crate::limits::{MAX_DEPTH, MAX_GRAMMAR_BYTES, MAX_REGEX_BYTES, MAX_SCHEMA_BYTES, at_most};
use crate::schema;

/// White space between two JSON tokens. Without a limit, an unlikely token sequence could repeat for ever.
const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,40}";

/// Escapes in JSON strings. Without `u`, every string has one spelling, so that a property cannot pass for another one.
const ESCAPES: &str = r#"nrbtf\""#;

/// What an answer must match.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// Any JSON object.
    JsonObject,
    /// A JSON value that this JSON Schema accepts. Objects have their properties in the order of the schema.
    JsonSchema(Value),
    /// Text that this regular expression matches as a whole, in the syntax of the crate `regex`.
    Regex(String),
    /// Text of this grammar, in the dialect of Lark that `llguidance` defines.
    Lark(String),
}

impl Constraint {
    /// What it is, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::JsonObject | Self::JsonSchema(_) => "JSON schema",
            Self::Regex(_) => "regular expression",
            Self::Lark(_) => "grammar",
        }
    }

    /// Checks its size, before a thread is started for it.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        match self {
            Self::JsonObject => Ok(()),
            Self::JsonSchema(schema) => at_most("bytes of the JSON schema", serialised_bytes(schema), MAX_SCHEMA_BYTES),
            Self::Regex(regex) => at_most("bytes of the regular expression", regex.len(), MAX_REGEX_BYTES),
            Self::Lark(grammar) => {
                at_most("bytes of the grammar", grammar.len(), MAX_GRAMMAR_BYTES)?;
                at_most("nesting of the grammar", bracket_depth(grammar), MAX_DEPTH)
            }
        }
    }

    /// The grammar in the form that the parser reads.
    pub(crate) fn to_grammar(&self) -> Result<TopLevelGrammar, Error> {
        match self {
            Self::JsonObject => Ok(json_grammar(json!({"type": "object"}))),
            Self::JsonSchema(schema) => schema::normalise(schema).map(json_grammar),
            Self::Regex(regex) => Ok(TopLevelGrammar::from_regex(regex)),
            Self::Lark(grammar) => Ok(TopLevelGrammar::from_lark(grammar.clone())),
        }
    }
}

/// The grammar of a normalised schema, which is an object.
fn json_grammar(mut schema: Value) -> TopLevelGrammar {
    let options = JsonCompileOptions {
        whitespace_pattern: Some(WHITE_SPACE.to_owned()),
        json_allowed_escapes: Some(ESCAPES.to_owned()),
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut schema);
    TopLevelGrammar::from_json_schema(schema)
}

fn serialised_bytes(value: &Value) -> usize {
    // A JSON value with text keys can always be serialised.
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

/// The deepest nesting of brackets. Brackets in strings count too, which only makes the limit stricter.
fn bracket_depth(grammar: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in grammar.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
