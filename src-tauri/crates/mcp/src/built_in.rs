//! Tools of this program: pages of the web, and files of one folder. Both are off until a user turns them on.
//!
//! A failure of such a tool is a result with a text, as that of a server is: the model reads it and can try something else.

mod folder;
mod page;

use serde_json::{Map, Value, json};

use crate::result::ToolResult;
use crate::tools::ToolList;

pub use folder::{FolderError, FolderReader};
pub use page::{AddressFilter, PageFetcher};

/// Returns a schema of arguments: name, type, description and whether the argument is required.
fn schema(arguments: &[(&str, &str, &str, bool)]) -> Map<String, Value> {
    let property = |(name, kind, about, _): &(&str, &str, &str, bool)| {
        ((*name).to_owned(), json!({ "type": kind, "description": about }))
    };
    let required: Vec<&str> = arguments.iter().filter(|argument| argument.3).map(|argument| argument.0).collect();
    let properties: Map<String, Value> = arguments.iter().map(property).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(required));
    schema
}

fn list(tools: &[(&str, &str, Map<String, Value>)]) -> ToolList {
    let mut list = ToolList::default();
    tools.iter().for_each(|(name, description, schema)| list.add(name, description, schema));
    list
}

fn failure(reason: &dyn std::fmt::Display) -> ToolResult {
    ToolResult { is_error: true, ..ToolResult::from_text(&reason.to_string()) }
}
