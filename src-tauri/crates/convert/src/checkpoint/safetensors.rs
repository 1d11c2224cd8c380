//! Reader of safetensors heads.
//!
//! ```text
//! u64 length of the header, little-endian | header, JSON | data
//! ```
//!
//! The header maps names to `{"dtype", "shape", "data_offsets": [start, end]}`, with offsets into the data. Source:
//! <https://github.com/huggingface/safetensors>. Its limit of the header is used here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use cairn_gguf::DType;
use serde_json::Value;

const MAX_HEADER_BYTES: u64 = 100_000_000;
const LENGTH_BYTES: u64 = 8;

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceTensor {
    pub(super) name: String,
    /// F32, F16 or BF16. Other tensors are left out: they are no weights.
    pub(super) dtype: DType,
    /// Rows first.
    pub(super) shape: Vec<u64>,
    /// Index of the file.
    pub(super) file: usize,
    /// Position in the file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Reads the tensors of a file, in the order of their positions.
pub(super) fn read(mut file: &File, index: usize) -> Result<Vec<SourceTensor>, String> {
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let mut length = [0; LENGTH_BYTES as usize];
    let start = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_exact(&mut length));
    start.map_err(|error| format!("cannot read the length of the header: {error}"))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES || length > size.saturating_sub(LENGTH_BYTES) {
        return Err(format!("the header has {length} bytes; the file has {size}, and the limit is {MAX_HEADER_BYTES}"));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(|error| format!("cannot read the header: {error}"))?;
    let header: BTreeMap<String, Value> =
        serde_json::from_slice(&header).map_err(|error| format!("the header is not valid JSON: {error}"))?;
    let data = LENGTH_BYTES + length;
    let mut tensors = Vec::new();
    for (name, entry) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let shown = name.escape_debug().to_string();
        let tensor = tensor(name, &entry, index, data, size);
        tensors.extend(tensor.map_err(|reason| format!("tensor `{shown}`: {reason}"))?);
    }
    tensors.sort_by_key(|tensor| tensor.offset);
    Ok(tensors)
}

/// Reads the entry of a tensor. Returns `None` for other types than weights have.
fn tensor(name: String, entry: &Value, file: usize, data: u64, size: u64) -> Result<Option<SourceTensor>, String> {
    let dtype = match entry["dtype"].as_str() {
        Some("F32") => DType::F32,
        Some("F16") => DType::F16,
        Some("BF16") => DType::BF16,
        Some("F64" | "I64" | "I32" | "I16" | "I8" | "U64" | "U32" | "U16" | "U8" | "BOOL") => return Ok(None),
        Some(other) => return Err(format!("the type {other:?} is not supported")),
        None => return Err("it has no type".to_owned()),
    };
    let numbers = |key: &str| -> Result<Vec<u64>, String> {
        let list = entry[key].as_array().ok_or_else(|| format!("it has no {key}"))?;
        list.iter().map(|item| item.as_u64().ok_or_else(|| format!("{key} has {item}"))).collect()
    };
    let (shape, offsets) = (numbers("shape")?, numbers("data_offsets")?);
    let elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    let need = elements.and_then(|elements| elements.checked_mul(dtype.block_bytes() as u64));
    let [start, end] = offsets[..] else { return Err(format!("data_offsets are {offsets:?}")) };
    let bytes = end.checked_sub(start).ok_or_else(|| format!("data_offsets are {offsets:?}"))?;
    if need != Some(bytes) {
        return Err(format!("{bytes} bytes do not fit the shape {shape:?} of {dtype}"));
    }
    match data.checked_add(end) {
        Some(end) if end <= size => Ok(Some(SourceTensor { name, dtype, shape, file, offset: data + start, bytes })),
        _ => Err(format!("it ends at {end} of the data, beyond the end of the file")),
    }
}
