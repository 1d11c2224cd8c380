//! Metadata values out of untrusted bytes.

use super::cursor::Cursor;
use crate::error::{Error, Location};
use crate::strings::Strings;
use crate::value::{Array, Type, Value};

/// Levels of arrays in arrays; the specification sets no bound and no published file has more than two.
const MAX_DEPTH: u32 = 8;

/// Reads the type and the value under `key`.
pub(super) fn value(cursor: &mut Cursor<'_>, key: &str) -> Result<Value, Error> {
    let location = || Location::Key(key.to_owned());
    let kind = kind(cursor, &location)?;
    Ok(match kind {
        Type::U8 => Value::U8(u8::from_le_bytes(cursor.array("value", location)?)),
        Type::I8 => Value::I8(i8::from_le_bytes(cursor.array("value", location)?)),
        Type::U16 => Value::U16(u16::from_le_bytes(cursor.array("value", location)?)),
        Type::I16 => Value::I16(i16::from_le_bytes(cursor.array("value", location)?)),
        Type::U32 => Value::U32(u32::from_le_bytes(cursor.array("value", location)?)),
        Type::I32 => Value::I32(i32::from_le_bytes(cursor.array("value", location)?)),
        Type::F32 => Value::F32(f32::from_le_bytes(cursor.array("value", location)?)),
        Type::Bool => Value::Bool(boolean(cursor, &location)?),
        Type::String => {
            let text = cursor.string("text", location)?;
            let at = cursor.offset() - text.len() as u64;
            cursor.take_memory(text.len() as u64, "text", at, location)?;
            Value::String(text.to_owned())
        }
        Type::Array => Value::Array(array(cursor, &location, 1)?),
        Type::U64 => Value::U64(u64::from_le_bytes(cursor.array("value", location)?)),
        Type::I64 => Value::I64(i64::from_le_bytes(cursor.array("value", location)?)),
        Type::F64 => Value::F64(f64::from_le_bytes(cursor.array("value", location)?)),
    })
}

fn kind(cursor: &mut Cursor<'_>, location: &impl Fn() -> Location) -> Result<Type, Error> {
    let offset = cursor.offset();
    let id = u32::from_le_bytes(cursor.array("value type", location)?);
    Type::from_id(id).ok_or_else(|| Error::ValueType { location: location(), id, offset })
}

fn boolean(cursor: &mut Cursor<'_>, location: &impl Fn() -> Location) -> Result<bool, Error> {
    let offset = cursor.offset();
    match cursor.array("value", location)? {
        [0] => Ok(false),
        [1] => Ok(true),
        [found] => Err(Error::Bool { location: location(), found, offset }),
    }
}

fn array(cursor: &mut Cursor<'_>, location: &impl Fn() -> Location, depth: u32) -> Result<Array, Error> {
    let at = cursor.offset();
    if depth > MAX_DEPTH {
        return Err(Error::Depth { location: location(), offset: at, limit: MAX_DEPTH });
    }
    let kind = kind(cursor, location)?;
    let count_at = cursor.offset();
    let count = cursor.length("array length", location)?;
    Ok(match kind {
        Type::U8 => Array::U8(numbers(cursor, count, count_at, location, u8::from_le_bytes)?),
        Type::I8 => Array::I8(numbers(cursor, count, count_at, location, i8::from_le_bytes)?),
        Type::U16 => Array::U16(numbers(cursor, count, count_at, location, u16::from_le_bytes)?),
        Type::I16 => Array::I16(numbers(cursor, count, count_at, location, i16::from_le_bytes)?),
        Type::U32 => Array::U32(numbers(cursor, count, count_at, location, u32::from_le_bytes)?),
        Type::I32 => Array::I32(numbers(cursor, count, count_at, location, i32::from_le_bytes)?),
        Type::F32 => Array::F32(numbers(cursor, count, count_at, location, f32::from_le_bytes)?),
        Type::U64 => Array::U64(numbers(cursor, count, count_at, location, u64::from_le_bytes)?),
        Type::I64 => Array::I64(numbers(cursor, count, count_at, location, i64::from_le_bytes)?),
        Type::F64 => Array::F64(numbers(cursor, count, count_at, location, f64::from_le_bytes)?),
        Type::Bool => Array::Bool(each(cursor, count, 1, count_at, location, |cursor| boolean(cursor, location))?),
        Type::String => Array::String(strings(cursor, count, count_at, location)?),
        Type::Array => {
            let least_bytes = cursor.length_bytes() + 4;
            let inner = |cursor: &mut Cursor<'_>| array(cursor, location, depth + 1);
            Array::Array(each(cursor, count, least_bytes, count_at, location, inner)?)
        }
    })
}

/// Reads `count` numbers of `N` bytes each. Checks that the file has the bytes before it allocates the vector.
fn numbers<const N: usize, T>(
    cursor: &mut Cursor<'_>,
    count: u64,
    count_at: u64,
    location: &impl Fn() -> Location,
    read: fn([u8; N]) -> T,
) -> Result<Vec<T>, Error> {
    cursor.check_count("array length", count, N as u64, count_at, location)?;
    cursor.take_memory(count * N as u64, "array length", count_at, location)?;
    let bytes = cursor.bytes("array", count * N as u64, location)?;
    Ok(bytes.as_chunks::<N>().0.iter().map(|&bytes| read(bytes)).collect())
}

/// `count` texts. Their bytes are counted before any of them is copied.
fn strings(
    cursor: &mut Cursor<'_>,
    count: u64,
    count_at: u64,
    location: &impl Fn() -> Location,
) -> Result<Strings, Error> {
    cursor.check_count("array length", count, cursor.length_bytes(), count_at, location)?;
    let mut ahead = cursor.clone();
    let start = ahead.offset();
    for _ in 0..count {
        let length = ahead.length("text", location)?;
        ahead.bytes("text", length, location)?;
    }
    let bytes = ahead.offset() - start - count * cursor.length_bytes();
    cursor.take_memory(bytes + count * size_of::<u32>() as u64, "array length", count_at, location)?;
    let mut strings = Strings::with_capacity(count as usize, bytes as usize);
    for _ in 0..count {
        strings.push(cursor.string("text", location)?);
    }
    Ok(strings)
}

/// `count` elements of at least `least_bytes` each.
fn each<'a, T>(
    cursor: &mut Cursor<'a>,
    count: u64,
    least_bytes: u64,
    count_at: u64,
    location: &impl Fn() -> Location,
    read: impl Fn(&mut Cursor<'a>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    cursor.check_count("array length", count, least_bytes, count_at, location)?;
    cursor.take_memory(count * size_of::<T>() as u64, "array length", count_at, location)?;
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        values.push(read(cursor)?);
    }
    Ok(values)
}
