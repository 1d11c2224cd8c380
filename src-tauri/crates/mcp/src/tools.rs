//! The tools of a server, within limits.
//!
//! Names, descriptions and schemas become a part of the prompt and of what a user sees. A tool above a limit is left out, with the
//! reason; a description above its limit is cut.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::limits::{
    MAX_DESCRIPTION_BYTES, MAX_OMITTED_TOOLS, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, MAX_TOOL_NAME_BYTES, MAX_TOOLS,
    MAX_TOOLS_BYTES,
};
use crate::text::{cut, one_line, visible};

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name at the server.
    pub name: String,
    /// Its description, possibly empty.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Map<String, Value>,
}

/// The tools of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolList {
    /// Those that can be used.
    pub tools: Vec<Tool>,
    /// The first [`MAX_OMITTED_TOOLS`] of those that were left out.
    pub omitted: Vec<OmittedTool>,
    /// Number of tools that were left out.
    pub omitted_count: usize,
    /// Bytes of the tools.
    bytes: usize,
    names: BTreeSet<String>,
}

/// A tool that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedTool {
    /// Its name, possibly cut.
    pub name: String,
    /// The reason.
    pub reason: Omission,
}

/// Why a tool was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Omission {
    /// The name is empty, too long, or has other characters than letters, digits, `_`, `-`, `.` and `/`.
    #[error(
        "the name is empty, longer than {MAX_TOOL_NAME_BYTES} bytes, or has other characters than letters, digits, _ - . and /"
    )]
    Name,
    /// Another tool of the server has the name.
    #[error("another tool of the server has the same name")]
    Twice,
    /// The schema is too large.
    #[error("the schema of its arguments has more than {MAX_SCHEMA_BYTES} bytes")]
    SchemaBytes,
    /// The schema is too deep.
    #[error("the schema of its arguments is nested more than {MAX_SCHEMA_DEPTH} levels deep")]
    SchemaDepth,
    /// There are too many tools.
    #[error("the server has more than {MAX_TOOLS} tools")]
    TooMany,
    /// All tools together are too large.
    #[error("the tools of the server have more than {MAX_TOOLS_BYTES} bytes")]
    TooLarge,
}

impl ToolList {
    /// Whether the list is full, so that further tools are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.tools.len() >= MAX_TOOLS
    }

    /// Adds a tool, or the reason why it is left out.
    pub(crate) fn add(&mut self, name: &str, description: &str, input_schema: &Map<String, Value>) {
        let description = visible(cut(description, MAX_DESCRIPTION_BYTES)).trim().to_owned();
        match self.check(name, &description, input_schema) {
            Ok(bytes) => {
                self.bytes += bytes;
                self.names.insert(name.to_owned());
                self.tools.push(Tool { name: name.to_owned(), description, input_schema: input_schema.clone() });
            }
            Err(reason) => {
                self.omitted_count += 1;
                if self.omitted.len() < MAX_OMITTED_TOOLS {
                    self.omitted.push(OmittedTool { name: one_line(name, MAX_TOOL_NAME_BYTES), reason });
                }
            }
        }
    }

    fn check(&self, name: &str, description: &str, schema: &Map<String, Value>) -> Result<usize, Omission> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        if name.is_empty() || name.len() > MAX_TOOL_NAME_BYTES || !name.chars().all(is_name) {
            return Err(Omission::Name);
        }
        if self.names.contains(name) {
            return Err(Omission::Twice);
        }
        if self.is_full() {
            return Err(Omission::TooMany);
        }
        // Depth first: the length is computed by recursion.
        if schema.values().any(|value| is_deeper(value, MAX_SCHEMA_DEPTH - 1)) {
            return Err(Omission::SchemaDepth);
        }
        let schema_bytes = serde_json::to_string(schema).map_or(usize::MAX, |text| text.len());
        if schema_bytes > MAX_SCHEMA_BYTES {
            return Err(Omission::SchemaBytes);
        }
        let bytes = name.len() + description.len() + schema_bytes;
        if self.bytes + bytes > MAX_TOOLS_BYTES { Err(Omission::TooLarge) } else { Ok(bytes) }
    }
}

/// Whether a value has more than `levels` nested lists or objects.
fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(object) => levels == 0 || object.values().any(|value| is_deeper(value, levels - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    fn omission(name: &str, schema: &Map<String, Value>) -> Option<Omission> {
        let mut list = ToolList::default();
        list.add("taken", "", &Map::new());
        list.add(name, "", schema);
        list.omitted.first().map(|tool| tool.reason)
    }

    #[test]
    fn tools_above_limits_are_left_out() {
        let none = Map::new();
        assert_eq!(omission("fs/read_file.v2-a", &none), None);
        for name in ["", "a b", "a\u{202e}b", "ä", &"a".repeat(MAX_TOOL_NAME_BYTES + 1)] {
            assert_eq!(omission(name, &none), Some(Omission::Name), "{name:?}");
        }
        assert_eq!(omission("taken", &none), Some(Omission::Twice));
        let nested = |levels: usize| schema(&format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels)));
        assert_eq!(omission("a", &nested(MAX_SCHEMA_DEPTH)), None);
        assert_eq!(omission("a", &nested(MAX_SCHEMA_DEPTH + 1)), Some(Omission::SchemaDepth));
        let long = schema(&format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES)));
        assert_eq!(omission("a", &long), Some(Omission::SchemaBytes));
    }

    #[test]
    fn list_has_a_limit_of_tools_and_bytes() {
        let mut list = ToolList::default();
        (0..1000).for_each(|number| list.add(&format!("t{number}"), "", &Map::new()));
        assert_eq!((list.tools.len(), list.omitted_count, list.omitted.len()), (MAX_TOOLS, 872, MAX_OMITTED_TOOLS));
        let mut list = ToolList::default();
        let large = schema(&format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES - 8)));
        (0..9).for_each(|number| list.add(&format!("t{number}"), "", &large));
        assert_eq!(list.tools.len(), 7);
        assert_eq!(list.omitted[0].reason, Omission::TooLarge);
    }

    #[test]
    fn descriptions_are_cut_and_visible() {
        let mut list = ToolList::default();
        list.add("a", &format!("\u{1b}[2J{}", "ä".repeat(MAX_DESCRIPTION_BYTES)), &Map::new());
        let description = &list.tools[0].description;
        assert!(description.starts_with("[2Jä") && description.len() <= MAX_DESCRIPTION_BYTES, "{}", description.len());
    }
}
