//! Permissions of tools, as a user gave them.
//!
//! A permission to call a tool always is valid for the tool that the user saw. If the server changes the description or the
//! arguments of the tool afterwards, the user is asked again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::tools::Tool;

/// Most tools with a permission. The same as the limit of tools for all servers that a user can add.
pub const MAX_PERMISSIONS: usize = 8192;

/// Whether a tool may be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// The user is asked before each call.
    #[default]
    Ask,
    /// The tool is called without a question.
    Always,
    /// The tool is never called, and models do not see it.
    Never,
}

/// Permissions by the name of the origin and the name of the tool. Other tools ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Permissions(BTreeMap<String, BTreeMap<String, Grant>>);

/// A stored permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Grant {
    /// Digest of the tool that may always be called.
    Always(String),
    Never,
}

/// There are too many permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot store the permission: the limit of {MAX_PERMISSIONS} is reached; remove a server first")]
pub struct TooManyPermissions;

impl Permissions {
    /// Returns the permission of a tool.
    #[must_use]
    pub fn of(&self, origin: &str, tool: &Tool) -> Permission {
        match self.0.get(origin).and_then(|tools| tools.get(&tool.name)) {
            Some(Grant::Always(digest)) if *digest == digest_of(tool) => Permission::Always,
            Some(Grant::Never) => Permission::Never,
            Some(Grant::Always(_)) | None => Permission::Ask,
        }
    }

    /// Sets the permission of a tool.
    ///
    /// # Errors
    /// If there are too many.
    pub fn set(&mut self, origin: &str, tool: &Tool, permission: Permission) -> Result<(), TooManyPermissions> {
        let grant = match permission {
            Permission::Ask => {
                self.reset(origin, &tool.name);
                return Ok(());
            }
            Permission::Always => Grant::Always(digest_of(tool)),
            Permission::Never => Grant::Never,
        };
        let has_one = self.0.get(origin).is_some_and(|tools| tools.contains_key(&tool.name));
        if !has_one && self.0.values().map(BTreeMap::len).sum::<usize>() >= MAX_PERMISSIONS {
            return Err(TooManyPermissions);
        }
        self.0.entry(origin.to_owned()).or_default().insert(tool.name.clone(), grant);
        Ok(())
    }

    /// Removes all permissions of an origin. A later server of the same name must not have them.
    pub fn remove_origin(&mut self, origin: &str) {
        self.0.remove(origin);
    }

    fn reset(&mut self, origin: &str, tool: &str) {
        if let Some(tools) = self.0.get_mut(origin) {
            tools.remove(tool);
            if tools.is_empty() {
                self.0.remove(origin);
            }
        }
    }
}

/// Returns the digest of all that a user sees of a tool.
fn digest_of(tool: &Tool) -> String {
    let mut digest = Sha256::new();
    let schema = serde_json::to_string(&tool.input_schema).unwrap_or_default();
    for part in [tool.name.as_str(), &tool.description, &schema] {
        // Lengths separate the parts.
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        Tool { name: name.to_owned(), description: description.to_owned(), input_schema: Map::new() }
    }

    #[test]
    fn tools_ask_until_a_permission_is_set() {
        let (read, write) = (tool("read", "Reads"), tool("write", "Writes"));
        let mut permissions = Permissions::default();
        permissions.set("files", &read, Permission::Always).unwrap();
        permissions.set("files", &write, Permission::Never).unwrap();
        assert_eq!(permissions.of("files", &read), Permission::Always);
        assert_eq!(permissions.of("files", &write), Permission::Never);
        assert_eq!(permissions.of("other", &read), Permission::Ask, "another server");
        permissions.set("files", &read, Permission::Ask).unwrap();
        assert_eq!(permissions.of("files", &read), Permission::Ask);
        permissions.remove_origin("files");
        assert_eq!(permissions, Permissions::default());
    }

    #[test]
    fn changed_tool_asks_again_and_stays_forbidden() {
        let mut permissions = Permissions::default();
        permissions.set("files", &tool("read", "Reads a file"), Permission::Always).unwrap();
        assert_eq!(permissions.of("files", &tool("read", "Reads and sends a file")), Permission::Ask);
        let mut schema = tool("read", "Reads a file");
        schema.input_schema.insert("type".to_owned(), "object".into());
        assert_eq!(permissions.of("files", &schema), Permission::Ask);
        permissions.set("files", &schema, Permission::Never).unwrap();
        assert_eq!(permissions.of("files", &tool("read", "Other")), Permission::Never);
    }

    #[test]
    fn stored_permissions_are_read_again() {
        let mut permissions = Permissions::default();
        permissions.set("a", &tool("read", ""), Permission::Always).unwrap();
        permissions.set("a", &tool("write", ""), Permission::Never).unwrap();
        let text = serde_json::to_string(&permissions).unwrap();
        assert!(text.starts_with(r#"{"a":{"read":{"always":""#) && text.ends_with(r#""},"write":"never"}}"#), "{text}");
        assert_eq!(serde_json::from_str::<Permissions>(&text).unwrap(), permissions);
    }

    #[test]
    fn number_of_permissions_is_limited() {
        let mut permissions = Permissions::default();
        for number in 0..MAX_PERMISSIONS {
            permissions.set("a", &tool(&format!("t{number}"), ""), Permission::Never).unwrap();
        }
        assert_eq!(permissions.set("b", &tool("x", ""), Permission::Never), Err(TooManyPermissions));
        assert_eq!(permissions.set("a", &tool("t1", ""), Permission::Always), Ok(()), "one that exists");
    }
}
