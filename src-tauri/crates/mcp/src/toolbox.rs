//! The tools that a model is offered: those of all origins, under names that all models accept.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::error::Error;
use crate::limits::MAX_TOOLS;
use crate::permission::{Permission, Permissions};
use crate::result::ToolResult;
use crate::text::one_line;
use crate::tools::{Tool, ToolList};
use crate::toolset::Toolset;

/// Most tools of all origins together.
pub const MAX_OFFERED_TOOLS: usize = MAX_TOOLS;
/// Longest name of a function, by OpenAI's API.
const MAX_FUNCTION_BYTES: usize = 64;

/// A tool that a model is offered.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Its name for the model.
    pub function: String,
    /// Name of its origin.
    pub origin: String,
    /// The tool.
    pub tool: Tool,
    /// Whether the user is asked before a call.
    pub permission: Permission,
    /// Index of the origin.
    set: usize,
}

/// An origin without offered tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedOrigin {
    /// Its name.
    pub origin: String,
    /// The reason.
    pub error: Error,
}

/// Tools of several origins.
#[derive(Debug, Clone, Default)]
pub struct Toolbox {
    sets: Vec<Toolset>,
    tools: Vec<OfferedTool>,
    /// Origins that did not list their tools.
    pub failed: Vec<FailedOrigin>,
    /// Tools that were left out because there are too many.
    pub omitted_count: usize,
}

impl Toolbox {
    /// Lists the tools of all origins at the same time. An origin that fails is left out.
    pub async fn open(sets: Vec<(String, Toolset)>, permissions: &Permissions) -> Self {
        let mut listing = JoinSet::new();
        for (index, (_, set)) in sets.iter().enumerate() {
            let set = set.clone();
            listing.spawn(async move { (index, set.tools().await) });
        }
        let mut lists: Vec<Option<Result<ToolList, Error>>> = sets.iter().map(|_| None).collect();
        while let Some(listed) = listing.join_next().await {
            // A task that panicked listed nothing.
            if let Ok((index, list)) = listed {
                lists[index] = Some(list);
            }
        }
        let mut toolbox = Self::default();
        for ((origin, set), list) in sets.into_iter().zip(lists) {
            match list {
                Some(Ok(list)) => toolbox.add(&origin, set, list, permissions),
                Some(Err(error)) => toolbox.failed.push(FailedOrigin { origin, error }),
                None => {}
            }
        }
        toolbox
    }

    fn add(&mut self, origin: &str, set: Toolset, list: ToolList, permissions: &Permissions) {
        let index = self.sets.len();
        self.sets.push(set);
        self.omitted_count += list.omitted_count;
        let mut taken: BTreeSet<String> = self.tools.iter().map(|tool| tool.function.clone()).collect();
        for tool in list.tools {
            let permission = permissions.of(origin, &tool);
            if permission == Permission::Never {
                continue;
            }
            if self.tools.len() >= MAX_OFFERED_TOOLS {
                self.omitted_count += 1;
                continue;
            }
            let function = function_name(origin, &tool.name, &taken);
            taken.insert(function.clone());
            self.tools.push(OfferedTool { function, origin: origin.to_owned(), tool, permission, set: index });
        }
    }

    /// All tools.
    #[must_use]
    pub fn tools(&self) -> &[OfferedTool] {
        &self.tools
    }

    /// The tool of a function. A model can call a function that does not exist.
    #[must_use]
    pub fn find(&self, function: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.function == function)
    }

    /// The tools in the format of OpenAI's API.
    #[must_use]
    pub fn definitions(&self) -> Vec<Value> {
        let definition = |offered: &OfferedTool| {
            let Tool { description, input_schema, .. } = &offered.tool;
            let function = json!({ "name": offered.function, "description": description, "parameters": input_schema });
            json!({ "type": "function", "function": function })
        };
        self.tools.iter().map(definition).collect()
    }

    /// Calls a function. Whether the user allows it must be checked before. A failure becomes a result, which the model reads.
    pub async fn call(&self, function: &str, arguments: Map<String, Value>) -> ToolResult {
        let failure = |text: &str| ToolResult { is_error: true, ..ToolResult::from_text(text) };
        let Some(offered) = self.find(function) else {
            return failure(&format!("no tool is named {:?}", one_line(function, MAX_FUNCTION_BYTES)));
        };
        match self.sets[offered.set].call(&offered.tool.name, arguments).await {
            Ok(result) => result,
            Err(error) => failure(&error.to_string()),
        }
    }
}

/// Returns a name of letters, digits, `_` and `-` that is not taken. It does not depend on other origins unless it is taken, so that
/// the cached prefix of a prompt stays valid when a server is added.
fn function_name(origin: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let whole: String = format!("{origin}__{tool}").chars().map(valid).collect();
    // All characters are ASCII. The end of a long name is kept, because it has the name of the tool.
    let whole = &whole[whole.len().saturating_sub(MAX_FUNCTION_BYTES)..];
    let mut name = whole.to_owned();
    let mut number = 1_u32;
    while taken.contains(&name) {
        number += 1;
        let suffix = format!("_{number}");
        name = format!("{}{suffix}", &whole[..whole.len().min(MAX_FUNCTION_BYTES - suffix.len())]);
    }
    name
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::built_in::FolderReader;

    fn folder(path: &std::path::Path) -> Toolset {
        Toolset::Folder(FolderReader::open(path).unwrap())
    }

    #[tokio::test]
    async fn tools_of_all_origins_are_offered_and_called() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("a.txt"), "hello").unwrap();
        let set = folder(home.path());
        let list = set.tools().await.unwrap();
        let mut permissions = Permissions::default();
        permissions.set("notes", &list.tools[0], Permission::Never).unwrap();
        permissions.set("notes", &list.tools[1], Permission::Always).unwrap();
        let toolbox =
            Toolbox::open(vec![("notes".to_owned(), set.clone()), ("b.c".to_owned(), set)], &permissions).await;
        let offered: Vec<(&str, Permission)> =
            toolbox.tools().iter().map(|tool| (&*tool.function, tool.permission)).collect();
        let expected = [
            ("notes__read_file", Permission::Always),
            ("b_c__list_folder", Permission::Ask),
            ("b_c__read_file", Permission::Ask),
        ];
        assert_eq!(offered, expected, "a forbidden tool is not offered");
        let arguments = json!({ "path": "a.txt" }).as_object().unwrap().clone();
        assert_eq!(toolbox.call("b_c__read_file", arguments.clone()).await.text, "hello");
        let refused = toolbox.call("notes__list_folder", arguments).await;
        assert!(refused.is_error && refused.text.contains("no tool is named"), "{}", refused.text);
        let definition = &toolbox.definitions()[0];
        assert_eq!(definition["function"]["name"], "notes__read_file");
        assert_eq!(definition["function"]["parameters"]["required"], json!(["path"]));
    }

    #[test]
    fn function_names_are_valid_and_unique() {
        let mut taken = BTreeSet::new();
        let mut name = |origin: &str, tool: &str| {
            let name = function_name(origin, tool, &taken);
            assert!(name.len() <= MAX_FUNCTION_BYTES, "{name}");
            taken.insert(name.clone());
            name
        };
        assert_eq!(name("a", "b.c"), "a__b_c");
        assert_eq!(name("a", "b/c"), "a__b_c_2");
        assert_eq!(name("a", "b_c"), "a__b_c_3");
        let long = "x".repeat(100);
        let (first, second) = (name("a", &long), name("b", &long));
        assert!(first.len() == 64 && second.ends_with("_2") && second.len() == 64, "{second}");
    }
}
