//! Answers that are put together from fixed text and constrained parts, such as tool calls.

use std::fmt::Write as _;

use serde_json::Value;

use crate::error::Error;
use crate::json::json_grammar_source;
use crate::schema;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// This text.
    Text(String),
    /// This text, which may be a control token of the vocabulary; see [`Part::with_tokens`].
    Tag(String),
    /// This token, whatever its text is.
    Token(u32),
    /// Text that this regular expression matches.
    Regex(String),
    /// A JSON value that this JSON Schema accepts.
    Json(Value),
    /// A JSON object that this JSON Schema accepts. With `is_strict` false, any object if the schema cannot be enforced.
    Object {
        /// The schema; null for an object without properties.
        schema: Value,
        /// Whether a schema that cannot be enforced is an error.
        is_strict: bool,
    },
    /// These parts, one after another.
    Sequence(Vec<Part>),
    /// One of these parts.
    Choice(Vec<Part>),
    /// This part, at least once.
    Repeat {
        /// The part.
        part: Box<Part>,
        /// Text between repetitions.
        separator: String,
        /// How often it may occur.
        most: Option<u32>,
    },
}

impl Part {
    /// A part that may be missing.
    #[must_use]
    pub fn optional(self) -> Self {
        Self::Choice(vec![Self::Text(String::new()), self])
    }

    /// Replaces tags that are control tokens by those, and others by their text.
    #[must_use]
    pub fn with_tokens(self, token: &impl Fn(&str) -> Option<u32>) -> Self {
        let all = |parts: Vec<Self>| parts.into_iter().map(|part| part.with_tokens(token)).collect();
        match self {
            Self::Tag(tag) => token(&tag).map_or(Self::Text(tag), Self::Token),
            Self::Sequence(parts) => Self::Sequence(all(parts)),
            Self::Choice(parts) => Self::Choice(all(parts)),
            Self::Repeat { part, separator, most } => {
                Self::Repeat { part: Box::new(part.with_tokens(token)), separator, most }
            }
            other => other,
        }
    }

    /// The schemas in it.
    pub(crate) fn schemas(&self) -> Vec<&Value> {
        match self {
            Self::Json(schema) | Self::Object { schema, .. } => vec![schema],
            Self::Sequence(parts) | Self::Choice(parts) => parts.iter().flat_map(Self::schemas).collect(),
            Self::Repeat { part, .. } => part.schemas(),
            Self::Text(_) | Self::Tag(_) | Self::Token(_) | Self::Regex(_) => Vec::new(),
        }
    }

    /// Bytes of the texts and regular expressions in it.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Tag(text) | Self::Regex(text) => text.len(),
            Self::Sequence(parts) | Self::Choice(parts) => {
                parts.iter().map(Self::text_bytes).fold(0, usize::saturating_add)
            }
            Self::Repeat { part, separator, .. } => part.text_bytes().saturating_add(separator.len()),
            Self::Token(_) | Self::Json(_) | Self::Object { .. } => 0,
        }
    }

    /// The grammar in Lark's syntax.
    pub(crate) fn to_lark(&self) -> Result<String, Error> {
        let mut rules = Rules::default();
        let start = rules.expression(self)?;
        Ok(format!("start: {start}\n{}", rules.text))
    }
}

/// Rules that expressions refer to.
#[derive(Default)]
struct Rules {
    text: String,
    count: usize,
}

impl Rules {
    fn expression(&mut self, part: &Part) -> Result<String, Error> {
        Ok(match part {
            Part::Text(text) | Part::Tag(text) => Value::from(text.as_str()).to_string(),
            Part::Token(id) => format!("<[{id}]>"),
            Part::Regex(regex) => format!("/{}/", with_escaped_slashes(regex)),
            Part::Json(schema) => self.json(schema::normalise(schema)?),
            Part::Object { schema, is_strict } => {
                let normalised = match schema {
                    Value::Null => {
                        schema::normalise(&serde_json::json!({"type": "object", "additionalProperties": false}))
                    }
                    schema => schema::normalise_object(schema),
                };
                match normalised {
                    Err(Error::UnsupportedKeyword { .. }) if !is_strict => {
                        self.json(serde_json::json!({"type": "object"}))
                    }
                    normalised => self.json(normalised?),
                }
            }
            Part::Sequence(parts) => self.joined(parts, " ")?,
            Part::Choice(parts) => self.joined(parts, " | ")?,
            Part::Repeat { part, separator, most } => {
                let one = self.rule_of(part)?;
                let separator = Value::from(separator.as_str());
                match most {
                    Some(..=1) => one,
                    Some(most) => format!("({one} ({separator} {one}){{0,{}}})", most - 1),
                    None => format!("({one} ({separator} {one})*)"),
                }
            }
        })
    }

    fn joined(&mut self, parts: &[Part], between: &str) -> Result<String, Error> {
        let parts: Vec<String> = parts.iter().map(|part| self.expression(part)).collect::<Result<_, _>>()?;
        Ok(format!("({})", parts.join(between)))
    }

    fn json(&mut self, schema: Value) -> String {
        self.rule(&format!("%json {}", json_grammar_source(schema)))
    }

    fn rule_of(&mut self, part: &Part) -> Result<String, Error> {
        let expression = self.expression(part)?;
        Ok(self.rule(&expression))
    }

    fn rule(&mut self, expression: &str) -> String {
        let name = format!("part{}", self.count);
        self.count += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{name}: {expression}");
        name
    }
}

/// The content of a regular expression between slashes.
fn with_escaped_slashes(regex: &str) -> String {
    let mut result = String::with_capacity(regex.len());
    let mut chars = regex.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                result.push(char);
                result.extend(chars.next());
            }
            '/' => result.push_str("\\/"),
            '\n' => result.push_str("\\n"),
            char => result.push(char),
        }
    }
    result
}
