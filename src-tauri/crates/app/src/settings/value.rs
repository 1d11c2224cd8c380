//! Values of settings in three forms: in `config.toml`, as text of the environment, and as clients see them.
//!
//! The loader reads the environment's text. A value of the file is converted to that text, so one parser and one
//! validation serve both.

use std::path::Path;

use super::downloads::bytes;
use super::problem::SettingProblem;
use super::reader::is_true;
use super::row::{Kind, Row};
use super::tiers;

/// Longest text. Lists of shortcuts or origins fit, and a file with all of them stays below its own limit.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// A value as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are named after the kinds of values")]
pub enum Value {
    Bool(bool),
    Number(u64),
    Text(String),
}

/// Converts a value to the environment's text, or returns why it does not have the row's kind.
pub(super) fn text(row: &Row, value: &Value) -> Result<String, SettingProblem> {
    match (row.kind, value) {
        (Kind::Bool, Value::Bool(on)) => Ok(on.to_string()),
        (Kind::Bool, _) => Err(SettingProblem::NeedsBool),
        (Kind::Number, Value::Number(number)) => Ok(number.to_string()),
        (Kind::Number, _) => Err(SettingProblem::NeedsNumber),
        (Kind::Bytes(1), Value::Number(number)) => Ok(number.to_string()),
        // The quotient is exact: the unit is a power of two.
        (Kind::Bytes(unit), Value::Number(number)) => Ok((*number as f64 / unit as f64).to_string()),
        (Kind::Bytes(unit), Value::Text(text)) => match bytes(text) {
            Some(number) if unit > 1 => Ok((number as f64 / unit as f64).to_string()),
            // The loader parses units, and words such as `none`.
            _ if unit == 1 => Ok(text.clone()),
            _ => Err(SettingProblem::NeedsSize),
        },
        (Kind::Bytes(_), Value::Bool(_)) => Err(SettingProblem::NeedsSize),
        (Kind::Choice(words), Value::Text(text)) if words.contains(&&**text) => Ok(text.clone()),
        (Kind::Choice(words), _) => Err(SettingProblem::NeedsChoice(words)),
        (Kind::Path | Kind::Text, Value::Text(text)) if text.chars().any(char::is_control) => {
            Err(SettingProblem::NeedsLine)
        }
        (Kind::Path | Kind::Text, Value::Text(text)) if text.len() > MAX_TEXT_BYTES => {
            Err(SettingProblem::TooLong(MAX_TEXT_BYTES))
        }
        (Kind::Path, Value::Text(text)) if Path::new(text).is_absolute() => Ok(text.clone()),
        (Kind::Path, _) => Err(SettingProblem::NeedsPath),
        (Kind::Text, Value::Text(text)) => Ok(text.clone()),
        (Kind::Text, _) => Err(SettingProblem::NeedsText),
    }
}

/// The value of an environment's text. Text that does not parse is a text value.
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
    fn value_survives_round_trip_through_environment_text() {
        let check = |key: &str, value: Value, expected: Result<&str, ()>| {
            let row = TABLE.iter().find(|row| row.key == Some(key)).expect("the setting exists");
            let found = text(row, &value);
            assert_eq!(found.as_deref().map_err(|_| ()), expected, "{key} {value:?}");
            if let (Ok(found), Value::Number(_) | Value::Bool(_)) = (&found, &value) {
                assert_eq!(shown(row, found), Some(value), "{key}: round trip");
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
