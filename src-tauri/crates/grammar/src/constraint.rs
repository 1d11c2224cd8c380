//! What an answer must match.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

use crate::error::Error;
use crate::json::json_grammar_source;
use crate::limits::{MAX_DEPTH, MAX_GRAMMAR_BYTES, MAX_REGEX_BYTES, MAX_SCHEMA_BYTES, at_most, schema_at_most};
use crate::part::Part;
use crate::schema;

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
    /// Text that is put together from parts.
    Parts(Part),
}

impl Constraint {
    /// What it is, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::JsonObject | Self::JsonSchema(_) => "JSON schema",
            Self::Regex(_) => "regular expression",
            Self::Lark(_) | Self::Parts(_) => "grammar",
        }
    }

    /// Checks its size, before a thread is started for it.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        match self {
            Self::JsonObject => Ok(()),
            Self::JsonSchema(schema) => schema_at_most("bytes", serialised_bytes(schema), MAX_SCHEMA_BYTES),
            Self::Regex(regex) => at_most("the regular expression", "bytes", regex.len(), MAX_REGEX_BYTES),
            Self::Lark(grammar) => {
                at_most("the grammar", "bytes", grammar.len(), MAX_GRAMMAR_BYTES)?;
                at_most("the grammar", "levels of brackets", bracket_depth(grammar), MAX_DEPTH)
            }
            Self::Parts(part) => {
                let bytes = part.schemas().into_iter().map(serialised_bytes).fold(0, usize::saturating_add);
                at_most("the format of the answer", "bytes of JSON schemas", bytes, MAX_SCHEMA_BYTES)?;
                at_most("the format of the answer", "bytes of texts", part.text_bytes(), MAX_GRAMMAR_BYTES)
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
            Self::Parts(part) => part.to_lark().map(TopLevelGrammar::from_lark),
        }
    }
}

/// The grammar of a normalised schema, which is an object.
fn json_grammar(schema: Value) -> TopLevelGrammar {
    TopLevelGrammar::from_json_schema(json_grammar_source(schema))
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
