//! Rewrites a JSON Schema (draft 2020-12, with the forms of draft 4 to 2019-09) to the part that is enforced exactly.
//!
//! A schema becomes a union of shapes, each of which has values of one type ([`shape`]). Keywords that combine schemas for the same
//! value, such as `allOf`, `not` and `if`, become unions and intersections of shapes, so that the result has only what `llguidance`
//! implements: types with assertions, alternatives, and references to definitions. Annotations and keywords that JSON Schema does
//! not define are dropped, as its specification demands. A keyword that would be ignored or approximated is refused with its
//! position.
//!
//! Answers are narrower than the schema where that does no harm: properties come in the order of the schema, integers have no
//! fraction, items for `contains` are among the first ones, and different items of an enumeration come in its order.
//!
//! | module | content |
//! |---|---|
//! | `resources`, `position` | identifiers, positions and references |
//! | `shape`, `intersect` | unions of shapes, and what two of them have in common |
//! | `evaluator`, `assert`, `refute`, `contains` | the values that a schema accepts or refuses |
//! | `emit` | the schema of a union, for the compiler |
//! | `values`, `pattern`, `formats`, `cost` | values of keywords |

mod assert;
mod contains;
mod cost;
mod emit;
mod evaluator;
mod formats;
mod intersect;
mod pattern;
mod position;
mod refute;
mod resources;
mod shape;
mod values;

use serde_json::{Value, json};

use crate::error::Error;
use emit::Emitter;
use evaluator::Evaluator;
use position::Position;
use resources::Resources;
use shape::{AtomKind, Node};

/// Returns an object schema that accepts a subset of what `schema` accepts.
///
/// # Errors
/// When a keyword is not supported or has an invalid value, or the schema is too large.
pub(crate) fn normalise(schema: &Value) -> Result<Value, Error> {
    rewrite(schema, &Value::Bool(true))
}

/// Does the same as [`normalise`] for the objects that `schema` accepts.
///
/// # Errors
/// As for [`normalise`].
pub(crate) fn normalise_object(schema: &Value) -> Result<Value, Error> {
    rewrite(schema, &json!({"type": "object"}))
}

fn rewrite<'a>(schema: &'a Value, limit: &'a Value) -> Result<Value, Error> {
    let evaluator = Evaluator::new(Resources::of(schema)?);
    let node = |schema| Node::new(AtomKind::Matches, schema, Position::root());
    Emitter::new(evaluator).document(&node(schema).and(&node(limit)))
}
