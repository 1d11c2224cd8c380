//! The set of values that a schema refuses, for `not`, `oneOf` and conditions.
//!
//! Some parts of that set are no union of shapes, such as the arrays in which any item differs. They are left out, which makes a
//! schema with `not` stricter, or the keyword is refused where too little would remain.

use std::rc::Rc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::assert::{lacking, members, requiring};
use super::evaluator::Evaluator;
use super::intersect;
use super::pattern;
use super::position::Position;
use super::shape::{Arrays, AtomKind, Bound, Node, Numbers, Objects, Set, Shape, Texts, Type};
use super::values;
use crate::error::Error;

/// Number of items after the first ones of which one may differ.
const DIFFERENT_ITEMS: usize = 4;

impl<'a> Evaluator<'a> {
    /// The values that a schema refuses.
    pub(super) fn refused(&mut self, schema: &'a Value, position: &Position) -> Result<Set<'a>, Error> {
        self.work.add_schema()?;
        let keywords = match schema {
            Value::Bool(true) => return Ok(Set::never()),
            Value::Bool(false) => return Ok(Set::any()),
            Value::Object(keywords) => keywords,
            _ => return Err(Error::NotASchema { at: position.quoted() }),
        };
        let position = &position.with_base_of(schema).unobserved();
        let mut all = Set::never();
        for (keyword, value) in keywords {
            let part = self.refused_by(keyword, value, keywords, position)?;
            self.work.add(part.0.len())?;
            all = all.union(part, false);
        }
        Ok(all.unevaluated())
    }

    fn refused_by(
        &mut self,
        keyword: &str,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        position: &Position,
    ) -> Result<Set<'a>, Error> {
        let one = |shape: Shape<'a>| Ok(Set::of(shape));
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.referenced(keyword, value, position, AtomKind::Differs),
            "not" => self.accepted(value, &position.in_place(&[keyword]).unobserved()),
            "allOf" => {
                let mut all = Set::never();
                for (schema, position) in members(keyword, value, position)? {
                    all = all.union(self.refused(schema, &position)?, false);
                }
                Ok(all)
            }
            "anyOf" => self.none_of(&members(keyword, value, position)?),
            "oneOf" => {
                let members = members(keyword, value, position)?;
                let mut all = self.none_of(&members)?;
                let sets: Vec<Set<'a>> = members
                    .iter()
                    .map(|(schema, position)| self.accepted(schema, position))
                    .collect::<Result<_, _>>()?;
                for (first, own) in sets.iter().enumerate() {
                    for other in sets.iter().skip(first + 1) {
                        all = all.union(intersect::sets(own, other, &mut self.work)?, false);
                    }
                }
                Ok(all)
            }
            "const" => self.other_than(&[value], keyword, position),
            "enum" => self.other_than(&values::constants(value, position)?.collect::<Vec<_>>(), keyword, position),
            "if" => self.refused_condition(value, keywords, position),
            "type" => {
                let types = values::types(value, position)?;
                let mut all = Set::any();
                if types.iter().any(|(kind, is_integer)| *kind == Type::Number && *is_integer) {
                    self.leave_out(keyword, position);
                }
                all.0.retain(|shape| types.iter().all(|(kind, _)| *kind != shape.kind()));
                Ok(all)
            }
            "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" => {
                let Some(bound) = values::number(keyword, value, position)? else { return Ok(Set::never()) };
                // With `exclusiveMinimum: true` of draft 4, `minimum` itself is refused too.
                let is_changed = match keyword {
                    "minimum" => keywords.get("exclusiveMinimum") == Some(&Value::Bool(true)),
                    "maximum" => keywords.get("exclusiveMaximum") == Some(&Value::Bool(true)),
                    _ => true,
                };
                let bound = Some(Bound { value: bound, is_exclusive: !is_changed });
                one(Shape::Number(match keyword.to_lowercase().ends_with("minimum") {
                    true => Numbers { max: bound, ..Numbers::default() },
                    false => Numbers { min: bound, ..Numbers::default() },
                }))
            }
            "minLength" => self.fewer(keyword, value, position, |max_chars| {
                Shape::Text(Texts { max_chars: Some(max_chars), ..Texts::default() })
            }),
            "minItems" => self.fewer(keyword, value, position, |max_items| {
                Shape::Array(Arrays { max_items: Some(max_items), ..Arrays::any() })
            }),
            "minProperties" => self.fewer(keyword, value, position, |max_properties| {
                Shape::Object(Objects { max_properties: Some(max_properties), ..Objects::any() })
            }),
            "maxLength" => {
                self.more(keyword, value, position, |min_chars| Shape::Text(Texts { min_chars, ..Texts::default() }))
            }
            "maxItems" => {
                self.more(keyword, value, position, |min_items| Shape::Array(Arrays { min_items, ..Arrays::any() }))
            }
            "maxProperties" => self.more(keyword, value, position, |min_properties| {
                Shape::Object(Objects { min_properties, ..Objects::any() })
            }),
            "items" | "prefixItems" => self.different_items(keyword, value, keywords, position),
            "contains" => self.contains_otherwise(value, keywords, position),
            "properties" => {
                let mut all = Set::never();
                for (name, schema) in values::object(keyword, value, position)? {
                    let node = Node::new(AtomKind::Differs, schema, position.child(&[keyword, name]));
                    if !node.is_never() {
                        let properties = IndexMap::from([(name.clone(), node)]);
                        all.0.push(Shape::Object(Objects { properties, ..requiring([name.as_str()]) }));
                    }
                }
                Ok(all)
            }
            "required" => {
                let names = values::names(keyword, value, position)?;
                Ok(Set(names.map(|name| Shape::Object(lacking(name))).collect()))
            }
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                let mut all = Set::never();
                for (name, dependency) in values::object(keyword, value, position)? {
                    let refused = match dependency {
                        Value::Array(_) => {
                            let names = values::names(keyword, dependency, position)?;
                            Set(names.map(|name| Shape::Object(lacking(name))).collect())
                        }
                        schema => self.refused(schema, &position.in_place(&[keyword, name]))?,
                    };
                    let having = Set::of(Shape::Object(requiring([name.as_str()])));
                    all = all.union(intersect::sets(&having, &refused, &mut self.work)?, false);
                }
                Ok(all)
            }
            "pattern" | "format" => Err(position.unsupported(keyword, "the negation of a pattern")),
            "uniqueItems" if *value != Value::Bool(true) => Ok(Set::never()),
            "additionalProperties"
            | "patternProperties"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "multipleOf"
            | "uniqueItems" => {
                if !values::is_any(value) {
                    self.leave_out(keyword, position);
                }
                Ok(Set::never())
            }
            _ => Ok(Set::never()),
        }
    }

    /// Values that all alternatives refuse.
    fn none_of(&mut self, members: &[(&'a Value, Position)]) -> Result<Set<'a>, Error> {
        let mut all = Set::any();
        for (schema, position) in members {
            let refused = self.refused(schema, position)?;
            all = intersect::sets(&all, &refused, &mut self.work)?;
        }
        Ok(all)
    }

    fn refused_condition(
        &mut self,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        position: &Position,
    ) -> Result<Set<'a>, Error> {
        let here = position.in_place(&["if"]).unobserved();
        let mut all = Set::never();
        for (keyword, is_met) in [("then", true), ("else", false)] {
            if let Some(branch) = keywords.get(keyword) {
                let condition = if is_met { self.accepted(value, &here)? } else { self.refused(value, &here)? };
                let refused = self.refused(branch, &position.in_place(&[keyword]))?;
                all = all.union(intersect::sets(&condition, &refused, &mut self.work)?, false);
            }
        }
        Ok(all)
    }

    /// Values with fewer characters, items or properties than a minimum.
    fn fewer(
        &mut self,
        keyword: &str,
        value: &Value,
        position: &Position,
        shape: impl FnOnce(u64) -> Shape<'a>,
    ) -> Result<Set<'a>, Error> {
        let count = values::count(keyword, Some(value), position)?.unwrap_or(0);
        Ok(count.checked_sub(1).map_or_else(Set::never, |most| Set::of(shape(most))))
    }

    /// Values with more characters, items or properties than a maximum.
    fn more(
        &mut self,
        keyword: &str,
        value: &Value,
        position: &Position,
        shape: impl FnOnce(u64) -> Shape<'a>,
    ) -> Result<Set<'a>, Error> {
        let count = values::count(keyword, Some(value), position)?;
        Ok(count.map_or_else(Set::never, |count| Set::of(shape(count + 1))))
    }

    /// Arrays in which an item differs from its schema.
    fn different_items(
        &mut self,
        keyword: &str,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        position: &Position,
    ) -> Result<Set<'a>, Error> {
        let mut nodes = Vec::new();
        if value.is_array() {
            for (index, (schema, _)) in members(keyword, value, position)?.into_iter().enumerate() {
                nodes.push((
                    index,
                    Node::new(AtomKind::Differs, schema, position.child(&[keyword, &index.to_string()])),
                ));
            }
        } else {
            let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
            let node = Node::new(AtomKind::Differs, value, position.child(&[keyword]));
            nodes.extend((first..first + DIFFERENT_ITEMS).map(|index| (index, node.clone())));
            self.leave_out(keyword, position);
        }
        let array = |(index, node): (usize, Node<'a>)| {
            let mut prefix = vec![(Node::any(), false); index];
            prefix.push((node, false));
            Shape::Array(Arrays { prefix, min_items: index as u64 + 1, ..Arrays::any() })
        };
        Ok(Set(nodes.into_iter().filter(|(_, node)| !node.is_never()).map(array).collect()))
    }

    /// All values but these.
    fn other_than(&mut self, values: &[&'a Value], keyword: &str, position: &Position) -> Result<Set<'a>, Error> {
        let mut all = Set::any();
        let mut texts = Vec::new();
        for value in values {
            values::check_constant(value, keyword, position)?;
            match value {
                Value::Null => all.0.retain(|shape| shape.kind() != Type::Null),
                Value::Bool(value) => {
                    let other = Set::limited(Shape::Boolean(Some(!value)));
                    all = intersect::sets(&all, &other, &mut self.work)?;
                }
                Value::Number(number) => {
                    let bound = number.as_f64().map(|value| Bound { value, is_exclusive: true });
                    let mut other = Set::limited(Shape::Number(Numbers { max: bound, ..Numbers::default() }));
                    other.0.push(Shape::Number(Numbers { min: bound, ..Numbers::default() }));
                    all = intersect::sets(&all, &other, &mut self.work)?;
                }
                Value::String(text) => texts.push(text.as_str()),
                Value::Array(_) | Value::Object(_) => {
                    return Err(position.unsupported(keyword, "the negation of an array or object"));
                }
            }
        }
        if !texts.is_empty() {
            let pattern = pattern::other_than(&texts).map_err(|why| position.unsupported(keyword, &why))?;
            let other = Set::limited(Shape::Text(Texts { patterns: vec![pattern], ..Texts::default() }));
            all = intersect::sets(&all, &other, &mut self.work)?;
        }
        Ok(all)
    }

    /// Remembers a keyword with incomplete refused values.
    fn leave_out(&mut self, keyword: &str, position: &Position) {
        self.left_out.get_or_insert_with(|| (keyword.to_owned(), Rc::new(position.clone())));
    }
}
