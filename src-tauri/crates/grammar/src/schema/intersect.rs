//! Intersections of sets.

use std::rc::Rc;

use indexmap::IndexMap;
use llguidance::derivre::{RegexAst, RegexBuilder};
use llguidance::regex_to_lark;
use serde_json::Value;

use super::position::Position;
use super::shape::{Arrays, Bound, Evaluated, Node, Numbers, Objects, Set, Shape, Texts};
use crate::error::Error;
use crate::limits::{MAX_ALTERNATIVES, MAX_SHAPE_STEPS, schema_at_most};

/// Work to match a property name with a pattern. A pattern that needs more is refused.
const MATCH_FUEL: u64 = 10_000;
/// Steps that a comparison with a pattern counts as. It takes about 100 us.
const PATTERN_STEPS: usize = 20;
/// Steps that the evaluation of a schema counts as. It takes about 10 us.
const SCHEMA_STEPS: usize = 20;

/// Counts the work of all intersections.
#[derive(Debug, Default)]
pub(super) struct Work(usize);

impl Work {
    /// # Errors
    /// When the limit is reached.
    pub(super) fn add(&mut self, steps: usize) -> Result<(), Error> {
        self.0 = self.0.saturating_add(steps);
        schema_at_most("comparisons of alternatives", self.0, MAX_SHAPE_STEPS)
    }

    /// Adds the evaluation of a schema.
    ///
    /// # Errors
    /// When the limit is reached.
    pub(super) fn add_schema(&mut self) -> Result<(), Error> {
        self.add(SCHEMA_STEPS)
    }

    /// Adds the comparison of all patterns of an object with each other.
    ///
    /// # Errors
    /// When the limit is reached.
    pub(super) fn add_pattern_pairs(&mut self, patterns: usize) -> Result<(), Error> {
        self.add(patterns.saturating_mul(patterns) / 2 * PATTERN_STEPS)
    }
}

/// What both sets have.
pub(super) fn sets<'a>(first: &Set<'a>, second: &Set<'a>, work: &mut Work) -> Result<Set<'a>, Error> {
    let mut all = Vec::new();
    for own in &first.0 {
        for other in second.0.iter().filter(|other| other.kind() == own.kind()) {
            all.extend(shapes(own, other, work)?);
            schema_at_most("alternatives", all.len(), MAX_ALTERNATIVES)?;
        }
    }
    Ok(Set(all))
}

fn shapes<'a>(first: &Shape<'a>, second: &Shape<'a>, work: &mut Work) -> Result<Option<Shape<'a>>, Error> {
    work.add(1)?;
    Ok(match (first, second) {
        (Shape::Null, Shape::Null) => Some(Shape::Null),
        (Shape::Boolean(own), Shape::Boolean(other)) => match (own, other) {
            (Some(own), Some(other)) if own != other => None,
            _ => Some(Shape::Boolean(own.or(*other))),
        },
        (Shape::Number(own), Shape::Number(other)) => numbers(own, other).map(Shape::Number),
        (Shape::Text(own), Shape::Text(other)) => texts(own, other).map(Shape::Text),
        (Shape::Array(own), Shape::Array(other)) => arrays(own, other).map(Shape::Array),
        (Shape::Object(own), Shape::Object(other)) => objects(own, other, work)?.map(Shape::Object),
        _ => None,
    })
}

fn numbers(first: &Numbers, second: &Numbers) -> Option<Numbers> {
    let tighter = |own: Option<Bound>, other: Option<Bound>, sign: f64| match (own, other) {
        (Some(own), Some(other)) => {
            let is_own = sign * own.value > sign * other.value || (own.value == other.value && own.is_exclusive);
            Some(if is_own { own } else { other })
        }
        (own, other) => own.or(other),
    };
    let min = tighter(first.min, second.min, 1.0);
    let max = tighter(first.max, second.max, -1.0);
    if let (Some(min), Some(max)) = (min, max)
        && (min.value > max.value || (min.value == max.value && (min.is_exclusive || max.is_exclusive)))
    {
        return None;
    }
    let mut factors = first.factors.clone();
    let is_new = |factor: &&(Value, Rc<Position>)| first.factors.iter().all(|(own, _)| *own != factor.0);
    factors.extend(second.factors.iter().filter(is_new).cloned());
    Some(Numbers { is_integer: first.is_integer || second.is_integer, min, max, factors })
}

fn texts(first: &Texts, second: &Texts) -> Option<Texts> {
    let constants = match (&first.constants, &second.constants) {
        (Some(own), Some(other)) => Some(own.iter().filter(|text| other.contains(text)).cloned().collect()),
        (own, other) => own.clone().or_else(|| other.clone()),
    };
    let (min_chars, max_chars) = (first.min_chars.max(second.min_chars), least(first.max_chars, second.max_chars));
    let fits = |text: &String| {
        let chars = text.chars().count() as u64;
        chars >= min_chars && max_chars.is_none_or(|max| chars <= max)
    };
    let constants = constants.map(|all: Vec<String>| all.into_iter().filter(fits).collect::<Vec<_>>());
    if constants.as_ref().is_some_and(Vec::is_empty) || max_chars.is_some_and(|max| max < min_chars) {
        return None;
    }
    let joined = |own: &[String], other: &[String]| {
        let mut all = own.to_vec();
        all.extend(other.iter().filter(|text| !own.contains(text)).cloned());
        all
    };
    Some(Texts {
        constants,
        patterns: joined(&first.patterns, &second.patterns),
        formats: joined(&first.formats, &second.formats),
        min_chars,
        max_chars,
    })
}

fn arrays<'a>(first: &Arrays<'a>, second: &Arrays<'a>) -> Option<Arrays<'a>> {
    let at = |arrays: &Arrays<'a>, index: usize| arrays.prefix.get(index).unwrap_or(&arrays.rest).clone();
    let both = |own: (Node<'a>, bool), other: (Node<'a>, bool)| (own.0.and(&other.0), own.1 || other.1);
    let length = first.prefix.len().max(second.prefix.len());
    let prefix = (0..length).map(|index| both(at(first, index), at(second, index))).collect();
    let (min_items, max_items) = (first.min_items.max(second.min_items), least(first.max_items, second.max_items));
    (max_items.is_none_or(|max| max >= min_items)).then(|| Arrays {
        prefix,
        rest: both(first.rest.clone(), second.rest.clone()),
        min_items,
        max_items,
        unique: first.unique.clone().or_else(|| second.unique.clone()),
    })
}

fn objects<'a>(first: &Objects<'a>, second: &Objects<'a>, work: &mut Work) -> Result<Option<Objects<'a>>, Error> {
    work.add(first.properties.len() + second.properties.len())?;
    let mut properties = IndexMap::new();
    for (name, own) in &first.properties {
        properties.insert(name.clone(), own.and(&schema_of(second, name, work)?));
    }
    for (name, other) in &second.properties {
        if !properties.contains_key(name) {
            properties.insert(name.clone(), schema_of(first, name, work)?.and(other));
        }
    }
    let mut patterns = IndexMap::new();
    for (pattern, own) in &first.patterns {
        patterns.insert(pattern.clone(), own.and(second.patterns.get(pattern).unwrap_or(&second.rest)));
    }
    for (pattern, other) in &second.patterns {
        if !patterns.contains_key(pattern) {
            patterns.insert(pattern.clone(), first.rest.and(other));
        }
    }
    let mut required = first.required.clone();
    required.extend(second.required.iter().cloned());
    let (own, other) = (&first.evaluated, &second.evaluated);
    let evaluated = Evaluated {
        names: own.names.union(&other.names).cloned().collect(),
        patterns: own.patterns.union(&other.patterns).cloned().collect(),
        is_all: own.is_all || other.is_all,
    };
    let (min_properties, max_properties) =
        (first.min_properties.max(second.min_properties), least(first.max_properties, second.max_properties));
    if max_properties.is_some_and(|max| max < min_properties || max < required.len() as u64) {
        return Ok(None);
    }
    let merged = Objects {
        properties,
        patterns,
        rest: first.rest.and(&second.rest),
        required,
        min_properties,
        max_properties,
        counted: first.counted.clone().or_else(|| second.counted.clone()),
        names: first.names.and(&second.names),
        evaluated,
    };
    for name in &merged.required {
        if schema_of(&merged, name, work)?.is_never() {
            return Ok(None);
        }
    }
    Ok(Some(merged))
}

/// The schema of a property.
pub(super) fn schema_of<'a>(objects: &Objects<'a>, name: &str, work: &mut Work) -> Result<Node<'a>, Error> {
    if let Some(node) = objects.properties.get(name) {
        return Ok(node.clone());
    }
    for (pattern, node) in &objects.patterns {
        if matches(pattern, name, work)? {
            return Ok(node.clone());
        }
    }
    Ok(objects.rest.clone())
}

/// Whether a pattern is found in a text.
pub(super) fn matches(pattern: &str, text: &str, work: &mut Work) -> Result<bool, Error> {
    work.add(PATTERN_STEPS)?;
    let mut builder = RegexBuilder::new();
    let compiled = builder
        .mk(&RegexAst::SearchRegex(regex_to_lark(pattern, "dw")))
        .and_then(|expression| builder.to_regex_limited(expression, MATCH_FUEL));
    let reason = |error: &dyn std::fmt::Display| Error::Compile { kind: "JSON schema", reason: error.to_string() };
    compiled.map(|mut regex| regex.is_match(text)).map_err(|error| reason(&error))
}

fn least(first: Option<u64>, second: Option<u64>) -> Option<u64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (first, second) => first.or(second),
    }
}
