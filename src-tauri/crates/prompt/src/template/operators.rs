//! Python's operators on texts and lists, charged to the rendering's budget.
//!
//! A text marked with `safe` stays marked after a concatenation, and the other operand is escaped for HTML, as in the
//! class `Markup` of Python's markupsafe. Published templates depend on it.

use std::cmp::Ordering;

use minijinja::value::{Tuple, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use super::budget::{charge_list, charge_reading, charge_text, charge_traversal, check_built, check_returned};
use super::python;

/// Registers the operators as functions with names that no template can write. [`super::engine`] replaces instructions
/// by calls of them.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_function("+", add);
    environment.add_function("*", multiply);
    environment.add_function("~", concatenate);
    environment.add_function("[:]", slice);
    environment.add_function("in", contains);
    comparison(environment, "==", |order| order == Some(Ordering::Equal));
    comparison(environment, "!=", |order| order != Some(Ordering::Equal));
    comparison(environment, "<", |order| order == Some(Ordering::Less));
    comparison(environment, "<=", |order| matches!(order, Some(Ordering::Less | Ordering::Equal)));
    comparison(environment, ">", |order| order == Some(Ordering::Greater));
    comparison(environment, ">=", |order| matches!(order, Some(Ordering::Greater | Ordering::Equal)));
    environment.add_test("in", contains);
}

fn comparison(environment: &mut Environment<'static>, name: &'static str, holds: fn(Option<Ordering>) -> bool) {
    environment.add_function(name, move |state: &mut State<'_, '_>, left: Value, right: Value| {
        charge_traversal(state, &left)?;
        charge_traversal(state, &right)?;
        // Equality is tested separately: values without an order can be equal.
        Ok::<_, Error>(holds(if left == right { Some(Ordering::Equal) } else { unequal(&left, &right) }))
    });
}

/// Returns the order of two values that are not equal. The engine orders values of different kinds too.
fn unequal(left: &Value, right: &Value) -> Option<Ordering> {
    left.partial_cmp(right).filter(|order| order.is_ne())
}

fn unsupported(operator: &str, left: &Value, right: &Value) -> Error {
    let reason = format!("cannot compute {} {operator} {}", left.kind(), right.kind());
    Error::new(ErrorKind::InvalidOperation, reason)
}

fn overflow() -> Error {
    Error::new(ErrorKind::InvalidOperation, "a number is too large")
}

fn integer(value: &Value) -> Option<i128> {
    let is_whole = value.is_integer() || value.kind() == ValueKind::Bool;
    is_whole.then(|| i128::try_from(value.clone()).ok()).flatten()
}

fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()).ok().or_else(|| integer(value).map(|whole| whole as f64)),
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        _ => None,
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Creates a tuple if `like` is one, else a list.
fn list_like(like: &Value, items: Vec<Value>) -> Value {
    if like.is_tuple() { Value::from(Tuple::new(items)) } else { Value::from(items) }
}

/// `left + right`.
fn add(state: &mut State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (left.as_str(), right.as_str()) {
        return match (left.is_safe(), right.is_safe()) {
            (false, false) => joined(state, a, b).map(Value::from),
            (true, true) => joined(state, a, b).map(Value::from_safe_string),
            (true, false) => joined(state, a, &escaped(b)).map(Value::from_safe_string),
            (false, true) => joined(state, &escaped(a), b).map(Value::from_safe_string),
        };
    }
    if is_list(&left) && is_list(&right) && left.is_tuple() == right.is_tuple() {
        let mut items = Vec::new();
        for item in left.try_iter()?.chain(right.try_iter()?) {
            charge_list(state, 1)?;
            items.push(item);
        }
        return check_built(state, list_like(&left, items));
    }
    if let (Some(a), Some(b)) = (integer(&left), integer(&right)) {
        return a.checked_add(b).map(Value::from).ok_or_else(overflow);
    }
    let sum = float(&left).zip(float(&right)).map(|(a, b)| Value::from(a + b));
    sum.ok_or_else(|| unsupported("+", &left, &right))
}

fn joined(state: &mut State<'_, '_>, a: &str, b: &str) -> Result<String, Error> {
    charge_text(state, a.len() + b.len())?;
    Ok([a, b].concat())
}

/// Maximum size of a text after [`escaped`].
pub(super) fn escaped_len(text: &str) -> usize {
    text.len() + 4 * text.matches(['&', '<', '>', '\'', '"']).count()
}

/// Escapes HTML as markupsafe does.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\'' => safe.push_str("&#39;"),
            '"' => safe.push_str("&#34;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// `left * right`.
fn multiply(state: &mut State<'_, '_>, left: Value, right: Value) -> Result<Value, Error> {
    if let (Some(a), Some(b)) = (integer(&left), integer(&right)) {
        return a.checked_mul(b).map(Value::from).ok_or_else(overflow);
    }
    for (repeated, times) in [(&left, &right), (&right, &left)] {
        let Some(times) = integer(times) else { continue };
        let times = usize::try_from(times.max(0)).map_err(|_| overflow())?;
        if let Some(text) = repeated.as_str() {
            charge_text(state, text.len().saturating_mul(times))?;
            return Ok(Value::from(text.repeat(times)));
        }
        if is_list(repeated) {
            let once = repeated.try_iter()?.collect::<Vec<_>>();
            charge_list(state, once.len().saturating_mul(times))?;
            return check_built(state, list_like(repeated, std::iter::repeat_n(once, times).flatten().collect()));
        }
    }
    let product = float(&left).zip(float(&right)).map(|(a, b)| Value::from(a * b));
    product.ok_or_else(|| unsupported("*", &left, &right))
}

/// `left ~ right`: concatenates both as texts.
fn concatenate(state: &mut State<'_, '_>, left: Value, right: Value) -> Result<String, Error> {
    let mut text = String::new();
    python::write_str(&mut text, &left)?;
    python::write_str(&mut text, &right)?;
    charge_text(state, text.len())?;
    Ok(text)
}

/// `value[start:stop:step]`.
fn slice(state: &mut State<'_, '_>, value: Value, start: Value, stop: Value, step: Value) -> Result<Value, Error> {
    let bound = |value: Value| match value.is_none() {
        true => Ok(None),
        false => i64::try_from(value).map(Some),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "the step of a slice must not be zero"));
    }
    if let Some(text) = value.as_str() {
        charge_text(state, text.len())?;
        if step == 1 {
            // The common case, without a list of all characters.
            let range = indices(text.chars().count(), start, stop, step);
            return Ok(Value::from(text.chars().skip(range.first).take(range.count).collect::<String>()));
        }
        let letters: Vec<char> = text.chars().collect();
        charge_list(state, letters.len())?;
        let picked = indices(letters.len(), start, stop, step);
        return Ok(Value::from(picked.filter_map(|index| letters.get(index)).collect::<String>()));
    }
    if value.is_undefined() || value.is_none() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    if !is_list(&value) {
        let reason = format!("a {} cannot be sliced", value.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, reason));
    }
    let items = value.try_iter()?.collect::<Vec<_>>();
    charge_list(state, items.len())?;
    let picked = indices(items.len(), start, stop, step).filter_map(|index| items.get(index).cloned()).collect();
    Ok(list_like(&value, picked))
}

/// Iterator over the indices of a slice.
struct Indices {
    first: usize,
    count: usize,
    step: i64,
}

impl Iterator for Indices {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let index = self.first;
        self.first = self.first.saturating_add_signed(self.step as isize);
        Some(index)
    }
}

/// Computes the indices as Python's `slice.indices` and `range` do.
fn indices(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Indices {
    let (len, backwards) = (i128::try_from(len).unwrap_or(i128::MAX), step < 0);
    let (lowest, highest) = if backwards { (-1, len - 1) } else { (0, len) };
    let clamp = |bound: i64| {
        let bound = i128::from(bound);
        (if bound < 0 { bound + len } else { bound }).clamp(lowest, highest)
    };
    let start = start.map_or(if backwards { highest } else { lowest }, clamp);
    let stop = stop.map_or(if backwards { lowest } else { highest }, clamp);
    let distance = if backwards { start - stop } else { stop - start };
    let stride = i128::from(step).abs();
    let count = if distance > 0 { (distance + stride - 1) / stride } else { 0 };
    Indices { first: usize::try_from(start).unwrap_or(0), count: usize::try_from(count).unwrap_or(0), step }
}

/// `needle in container`, also registered as a test.
fn contains(state: &mut State<'_, '_>, needle: Value, container: Value) -> Result<bool, Error> {
    charge_traversal(state, &needle)?;
    // A map is not traversed.
    if container.kind() != ValueKind::Map {
        charge_traversal(state, &container)?;
    }
    if let Some(text) = container.as_str() {
        let mut part = String::new();
        python::write_str(&mut part, &needle)?;
        return Ok(text.contains(&part));
    }
    match container.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::Map => Ok(container.as_object().is_some_and(|map| map.get_value(&needle).is_some())),
        ValueKind::Seq | ValueKind::Iterable => Ok(container.try_iter()?.any(|item| item == needle)),
        ValueKind::Plain => Ok(false),
        _ => Err(unsupported("in", &needle, &container)),
    }
}

/// Registers the checks of values that are read, built and returned.
pub(super) fn add_checks_to(environment: &mut Environment<'static>) {
    // Keyword arguments are built too. Other functions do not accept them as a value.
    environment.add_function("(built)", |state: &mut State<'_, '_>, value: ValueOrKwargs| {
        let value: Value = value.into_value();
        check_built(state, value)
    });
    environment.add_function("(read)", |state: &mut State<'_, '_>, value: Value| {
        charge_traversal(state, &value)?;
        Ok::<_, Error>(value)
    });
    environment.add_function("(text)", |state: &mut State<'_, '_>, value: Value| {
        charge_reading(state, &value)?;
        Ok::<_, Error>(value)
    });
    environment.add_function("(returned)", |state: &mut State<'_, '_>, value: ValueOrKwargs| {
        let value: Value = value.into_value();
        check_returned(state, value)
    });
}
