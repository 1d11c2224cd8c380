//! Values of settings in their three forms: as `config.toml` has them, as the environment writes them, and as clients see them.
//!
//! The environment's text is what the loader reads. A value of the file is turned into it, so that there is one reader for
//! both, and one judge of what can be.

use std::path::Path;

use super::downloads::bytes;
use super::reader::is_true;
use super::row::{Kind, Row};
use super::tiers;

/// The longest text: long lists of shortcuts or origins have room, and so has the file with all of them.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// A value, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the kind of value that it has")]
pub enum Value {
    Bool(bool),
    Number(u64),
    Text(String),
}

/// The environment's text for a value; why it cannot be one of this row, as far as its kind tells.
pub(super) fn text(row: &Row, value: &Value) -> Result<String, String> {
    match (row.kind, value) {
        (Kind::Bool, Value::Bool(on)) => Ok(on.to_string()),
        (Kind::Bool, _) => Err("it is true or false".to_owned()),
        (Kind::Number, Value::Number(number)) => Ok(number.to_string()),
        (Kind::Number, _) => Err("it is a whole number".to_owned()),
        (Kind::Bytes(1), Value::Number(number)) => Ok(number.to_string()),
        // The quotient is exact: the unit is a power of two.
        (Kind::Bytes(unit), Value::Number(number)) => Ok((*number as f64 / unit as f64).to_string()),
        (Kind::Bytes(unit), Value::Text(text)) => match bytes(text) {
            Some(number) if unit > 1 => Ok((number as f64 / unit as f64).to_string()),
            // Units are read where all texts are, and words such as `none` too.
            _ if unit == 1 => Ok(text.clone()),
            _ => Err("it is a number of bytes, 20G for instance".to_owned()),
        },
        (Kind::Bytes(_), Value::Bool(_)) => Err("it is a number of bytes".to_owned()),
        (Kind::Choice(words), Value::Text(text)) if words.contains(&&**text) => Ok(text.clone()),
        (Kind::Choice(words), _) => Err(format!("it is one of {}", words.join(", "))),
        (Kind::Path | Kind::Text, Value::Text(text)) if text.chars().any(char::is_control) => {
            Err("it is one line of text".to_owned())
        }
        (Kind::Path | Kind::Text, Value::Text(text)) if text.len() > MAX_TEXT_BYTES => {
            Err(format!("it is longer than {MAX_TEXT_BYTES} bytes"))
        }
        (Kind::Path, Value::Text(text)) if Path::new(text).is_absolute() => Ok(text.clone()),
        (Kind::Path, _) => Err("it is a path from the root".to_owned()),
        (Kind::Text, Value::Text(text)) => Ok(text.clone()),
        (Kind::Text, _) => Err("it is text".to_owned()),
    }
}

/// The value of an environment's text; none where it says nothing.
pub(super) fn shown(row: &Row, text: &str) -> Option<Value> {
    let plain = || Some(Value::Text(text.to_owned()));
    match row.kind {
        Kind::Bool => Some(Value::Bool(is_true(text))),
        Kind::Number => text.parse().map(Value::Number).ok().or_else(plain),
        Kind::Bytes(1) => bytes(text).map(Value::Number).or_else(plain),
        Kind::Bytes(_) => tiers::gib(text).map(Value::Number).or_else(plain),
        Kind::Text | Kind::Path | Kind::Choice(_) => plain(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::TABLE;

    #[test]
    fn a_value_survives_the_environments_form() {
        let check = |key: &str, value: Value, expected: Result<&str, ()>| {
            let row = TABLE.iter().find(|row| row.key == Some(key)).expect("there is such a setting");
            let found = text(row, &value);
            assert_eq!(found.as_deref().map_err(|_| ()), expected, "{key} {value:?}");
            if let (Ok(found), Value::Number(_) | Value::Bool(_)) = (&found, &value) {
                assert_eq!(shown(row, found), Some(value), "{key}: and back");
            }
        };
        check("cache.tiering", Value::Bool(false), Ok("false"));
        check("cache.tiering", Value::Text("false".into()), Err(()));
        check("cache.ram", Value::Number(123), Ok("123"));
        check("cache.ram", Value::Text("2G".into()), Ok("2G"));
        check("cache.folder_size", Value::Number(20 << 30), Ok("20"));
        check("cache.folder_size", Value::Number(200_000_000), Ok("0.1862645149230957"));
        check("cache.folder_size", Value::Text("much".into()), Err(()));
        check("cache.encrypt", Value::Text("remote".into()), Ok("remote"));
        check("cache.encrypt", Value::Text("maybe".into()), Err(()));
        check("cache.folder", Value::Text("kv".into()), Err(()));
        check("engine.context", Value::Text("8k".into()), Err(()));
        check("engine.keep_alive", Value::Text("-1".into()), Ok("-1"));
        check("engine.keep_alive", Value::Number(5), Err(()));
        check("server.host", Value::Text("a\nb".into()), Err(()));
    }
}
