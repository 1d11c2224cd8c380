//! Proves that no value matches two schemas, so that `oneOf` means the same as `anyOf`.
//!
//! The proof considers types, constants, and required properties: it succeeds for a union of objects that differ in a constant
//! property or in their required properties.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::place::{Place, resolve};
use crate::error::Error;

/// Maximum nesting of a proof.
const MAX_DEPTH: usize = 8;
/// Maximum number of comparisons for one `oneOf`. Each level compares all pairs of properties and alternatives.
const MAX_STEPS: usize = 1_000_000;

/// Checks that the alternatives of `oneOf` at `place` exclude each other.
///
/// # Errors
/// When that cannot be proved.
pub(super) fn check(root: &Value, alternatives: &Value, place: &Place) -> Result<(), Error> {
    let alternatives = alternatives.as_array().map_or(&[][..], Vec::as_slice);
    let proof = Proof { root, place, steps: Cell::new(0) };
    for (index, first) in alternatives.iter().enumerate() {
        for (offset, second) in alternatives.iter().skip(index + 1).enumerate() {
            if !proof.are_disjoint(first, second, 0) {
                let second = index + 1 + offset;
                return Err(
                    place.unsupported("oneOf", &format!("alternatives {index} and {second} may overlap; use `anyOf`"))
                );
            }
        }
    }
    Ok(())
}

struct Proof<'a> {
    root: &'a Value,
    place: &'a Place,
    steps: Cell<usize>,
}

impl<'a> Proof<'a> {
    fn are_disjoint(&self, first: &'a Value, second: &'a Value, depth: usize) -> bool {
        self.steps.set(self.steps.get() + 1);
        if depth > MAX_DEPTH || self.steps.get() > MAX_STEPS {
            return false;
        }
        if let Value::Object(keywords) = first {
            let disjoint = |schema: &'a Value| self.are_disjoint(schema, second, depth + 1);
            let target = keywords.get("$ref").and_then(|reference| resolve(self.root, reference, self.place).ok());
            if target.is_some_and(|target| disjoint(target.schema))
                || list(keywords, "allOf").iter().any(disjoint)
                || ["anyOf", "oneOf"].iter().any(|key| {
                    let alternatives = list(keywords, key);
                    !alternatives.is_empty() && alternatives.iter().all(disjoint)
                })
            {
                return true;
            }
        }
        match (first, second) {
            (Value::Bool(false), _) | (_, Value::Bool(false)) => true,
            (Value::Object(own), Value::Object(other)) => {
                // The other schema may be the one that refers to others.
                let is_applied = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| other.contains_key(*key));
                self.differ(own, other, depth) || (is_applied && self.are_disjoint(second, first, depth + 1))
            }
            _ => false,
        }
    }

    /// Whether the assertions of two schemas exclude each other.
    fn differ(&self, own: &'a Map<String, Value>, other: &'a Map<String, Value>, depth: usize) -> bool {
        let (constants, others) = (constants(own), constants(other));
        if let (Some(own), Some(other)) = (&constants, &others)
            && !own.iter().any(|value| other.iter().any(|other| are_equal(value, other)))
        {
            return true;
        }
        let common = types(own, constants.as_deref()) & types(other, others.as_deref());
        common == 0 || (common == OBJECT && self.objects_differ(own, other, depth))
    }

    /// Whether a property that one of two schemas for objects requires excludes the other schema.
    fn objects_differ(&self, own: &'a Map<String, Value>, other: &'a Map<String, Value>, depth: usize) -> bool {
        let required = |schema: &'a Map<String, Value>| list(schema, "required").iter().filter_map(Value::as_str);
        required(own).chain(required(other)).any(|name| match (property(own, name), property(other, name)) {
            (Some(first), Some(second)) => self.are_disjoint(first, second, depth + 1),
            (None, Some(_)) => forbids_others(own),
            (Some(_), None) => forbids_others(other),
            (None, None) => false,
        })
    }
}

fn list<'a>(keywords: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    keywords.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn property<'a>(keywords: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    keywords.get("properties")?.get(name)
}

fn forbids_others(keywords: &Map<String, Value>) -> bool {
    keywords.get("additionalProperties") == Some(&Value::Bool(false)) && !keywords.contains_key("patternProperties")
}

/// The values of `const` or `enum`.
fn constants(keywords: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Whether two values are equal; 1 equals 1.0. Containers count as equal, which is never wrong here.
fn are_equal(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Number(first), Value::Number(second)) => first.as_f64() == second.as_f64(),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => true,
        _ => first == second,
    }
}

const OBJECT: u8 = 1 << 0;
const ARRAY: u8 = 1 << 1;
const STRING: u8 = 1 << 2;
const NUMBER: u8 = 1 << 3;
const BOOLEAN: u8 = 1 << 4;
const NULL: u8 = 1 << 5;
const ALL: u8 = (1 << 6) - 1;

/// The types of values that a schema may accept, one bit each.
fn types(keywords: &Map<String, Value>, constants: Option<&[&Value]>) -> u8 {
    let named = |name: &Value| match name.as_str() {
        Some("object") => OBJECT,
        Some("array") => ARRAY,
        Some("string") => STRING,
        Some("number" | "integer") => NUMBER,
        Some("boolean") => BOOLEAN,
        Some("null") => NULL,
        _ => ALL,
    };
    let of_type = match keywords.get("type") {
        None => ALL,
        Some(Value::Array(names)) => names.iter().fold(0, |types, name| types | named(name)),
        Some(name) => named(name),
    };
    let of_value = |value: &&Value| match value {
        Value::Object(_) => OBJECT,
        Value::Array(_) => ARRAY,
        Value::String(_) => STRING,
        Value::Number(_) => NUMBER,
        Value::Bool(_) => BOOLEAN,
        Value::Null => NULL,
    };
    of_type & constants.map_or(ALL, |values| values.iter().fold(0, |types, value| types | of_value(value)))
}
