//! Metadata values out of untrusted bytes.

use super::cursor::Cursor;
use crate::error::Place;
use crate::value::Type;
use crate::{Array, Error, Strings, Value};

/// Levels of arrays in arrays; the specification sets no bound and no known file has more than two.
const MAX_DEPTH: u32 = 8;

/// Reads the type and the value under `key`.
pub(super) fn value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, Error> {
    let place = || Place::Key(key.to_owned());
    let kind = kind(cursor, &place)?;
    Ok(match kind {
        Type::U8 => Value::U8(u8::from_le_bytes(cursor.array("value", place)?)),
        Type::I8 => Value::I8(i8::from_le_bytes(cursor.array("value", place)?)),
        Type::U16 => Value::U16(u16::from_le_bytes(cursor.array("value", place)?)),
        Type::I16 => Value::I16(i16::from_le_bytes(cursor.array("value", place)?)),
        Type::U32 => Value::U32(u32::from_le_bytes(cursor.array("value", place)?)),
        Type::I32 => Value::I32(i32::from_le_bytes(cursor.array("value", place)?)),
        Type::F32 => Value::F32(f32::from_le_bytes(cursor.array("value", place)?)),
        Type::Bool => Value::Bool(boolean(cursor, &place)?),
        Type::String => {
            let text = cursor.string("text", place)?;
            let at = cursor.offset() - text.len() as u64;
            cursor.take_memory(text.len() as u64, "text", at, place)?;
            Value::String(text.to_owned())
        }
        Type::Array => Value::Array(array(cursor, &place, 1)?),
        Type::U64 => Value::U64(u64::from_le_bytes(cursor.array("value", place)?)),
        Type::I64 => Value::I64(i64::from_le_bytes(cursor.array("value", place)?)),
        Type::F64 => Value::F64(f64::from_le_bytes(cursor.array("value", place)?)),
    })
}

fn kind(cursor: &mut Cursor<'_>, place: &impl Fn() -> Place) -> Result<Type, Error> {
    let offset = cursor.offset();
    let id = u32::from_le_bytes(cursor.array("value type", place)?);
    Type::from_id(id).ok_or_else(|| Error::ValueType { place: place(), id, offset })
}

fn boolean(cursor: &mut Cursor<'_>, place: &impl Fn() -> Place) -> Result<bool, Error> {
    let offset = cursor.offset();
    match cursor.array("value", place)? {
        [0] => Ok(false),
        [1] => Ok(true),
        [found] => Err(Error::Bool { place: place(), found, offset }),
    }
}

fn array(cursor: &mut Cursor<'_>, place: &impl Fn() -> Place, depth: u32) -> Result<Array, Error> {
    let at = cursor.offset();
    if depth > MAX_DEPTH {
        return Err(Error::Depth { place: place(), offset: at, limit: MAX_DEPTH });
    }
    let kind = kind(cursor, place)?;
    let count_at = cursor.offset();
    let count = cursor.length("array length", place)?;
    Ok(match kind {
        Type::U8 => Array::U8(numbers(cursor, count, count_at, place, u8::from_le_bytes)?),
        Type::I8 => Array::I8(numbers(cursor, count, count_at, place, i8::from_le_bytes)?),
        Type::U16 => Array::U16(numbers(cursor, count, count_at, place, u16::from_le_bytes)?),
        Type::I16 => Array::I16(numbers(cursor, count, count_at, place, i16::from_le_bytes)?),
        Type::U32 => Array::U32(numbers(cursor, count, count_at, place, u32::from_le_bytes)?),
        Type::I32 => Array::I32(numbers(cursor, count, count_at, place, i32::from_le_bytes)?),
        Type::F32 => Array::F32(numbers(cursor, count, count_at, place, f32::from_le_bytes)?),
        Type::U64 => Array::U64(numbers(cursor, count, count_at, place, u64::from_le_bytes)?),
        Type::I64 => Array::I64(numbers(cursor, count, count_at, place, i64::from_le_bytes)?),
        Type::F64 => Array::F64(numbers(cursor, count, count_at, place, f64::from_le_bytes)?),
        Type::Bool => Array::Bool(each(cursor, count, 1, count_at, place, |cursor| boolean(cursor, place))?),
        Type::String => Array::String(strings(cursor, count, count_at, place)?),
        Type::Array => {
            let least_bytes = cursor.length_bytes() + 4;
            let inner = |cursor: &mut Cursor<'_>| array(cursor, place, depth + 1);
            Array::Array(each(cursor, count, least_bytes, count_at, place, inner)?)
        }
    })
}

/// `count` numbers of `N` bytes; the bytes are there before the vector is.
fn numbers<const N: usize, T>(
    cursor: &mut Cursor<'_>,
    count: u64,
    count_at: u64,
    place: &impl Fn() -> Place,
    read: fn([u8; N]) -> T,
) -> Result<Vec<T>, Error> {
    cursor.check_count("array length", count, N as u64, count_at, place)?;
    cursor.take_memory(count * N as u64, "array length", count_at, place)?;
    let bytes = cursor.bytes("array", count * N as u64, place)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|&bytes| read(bytes)).collect())
}

/// `count` texts. Their bytes are counted before any of them is copied.
fn strings(cursor: &mut Cursor<'_>, count: u64, count_at: u64, place: &impl Fn() -> Place) -> Result<Strings, Error> {
    cursor.check_count("array length", count, cursor.length_bytes(), count_at, place)?;
    let mut ahead = cursor.clone();
    let start = ahead.offset();
    for _ in 0..count {
        let length = ahead.length("text", place)?;
        ahead.bytes("text", length, place)?;
    }
    let bytes = ahead.offset() - start - count * cursor.length_bytes();
    cursor.take_memory(bytes + count * size_of::<u32>() as u64, "array length", count_at, place)?;
    let mut strings = Strings::with_capacity(count as usize, bytes as usize);
    for _ in 0..count {
        strings.push(cursor.string("text", place)?);
    }
    Ok(strings)
}

/// `count` elements of at least `least_bytes` each.
fn each<'a, T>(
    cursor: &mut Cursor<'a>,
    count: u64,
    least_bytes: u64,
    count_at: u64,
    place: &impl Fn() -> Place,
    read: impl Fn(&mut Cursor<'a>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    cursor.check_count("array length", count, least_bytes, count_at, place)?;
    cursor.take_memory(count * size_of::<T>() as u64, "array length", count_at, place)?;
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        values.push(read(cursor)?);
    }
    Ok(values)
}
