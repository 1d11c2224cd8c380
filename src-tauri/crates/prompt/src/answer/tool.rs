//! The tools of a request, as far as parsers need them.

use serde_json::Value;

/// A tool that the model may call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// JSON schema of the arguments.
    pub parameters: Value,
}

impl Tool {
    /// Reads a list of tools in the format of OpenAI's API. Entries without a name are skipped.
    pub fn list(tools: &Value) -> Vec<Tool> {
        let read = |entry: &Value| {
            let function = entry.get("function").unwrap_or(entry);
            let name = function.get("name")?.as_str()?.to_owned();
            Some(Tool { name, parameters: function.get("parameters").cloned().unwrap_or_default() })
        };
        tools.as_array().into_iter().flatten().filter_map(read).collect()
    }

    /// Returns the schema of a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&Value> {
        self.parameters.get("properties")?.get(name)
    }

    /// Returns whether the tool has no parameters.
    pub(super) fn has_no_parameters(&self) -> bool {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        properties.is_none_or(serde_json::Map::is_empty)
    }
}

/// Finds a tool by name.
pub(super) fn find<'t>(tools: &'t [Tool], name: &str) -> Option<&'t Tool> {
    tools.iter().find(|tool| tool.name == name)
}
