//! What one rendering may use: every text and list that a template makes is charged to a budget, and what it builds may be neither
//! nested deeply nor, counted through shared parts, huge.
//!
//! The engine's own fuel counts instructions, but one instruction can double a text, compare two lists that each hold the
//! other's parts twice, or go through a list that is an hour long. So the operators, filters and methods that can do such
//! things are ours ([`super::operators`], [`super::filters`]) or are asked about before and after.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Bytes that a rendering may make in all: dozens of copies of the longest conversation.
const MAX_BYTES: usize = 256 << 20;
/// Bytes that it may print, into its output or into a variable: more than fits any model's context.
pub(super) const MAX_PRINTED_BYTES: usize = 16 << 20;
/// Bytes of one text.
pub(super) const MAX_TEXT_BYTES: usize = MAX_PRINTED_BYTES;
/// Lists in lists; deeper ones could not even be freed without a stack as deep.
pub(super) const MAX_NESTING: usize = 100;
/// Values in one that is built, counting shared parts as often as they are reached.
const MAX_VALUES: usize = 1 << 18;
/// What an element of a list costs.
const ELEMENT_BYTES: usize = size_of::<Value>();

/// The engine's error for what is too large.
#[derive(Debug, thiserror::Error)]
#[error("the limit on its {0}")]
pub(super) struct Exceeded(pub(super) &'static str);

/// The error for exceeding the limit on `what`.
pub(super) fn exceeded(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, "a limit was exceeded").with_source(Exceeded(what))
}

/// What the rendering has used so far; kept in the engine's state.
#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    printed: usize,
}

/// Charges bytes that are about to be made, or to be gone through.
pub(super) fn charge(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let used = state.get_or_insert_extension_with(Used::default);
    used.bytes = used.bytes.saturating_add(bytes);
    if used.bytes > MAX_BYTES { Err(exceeded("memory")) } else { Ok(()) }
}

/// Charges a text that is about to be made.
pub(super) fn charge_text(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    if bytes > MAX_TEXT_BYTES {
        return Err(exceeded("memory"));
    }
    charge(state, bytes)
}

/// Charges a list that is about to be made.
pub(super) fn charge_list(state: &mut State<'_, '_>, elements: usize) -> Result<(), Error> {
    charge(state, elements.saturating_mul(ELEMENT_BYTES))
}

/// Charges printed text.
pub(super) fn charge_printed(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let used = state.get_or_insert_extension_with(Used::default);
    used.printed = used.printed.saturating_add(bytes);
    if used.printed > MAX_PRINTED_BYTES { Err(exceeded("output")) } else { Ok(()) }
}

/// Charges what going through a whole value costs.
pub(super) fn charge_through(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let visited = match value.as_str() {
        Some(text) => text.len() / ELEMENT_BYTES,
        None => count(value, 0, 0)?,
    };
    charge(state, visited)
}

/// Passes a value on that was just built, if it is not nested too deeply and not too large.
pub(super) fn built(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let values = count(&value, 0, 0)?;
    charge(state, values)?;
    Ok(value)
}

/// Passes on what a filter, method or function returned: lists are made whole, for the engine's lazy ones can be chained without
/// end.
pub(super) fn returned(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => {
            charge_text(state, value.as_str().map_or(0, str::len))?;
            Ok(value)
        }
        ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()? {
                charge_list(state, 1)?;
                items.push(item);
            }
            built(state, Value::from(items))
        }
        ValueKind::Seq | ValueKind::Map => {
            charge_list(state, value.len().unwrap_or(0))?;
            built(state, value)
        }
        _ => Ok(value),
    }
}

/// Values in a value, itself included, added to those counted before.
fn count(value: &Value, before: usize, depth: usize) -> Result<usize, Error> {
    if depth > MAX_NESTING || before > MAX_VALUES {
        return Err(exceeded("memory"));
    }
    let mut values = before + 1;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                values = count(&item, values, depth + 1)?;
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                values = count(&value.get_item(&key)?, values + 1, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(values)
}
