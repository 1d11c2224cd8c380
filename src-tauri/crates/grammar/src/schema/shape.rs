//! Sets of values, as unions of shapes: the values of one type that satisfy some assertions together.
//!
//! The schemas of items and properties stay references to the document ([`Node`]), so that a recursive schema has a finite shape.

use std::rc::Rc;

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::position::Position;

/// A reference to what a part of a value must match: all of these schemas. `None`: nothing matches.
#[derive(Clone, Debug)]
pub(super) struct Node<'a>(pub(super) Option<Vec<Atom<'a>>>);

/// One schema of a [`Node`].
#[derive(Clone, Debug)]
pub(super) struct Atom<'a> {
    pub(super) kind: AtomKind,
    pub(super) value: &'a Value,
    pub(super) position: Rc<Position>,
}

/// How the value of an [`Atom`] is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum AtomKind {
    /// It is a schema that must match.
    Matches,
    /// It is a schema that must not match.
    Differs,
    /// It is the value itself.
    Equals,
}

impl<'a> Node<'a> {
    pub(super) fn any() -> Self {
        Self(Some(Vec::new()))
    }

    pub(super) fn never() -> Self {
        Self(None)
    }

    pub(super) fn new(kind: AtomKind, value: &'a Value, position: Position) -> Self {
        let is_any = match value {
            Value::Bool(is_any) => Some(*is_any),
            Value::Object(keywords) if keywords.is_empty() => Some(true),
            _ => None,
        };
        match (kind, is_any) {
            (AtomKind::Matches, Some(true)) | (AtomKind::Differs, Some(false)) => Self::any(),
            (AtomKind::Matches, Some(false)) | (AtomKind::Differs, Some(true)) => Self::never(),
            _ => Self(Some(vec![Atom { kind, value, position: Rc::new(position) }])),
        }
    }

    pub(super) fn is_any(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    pub(super) fn is_never(&self) -> bool {
        self.0.is_none()
    }

    /// What matches both.
    pub(super) fn and(&self, other: &Self) -> Self {
        let (Some(own), Some(others)) = (&self.0, &other.0) else { return Self::never() };
        let mut all = own.clone();
        for atom in others {
            if !all.iter().any(|earlier| earlier.key() == atom.key()) {
                all.push(atom.clone());
            }
        }
        Self(Some(all))
    }

    /// Identifies it, independent of the order of its schemas.
    pub(super) fn key(&self) -> Vec<(usize, AtomKind)> {
        let mut key: Vec<_> = self.0.iter().flatten().map(Atom::key).collect();
        key.sort_unstable();
        key
    }
}

impl Atom<'_> {
    /// A document has one value at an address.
    pub(super) fn key(&self) -> (usize, AtomKind) {
        (std::ptr::from_ref(self.value) as usize, self.kind)
    }
}

/// A union of shapes.
#[derive(Clone, Debug)]
pub(super) struct Set<'a>(pub(super) Vec<Shape<'a>>);

/// Values of one type.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a schema has few shapes, and most of them are objects")]
pub(super) enum Shape<'a> {
    Null,
    /// This value, or both.
    Boolean(Option<bool>),
    Number(Numbers),
    Text(Texts),
    Array(Arrays<'a>),
    Object(Objects<'a>),
}

/// Numbers in a range.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    pub(super) is_integer: bool,
    pub(super) min: Option<Bound>,
    pub(super) max: Option<Bound>,
    /// Values of `multipleOf`, and where they are.
    pub(super) factors: Vec<(Value, Rc<Position>)>,
}

/// The end of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) is_exclusive: bool,
}

/// Texts that match all patterns.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    /// The only texts.
    pub(super) constants: Option<Vec<String>>,
    /// Regular expressions, found anywhere in the text.
    pub(super) patterns: Vec<String>,
    /// Formats that the compiler has.
    pub(super) formats: Vec<String>,
    pub(super) min_chars: u64,
    pub(super) max_chars: Option<u64>,
}

/// Arrays.
#[derive(Clone, Debug)]
pub(super) struct Arrays<'a> {
    /// Schemas of the first items, and whether they were evaluated.
    pub(super) prefix: Vec<(Node<'a>, bool)>,
    /// Schema of the other items, and whether they were evaluated.
    pub(super) rest: (Node<'a>, bool),
    pub(super) min_items: u64,
    pub(super) max_items: Option<u64>,
    /// Where `uniqueItems` demands different items.
    pub(super) unique: Option<Rc<Position>>,
}

/// Objects.
#[derive(Clone, Debug)]
pub(super) struct Objects<'a> {
    /// Schemas of properties by name, with those of the patterns that match the name.
    pub(super) properties: IndexMap<String, Node<'a>>,
    /// Schemas of further properties by pattern. The patterns exclude each other.
    pub(super) patterns: IndexMap<String, Node<'a>>,
    /// Schema of all other properties.
    pub(super) rest: Node<'a>,
    pub(super) required: IndexSet<String>,
    pub(super) min_properties: u64,
    pub(super) max_properties: Option<u64>,
    /// Where these numbers are.
    pub(super) counted: Option<Rc<Position>>,
    /// Schemas of the names.
    pub(super) names: Node<'a>,
    pub(super) evaluated: Evaluated,
}

/// Properties that were evaluated.
#[derive(Clone, Debug, Default)]
pub(super) struct Evaluated {
    pub(super) names: IndexSet<String>,
    pub(super) patterns: IndexSet<String>,
    pub(super) is_all: bool,
}

impl<'a> Arrays<'a> {
    pub(super) fn any() -> Self {
        Self { prefix: Vec::new(), rest: (Node::any(), false), min_items: 0, max_items: None, unique: None }
    }
}

impl Objects<'_> {
    pub(super) fn any() -> Self {
        Self {
            properties: IndexMap::new(),
            patterns: IndexMap::new(),
            rest: Node::any(),
            required: IndexSet::new(),
            min_properties: 0,
            max_properties: None,
            counted: None,
            names: Node::any(),
            evaluated: Evaluated::default(),
        }
    }
}

/// The types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

impl Type {
    pub(super) const ALL: [Self; 6] = [Self::Object, Self::Array, Self::Text, Self::Number, Self::Boolean, Self::Null];
}

impl<'a> Shape<'a> {
    /// All values of a type.
    pub(super) fn all(of: Type) -> Self {
        match of {
            Type::Null => Self::Null,
            Type::Boolean => Self::Boolean(None),
            Type::Number => Self::Number(Numbers::default()),
            Type::Text => Self::Text(Texts::default()),
            Type::Array => Self::Array(Arrays::any()),
            Type::Object => Self::Object(Objects::any()),
        }
    }

    pub(super) fn kind(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Boolean(_) => Type::Boolean,
            Self::Number(_) => Type::Number,
            Self::Text(_) => Type::Text,
            Self::Array(_) => Type::Array,
            Self::Object(_) => Type::Object,
        }
    }

    /// Whether it has all values of its type.
    pub(super) fn is_all(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Boolean(value) => value.is_none(),
            Self::Number(numbers) => {
                !numbers.is_integer && numbers.min.is_none() && numbers.max.is_none() && numbers.factors.is_empty()
            }
            Self::Text(texts) => {
                texts.constants.is_none()
                    && texts.patterns.is_empty()
                    && texts.formats.is_empty()
                    && texts.min_chars == 0
                    && texts.max_chars.is_none()
            }
            Self::Array(arrays) => {
                arrays.prefix.iter().all(|(item, _)| item.is_any())
                    && arrays.rest.0.is_any()
                    && arrays.min_items == 0
                    && arrays.max_items.is_none()
                    && arrays.unique.is_none()
            }
            Self::Object(objects) => {
                objects.properties.values().chain(objects.patterns.values()).all(Node::is_any)
                    && objects.rest.is_any()
                    && objects.required.is_empty()
                    && objects.min_properties == 0
                    && objects.max_properties.is_none()
                    && objects.names.is_any()
            }
        }
    }
}

impl<'a> Set<'a> {
    pub(super) fn any() -> Self {
        Self(Type::ALL.map(Shape::all).to_vec())
    }

    pub(super) fn never() -> Self {
        Self(Vec::new())
    }

    pub(super) fn of(shape: Shape<'a>) -> Self {
        Self(vec![shape])
    }

    /// All values but those of a type.
    pub(super) fn without(excluded: Type) -> Self {
        Self(Type::ALL.into_iter().filter(|kind| *kind != excluded).map(Shape::all).collect())
    }

    /// These values of a type, and all values of other types.
    pub(super) fn limited(shape: Shape<'a>) -> Self {
        let mut set = Self::without(shape.kind());
        set.0.push(shape);
        set
    }

    /// The same values. What was evaluated in a schema that does not match does not count.
    pub(super) fn unevaluated(mut self) -> Self {
        for shape in &mut self.0 {
            match shape {
                Shape::Array(arrays) => {
                    arrays
                        .prefix
                        .iter_mut()
                        .chain([&mut arrays.rest])
                        .for_each(|(_, is_evaluated)| *is_evaluated = false);
                }
                Shape::Object(objects) => objects.evaluated = Evaluated::default(),
                Shape::Null | Shape::Boolean(_) | Shape::Number(_) | Shape::Text(_) => {}
            }
        }
        self
    }

    /// Adds shapes. Those that are part of another one are dropped, unless it matters which properties and items were evaluated.
    pub(super) fn union(mut self, other: Self, is_observed: bool) -> Self {
        for shape in other.0 {
            let is_covered = |own: &Shape<'_>| own.kind() == shape.kind() && own.is_all();
            if !is_observed && self.0.iter().any(is_covered) {
                continue;
            }
            if !is_observed && shape.is_all() {
                self.0.retain(|own| own.kind() != shape.kind());
            }
            self.0.push(shape);
        }
        self
    }
}
