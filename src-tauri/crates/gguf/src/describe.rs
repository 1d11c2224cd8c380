//! What a file holds, for people and for scripts: metadata, tensor table, type mix, sizes.
//!
//! Long arrays and texts are shortened in both forms: a vocabulary would bury everything else.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde_json::{Map, Value as Json, json};

use crate::dtype::DType;
use crate::reader::Gguf;
use crate::value::{Array, Value};

/// Elements of an array that are shown.
const SHOWN_ELEMENTS: usize = 4;
/// Characters of a text that are shown in a line.
const SHOWN_CHARACTERS: usize = 80;
/// The widest column of names. A longer name moves its own row alone; else one of 65,535 bytes would widen every row.
const WIDEST_NAME: usize = 64;

/// How much of a file is of one type.
struct Share {
    tensors: u64,
    elements: u64,
    bytes: u64,
}

/// The description in plain text, of a file of `file_len` bytes.
pub fn text(gguf: &Gguf, file_len: u64) -> String {
    let mut out = String::new();
    write_text(gguf, file_len, &mut out).expect("a string takes all text");
    out
}

fn write_text(gguf: &Gguf, file_len: u64, out: &mut String) -> fmt::Result {
    let (tensors, entries) = (gguf.tensors().len(), gguf.metadata().len());
    writeln!(out, "GGUF version {}, {} bytes ({})", gguf.version, file_len, size(file_len))?;
    writeln!(out, "{} parameters in {tensors} tensors, {entries} metadata entries", parameters(gguf))?;
    writeln!(out, "data at {}, aligned to {}", gguf.data_offset, gguf.alignment)?;

    writeln!(out, "\nMetadata")?;
    // Names come from the file, so what would steer a terminal is escaped.
    let rows: Vec<_> = gguf.metadata().iter().map(|(key, value)| (key.escape_debug().to_string(), value)).collect();
    let width = rows.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0).min(WIDEST_NAME);
    for (key, value) in rows {
        writeln!(out, "  {key:width$}  {}", shown(value))?;
    }

    writeln!(out, "\nTypes")?;
    for (dtype, share) in mix(gguf) {
        let Share { tensors, bytes, .. } = share;
        let percent = percent(bytes, gguf);
        writeln!(out, "  {dtype:7} {tensors:5} tensors  {bytes:>14} bytes ({:>9})  {percent:5.1} %", size(bytes))?;
    }

    writeln!(out, "\nTensors")?;
    let is_split = gguf.tensors().iter().any(|tensor| tensor.part > 0);
    let rows: Vec<_> = gguf.tensors().iter().map(|tensor| (tensor.name.escape_debug().to_string(), tensor)).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(WIDEST_NAME);
    for (name, tensor) in rows {
        let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
        let (dims, dtype) = (dims.join(" x "), tensor.dtype);
        write!(out, "  {name:width$}  {dtype:7} {dims:>20}  {:>14} bytes at {}", tensor.bytes, tensor.offset)?;
        if is_split {
            write!(out, " of part {}", tensor.part + 1)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The description as one JSON object, of a file of `file_len` bytes. A long array appears as
/// `{"type", "length", "first"}`; a tensor's `part` is the file that its `offset` counts from, from 0.
pub fn json(gguf: &Gguf, file_len: u64) -> String {
    let metadata: Map<String, Json> =
        gguf.metadata().iter().map(|(key, value)| (key.to_owned(), json_value(value))).collect();
    let types: Map<String, Json> = mix(gguf)
        .into_iter()
        .map(|(dtype, share)| {
            let Share { tensors, elements, bytes } = share;
            let share = percent(bytes, gguf) / 100.0;
            let row = json!({ "tensors": tensors, "elements": elements, "bytes": bytes, "share": share });
            (dtype.name().to_owned(), row)
        })
        .collect();
    let tensors: Vec<Json> = gguf
        .tensors()
        .iter()
        .map(|tensor| {
            json!({
                "name": tensor.name, "type": tensor.dtype.name(), "dims": tensor.dims,
                "part": tensor.part, "offset": tensor.offset, "bytes": tensor.bytes,
            })
        })
        .collect();
    let description = json!({
        "version": gguf.version,
        "file_bytes": file_len,
        "parameters": parameters(gguf),
        "alignment": gguf.alignment,
        "data_offset": gguf.data_offset,
        "metadata": metadata,
        "types": types,
        "tensors": tensors,
    });
    format!("{description:#}")
}

/// Elements of all tensors together.
fn parameters(gguf: &Gguf) -> u64 {
    gguf.tensors().iter().map(|tensor| tensor.elements()).sum()
}

/// The types that occur, in the order of the type table.
fn mix(gguf: &Gguf) -> BTreeMap<DType, Share> {
    let mut mix = BTreeMap::new();
    for tensor in gguf.tensors() {
        let share = mix.entry(tensor.dtype).or_insert(Share { tensors: 0, elements: 0, bytes: 0 });
        share.tensors += 1;
        share.elements += tensor.elements();
        share.bytes += tensor.bytes;
    }
    mix
}

fn percent(bytes: u64, gguf: &Gguf) -> f64 {
    let all: u64 = gguf.tensors().iter().map(|tensor| tensor.bytes).sum();
    100.0 * bytes as f64 / all as f64
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e9 => format!("{:.2} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} kB", bytes / 1e3),
    }
}

/// A value in one line: text escaped and cut, of an array the beginning.
fn shown(value: &Value) -> String {
    match value {
        Value::U8(x) => x.to_string(),
        Value::I8(x) => x.to_string(),
        Value::U16(x) => x.to_string(),
        Value::I16(x) => x.to_string(),
        Value::U32(x) => x.to_string(),
        Value::I32(x) => x.to_string(),
        Value::F32(x) => x.to_string(),
        Value::Bool(x) => x.to_string(),
        Value::String(text) => shown_text(text),
        Value::Array(array) => shown_array(array),
        Value::U64(x) => x.to_string(),
        Value::I64(x) => x.to_string(),
        Value::F64(x) => x.to_string(),
    }
}

fn shown_text(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{:?}... ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
        None => format!("{text:?}"),
    }
}

fn shown_array(array: &Array) -> String {
    let first: Vec<String> = match array {
        Array::String(texts) => texts.iter().take(SHOWN_ELEMENTS).map(shown_text).collect(),
        Array::Array(arrays) => arrays.iter().take(SHOWN_ELEMENTS).map(shown_array).collect(),
        array => json_elements(array, SHOWN_ELEMENTS).iter().map(Json::to_string).collect(),
    };
    let more = if array.len() > SHOWN_ELEMENTS { ", ..." } else { "" };
    format!("[{}{more}] ({} x {})", first.join(", "), array.len(), array.element_kind().name())
}

fn json_value(value: &Value) -> Json {
    match value {
        Value::U8(x) => json!(x),
        Value::I8(x) => json!(x),
        Value::U16(x) => json!(x),
        Value::I16(x) => json!(x),
        Value::U32(x) => json!(x),
        Value::I32(x) => json!(x),
        Value::F32(x) => json!(x),
        Value::Bool(x) => json!(x),
        Value::String(text) => json!(text),
        Value::Array(array) => json_array(array),
        Value::U64(x) => json!(x),
        Value::I64(x) => json!(x),
        Value::F64(x) => json!(x),
    }
}

fn json_array(array: &Array) -> Json {
    const WHOLE: usize = 16;
    if array.len() <= WHOLE {
        Json::Array(json_elements(array, WHOLE))
    } else {
        let first = json_elements(array, SHOWN_ELEMENTS);
        json!({ "type": array.type_name(), "length": array.len(), "first": first })
    }
}

fn json_elements(array: &Array, count: usize) -> Vec<Json> {
    match array {
        Array::Array(arrays) => arrays.iter().take(count).map(json_array).collect(),
        Array::U8(v) => some(v, count),
        Array::I8(v) => some(v, count),
        Array::U16(v) => some(v, count),
        Array::I16(v) => some(v, count),
        Array::U32(v) => some(v, count),
        Array::I32(v) => some(v, count),
        Array::F32(v) => some(v, count),
        Array::Bool(v) => some(v, count),
        Array::String(v) => v.iter().take(count).map(Json::from).collect(),
        Array::U64(v) => some(v, count),
        Array::I64(v) => some(v, count),
        Array::F64(v) => some(v, count),
    }
}

fn some<T: Clone + Into<Json>>(values: &[T], count: usize) -> Vec<Json> {
    values.iter().take(count).cloned().map(Into::into).collect()
}

#[cfg(test)]
mod tests;
