//! Writes sets as schemas of the compiler: types with assertions, alternatives, and references to definitions.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::cost;
use super::evaluator::Evaluator;
use super::intersect::{self, Work};
use super::pattern;
use super::shape::{Arrays, AtomKind, Node, Numbers, Objects, Set, Shape, Texts, Type};
use crate::error::Error;
use crate::limits::{MAX_ALTERNATIVES, MAX_DEFINITIONS, MAX_PROPERTIES, schema_at_most};

/// Maximum number of different items of an array with `uniqueItems`. There is an alternative for each subset.
const MAX_UNIQUE: usize = 8;
/// Maximum size of a schema without items and properties that is written again at each use.
const MAX_INLINE_BYTES: usize = 2048;

/// Writes the sets of one document.
pub(super) struct Emitter<'a> {
    pub(super) evaluator: Evaluator<'a>,
    /// Numbers of definitions, by the keys of their nodes.
    numbers: HashMap<Vec<(usize, AtomKind)>, usize>,
    /// Definitions by number.
    definitions: Vec<Definition>,
}

/// What a node was written as.
enum Definition {
    /// It is being written.
    Open,
    /// It is written where it is used.
    Inline(Value),
    /// References name it.
    Shared(Value),
}

impl<'a> Emitter<'a> {
    pub(super) fn new(evaluator: Evaluator<'a>) -> Self {
        Self { evaluator, numbers: HashMap::new(), definitions: Vec::new() }
    }

    /// Writes a node, with the definitions that it refers to.
    pub(super) fn document(mut self, root: &Node<'a>) -> Result<Value, Error> {
        let set = self.evaluator.evaluate(root)?;
        let mut result = match self.set(set)? {
            Value::Object(result) => result,
            Value::Bool(false) => {
                return Err(match self.evaluator.left_out {
                    Some((keyword, position)) => position.unsupported(&keyword, "its negation has no other value"),
                    None => Error::Unsatisfiable("its keywords contradict each other".to_owned()),
                });
            }
            _ => Map::new(),
        };
        let mut definitions = Map::new();
        for (number, definition) in self.definitions.into_iter().enumerate() {
            if let Definition::Shared(schema) = definition {
                definitions.insert(number.to_string(), schema);
            }
        }
        if !definitions.is_empty() {
            result.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Ok(Value::Object(result))
    }

    /// Writes a node: itself, or a reference to its definition. `false` if nothing matches.
    fn node(&mut self, node: &Node<'a>) -> Result<Value, Error> {
        if node.is_any() || node.is_never() {
            return Ok(Value::Bool(node.is_any()));
        }
        let key = node.key();
        if let Some(&number) = self.numbers.get(&key) {
            return Ok(match self.definitions.get(number) {
                Some(Definition::Inline(schema)) => schema.clone(),
                _ => reference(number),
            });
        }
        let number = self.definitions.len();
        schema_at_most("schemas", number, MAX_DEFINITIONS)?;
        self.numbers.insert(key, number);
        self.definitions.push(Definition::Open);
        let set = self.evaluator.evaluate(node)?;
        let is_nested = set.0.iter().any(|shape| matches!(shape.kind(), Type::Array | Type::Object));
        let schema = self.set(set)?;
        // A contradiction in a definition would be an error, also where the definition is optional.
        let is_small = !is_nested && schema.to_string().len() <= MAX_INLINE_BYTES;
        let (definition, used) = match schema.is_boolean() || is_small {
            true => (Definition::Inline(schema.clone()), schema),
            false => (Definition::Shared(schema), reference(number)),
        };
        if let Some(slot) = self.definitions.get_mut(number) {
            *slot = definition;
        }
        Ok(used)
    }

    fn set(&mut self, set: Set<'a>) -> Result<Value, Error> {
        let is_any = Type::ALL.iter().all(|kind| set.0.iter().any(|shape| shape.kind() == *kind && shape.is_all()));
        if is_any {
            return Ok(Value::Bool(true));
        }
        let mut alternatives = Vec::new();
        for shape in set.0 {
            self.evaluator.work.add(1)?;
            match shape {
                Shape::Null => alternatives.push(json!({"type": "null"})),
                Shape::Boolean(None) => alternatives.push(json!({"type": "boolean"})),
                Shape::Boolean(Some(value)) => alternatives.push(json!({ "const": value })),
                Shape::Number(numbers) => alternatives.push(number(numbers)?),
                Shape::Text(texts) => alternatives.push(text(texts)),
                Shape::Array(arrays) => alternatives.extend(self.arrays(arrays)?),
                Shape::Object(objects) => alternatives.extend(self.object(objects)?),
            }
        }
        schema_at_most("alternatives", alternatives.len(), MAX_ALTERNATIVES)?;
        Ok(match alternatives.len() {
            0 => Value::Bool(false),
            1 => alternatives.remove(0),
            _ => json!({ "anyOf": alternatives }),
        })
    }

    /// Writes an array; several alternatives for different items.
    fn arrays(&mut self, arrays: Arrays<'a>) -> Result<Vec<Value>, Error> {
        let is_short =
            arrays.max_items.is_some_and(|max| max <= 1) || (arrays.prefix.len() <= 1 && arrays.rest.0.is_never());
        let Some(position) = arrays.unique.clone().filter(|_| !is_short) else {
            return Ok(self.array(arrays)?.into_iter().collect());
        };
        let reason = "except for items of an enumeration of at most eight values";
        let refuse = || position.unsupported("uniqueItems", reason);
        if !arrays.prefix.is_empty() {
            return Err(refuse());
        }
        let values = constants(self.evaluator.evaluate(&arrays.rest.0)?).filter(|values| values.len() <= MAX_UNIQUE);
        let values = values.ok_or_else(refuse)?;
        let mut alternatives = Vec::new();
        for members in 0..1_u32 << values.len() {
            let count = u64::from(members.count_ones());
            if count < arrays.min_items || arrays.max_items.is_some_and(|max| count > max) {
                continue;
            }
            let chosen = values.iter().enumerate().filter(|(index, _)| members & (1 << index) != 0);
            let items: Vec<Value> = chosen.map(|(_, value)| json!({ "const": value })).collect();
            alternatives.push(match items.is_empty() {
                true => json!({"type": "array", "items": false}),
                false => json!({"type": "array", "prefixItems": items, "items": false, "minItems": count}),
            });
        }
        Ok(alternatives)
    }

    /// Writes an array; none if it is impossible.
    fn array(&mut self, arrays: Arrays<'a>) -> Result<Option<Value>, Error> {
        let Arrays { prefix, rest, min_items, mut max_items, .. } = arrays;
        let mut items = Vec::new();
        for (index, (node, _)) in prefix.iter().enumerate() {
            if max_items.is_some_and(|max| index as u64 >= max) {
                break;
            }
            let item = self.node(node)?;
            if item == Value::Bool(false) {
                // The array ends before it.
                max_items = Some(index as u64);
                break;
            }
            items.push(item);
        }
        let is_full = max_items.is_some_and(|max| max <= items.len() as u64);
        let rest = if is_full { Value::Bool(false) } else { self.node(&rest.0)? };
        if rest == Value::Bool(false) {
            max_items = Some(max_items.unwrap_or(u64::MAX).min(items.len() as u64));
        }
        if max_items.is_some_and(|max| max < min_items) {
            return Ok(None);
        }
        let mut result = Map::from_iter([("type".to_owned(), json!("array"))]);
        if !items.is_empty() {
            result.insert("prefixItems".to_owned(), Value::Array(items));
        }
        if rest != Value::Bool(true) {
            result.insert("items".to_owned(), rest);
        }
        if min_items > 0 {
            result.insert("minItems".to_owned(), json!(min_items));
        }
        if let Some(max) = max_items {
            result.insert("maxItems".to_owned(), json!(max));
        }
        Ok(Some(Value::Object(result)))
    }

    /// Writes an object; none if it is impossible.
    fn object(&mut self, objects: Objects<'a>) -> Result<Option<Value>, Error> {
        let objects = match self.with_names(objects)? {
            Some(objects) => objects,
            None => return Ok(None),
        };
        schema_at_most("properties of an object", objects.properties.len(), MAX_PROPERTIES)?;
        let mut properties = Map::new();
        let mut possible = 0_u64;
        for (name, node) in &objects.properties {
            let schema = self.node(node)?;
            if schema == Value::Bool(false) && objects.required.contains(name) {
                return Ok(None);
            }
            possible += u64::from(schema != Value::Bool(false));
            properties.insert(name.clone(), schema);
        }
        let mut patterns = Map::new();
        for (pattern, node) in &objects.patterns {
            patterns.insert(pattern.clone(), self.node(node)?);
        }
        let rest = self.node(&objects.rest)?;
        for name in objects.required.iter().filter(|name| !objects.properties.contains_key(*name)) {
            let node = intersect::schema_of(&objects, name, &mut self.evaluator.work)?;
            if self.node(&node)? == Value::Bool(false) {
                return Ok(None);
            }
        }
        let is_closed = rest == Value::Bool(false) && patterns.values().all(|schema| *schema == Value::Bool(false));
        let required = objects.required.len() as u64;
        if is_closed && possible < objects.min_properties {
            return Ok(None);
        }
        if let Some(position) = &objects.counted {
            // An object could have the same property twice, which counts only once.
            if objects.min_properties > required + 1 && !is_closed {
                return Err(position.unsupported("minProperties", "more than one property that is not required"));
            }
            let listed = objects.required.iter().filter(|name| objects.properties.contains_key(*name)).count() as u64;
            let is_counted = objects.min_properties > required || objects.max_properties.is_some();
            let is_one = objects.min_properties <= required + 1
                && objects.max_properties.is_none_or(|max| max == required + 1)
                && is_closed
                && patterns.is_empty();
            if possible > listed && is_counted && !is_one {
                let keyword = if objects.max_properties.is_some() { "maxProperties" } else { "minProperties" };
                return Err(position.unsupported(keyword, "beside properties that are not required"));
            }
        }
        let mut result = Map::from_iter([("type".to_owned(), json!("object"))]);
        let mut insert = |keyword: &str, value: Value| result.insert(keyword.to_owned(), value);
        if !properties.is_empty() {
            insert("properties", Value::Object(properties));
        }
        if !patterns.is_empty() {
            insert("patternProperties", Value::Object(patterns));
        }
        if rest != Value::Bool(true) {
            insert("additionalProperties", rest);
        }
        if !objects.required.is_empty() {
            insert("required", objects.required.iter().map(String::as_str).collect());
        }
        if objects.min_properties > 0 {
            insert("minProperties", json!(objects.min_properties));
        }
        if let Some(max) = objects.max_properties {
            insert("maxProperties", json!(max));
        }
        Ok(Some(Value::Object(result)))
    }

    /// Moves the schemas of names to the properties.
    fn with_names(&mut self, mut objects: Objects<'a>) -> Result<Option<Objects<'a>>, Error> {
        if objects.names.is_any() {
            return Ok(Some(objects));
        }
        let names = std::mem::replace(&mut objects.names, Node::any());
        let position = names.0.iter().flatten().next().map(|atom| atom.position.clone());
        let refuse = |reason: &str| match &position {
            Some(position) => position.unsupported("propertyNames", reason),
            None => Error::Unsatisfiable("no name of a property is possible".to_owned()),
        };
        let set = self.evaluator.evaluate(&names)?;
        let mut accepted: Vec<Texts> = Vec::new();
        for shape in set.0 {
            if let Shape::Text(texts) = shape {
                accepted.push(texts);
            }
        }
        for (name, node) in &mut objects.properties {
            if !fits(&accepted, name, &mut self.evaluator.work)? {
                *node = Node::never();
            }
        }
        for name in &objects.required {
            if !fits(&accepted, name, &mut self.evaluator.work)? {
                return Ok(None);
            }
        }
        if accepted.iter().any(|texts| Shape::Text(texts.clone()).is_all()) {
            return Ok(Some(objects));
        }
        if accepted.iter().any(|texts| !texts.formats.is_empty()) {
            return Err(refuse("a format of names"));
        }
        if accepted.iter().all(|texts| texts.constants.is_some()) {
            for name in accepted.iter().flat_map(|texts| texts.constants.iter().flatten()) {
                if fits(&accepted, name, &mut self.evaluator.work)? && !objects.properties.contains_key(name) {
                    let node = intersect::schema_of(&objects, name, &mut self.evaluator.work)?;
                    objects.properties.insert(name.clone(), node);
                }
            }
            objects.patterns.clear();
        } else {
            let patterns: Option<Vec<String>> = accepted.iter().map(pattern::of_texts).collect();
            let patterns = patterns.ok_or_else(|| refuse("names with several patterns"))?;
            if !objects.patterns.is_empty() {
                return Err(refuse("beside `patternProperties`"));
            }
            let node = std::mem::replace(&mut objects.rest, Node::never());
            objects.patterns.insert(patterns.join("|"), node);
        }
        objects.rest = Node::never();
        Ok(Some(objects))
    }
}

/// Whether one of the shapes has a text.
fn fits(accepted: &[Texts], name: &str, work: &mut Work) -> Result<bool, Error> {
    let chars = name.chars().count() as u64;
    for texts in accepted {
        let mut fits = texts.constants.as_ref().is_none_or(|all| all.iter().any(|text| text == name))
            && chars >= texts.min_chars
            && texts.max_chars.is_none_or(|max| chars <= max);
        for pattern in &texts.patterns {
            fits = fits && intersect::matches(pattern, name, work)?;
        }
        if fits {
            return Ok(true);
        }
    }
    Ok(false)
}

fn reference(number: usize) -> Value {
    json!({"$ref": format!("#/$defs/{number}")})
}

/// The values of a set that has finitely many; none of other sets.
fn constants(set: Set<'_>) -> Option<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    for shape in set.0 {
        match shape {
            Shape::Null => all.push(Value::Null),
            Shape::Boolean(Some(value)) => all.push(Value::Bool(value)),
            Shape::Boolean(None) => all.extend([Value::Bool(false), Value::Bool(true)]),
            Shape::Number(Numbers { min: Some(min), max: Some(max), is_integer, .. }) if min == max => {
                all.push(if is_integer { json!(min.value as i64) } else { json!(min.value) });
            }
            Shape::Text(Texts { constants: Some(texts), patterns, formats, .. })
                if patterns.is_empty() && formats.is_empty() =>
            {
                all.extend(texts.into_iter().map(Value::from));
            }
            _ => return None,
        }
    }
    let mut different: Vec<Value> = Vec::new();
    for value in all {
        if !different.iter().any(|other| *other == value || (value.is_number() && other.as_f64() == value.as_f64())) {
            different.push(value);
        }
    }
    Some(different)
}

fn number(numbers: Numbers) -> Result<Value, Error> {
    cost::check_factors(&numbers.factors)?;
    let Numbers { is_integer, min, max, factors } = numbers;
    let kind = if is_integer { "integer" } else { "number" };
    let mut result = Map::from_iter([("type".to_owned(), json!(kind))]);
    for (bound, inclusive, exclusive) in [(min, "minimum", "exclusiveMinimum"), (max, "maximum", "exclusiveMaximum")] {
        if let Some(bound) = bound {
            let keyword = if bound.is_exclusive { exclusive } else { inclusive };
            result.insert(keyword.to_owned(), json!(bound.value));
        }
    }
    let mut factors = factors.into_iter().map(|(factor, _)| factor);
    if let Some(factor) = factors.next() {
        result.insert("multipleOf".to_owned(), factor);
    }
    let others: Vec<Value> = factors.map(|factor| json!({"type": kind, "multipleOf": factor})).collect();
    if !others.is_empty() {
        result.insert("allOf".to_owned(), Value::Array(others));
    }
    Ok(Value::Object(result))
}

fn text(texts: Texts) -> Value {
    let Texts { constants, patterns, formats, min_chars, max_chars } = texts;
    let mut result = Map::from_iter([("type".to_owned(), json!("string"))]);
    let mut others: Vec<Value> = Vec::new();
    if let Some(constants) = constants {
        if patterns.is_empty() && formats.is_empty() {
            return json!({ "enum": constants });
        }
        others.push(json!({ "enum": constants }));
    } else {
        if min_chars > 0 {
            result.insert("minLength".to_owned(), json!(min_chars));
        }
        if let Some(max) = max_chars {
            result.insert("maxLength".to_owned(), json!(max));
        }
    }
    for (keyword, values) in [("pattern", patterns), ("format", formats)] {
        for value in values {
            match result.contains_key(keyword) {
                true => others.push(json!({"type": "string", keyword: value})),
                false => _ = result.insert(keyword.to_owned(), Value::String(value)),
            }
        }
    }
    if !others.is_empty() {
        result.insert("allOf".to_owned(), Value::Array(others));
    }
    Value::Object(result)
}
