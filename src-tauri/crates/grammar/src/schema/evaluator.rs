//! The state of rewriting one document, and whether sets are empty.

use std::collections::HashMap;
use std::rc::Rc;

use super::intersect::{self, Work};
use super::position::Position;
use super::resources::Resources;
use super::shape::{Arrays, AtomKind, Node, Objects, Set, Shape};
use crate::error::Error;
use crate::limits::{MAX_DEPTH, schema_at_most};

/// Nesting up to which a part of a value is checked for emptiness. Deeper parts count as not empty.
const MAX_EMPTY_DEPTH: usize = 8;

/// Evaluates the schemas of one document.
pub(super) struct Evaluator<'a> {
    pub(super) resources: Resources<'a>,
    /// References that are being followed.
    pub(super) open: Vec<(usize, AtomKind)>,
    pub(super) work: Work,
    /// The first keyword with incomplete refused values.
    pub(super) left_out: Option<(String, Rc<Position>)>,
    /// Whether nothing matches a node, by its key.
    empty: HashMap<Vec<(usize, AtomKind)>, bool>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(resources: Resources<'a>) -> Self {
        Self { resources, open: Vec::new(), work: Work::default(), left_out: None, empty: HashMap::new() }
    }

    /// The values that match a node.
    pub(super) fn evaluate(&mut self, node: &Node<'a>) -> Result<Set<'a>, Error> {
        let Some(atoms) = &node.0 else { return Ok(Set::never()) };
        let mut all: Option<Set<'a>> = None;
        for atom in atoms {
            schema_at_most("levels of nesting", atom.position.depth, MAX_DEPTH)?;
            // The value is a part of the one that open references apply to.
            let open = std::mem::take(&mut self.open);
            let set = match atom.kind {
                AtomKind::Matches => self.accepted(atom.value, &atom.position),
                AtomKind::Differs => self.refused(atom.value, &atom.position),
                AtomKind::Equals => self.constant(atom.value, "const", &atom.position),
            };
            self.open = open;
            all = Some(match all {
                Some(all) => intersect::sets(&all, &set?, &mut self.work)?,
                None => set?,
            });
        }
        Ok(all.unwrap_or_else(Set::any))
    }

    /// Whether a set is certainly empty.
    pub(super) fn is_empty(&mut self, set: &Set<'a>, depth: usize) -> Result<bool, Error> {
        for shape in &set.0 {
            let is_empty = match shape {
                Shape::Array(arrays) => self.is_empty_array(arrays, depth)?,
                Shape::Object(objects) => self.is_empty_object(objects, depth)?,
                _ => false,
            };
            if !is_empty {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_empty_array(&mut self, arrays: &Arrays<'a>, depth: usize) -> Result<bool, Error> {
        for index in 0..usize::try_from(arrays.min_items).unwrap_or(usize::MAX).min(arrays.prefix.len() + 1) {
            let (item, _) = arrays.prefix.get(index).unwrap_or(&arrays.rest);
            if self.is_empty_node(item, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_empty_object(&mut self, objects: &Objects<'a>, depth: usize) -> Result<bool, Error> {
        for name in &objects.required {
            let node = intersect::schema_of(objects, name, &mut self.work)?;
            if self.is_empty_node(&node, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_empty_node(&mut self, node: &Node<'a>, depth: usize) -> Result<bool, Error> {
        if node.is_any() || node.is_never() || depth >= MAX_EMPTY_DEPTH {
            return Ok(node.is_never());
        }
        let key = node.key();
        if let Some(is_empty) = self.empty.get(&key) {
            return Ok(*is_empty);
        }
        // A recursive node counts as not empty while it is checked.
        self.empty.insert(key.clone(), false);
        let set = self.evaluate(node)?;
        let is_empty = self.is_empty(&set, depth + 1)?;
        self.empty.insert(key, is_empty);
        Ok(is_empty)
    }
}
