//! Limits of one rendering. Every text and list that a template creates is charged to a budget. Nesting depth and total
//! number of values, shared parts counted each time, are limited too.
//!
//! The engine's fuel counts instructions, but one instruction can double a text, compare two lists with exponentially
//! many shared parts, or iterate for an hour. So this crate replaces such operators ([`super::operators`]) and charges
//! filters and methods before and after the call ([`super::filters`]).

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Maximum number of bytes that a rendering allocates in total: dozens of copies of the longest conversation.
const MAX_BYTES: usize = 256 << 20;
/// Maximum number of bytes printed to the output or to a variable: more than fits into any model's context.
pub(super) const MAX_PRINTED_BYTES: usize = 16 << 20;
/// Maximum size of one text.
pub(super) const MAX_TEXT_BYTES: usize = MAX_PRINTED_BYTES;
/// Maximum depth of nested lists. Dropping a deeper list could overflow the stack.
pub(super) const MAX_NESTING: usize = 100;
/// Maximum number of values in a new value. Shared parts count each time.
const MAX_VALUES: usize = 1 << 18;
/// Cost of a list element.
const ELEMENT_BYTES: usize = size_of::<Value>();

/// Source of an engine error: the limit that was exceeded.
#[derive(Debug, thiserror::Error)]
#[error("the limit on its {0}")]
pub(super) struct Exceeded(pub(super) &'static str);

/// Creates the error for an exceeded limit on `what`.
pub(super) fn exceeded(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, "a limit was exceeded").with_source(Exceeded(what))
}

/// Usage of the current rendering, stored in the engine's state.
#[derive(Debug, Default)]
struct Usage {
    bytes: usize,
    printed: usize,
}

/// Charges bytes before they are allocated or read.
pub(super) fn charge(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let usage = state.get_or_insert_extension_with(Usage::default);
    usage.bytes = usage.bytes.saturating_add(bytes);
    if usage.bytes > MAX_BYTES { Err(exceeded("memory")) } else { Ok(()) }
}

/// Charges a text before it is created.
pub(super) fn charge_text(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    if bytes > MAX_TEXT_BYTES {
        return Err(exceeded("memory"));
    }
    charge(state, bytes)
}

/// Charges a list before it is created.
pub(super) fn charge_list(state: &mut State<'_, '_>, elements: usize) -> Result<(), Error> {
    charge(state, elements.saturating_mul(ELEMENT_BYTES))
}

/// Charges printed text.
pub(super) fn charge_printed(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let usage = state.get_or_insert_extension_with(Usage::default);
    usage.printed = usage.printed.saturating_add(bytes);
    if usage.printed > MAX_PRINTED_BYTES { Err(exceeded("output")) } else { Ok(()) }
}

/// Charges the cost of traversing a whole value.
pub(super) fn charge_traversal(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let visited = match value.as_str() {
        Some(text) => text.len() / ELEMENT_BYTES,
        None => count(value, 0, 0)?,
    };
    charge(state, visited)
}

/// Returns a new value if its depth and size are within the limits.
pub(super) fn check_built(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let values = count(&value, 0, 0)?;
    charge(state, values)?;
    Ok(value)
}

/// Returns the result of a filter, method or function after charging it. Lazy lists are collected, because the engine
/// can chain them without a limit.
pub(super) fn check_returned(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
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
            check_built(state, Value::from(items))
        }
        ValueKind::Seq | ValueKind::Map => {
            charge_list(state, value.len().unwrap_or(0))?;
            check_built(state, value)
        }
        _ => Ok(value),
    }
}

/// Counts the values in a value, itself included, starting from `before`.
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
