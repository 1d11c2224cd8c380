//! Limits of one rendering. Every text and list that a template creates is charged to a budget, and so is every value that
//! an operator, filter, test or method reads, shared parts each time. Nesting depth is limited too.
//!
//! The engine's fuel counts instructions, but one instruction can double a text, compare two lists with exponentially
//! many shared parts, or iterate for an hour. So this crate replaces such operators ([`super::operators`]) and charges
//! filters, tests and methods before and after the call ([`super::filters`]). Fuel and budget together bound the time.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Maximum number of bytes that a rendering allocates in total, including freed ones: dozens of copies of a long
/// conversation. `tests/template_limits.rs` measures that hostile templates take at most 64 MiB and 2 s.
const MAX_BYTES: usize = 40 << 20;
/// Maximum number of bytes printed to the output or to a variable: more than fits into any model's context.
pub(super) const MAX_PRINTED_BYTES: usize = 16 << 20;
/// Maximum size of one text.
pub(super) const MAX_TEXT_BYTES: usize = MAX_PRINTED_BYTES;
/// Maximum depth of nested lists. Dropping a deeper list could overflow the stack.
pub(super) const MAX_NESTING: usize = 100;
/// Cost of a list element.
const ELEMENT_BYTES: usize = size_of::<Value>();
/// Cost of reading a value, which takes time instead of memory.
const VISIT_BYTES: usize = 4;
/// Number of bytes of a text that cost as much as reading a value.
const TEXT_BYTES_PER_VISIT: usize = 32;

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
    let mut visits = 0;
    count(value, &mut visits, 0)?;
    charge(state, visits.saturating_mul(VISIT_BYTES))
}

/// Charges the cost of reading a text. Other values cost nothing.
pub(super) fn charge_reading(state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => charge(state, text.len() / TEXT_BYTES_PER_VISIT * VISIT_BYTES),
        None => Ok(()),
    }
}

/// Returns a new value if its depth and size are within the limits.
pub(super) fn check_built(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    charge_traversal(state, &value)?;
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

/// Adds the number of values in a value, itself included, to `visits`. A long text counts as several.
fn count(value: &Value, visits: &mut usize, depth: usize) -> Result<(), Error> {
    *visits += 1;
    if depth > MAX_NESTING {
        return Err(exceeded("nesting"));
    }
    if *visits > MAX_BYTES / VISIT_BYTES {
        return Err(exceeded("memory"));
    }
    match value.kind() {
        ValueKind::String => *visits += value.as_str().map_or(0, str::len) / TEXT_BYTES_PER_VISIT,
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                count(&item, visits, depth + 1)?;
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                count(&key, visits, depth + 1)?;
                count(&value.get_item(&key)?, visits, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(())
}
