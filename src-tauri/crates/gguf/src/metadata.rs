//! Metadata: keys and values in the file's order, and typed lookups.
//!
//! Writers disagree about widths (`u32` here, `u64` or `i32` there), so a lookup accepts an integer of any width
//! if the value fits. All other values must have the requested type: a wrong type is an error that
//! names the key, the type expected and the type found. A missing key is `None`, or an error for `required_*`.

use std::collections::HashMap;

use crate::error::Error;
use crate::strings::Strings;
use crate::value::{Array, Value};

/// The metadata of one file; each key once, in the file's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Metadata {
    /// No entries.
    pub fn new() -> Metadata {
        Metadata::default()
    }

    /// No entries yet, with room for `entries`.
    pub(crate) fn with_capacity(entries: usize) -> Metadata {
        Metadata { entries: Vec::with_capacity(entries), index: HashMap::with_capacity(entries) }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value under `key`, whatever its type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let (_, value) = self.entries.get(*self.index.get(key)?)?;
        Some(value)
    }

    /// The value under `key`, to change it in place.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let (_, value) = self.entries.get_mut(*self.index.get(key)?)?;
        Some(value)
    }

    /// All entries in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Puts `value` under `key`, in place of an earlier value or at the end; returns the earlier value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.index.get(&key).and_then(|&at| self.entries.get_mut(at)) {
            Some((_, earlier)) => Some(std::mem::replace(earlier, value)),
            None => {
                self.index.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
                None
            }
        }
    }

    /// The integer under `key` as `u32`.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        self.integer(key, "u32")
    }

    /// The integer under `key` as `u64`.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, Error> {
        self.integer(key, "u64")
    }

    /// The integer under `key` as `i32`.
    pub fn i32(&self, key: &str) -> Result<Option<i32>, Error> {
        self.integer(key, "i32")
    }

    /// The number under `key`; a double is rounded.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, Error> {
        self.typed(key, "f32", |value| match value {
            Value::F32(x) => Some(*x),
            Value::F64(x) => Some(*x as f32),
            _ => None,
        })
    }

    /// The boolean under `key`.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.typed(key, "bool", |value| match value {
            Value::Bool(x) => Some(*x),
            _ => None,
        })
    }

    /// The text under `key`.
    pub fn str(&self, key: &str) -> Result<Option<&str>, Error> {
        self.typed(key, "string", |value| match value {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The texts under `key`.
    pub fn strings(&self, key: &str) -> Result<Option<&Strings>, Error> {
        self.typed(key, "array of string", |value| match value {
            Value::Array(Array::String(texts)) => Some(texts),
            _ => None,
        })
    }

    /// The floats under `key`.
    pub fn f32s(&self, key: &str) -> Result<Option<&[f32]>, Error> {
        self.typed(key, "array of f32", |value| match value {
            Value::Array(Array::F32(values)) => Some(values.as_slice()),
            _ => None,
        })
    }

    /// The integers under `key`, each as `i32`.
    pub fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>, Error> {
        self.integers(key, "array of i32")
    }

    /// The integers under `key`, each as `u32`.
    pub fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        self.integers(key, "array of u32")
    }

    /// [`Metadata::u32`] of a key that must be there.
    pub fn required_u32(&self, key: &str) -> Result<u32, Error> {
        required(key, self.u32(key)?)
    }

    /// [`Metadata::u64`] of a key that must be there.
    pub fn required_u64(&self, key: &str) -> Result<u64, Error> {
        required(key, self.u64(key)?)
    }

    /// [`Metadata::f32`] of a key that must be there.
    pub fn required_f32(&self, key: &str) -> Result<f32, Error> {
        required(key, self.f32(key)?)
    }

    /// [`Metadata::str`] of a key that must be there.
    pub fn required_str(&self, key: &str) -> Result<&str, Error> {
        required(key, self.str(key)?)
    }

    /// [`Metadata::strings`] of a key that must be there.
    pub fn required_strings(&self, key: &str) -> Result<&Strings, Error> {
        required(key, self.strings(key)?)
    }

    /// [`Metadata::f32s`] of a key that must be there.
    pub fn required_f32s(&self, key: &str) -> Result<&[f32], Error> {
        required(key, self.f32s(key)?)
    }

    /// [`Metadata::i32s`] of a key that must be there.
    pub fn required_i32s(&self, key: &str) -> Result<Vec<i32>, Error> {
        required(key, self.i32s(key)?)
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match convert(value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(Error::WrongType { key: key.to_owned(), expected, found: value.type_name() }),
        }
    }

    fn integer<T: TryFrom<i128>>(&self, key: &str, expected: &'static str) -> Result<Option<T>, Error> {
        let Some(wide) = self.typed(key, expected, Value::integer)? else { return Ok(None) };
        self.fit(key, expected, wide).map(Some)
    }

    fn integers<T: TryFrom<i128>>(&self, key: &str, expected: &'static str) -> Result<Option<Vec<T>>, Error> {
        let fit = |value| self.fit(key, expected, value);
        self.typed(key, expected, |value| each_integer(value, fit))?.transpose()
    }

    fn fit<T: TryFrom<i128>>(&self, key: &str, expected: &'static str, value: i128) -> Result<T, Error> {
        T::try_from(value).map_err(|_| Error::OutOfRange {
            key: key.to_owned(),
            expected,
            found: self.get(key).map(Value::type_name).unwrap_or_default(),
            value,
        })
    }
}

impl IntoIterator for Metadata {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    /// All entries in order, without a copy of the values.
    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl FromIterator<(String, Value)> for Metadata {
    /// The entries in order. Of a repeated key, the last value replaces the others.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Metadata {
        let mut metadata = Metadata::new();
        for (key, value) in entries {
            metadata.set(key, value);
        }
        metadata
    }
}

fn required<T>(key: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::MissingKey { key: key.to_owned() })
}

/// Each integer of an array, of any width, as `fit` makes it.
fn each_integer<T>(value: &Value, fit: impl Fn(i128) -> Result<T, Error>) -> Option<Result<Vec<T>, Error>> {
    fn each<N: Copy + Into<i128>, T>(
        values: &[N],
        fit: impl Fn(i128) -> Result<T, Error>,
    ) -> Option<Result<Vec<T>, Error>> {
        Some(values.iter().map(|&value| fit(value.into())).collect())
    }
    let Value::Array(array) = value else { return None };
    match array {
        Array::U8(values) => each(values, fit),
        Array::I8(values) => each(values, fit),
        Array::U16(values) => each(values, fit),
        Array::I16(values) => each(values, fit),
        Array::U32(values) => each(values, fit),
        Array::I32(values) => each(values, fit),
        Array::U64(values) => each(values, fit),
        Array::I64(values) => each(values, fit),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
