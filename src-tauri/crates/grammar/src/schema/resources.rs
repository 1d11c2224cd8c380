//! The identifiers in a schema document: `$id` of its resources, and the anchors in them.
//!
//! Specification: JSON Schema Core 2020-12, section 8.2, and RFC 3986, section 5.2, for relative references.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::limits::{MAX_DEPTH, schema_at_most};

/// Keywords with one subschema.
const ONE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with a list of subschemas.
const LISTS: &[&str] = &["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords with an object of subschemas.
const MAPS: &[&str] = &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

/// A schema that has an identifier.
#[derive(Clone, Debug)]
pub(super) struct Named<'a> {
    pub(super) schema: &'a Value,
    /// JSON pointer, as a URI fragment.
    pub(super) pointer: String,
    /// URI that references in it are relative to.
    pub(super) base: String,
}

/// All identifiers of a document.
#[derive(Debug, Default)]
pub(super) struct Resources<'a> {
    by_uri: HashMap<String, Named<'a>>,
    /// By URI and name.
    anchors: HashMap<(String, String), Named<'a>>,
    /// How many schemas have a `$dynamicAnchor` of this name.
    dynamic: HashMap<String, usize>,
    /// Whether a schema has `$recursiveAnchor`.
    pub(super) is_recursive: bool,
}

impl<'a> Resources<'a> {
    /// Finds the identifiers of a document.
    ///
    /// # Errors
    /// When the document is nested too deeply.
    pub(super) fn of(root: &'a Value) -> Result<Self, Error> {
        let mut resources = Self::default();
        let root_name = Named { schema: root, pointer: "#".to_owned(), base: String::new() };
        resources.by_uri.insert(String::new(), root_name.clone());
        let mut open = vec![(root_name, 0)];
        while let Some((position, depth)) = open.pop() {
            schema_at_most("levels of nesting", depth, MAX_DEPTH)?;
            let Value::Object(keywords) = position.schema else { continue };
            let base = base_of(keywords, &position.base);
            resources.add(
                keywords,
                Named { base: base.clone(), ..position.clone() },
                base != position.base || depth == 0,
            );
            let child = |schema: &'a Value, names: &[&str]| {
                (Named { schema, pointer: pointer(&position.pointer, names), base: base.clone() }, depth + 1)
            };
            for (keyword, value) in keywords {
                match value {
                    Value::Array(list) if LISTS.contains(&keyword.as_str()) => {
                        open.extend(list.iter().enumerate().map(|(at, item)| child(item, &[keyword, &at.to_string()])));
                    }
                    Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                        open.extend(map.iter().map(|(name, schema)| child(schema, &[keyword, name])));
                    }
                    Value::Object(_) if ONE.contains(&keyword.as_str()) => open.push(child(value, &[keyword])),
                    _ => {}
                }
            }
        }
        Ok(resources)
    }

    fn add(&mut self, keywords: &'a Map<String, Value>, position: Named<'a>, is_resource: bool) {
        for (keyword, is_dynamic) in [("$anchor", false), ("$dynamicAnchor", true)] {
            if let Some(name) = keywords.get(keyword).and_then(Value::as_str) {
                self.anchors.entry((position.base.clone(), name.to_owned())).or_insert_with(|| position.clone());
                if is_dynamic {
                    *self.dynamic.entry(name.to_owned()).or_default() += 1;
                }
            }
        }
        self.is_recursive |= keywords.get("$recursiveAnchor") == Some(&Value::Bool(true));
        if is_resource {
            self.by_uri.entry(position.base.clone()).or_insert(position);
        }
    }

    pub(super) fn resource(&self, uri: &str) -> Option<&Named<'a>> {
        self.by_uri.get(uri)
    }

    pub(super) fn anchor(&self, uri: &str, name: &str) -> Option<&Named<'a>> {
        self.anchors.get(&(uri.to_owned(), name.to_owned()))
    }

    /// Whether a dynamic reference to this anchor depends on how the schema was reached.
    pub(super) fn is_dynamic(&self, schema: &Value, name: &str) -> bool {
        schema.get("$dynamicAnchor").and_then(Value::as_str) == Some(name) && self.dynamic.get(name) > Some(&1)
    }
}

/// The base of references in a schema with these keywords. Old drafts use fragments in `$id` as names, which change nothing.
pub(super) fn base_of(keywords: &Map<String, Value>, base: &str) -> String {
    let id = keywords.get("$id").or_else(|| keywords.get("id")).and_then(Value::as_str);
    match id.map(|id| id.split_once('#').map_or(id, |(uri, _)| uri)) {
        Some(uri) if !uri.is_empty() => absolute(base, uri),
        _ => base.to_owned(),
    }
}

/// Extends a JSON pointer.
pub(super) fn pointer(start: &str, names: &[&str]) -> String {
    let mut pointer = start.to_owned();
    for name in names {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// Resolves a reference without a fragment.
pub(super) fn absolute(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    if scheme_bytes(reference) > 0 {
        return reference.to_owned();
    }
    let scheme = base.get(..scheme_bytes(base)).unwrap_or_default();
    let rest = base.get(scheme.len()..).unwrap_or_default();
    if reference.starts_with("//") {
        return format!("{scheme}{reference}");
    }
    let path_start = match rest.strip_prefix("//") {
        Some(authority) => 2 + authority.find('/').unwrap_or(authority.len()),
        None => 0,
    };
    let (authority, path) = rest.split_at(path_start);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let folder =
        path.rfind('/').and_then(|end| path.get(..=end)).unwrap_or(if authority.is_empty() { "" } else { "/" });
    let merged = if reference.starts_with('/') { reference.to_owned() } else { format!("{folder}{reference}") };
    format!("{scheme}{authority}{}", without_dots(&merged))
}

/// Length of the scheme with its colon.
fn scheme_bytes(uri: &str) -> usize {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.');
    match uri.split_once(':') {
        Some((scheme, _))
            if scheme.starts_with(|char: char| char.is_ascii_alphabetic()) && scheme.chars().all(is_part) =>
        {
            scheme.len() + 1
        }
        _ => 0,
    }
}

/// Removes the segments `.` and `..` of a path.
fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_with_folder = false;
    for segment in path.split('/') {
        ends_with_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." if segments.len() > 1 => _ = segments.pop(),
            ".." => {}
            _ => segments.push(segment),
        }
    }
    if ends_with_folder {
        segments.push("");
    }
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_references_are_resolved_as_in_rfc_3986() {
        let check = |base: &str, reference: &str, expected: &str| {
            assert_eq!(absolute(base, reference), expected, "{reference} in {base}");
        };
        let base = "http://a/b/c/d?q";
        check(base, "g", "http://a/b/c/g");
        check(base, "./g/", "http://a/b/c/g/");
        check(base, "/g", "http://a/g");
        check(base, "//g", "http://g");
        check(base, "../g", "http://a/b/g");
        check(base, "../../../g", "http://a/g");
        check(base, "..", "http://a/b/");
        check(base, "urn:x", "urn:x");
        check("http://a", "g", "http://a/g");
        check("", "g", "g");
        check("urn:uuid:1", "", "urn:uuid:1");
    }
}
