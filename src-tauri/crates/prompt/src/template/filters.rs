//! Filters and tests of the engine, and methods of Python's texts and lists. Each call is charged before it runs, and its
//! result after.

use minijinja::value::{Rest, Value, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters, tests};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::budget::{charge_list, charge_reading, charge_text, charge_traversal, check_returned, exceeded};
use super::{operators, python};

/// Maximum width, count or precision in an argument.
const MAX_NUMBER: i128 = 10_000;

/// Maximum number of characters that `trim` or a method removes. Each is compared with each character of the text.
const MAX_TRIMMED_CHARS: usize = 100;

/// Registers the filters, tests and methods. Those that are not listed read a constant number of bytes.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    let charged = [
        ("attr", Value::from_function(filters::attr)),
        ("capitalize", Value::from_function(filters::capitalize)),
        ("e", Value::from_function(filters::escape)),
        ("escape", Value::from_function(filters::escape)),
        ("float", Value::from_function(filters::float)),
        ("int", Value::from_function(filters::int)),
        ("items", Value::from_function(filters::items)),
        ("lower", Value::from_function(filters::lower)),
        ("reject", Value::from_function(filters::reject)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
        ("safe", Value::from_function(filters::safe)),
        ("select", Value::from_function(filters::select)),
        ("selectattr", Value::from_function(filters::selectattr)),
        ("title", Value::from_function(filters::title)),
        ("trim", Value::from_function(filters::trim)),
        ("upper", Value::from_function(filters::upper)),
        ("length", Value::from_function(python::length)),
        ("count", Value::from_function(python::length)),
        ("string", Value::from_function(python::string)),
        ("tojson", Value::from_function(python::to_json)),
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
    let charged = [
        (&["eq", "equalto", "=="][..], Value::from_function(tests::is_eq)),
        (&["ne", "!="], Value::from_function(tests::is_ne)),
        (&["lt", "lessthan", "<"], Value::from_function(tests::is_lt)),
        (&["le", "<="], Value::from_function(tests::is_le)),
        (&["gt", "greaterthan", ">"], Value::from_function(tests::is_gt)),
        (&["ge", ">="], Value::from_function(tests::is_ge)),
        (&["endingwith"], Value::from_function(tests::is_endingwith)),
        (&["startingwith"], Value::from_function(tests::is_startingwith)),
        (&["lower"], Value::from_function(tests::is_lower)),
        (&["upper"], Value::from_function(tests::is_upper)),
        (&["sameas"], Value::from_function(tests::is_sameas)),
    ];
    for (names, test) in charged {
        for name in names {
            let test = test.clone();
            environment.add_test(*name, move |state: &mut State<'_, '_>, args: Rest<Value>| {
                for argument in args.iter() {
                    charge_traversal(state, argument)?;
                }
                test.call(state, &args).map(|result| result.is_true())
            });
        }
    }
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
        match name {
            // The length of a list or map is stored. Templates ask for that of the conversation once for each message.
            "length" | "count" => charge_reading(state, argument)?,
            _ => charge_traversal(state, argument)?,
        }
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
        ("trim" | "strip" | "lstrip" | "rstrip", Some(subject)) => {
            if text(0).is_some_and(|trimmed| trimmed.chars().nth(MAX_TRIMMED_CHARS).is_some()) {
                return Err(exceeded("steps"));
            }
            charge_text(state, subject.len())?;
        }
        // `\u{fb03}` has three bytes and becomes `FFI`; no letter becomes more than three of its size.
        ("capitalize" | "title" | "upper" | "lower", Some(subject)) => charge_text(state, subject.len() * 3)?,
        ("safe" | "e" | "escape", Some(subject)) => charge_text(state, operators::escaped_len(subject))?,
        // The method is called on the separator, the filter on the list.
        ("join", Some(separator)) => charge_join(state, rest.first(), separator)?,
        ("join", None) => charge_join(state, Some(subject), text(0).unwrap_or_default())?,
        ("reverse", Some(subject)) => charge_text(state, subject.len())?,
        ("split", Some(subject)) => {
            let parts = match text(0).filter(|separator| !separator.is_empty()) {
                Some(separator) => subject.matches(separator).count() + 1,
                None => subject.split_whitespace().count(),
            };
            charge_parts(state, subject, parts)?;
        }
        ("lines" | "splitlines", Some(subject)) => charge_parts(state, subject, subject.lines().count())?,
        // A search takes up to 3 ns for each byte.
        ("count" | "find" | "rfind", Some(subject)) => charge_text(state, subject.len() / 2)?,
        // Filters of lists take a text as the list of its characters.
        ("batch" | "groupby" | "list" | "map" | "max" | "min" | "slice" | "sort" | "sum" | "unique", Some(subject)) => {
            charge_parts(state, subject, subject.chars().count())?;
        }
        _ => {}
    }
    Ok(())
}

/// Charges a list of parts of a text. A list that grows takes up to three times its size.
fn charge_parts(state: &mut State<'_, '_>, text: &str, parts: usize) -> Result<(), Error> {
    charge_text(state, text.len())?;
    charge_list(state, parts.saturating_mul(3))
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
