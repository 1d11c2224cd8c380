//! `contains`: arrays with a number of items that match.
//!
//! One shape is needed for each choice of places of these items, so they are among the first items of an array.

use serde_json::{Map, Value};

use super::evaluator::Evaluator;
use super::position::Position;
use super::shape::{Arrays, AtomKind, Node, Set, Shape, Type};
use super::values;
use crate::error::Error;

/// Number of places after the least ones that matching items may have.
const MORE_PLACES: u64 = 7;
/// Maximum number of shapes for one keyword.
const MAX_CHOICES: usize = 64;

/// Which numbers of items match.
#[derive(Clone, Copy, Debug)]
struct Range {
    min: u64,
    max: Option<u64>,
}

impl<'a> Evaluator<'a> {
    /// Arrays that contain items as demanded, and all other values.
    pub(super) fn contains(
        &mut self,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        position: &Position,
    ) -> Result<Set<'a>, Error> {
        let mut all = Set::without(Type::Array);
        all.0.extend(self.arrays_with(value, range(keywords, position)?, position)?.0);
        Ok(all)
    }

    /// Arrays that contain fewer or more items than demanded.
    pub(super) fn contains_otherwise(
        &mut self,
        value: &'a Value,
        keywords: &'a Map<String, Value>,
        position: &Position,
    ) -> Result<Set<'a>, Error> {
        let Range { min, max } = range(keywords, position)?;
        let mut all = Set::never();
        if let Some(most) = min.checked_sub(1) {
            all.0.extend(self.arrays_with(value, Range { min: 0, max: Some(most) }, position)?.0);
        }
        if let Some(max) = max {
            all.0.extend(self.arrays_with(value, Range { min: max + 1, max: None }, position)?.0);
        }
        Ok(all)
    }

    fn arrays_with(&mut self, value: &'a Value, range: Range, position: &Position) -> Result<Set<'a>, Error> {
        let child = || position.child(&["contains"]);
        let matching = Node::new(AtomKind::Matches, value, child());
        let other = match range.max {
            None => Node::any(),
            Some(_) => Node::new(AtomKind::Differs, value, child()),
        };
        let mut all = Set::never();
        if range.min == 0 && range.max.is_none() {
            all.0.push(Shape::all(Type::Array));
        }
        if position.is_observed && range.max.is_none() {
            // All items may match, and are evaluated then.
            all.0.push(Shape::Array(Arrays { rest: (matching.clone(), true), min_items: range.min, ..Arrays::any() }));
        }
        let counts = match range.max {
            None => range.min..=range.min,
            Some(max) => range.min..=max,
        };
        for count in counts {
            if count == 0 && range.max.is_none() {
                continue;
            }
            for places in choices(count).ok_or_else(|| position.unsupported("contains", "so many matching items"))? {
                let length = places.last().map_or(0, |last| last + 1);
                let item = |index: u64| match places.contains(&index) {
                    true => (matching.clone(), true),
                    false => (other.clone(), false),
                };
                let prefix: Vec<_> = (0..length).map(item).collect();
                if !prefix.iter().any(|(node, _)| node.is_never()) {
                    let rest = (other.clone(), false);
                    all.0.push(Shape::Array(Arrays { prefix, rest, min_items: length, ..Arrays::any() }));
                }
            }
        }
        Ok(all)
    }
}

fn range(keywords: &Map<String, Value>, position: &Position) -> Result<Range, Error> {
    let count = |keyword: &str| values::count(keyword, keywords.get(keyword), position);
    Ok(Range { min: count("minContains")?.unwrap_or(1), max: count("maxContains")? })
}

/// Choices of so many places; none if there are too many.
fn choices(count: u64) -> Option<Vec<Vec<u64>>> {
    let mut choices = vec![Vec::new()];
    if count > MAX_CHOICES as u64 {
        return None;
    }
    // As many places as the limit allows.
    for places in count..=count + MORE_PLACES {
        let more = of(count, places);
        if more.len() > MAX_CHOICES {
            break;
        }
        choices = more;
    }
    Some(choices)
}

/// Choices of `count` of the first `places` places.
fn of(count: u64, places: u64) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for position in 0..places {
        let left = places - position - 1;
        let with = all.iter().filter(|chosen: &&Vec<u64>| (chosen.len() as u64) < count);
        let with: Vec<Vec<u64>> = with.map(|chosen| chosen.iter().copied().chain([position]).collect()).collect();
        all.retain(|chosen| chosen.len() as u64 + left >= count);
        all.extend(with);
        all.retain(|chosen| chosen.len() as u64 + left >= count);
        if all.len() > 2 * MAX_CHOICES {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_limited() {
        assert_eq!(of(2, 3), [[0, 1], [0, 2], [1, 2]].map(Vec::from), "all choices");
        assert_eq!(choices(0), Some(vec![Vec::new()]), "no position");
        assert_eq!(choices(1).map(|all| all.len()), Some(8), "eight places");
        assert_eq!(choices(40).map(|all| all.len()), Some(41), "one position may be left out");
        assert_eq!(choices(65), None, "too many");
    }
}
