//! Filters of the engine and methods of Python's texts and lists. Each call is charged before and after it runs.

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::budget::{charge_list, charge_text, charge_traversal, check_returned, exceeded};
use super::python;

/// Maximum width, count or precision in an argument.
const MAX_NUMBER: i128 = 10_000;

/// Registers the filters and methods.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    // Filters that can traverse a whole value, return more than their input, or sort.
    let charged = [
        ("batch", Value::from_function(filters::batch)),
        ("dictsort", Value::from_function(filters::dictsort)),
        ("format", Value::from_function(filters::format)),
        ("groupby", Value::from_function(filters::groupby)),
        ("indent", Value::from_function(filters::indent)),
        ("join", Value::from_function(filters::join)),
        ("lines", Value::from_function(filters::lines)),
        ("list", Value::from_function(filters::list)),
        ("map", Value::from_function(filters::map)),
        ("max", Value::from_function(filters::max)),
        ("min", Value::from_function(filters::min)),
        ("replace", Value::from_function(filters::replace)),
        ("reverse", Value::from_function(filters::reverse)),
        ("round", Value::from_function(filters::round)),
        ("slice", Value::from_function(filters::slice)),
        ("sort", Value::from_function(filters::sort)),
        ("split", Value::from_function(filters::split)),
        ("sum", Value::from_function(filters::sum)),
        ("unique", Value::from_function(filters::unique)),
    ];
    for (name, filter) in charged {
        environment.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args: Vec<Value> = args.into_values();
            charge_call(state, name, &args)?;
            let result = filter.call(state, &args)?;
            check_returned(state, result)
        });
    }
    // Not part of Jinja, or for debugging.
    for name in ["chain", "pprint", "zip"] {
        environment.remove_filter(name);
    }
    environment.remove_global("debug");
    environment.add_filter("tojson", python::to_json);
    environment.add_filter("length", python::length);
    environment.add_filter("count", python::length);
    environment.add_filter("string", python::string);
    environment.add_test("iterable", python::is_iterable);
    environment.set_unknown_method_callback(|state, value, method, args| {
        let mut all = vec![value.clone()];
        all.extend_from_slice(args);
        charge_call(state, method, &all)?;
        unknown_method_callback(state, value, method, args)
    });
}

/// Charges a call of a filter or method, or rejects it. The first argument is the value that it is applied to.
fn charge_call(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<(), Error> {
    for argument in args {
        charge_traversal(state, argument)?;
    }
    let Some((subject, rest)) = args.split_first() else { return Ok(()) };
    for number in rest.iter().filter(|value| value.is_integer()) {
        if i128::try_from(number.clone()).is_ok_and(|number| number.abs() > MAX_NUMBER) {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{name}: a number argument exceeds {MAX_NUMBER}"),
            ));
        }
    }
    let text = |index: usize| rest.get(index).and_then(Value::as_str);
    match (name, subject.as_str()) {
        ("format", Some(pattern)) => {
            let digits = pattern.split(|letter: char| !letter.is_ascii_digit());
            if digits.map(str::len).max().unwrap_or(0) > 4 {
                return Err(exceeded("memory"));
            }
        }
        ("replace", Some(subject)) => {
            let (old, new) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
            charge_text(state, subject.len() + subject.matches(old).count().saturating_mul(new.len()))?;
        }
        ("indent", Some(subject)) => {
            let width = rest.first().and_then(|width| usize::try_from(width.clone()).ok()).unwrap_or(4);
            let width = text(0).map_or(width, str::len);
            charge_text(state, subject.len() + subject.lines().count().saturating_mul(width))?;
        }
        // The method is called on the separator, the filter on the list.
        ("join", Some(separator)) => charge_join(state, rest.first(), separator)?,
        ("join", None) => charge_join(state, Some(subject), text(0).unwrap_or_default())?,
        // The others may create a list of a text's characters or parts.
        ("replace" | "round", None) => {}
        (_, Some(subject)) => charge_list(state, subject.len())?,
        _ => {}
    }
    Ok(())
}

fn charge_join(state: &mut State<'_, '_>, list: Option<&Value>, separator: &str) -> Result<(), Error> {
    let Some(items) = list.and_then(|list| list.try_iter().ok()) else { return Ok(()) };
    for item in items {
        let bytes = item.as_str().map_or(ITEM_BYTES, str::len);
        charge_text(state, bytes + separator.len())?;
    }
    Ok(())
}

/// Assumed size of a joined item that is not a text. Larger items are charged with the result.
const ITEM_BYTES: usize = 32;
