//! The set of values that a schema accepts.
//!
//! The result may be smaller than the set of JSON Schema where that set has no finite union of shapes, never larger.

use std::rc::Rc;

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value};

use super::evaluator::Evaluator;
use super::formats::{self, Format};
use super::intersect;
use super::position::Position;
use super::shape::{Arrays, AtomKind, Bound, Evaluated, Node, Numbers, Objects, Set, Shape, Texts, Type};
use super::{pattern, values};
use crate::error::Error;
use crate::limits::{MAX_PROPERTIES, schema_at_most};

/// Maximum number of alternatives of `anyOf` with combinations that are kept apart, where it matters which properties were evaluated.
const MAX_COMBINED: usize = 3;
/// Maximum number of alternatives of `oneOf` that may overlap.
const MAX_OVERLAPPING: usize = 16;

/// Keywords with subschemas that apply to the same value, and those of constants.
const IN_PLACE: &[&str] = &[
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "enum",
    "format",
    "if",
    "not",
    "oneOf",
];

/// Keywords that assert something about a value itself.
const ASSERTIONS: &[&str] = &[
    "additionalProperties",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "type",
    "uniqueItems",
];

impl<'a> Evaluator<'a> {
    /// The values that a schema accepts.
    pub(super) fn accepted(&mut self, schema: &'a Value, position: &Position) -> Result<Set<'a>, Error> {
        self.work.add_schema()?;
        let keywords = match schema {
            Value::Bool(true) => return Ok(Set::any()),
            Value::Bool(false) => return Ok(Set::never()),
            Value::Object(keywords) => keywords,
            _ => return Err(Error::NotASchema { at: position.quoted() }),
        };
        let mut position = position.with_base_of(schema);
        let unevaluated = ["unevaluatedProperties", "unevaluatedItems"].map(|keyword| keywords.get(keyword));
        position.is_observed |= unevaluated.iter().flatten().any(|value| !values::is_any(value));
        let position = &position;
        let mut set: Option<Set<'a>> = None;
        // They belong together: `additionalProperties` depends on the keywords beside it. Properties are in the order of the schema.
        let is_own = |keyword: &String| ASSERTIONS.contains(&keyword.as_str());
        let own = keywords
            .keys()
            .find(|keyword| *keyword == "properties")
            .or_else(|| keywords.keys().find(|name| is_own(name)));
        for (keyword, value) in keywords {
            let part = if IN_PLACE.contains(&keyword.as_str()) {
                self.in_place(keyword, value, keywords, position)?
            } else if Some(keyword) == own {
                self.own(keywords, position)?
            } else {
                continue;
            };
            set = Some(match set {
                Some(set) => intersect::sets(&set, &part, &mut self.work)?,
                None => part,
            });
        }
        let mut set = set.unwrap_or_else(Set::any);
        let [properties, items] = unevaluated;
        if let Some(value) = properties {
            let node = Node::new(AtomKind::Matches, value, position.child(&["unevaluatedProperties"]));
            for shape in &mut set.0 {
                if let Shape::Object(objects) = shape {
                    self.limit_unevaluated_properties(objects, &node)?;
                }
            }
        }
        if let Some(value) = items {
            let node = Node::new(AtomKind::Matches, value, position.child(&["unevaluatedItems"]));
            for shape in &mut set.0 {
                if let Shape::Array(arrays) = shape {
                    for (item, is_evaluated) in arrays.prefix.iter_mut().chain([&mut arrays.rest]) {
                        if !std::mem::replace(is_evaluated, true) {
                            *item = item.and(&node);
                        }
                    }
                }
            }
        }
        Ok(set)
    }

    fn limit_unevaluated_properties(&mut self, objects: &mut Objects<'a>, node: &Node<'a>) -> Result<(), Error> {
        if std::mem::replace(&mut objects.evaluated.is_all, true) {
            return Ok(());
        }
        let evaluated = std::mem::take(&mut objects.evaluated);
        for (name, own) in &mut objects.properties {
            let mut is_evaluated = evaluated.names.contains(name);
            for pattern in evaluated.patterns.iter().filter(|_| !is_evaluated).collect::<Vec<_>>() {
                is_evaluated |= intersect::matches(pattern, name, &mut self.work)?;
            }
            if !is_evaluated {
                *own = own.and(node);
            }
        }
        for (pattern, own) in &mut objects.patterns {
            if !evaluated.patterns.contains(pattern) {
                *own = own.and(node);
            }
        }
        objects.rest = objects.rest.and(node);
        objects.evaluated.is_all = true;
        Ok(())
    }

    /// The set of one keyword with subschemas for the same value.
    fn in_place(
        &mut self,
        keyword: &str,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        position: &Position,
    ) -> Result<Set<'a>, Error> {
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.referenced(keyword, value, position, AtomKind::Matches),
            "allOf" => {
                let mut all = Set::any();
                for (schema, position) in members(keyword, value, position)? {
                    let part = self.accepted(schema, &position)?;
                    all = intersect::sets(&all, &part, &mut self.work)?;
                }
                Ok(all)
            }
            "anyOf" => {
                let members = members(keyword, value, position)?;
                let sets: Vec<Set<'a>> = members
                    .iter()
                    .map(|(schema, position)| self.accepted(schema, position))
                    .collect::<Result<_, _>>()?;
                self.any_of(sets, position.is_observed)
            }
            "oneOf" => self.one_of(&members(keyword, value, position)?, position),
            "const" => self.constant(value, keyword, position),
            "enum" => {
                let mut all = Set::never();
                for value in values::constants(value, position)? {
                    all.0.extend(self.constant(value, keyword, position)?.0);
                }
                Ok(join_texts(all))
            }
            "not" => self.refused(value, &position.in_place(&[keyword])),
            "if" => self.condition(value, keywords, position),
            "contains" => self.contains(value, keywords, position),
            "format" => Ok(match formats::format(value, position)? {
                None => Set::any(),
                Some(Format::BuiltIn(name)) => {
                    let formats = vec![name.to_owned()];
                    Set::limited(Shape::Text(Texts { formats, ..Texts::default() }))
                }
                Some(Format::Pattern(pattern, max_chars)) => {
                    Set::limited(Shape::Text(Texts { patterns: vec![pattern], max_chars, ..Texts::default() }))
                }
            }),
            _ => self.dependencies(keyword, value, position),
        }
    }

    /// The set of a reference's target, or all other values.
    pub(super) fn referenced(
        &mut self,
        keyword: &str,
        value: &'a Value,
        position: &Position,
        kind: AtomKind,
    ) -> Result<Set<'a>, Error> {
        let (schema, target) = position.resolve(keyword, value, &self.resources)?;
        schema_at_most("levels of nesting", target.depth, crate::limits::MAX_DEPTH)?;
        let key = (std::ptr::from_ref(schema) as usize, kind);
        // A reference that leads back to itself before any part of the value is consumed.
        if self.open.contains(&key) {
            return Err(position.invalid(keyword, "it refers to itself"));
        }
        self.open.push(key);
        let set = match kind {
            AtomKind::Differs => self.refused(schema, &target),
            _ => self.accepted(schema, &target),
        };
        self.open.pop();
        set
    }

    /// The union of alternatives.
    pub(super) fn any_of(&mut self, sets: Vec<Set<'a>>, is_observed: bool) -> Result<Set<'a>, Error> {
        let mut all = Set::never();
        if is_observed && sets.len() <= MAX_COMBINED {
            // More properties are evaluated where several alternatives match.
            for members in (1..1_usize << sets.len()).rev() {
                let mut combined: Option<Set<'a>> = None;
                for (_, set) in sets.iter().enumerate().filter(|(index, _)| members & (1 << index) != 0) {
                    combined = Some(match combined {
                        Some(combined) => intersect::sets(&combined, set, &mut self.work)?,
                        None => set.clone(),
                    });
                }
                all = all.union(combined.unwrap_or_else(Set::never), is_observed);
            }
            return Ok(all);
        }
        for set in sets {
            self.work.add(set.0.len())?;
            all = all.union(set, is_observed);
        }
        Ok(all)
    }

    /// Values that exactly one alternative accepts.
    fn one_of(&mut self, members: &[(&'a Value, Position)], position: &Position) -> Result<Set<'a>, Error> {
        let sets: Vec<Set<'a>> =
            members.iter().map(|(schema, position)| self.accepted(schema, position)).collect::<Result<_, _>>()?;
        let mut overlaps: Vec<(usize, usize)> = Vec::new();
        for (first, own) in sets.iter().enumerate() {
            for (second, other) in sets.iter().enumerate().skip(first + 1) {
                let common = intersect::sets(own, other, &mut self.work)?;
                if !self.is_empty(&common, 0)? {
                    if members.len() > MAX_OVERLAPPING {
                        let reason = format!("alternatives {first} and {second} may overlap; use `anyOf`");
                        return Err(position.unsupported("oneOf", &reason));
                    }
                    overlaps.push((first, second));
                }
            }
        }
        let mut all = Set::never();
        for (index, set) in sets.into_iter().enumerate() {
            let mut only = set;
            for &(first, second) in &overlaps {
                let other = match index {
                    index if index == first => second,
                    index if index == second => first,
                    _ => continue,
                };
                let Some((schema, position)) = members.get(other) else { continue };
                let refused = self.refused(schema, position)?;
                only = intersect::sets(&only, &refused, &mut self.work)?;
            }
            all = all.union(only, position.is_observed);
        }
        Ok(all)
    }

    /// `if` with `then` and `else`.
    fn condition(
        &mut self,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        position: &Position,
    ) -> Result<Set<'a>, Error> {
        let branches = ["then", "else"].map(|keyword| keywords.get(keyword));
        if branches.iter().all(Option::is_none) && !position.is_observed {
            return Ok(Set::any());
        }
        let here = position.in_place(&["if"]);
        let conditions = [self.accepted(value, &here)?, self.refused(value, &here)?];
        let mut all = Set::never();
        for ((branch, keyword), condition) in branches.into_iter().zip(["then", "else"]).zip(conditions) {
            let set = match branch {
                Some(schema) => {
                    let part = self.accepted(schema, &position.in_place(&[keyword]))?;
                    intersect::sets(&condition, &part, &mut self.work)?
                }
                None => condition,
            };
            all = all.union(set, position.is_observed);
        }
        Ok(all)
    }

    /// `dependentRequired`, `dependentSchemas`, and `dependencies` of old drafts.
    fn dependencies(&mut self, keyword: &str, value: &'a Value, position: &Position) -> Result<Set<'a>, Error> {
        let mut all = Set::any();
        for (name, dependency) in values::object(keyword, value, position)? {
            let present = match dependency {
                Value::Array(_) => Set::of(Shape::Object(requiring(values::names(keyword, dependency, position)?))),
                schema => self.accepted(schema, &position.in_place(&[keyword, name]))?,
            };
            let having = Set::of(Shape::Object(requiring([name.as_str()])));
            let present = intersect::sets(&having, &present, &mut self.work)?;
            let absent = Set::limited(Shape::Object(lacking(name)));
            // The property comes before those that depend on it.
            let either = present.union(absent, position.is_observed);
            all = intersect::sets(&all, &either, &mut self.work)?;
        }
        Ok(all)
    }

    /// The value of `const`, or one of `enum`.
    pub(super) fn constant(&mut self, value: &'a Value, keyword: &str, position: &Position) -> Result<Set<'a>, Error> {
        values::check_constant(value, keyword, position)?;
        let part = |value: &'a Value| Node::new(AtomKind::Equals, value, position.child(&[keyword]));
        Ok(Set::of(match value {
            Value::Null => Shape::Null,
            Value::Bool(value) => Shape::Boolean(Some(*value)),
            Value::Number(number) => {
                let bound = number.as_f64().map(|value| Bound { value, is_exclusive: false });
                Shape::Number(Numbers { is_integer: number.is_i64(), min: bound, max: bound, factors: Vec::new() })
            }
            Value::String(text) => Shape::Text(Texts { constants: Some(vec![text.clone()]), ..Texts::default() }),
            Value::Array(items) => Shape::Array(Arrays {
                prefix: items.iter().map(|item| (part(item), false)).collect(),
                rest: (Node::never(), false),
                min_items: items.len() as u64,
                max_items: Some(items.len() as u64),
                unique: None,
            }),
            Value::Object(properties) => Shape::Object(Objects {
                properties: properties.iter().map(|(name, value)| (name.clone(), part(value))).collect(),
                rest: Node::never(),
                required: properties.keys().cloned().collect(),
                ..Objects::any()
            }),
        }))
    }

    /// The set of the keywords that assert something about a value itself.
    fn own(&mut self, keywords: &'a Map<String, Value>, position: &Position) -> Result<Set<'a>, Error> {
        let types = match keywords.get("type") {
            Some(value) => values::types(value, position)?,
            None => Type::ALL.map(|kind| (kind, false)).to_vec(),
        };
        let mut all = Set::never();
        // All keywords are checked, also those for other types.
        let texts = texts(keywords, position)?;
        let numbers = numbers(keywords, position)?;
        let arrays = self.arrays(keywords, position)?;
        let objects = self.objects(keywords, position)?;
        for (kind, is_integer) in types {
            all.0.extend(match kind {
                Type::Null => Some(Shape::Null),
                Type::Boolean => Some(Shape::Boolean(None)),
                Type::Number => Some(Shape::Number(Numbers { is_integer, ..numbers.clone() })),
                Type::Text => texts.clone().map(Shape::Text),
                Type::Array => arrays.clone().map(Shape::Array),
                Type::Object => objects.clone().map(Shape::Object),
            });
        }
        Ok(all)
    }

    fn arrays(&mut self, keywords: &'a Map<String, Value>, position: &Position) -> Result<Option<Arrays<'a>>, Error> {
        let mut arrays = Arrays::any();
        // In draft 2019-09 and before, `items` may be a list, and `additionalItems` is for the rest.
        let list = keywords.get("items").filter(|items| items.is_array());
        if list.is_some() && keywords.contains_key("prefixItems") {
            return Err(position.invalid("items", "a list beside `prefixItems`"));
        }
        let (prefix, rest) = match list {
            Some(_) => ("items", "additionalItems"),
            None => ("prefixItems", "items"),
        };
        if let Some(value) = keywords.get(prefix) {
            for (index, (item, _)) in members(prefix, value, position)?.into_iter().enumerate() {
                let node = Node::new(AtomKind::Matches, item, position.child(&[prefix, &index.to_string()]));
                arrays.prefix.push((node, true));
            }
        }
        if let Some(item) = keywords.get(rest) {
            arrays.rest = (Node::new(AtomKind::Matches, item, position.child(&[rest])), true);
        }
        let count = |keyword: &str| values::count(keyword, keywords.get(keyword), position);
        arrays.min_items = count("minItems")?.unwrap_or(0);
        arrays.max_items = count("maxItems")?;
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            arrays.unique = Some(Rc::new(position.clone()));
        }
        Ok(arrays.max_items.is_none_or(|max| max >= arrays.min_items).then_some(arrays))
    }

    fn objects(&mut self, keywords: &'a Map<String, Value>, position: &Position) -> Result<Option<Objects<'a>>, Error> {
        let mut objects = Objects::any();
        if let Some(value) = keywords.get("patternProperties") {
            for (pattern, schema) in values::object("patternProperties", value, position)? {
                let child = position.child(&["patternProperties", pattern]);
                let translated = translated_pattern("patternProperties", pattern, position)?;
                objects.evaluated.patterns.insert(translated.clone());
                objects.patterns.insert(translated, Node::new(AtomKind::Matches, schema, child));
            }
            self.work.add_pattern_pairs(objects.patterns.len())?;
        }
        if let Some(value) = keywords.get("properties") {
            for (name, schema) in values::object("properties", value, position)? {
                let mut node = Node::new(AtomKind::Matches, schema, position.child(&["properties", name]));
                for (pattern, other) in &objects.patterns {
                    if intersect::matches(pattern, name, &mut self.work)? {
                        node = node.and(other);
                    }
                }
                objects.evaluated.names.insert(name.clone());
                objects.properties.insert(name.clone(), node);
            }
        }
        if let Some(schema) = keywords.get("additionalProperties") {
            objects.rest = Node::new(AtomKind::Matches, schema, position.child(&["additionalProperties"]));
            objects.evaluated = Evaluated { is_all: true, ..Evaluated::default() };
        }
        if let Some(schema) = keywords.get("propertyNames") {
            objects.names = Node::new(AtomKind::Matches, schema, position.child(&["propertyNames"]));
        }
        if let Some(value) = keywords.get("required") {
            objects.required = values::names("required", value, position)?.map(str::to_owned).collect();
        }
        let count = |keyword: &str| values::count(keyword, keywords.get(keyword), position);
        objects.min_properties = count("minProperties")?.unwrap_or(0);
        objects.max_properties = count("maxProperties")?;
        if objects.min_properties > 0 || objects.max_properties.is_some() {
            objects.counted = Some(Rc::new(position.clone()));
        }
        let least = objects.min_properties.max(objects.required.len() as u64);
        let has_room = objects.max_properties.is_none_or(|max| max >= least);
        let forbidden = |name: &String| objects.properties.get(name).is_some_and(Node::is_never);
        Ok((has_room && !objects.required.iter().any(forbidden)).then_some(objects))
    }
}

/// Objects with these properties, in this order.
pub(super) fn requiring<'n>(names: impl IntoIterator<Item = &'n str>) -> Objects<'static> {
    let required: IndexSet<String> = names.into_iter().map(str::to_owned).collect();
    let properties = required.iter().map(|name| (name.clone(), Node::any())).collect();
    Objects { properties, required, ..Objects::any() }
}

/// Objects without this property.
pub(super) fn lacking(name: &str) -> Objects<'static> {
    Objects { properties: IndexMap::from([(name.to_owned(), Node::never())]), ..Objects::any() }
}

/// The schemas of a list that is not empty, with their places.
pub(super) fn members<'a>(
    keyword: &str,
    value: &'a Value,
    position: &Position,
) -> Result<Vec<(&'a Value, Position)>, Error> {
    let members = value.as_array().filter(|members| !members.is_empty());
    let members = members.ok_or_else(|| position.invalid(keyword, "not a list of schemas, or an empty one"))?;
    schema_at_most("schemas in a list", members.len(), MAX_PROPERTIES)?;
    let at = |index: usize| position.in_place(&[keyword, &index.to_string()]);
    Ok(members.iter().enumerate().map(|(index, schema)| (schema, at(index))).collect())
}

fn translated_pattern(keyword: &str, pattern: &str, position: &Position) -> Result<String, Error> {
    let translated = pattern::translate(pattern).map_err(|why| position.unsupported(keyword, &why))?;
    match pattern::problem(pattern, &translated) {
        Some(problem) => Err(position.invalid(keyword, &problem)),
        None => Ok(translated),
    }
}

fn texts(keywords: &Map<String, Value>, position: &Position) -> Result<Option<Texts>, Error> {
    let count = |keyword: &str| values::count(keyword, keywords.get(keyword), position);
    let mut texts =
        Texts { min_chars: count("minLength")?.unwrap_or(0), max_chars: count("maxLength")?, ..Texts::default() };
    if let Some(value) = keywords.get("pattern") {
        let text = value.as_str().ok_or_else(|| position.invalid("pattern", "not a text"))?;
        texts.patterns.push(translated_pattern("pattern", text, position)?);
    }
    Ok(texts.max_chars.is_none_or(|max| max >= texts.min_chars).then_some(texts))
}

fn numbers(keywords: &Map<String, Value>, position: &Position) -> Result<Numbers, Error> {
    let bound = |inclusive: &str, exclusive: &str, sign: f64| {
        let value =
            |keyword: &str| keywords.get(keyword).map(|value| values::number(keyword, value, position)).transpose();
        let (own, other) = (value(inclusive)?.flatten(), value(exclusive)?.flatten());
        // In draft 4, `exclusiveMinimum` is a boolean that changes `minimum`.
        let is_changed = keywords.get(exclusive) == Some(&Value::Bool(true));
        let own = own.map(|value| Bound { value, is_exclusive: is_changed });
        let other = other.map(|value| Bound { value, is_exclusive: true });
        Ok(match (own, other) {
            (Some(own), Some(other)) if sign * own.value > sign * other.value => Some(own),
            (own, other) => other.or(own),
        })
    };
    let factor = match keywords.get("multipleOf") {
        Some(value) => {
            values::number("multipleOf", value, position)?.map(|_| (value.clone(), Rc::new(position.clone())))
        }
        None => None,
    };
    Ok(Numbers {
        is_integer: false,
        min: bound("minimum", "exclusiveMinimum", 1.0)?,
        max: bound("maximum", "exclusiveMaximum", -1.0)?,
        factors: factor.into_iter().collect(),
    })
}

/// Joins texts of an enumeration to one shape.
fn join_texts(set: Set<'_>) -> Set<'_> {
    let mut joined = Vec::new();
    let mut others = Vec::new();
    for shape in set.0 {
        match shape {
            Shape::Text(Texts { constants: Some(texts), .. }) => joined.extend(texts),
            other => others.push(other),
        }
    }
    if !joined.is_empty() {
        others.push(Shape::Text(Texts { constants: Some(joined), ..Texts::default() }));
    }
    Set(others)
}
