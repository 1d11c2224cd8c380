//! The tools of a request.
//!
//! The model sees functions only. A function of a namespace gets the name of the namespace before its own, and a call of it is
//! returned with both names in separate fields. Tools that OpenAI's servers run are ignored with a warning: clients such as Codex
//! offer `web_search` in every request, and the model can answer without it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cairn_app::inference::ToolUse;
use cairn_wire::excerpt;
use cairn_wire::openai::{ResponseTool, Tool, ToolFunction};
use serde_json::Value;

use crate::error::ApiError;
use crate::openai::tools;

/// Types of tools that OpenAI's servers run.
const HOSTED: [&str; 6] = ["web_search", "code_interpreter", "file_search", "image_generation", "mcp", "tool_search"];

/// Longest name of a namespace, which is copied into the name of each of its functions. OpenAI's servers allow 64 characters.
const MAX_NAMESPACE_BYTES: usize = 128;

/// Returns the type in [`HOSTED`], without the version of `web_search`, if OpenAI's servers run tools of this type.
fn hosted(kind: &str) -> Option<&'static str> {
    let is_kind = |one: &str| kind == one || (one == "web_search" && kind.starts_with("web_search_"));
    HOSTED.into_iter().find(|one| is_kind(one))
}

/// Returns the name that the model sees for a function of a namespace. Some namespaces already end with the separator.
pub(super) fn qualified_name(namespace: &str, name: &str) -> String {
    let separator = if namespace.ends_with("__") { "" } else { "__" };
    format!("{namespace}{separator}{name}")
}

/// The namespace of a function, and its name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    namespace: Arc<str>,
    name: String,
}

/// The functions in namespaces, by the names that the model sees.
#[derive(Debug, Default)]
pub(super) struct Namespaces(HashMap<String, Member>);

impl Namespaces {
    /// Splits the name in a call of the model into a namespace, if it has one, and a name.
    pub(super) fn split(&self, name: String) -> (Option<String>, String) {
        match self.0.get(&name) {
            Some(member) => (Some(member.namespace.to_string()), member.name.clone()),
            None => (None, name),
        }
    }
}

/// The tools of a request, as the model sees them.
#[derive(Default)]
pub(super) struct Tools {
    functions: Vec<Tool>,
    pub(super) namespaces: Namespaces,
    /// Types of ignored tools, each once.
    pub(super) ignored: Vec<&'static str>,
}

impl Tools {
    /// Reads the tools of a request.
    ///
    /// # Errors
    /// If a namespace is invalid, or two functions get the same name. Other types of tools are refused by [`Tools::offered`].
    pub(super) fn of(tools: Vec<ResponseTool>) -> Result<Self, ApiError> {
        let mut all = Self::default();
        for ResponseTool { kind, tools, function } in tools {
            if kind == "namespace" {
                all.add_namespace(function, tools)?;
                continue;
            }
            match hosted(&kind) {
                None => all.functions.push(Tool { kind, function }),
                Some(kind) if all.ignored.contains(&kind) => {}
                Some(kind) => all.ignored.push(kind),
            }
        }
        let mut names = HashSet::new();
        let mut repeated = all.functions.iter().map(|tool| &tool.function.name).filter(|name| !names.insert(*name));
        if let Some(name) = repeated.find(|name| all.namespaces.0.contains_key(*name)) {
            return Err(ApiError::bad_request(format!(
                "two tools have the name {:?}, which the model sees for a function of a namespace; rename one of them",
                excerpt(name)
            )));
        }
        Ok(all)
    }

    fn add_namespace(&mut self, namespace: ToolFunction, members: Vec<ResponseTool>) -> Result<(), ApiError> {
        let ToolFunction { name: namespace, mut description, .. } = namespace;
        if namespace.is_empty() || namespace.len() > MAX_NAMESPACE_BYTES {
            return Err(ApiError::bad_request(format!(
                "a namespace of tools has no name, or one of more than {MAX_NAMESPACE_BYTES} bytes"
            )));
        }
        let namespace: Arc<str> = namespace.into();
        for ResponseTool { kind, function, .. } in members {
            let ToolFunction { name, description: own, .. } = function;
            if kind != "function" || name.is_empty() {
                return Err(ApiError::bad_request(format!(
                    "a tool of the namespace {:?} has the type {:?} or no name; this server accepts named functions in a namespace",
                    excerpt(&namespace),
                    excerpt(&kind)
                )));
            }
            let qualified = qualified_name(&namespace, &name);
            // The description of the namespace comes once, before its first function.
            let texts = [description.take(), own].into_iter().flatten().filter(|text| !text.is_empty());
            let texts: Vec<String> = texts.collect();
            let description = (!texts.is_empty()).then(|| texts.join("\n\n"));
            self.functions
                .push(Tool { kind, function: ToolFunction { name: qualified.clone(), description, ..function } });
            self.namespaces.0.insert(qualified, Member { namespace: Arc::clone(&namespace), name });
        }
        Ok(())
    }

    /// Returns the tools that the model sees, and how it must use them.
    ///
    /// # Errors
    /// If a tool is not a named function, or `tool_choice` is invalid or cannot be satisfied.
    pub(super) fn offered(
        self,
        choice: Option<Value>,
        is_parallel: Option<bool>,
    ) -> Result<(Vec<Value>, ToolUse), ApiError> {
        let has_ignored_only = self.functions.is_empty() && !self.ignored.is_empty();
        if has_ignored_only && choice.as_ref().is_some_and(|choice| choice == "required") {
            return Err(crate::tools::none_allowed());
        }
        tools::offered(self.functions, choice.map(with_qualified_names).as_ref(), is_parallel)
    }
}

/// Replaces the names in `tool_choice` by those that the model sees. Ignored tools are not allowed ones.
fn with_qualified_names(mut choice: Value) -> Value {
    qualify(&mut choice);
    let list = if choice.get("allowed_tools").is_some() { "/allowed_tools/tools" } else { "/tools" };
    if let Some(Value::Array(allowed)) = choice.pointer_mut(list) {
        allowed.retain(|entry| entry["type"].as_str().and_then(hosted).is_none());
        allowed.iter_mut().for_each(qualify);
    }
    choice
}

fn qualify(entry: &mut Value) {
    let name = match (entry["namespace"].as_str(), entry["name"].as_str()) {
        (Some(namespace), Some(name)) if !namespace.is_empty() => qualified_name(namespace, name),
        _ => return,
    };
    entry["name"] = name.into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tools(list: Value) -> Result<Tools, String> {
        Tools::of(serde_json::from_value(list).expect("tools")).map_err(|error| error.into_body().error)
    }

    /// Names and descriptions of the functions that the model sees.
    fn offered(list: Value, choice: Value) -> Result<Vec<(String, String)>, String> {
        let (values, _) = tools(list)?.offered(Some(choice), None).map_err(|error| error.into_body().error)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let function = |value: &Value| (text(&value["function"]["name"]), text(&value["function"]["description"]));
        Ok(values.iter().map(function).collect())
    }

    fn agents() -> Value {
        json!({"type": "namespace", "name": "agents", "description": "Other agents.", "tools": [
            {"type": "function", "name": "start", "description": "Starts one.", "strict": false,
             "parameters": {"type": "object", "properties": {}}},
            {"type": "function", "name": "wait"},
        ]})
    }

    fn pair(name: &str, description: &str) -> (String, String) {
        (name.to_owned(), description.to_owned())
    }

    #[test]
    fn functions_of_namespaces_have_both_names() {
        let shell = json!({"type": "function", "name": "shell", "description": "Runs a command."});
        let named =
            json!({"type": "namespace", "name": "mcp__docs__", "tools": [{"type": "function", "name": "find"}]});
        let list = json!([shell, agents(), named]);
        let expected = [
            pair("shell", "Runs a command."),
            pair("agents__start", "Other agents.\n\nStarts one."),
            pair("agents__wait", ""),
            pair("mcp__docs__find", ""),
        ];
        assert_eq!(offered(list.clone(), json!("auto")), Ok(expected.to_vec()), "in their order");
        let namespaces = tools(list).unwrap_or_else(|error| panic!("{error}")).namespaces;
        let check = |name: &str, namespace: Option<&str>, expected: &str| {
            let found = namespaces.split(String::from(name));
            assert_eq!(found, (namespace.map(str::to_owned), expected.to_owned()), "{name}");
        };
        check("agents__wait", Some("agents"), "wait");
        check("mcp__docs__find", Some("mcp__docs__"), "find");
        check("shell", None, "shell");
        check("agents__stop", None, "agents__stop");
    }

    #[test]
    fn invalid_namespace_is_refused() {
        let check = |list: Value, expected: &str| {
            let error = tools(list).err().unwrap_or_default();
            assert!(error.contains(expected), "{error:?}");
        };
        check(json!([{"type": "namespace", "tools": []}]), "has no name");
        check(json!([{"type": "namespace", "name": "n".repeat(129), "tools": []}]), "more than 128 bytes");
        check(json!([{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]}]), "\"custom\"");
        check(json!([{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]), "no name");
        check(json!([agents(), {"type": "function", "name": "agents__wait"}]), "two tools have the name");
        check(json!([agents(), agents()]), "two tools have the name");
    }

    #[test]
    fn hosted_tools_are_ignored_unless_a_call_is_required() {
        let search = || json!({"type": "web_search", "external_web_access": false});
        let list = json!([search(), search(), {"type": "web_search_preview_2025_03_11"}, {"type": "mcp"}, agents()]);
        let found = tools(list).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.ignored, ["web_search", "mcp"], "each once");
        assert_eq!(found.functions.len(), 2, "the others are offered");
        assert_eq!(offered(json!([search()]), json!("auto")), Ok(Vec::new()), "the model may answer without it");
        let error = offered(json!([search()]), json!("required")).expect_err("no call is possible");
        assert!(error.contains("none of the tools that this server accepts"), "{error}");
        let error = offered(json!([]), json!("required")).expect_err("no call is possible");
        assert!(error.contains("has no tools"), "{error}");
        let error = offered(json!([search(), agents()]), json!({"type": "web_search"})).expect_err("it is required");
        assert!(error.contains("invalid tool_choice"), "{error}");
        let error = offered(json!([{"type": "web_searcher"}]), json!("auto")).expect_err("an unknown type");
        assert!(error.contains("\"web_searcher\""), "{error}");
        let error = offered(json!([{"type": "custom", "name": "patch"}]), json!("auto")).expect_err("clients run it");
        assert!(error.contains("\"custom\""), "{error}");
    }

    #[test]
    fn tool_choice_with_an_empty_namespace_names_a_function_without_one() {
        let list = json!([{"type": "function", "name": "wait"}, agents()]);
        let wait = json!({"type": "function", "namespace": "", "name": "wait"});
        assert_eq!(offered(list, wait), Ok(vec![pair("wait", "")]));
    }

    #[test]
    fn tool_choice_names_functions_of_namespaces() {
        let wait = json!({"type": "function", "namespace": "agents", "name": "wait"});
        let expected = Ok(vec![pair("agents__wait", "")]);
        assert_eq!(offered(json!([agents()]), wait.clone()), expected, "one function");
        let allowed = json!({"type": "allowed_tools", "mode": "auto", "tools": [wait, {"type": "web_search"}]});
        assert_eq!(offered(json!([agents()]), allowed.clone()), expected, "a list");
        let inner = json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": allowed["tools"]}});
        assert_eq!(offered(json!([agents()]), inner), expected, "a list in an object, as in /v1/chat/completions");
        let none = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]});
        let error = offered(json!([agents()]), none).expect_err("no call is possible");
        assert!(error.contains("allows none of the tools"), "{error}");
    }
}
