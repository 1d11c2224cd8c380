//! Rewrites a JSON Schema (draft 2020-12, with the forms of draft 4 to 2019-09) to the part that is enforced exactly.
//!
//! The result has only keywords that `llguidance` implements. Annotations and keywords that JSON Schema does not define are dropped,
//! as its specification demands. A keyword that would be ignored or approximated is refused with its position. Referenced schemas
//! are moved to `$defs` of the result, so a reference may be any JSON pointer.
//!
//! Answers are narrower than the schema where that does no harm: properties come in the order of the schema, integers have no
//! fraction, and a schema with keywords for objects but without a type accepts only objects.

mod cost;
mod disjoint;
mod formats;
mod pattern;
mod place;
mod values;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::limits::{MAX_DEPTH, MAX_PROPERTIES, at_most};
use cost::Cost;
use formats::Format;
use place::{Place, Target, resolve};

/// Whether a value of a keyword asserts nothing.
type AssertsNothing = fn(&Value) -> bool;

/// Keywords that assert something and cannot be enforced.
const UNSUPPORTED: &[(&str, AssertsNothing)] = &[
    ("$dynamicRef", never),
    ("$recursiveRef", never),
    ("contains", never),
    ("dependencies", is_empty),
    ("dependentRequired", is_empty),
    ("dependentSchemas", is_empty),
    ("if", never),
    ("not", |value| *value == Value::Bool(false)),
    ("propertyNames", is_any),
    ("unevaluatedItems", is_any),
    ("unevaluatedProperties", is_any),
    ("uniqueItems", |value| *value == Value::Bool(false)),
];

/// Keywords with subschemas that apply to the same value.
const IN_PLACE: &[&str] = &["$ref", "allOf", "anyOf", "oneOf", "const", "enum"];

/// The type that keywords without a `type` beside them are meant for.
const TYPE_OF_KEYWORD: &[(&str, &[&str])] = &[
    ("object", &["properties", "patternProperties", "additionalProperties", "required"]),
    ("array", &["items", "prefixItems"]),
];

fn never(_: &Value) -> bool {
    false
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn is_any(value: &Value) -> bool {
    *value == Value::Bool(true) || is_empty(value)
}

/// Returns an object schema that accepts a subset of what `schema` accepts.
///
/// # Errors
/// When a keyword is not supported or has an invalid value, or the schema is too large.
pub(crate) fn normalise(schema: &Value) -> Result<Value, Error> {
    let mut normaliser = Normaliser {
        root: schema,
        numbers: HashMap::new(),
        definitions: Vec::new(),
        loops: Vec::new(),
        cost: Cost::default(),
    };
    let mut result = match normaliser.schema(schema, &Place::root())? {
        Value::Object(result) => result,
        Value::Bool(false) => return Err(Error::Unsatisfiable("it is `false`".to_owned())),
        _ => Map::new(),
    };
    normaliser.check_loops()?;
    normaliser.cost.check()?;
    if !normaliser.definitions.is_empty() {
        let numbered = normaliser.definitions.into_iter().enumerate();
        result.insert("$defs".to_owned(), numbered.map(|(number, schema)| (number.to_string(), schema)).collect());
    }
    Ok(Value::Object(result))
}

struct Normaliser<'a> {
    root: &'a Value,
    /// Numbers of definitions by the pointers of their targets.
    numbers: HashMap<String, usize>,
    /// Rewritten targets of references, by number. `true` while it is being rewritten.
    definitions: Vec<Value>,
    /// References from a definition to another that apply to the same value, with the place of the reference.
    loops: Vec<(usize, usize, String)>,
    cost: Cost,
}

impl<'a> Normaliser<'a> {
    fn schema(&mut self, schema: &'a Value, place: &Place) -> Result<Value, Error> {
        at_most("nesting of the JSON schema", place.depth, MAX_DEPTH)?;
        let keywords = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(keywords) => keywords,
            _ => return Err(Error::NotASchema { at: place.pointer.clone() }),
        };
        let place = &place.with_base_of(schema);
        for (keyword, asserts_nothing) in UNSUPPORTED {
            if let Some(value) = keywords.get(*keyword)
                && !asserts_nothing(value)
                && !(*keyword == "if" && !keywords.contains_key("then") && !keywords.contains_key("else"))
            {
                return Err(place.unsupported(keyword, ""));
            }
        }
        let mut asserted = Map::new();
        let mut applied = Map::new();
        let mut applies_first = None;
        for (keyword, value) in keywords {
            let before = (asserted.len(), applied.len());
            self.keyword(keyword, value, keywords, place, &mut asserted, &mut applied)?;
            if (asserted.len(), applied.len()) != before {
                applies_first = applies_first.or(Some(IN_PLACE.contains(&keyword.as_str())));
            }
        }
        values::check_properties(keywords, place)?;
        if !keywords.contains_key("type") && !place.is_in_place && applied.is_empty() {
            let meant = TYPE_OF_KEYWORD.iter().find(|(_, of)| of.iter().any(|keyword| asserted.contains_key(*keyword)));
            if let Some((name, _)) = meant {
                asserted.insert("type".to_owned(), json!(name));
            }
        }
        // A group of assertions must not be interrupted: `additionalProperties` depends on the keywords beside it.
        let (mut first, second) = if applies_first == Some(true) { (applied, asserted) } else { (asserted, applied) };
        first.extend(second);
        Ok(Value::Object(first))
    }

    /// Rewrites one keyword to `asserted`, or to `applied` if its subschemas apply to the same value.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        place: &Place,
        asserted: &mut Map<String, Value>,
        applied: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        let mut assert = |value: Value| asserted.insert(keyword.to_owned(), value);
        match keyword {
            "$ref" => {
                let target = resolve(self.root, value, place)?;
                self.cost.merges += 1;
                let number = self.definition(target, place)?;
                applied.insert(keyword.to_owned(), json!(format!("#/$defs/{number}")));
            }
            "allOf" | "anyOf" | "oneOf" => {
                let members = self.members(keyword, value, &place.in_place())?;
                self.cost.merges += members.len();
                if keyword == "oneOf" {
                    disjoint::check(self.root, value, place)?;
                }
                // Disjoint alternatives need no exclusion. `allOf` takes those that have `anyOf` beside them.
                match (keyword, applied.contains_key("anyOf")) {
                    ("anyOf" | "oneOf", false) => _ = applied.insert("anyOf".to_owned(), Value::Array(members)),
                    ("anyOf" | "oneOf", true) => push_all_of(applied, [json!({ "anyOf": members })]),
                    _ => push_all_of(applied, members),
                }
            }
            "const" => {
                values::check_constant(value, keyword, place)?;
                applied.insert(keyword.to_owned(), value.clone());
            }
            "enum" => {
                values::check_enum(value, place)?;
                applied.insert(keyword.to_owned(), value.clone());
            }
            "type" => _ = assert(values::types(value, place)?),
            "properties" => _ = assert(self.properties(keyword, value, place)?),
            "patternProperties" => {
                let Value::Object(rewritten) = self.properties(keyword, value, place)? else { return Ok(()) };
                self.cost.add_patterns(rewritten.len(), place);
                let patterns = rewritten.into_iter().map(|(pattern, schema)| {
                    Ok((pattern::translate(&pattern).map_err(|why| place.unsupported(keyword, &why))?, schema))
                });
                assert(Value::Object(patterns.collect::<Result<_, _>>()?));
            }
            "additionalProperties" => _ = assert(self.schema(value, &place.child(&[keyword]))?),
            "required" => _ = assert(values::required(value, place)?),
            "prefixItems" => _ = assert(Value::Array(self.members(keyword, value, place)?)),
            // The form of draft 2019-09 and before.
            "items" if value.is_array() => {
                if keywords.contains_key("prefixItems") {
                    return Err(place.invalid(keyword, "a list beside `prefixItems`"));
                }
                let members = Value::Array(self.members(keyword, value, place)?);
                asserted.insert("prefixItems".to_owned(), members);
                if let Some(rest) = keywords.get("additionalItems") {
                    asserted.insert("items".to_owned(), self.schema(rest, &place.child(&["additionalItems"]))?);
                }
            }
            "items" => _ = assert(self.schema(value, &place.child(&[keyword]))?),
            "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties" => {
                if let Some(count) = values::count(keyword, value, place)? {
                    assert(count);
                }
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                let number = values::number(keyword, value, place)?;
                if keyword == "multipleOf" {
                    self.cost.add_factor(&number, place);
                }
                assert(number);
            }
            "pattern" => {
                let text = value.as_str().ok_or_else(|| place.invalid(keyword, "not a text"))?;
                assert(json!(pattern::translate(text).map_err(|why| place.unsupported(keyword, &why))?));
            }
            "format" => match formats::format(value, place)? {
                Some(Format::BuiltIn) => _ = assert(value.clone()),
                // Another pattern or length may be beside it.
                Some(Format::Pattern(pattern, None)) => push_all_of(applied, [json!({ "pattern": pattern })]),
                Some(Format::Pattern(pattern, Some(chars))) => {
                    push_all_of(applied, [json!({ "pattern": pattern, "maxLength": chars })]);
                }
                None => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// Rewrites a list of schemas that is not empty.
    fn members(&mut self, keyword: &str, value: &'a Value, place: &Place) -> Result<Vec<Value>, Error> {
        let members = value.as_array().filter(|members| !members.is_empty());
        let members = members.ok_or_else(|| place.invalid(keyword, "not a list of schemas, or an empty one"))?;
        at_most("number of schemas in a list of the JSON schema", members.len(), MAX_PROPERTIES)?;
        let places = (0..members.len()).map(|index| place.member(keyword, index));
        members.iter().zip(places).map(|(member, place)| self.schema(member, &place)).collect()
    }

    /// Rewrites an object of schemas.
    fn properties(&mut self, keyword: &str, value: &'a Value, place: &Place) -> Result<Value, Error> {
        let properties = value.as_object().ok_or_else(|| place.invalid(keyword, "not an object"))?;
        at_most("number of properties of an object in the JSON schema", properties.len(), MAX_PROPERTIES)?;
        let rewrite = |(name, schema): (&String, &'a Value)| {
            Ok((name.clone(), self.schema(schema, &place.child(&[keyword, name]))?))
        };
        Ok(Value::Object(properties.iter().map(rewrite).collect::<Result<_, _>>()?))
    }

    /// Returns the number of the definition of a reference's target, and rewrites the target first if it is new.
    fn definition(&mut self, target: Target<'a>, place: &Place) -> Result<usize, Error> {
        let existing = self.numbers.get(&target.pointer).copied();
        let number = existing.unwrap_or(self.definitions.len());
        if let Some(from) = place.definition {
            self.loops.push((from, number, place.pointer.clone()));
        }
        if existing.is_none() {
            self.numbers.insert(target.pointer.clone(), number);
            self.definitions.push(Value::Bool(true));
            let rewritten = self.schema(target.schema, &place.target(&target, number))?;
            if let Some(definition) = self.definitions.get_mut(number) {
                *definition = rewritten;
            }
        }
        Ok(number)
    }

    /// Refuses references that lead back to themselves without consuming any part of the value.
    fn check_loops(&self) -> Result<(), Error> {
        // Removes definitions without open references until none is left, or all that are left are in a loop.
        let mut open: Vec<&(usize, usize, String)> = self.loops.iter().collect();
        loop {
            let before = open.len();
            let from: Vec<bool> =
                (0..self.definitions.len()).map(|number| open.iter().any(|edge| edge.0 == number)).collect();
            open.retain(|edge| from.get(edge.1).copied().unwrap_or(false));
            match open.first() {
                None => return Ok(()),
                Some((_, _, at)) if open.len() == before => {
                    let reason = "it refers to itself".to_owned();
                    return Err(Error::InvalidKeyword { keyword: "$ref".to_owned(), at: at.clone(), reason });
                }
                Some(_) => {}
            }
        }
    }
}

fn push_all_of(applied: &mut Map<String, Value>, schemas: impl IntoIterator<Item = Value>) {
    if let Value::Array(all_of) = applied.entry("allOf").or_insert_with(|| json!([])) {
        all_of.extend(schemas);
    }
}
