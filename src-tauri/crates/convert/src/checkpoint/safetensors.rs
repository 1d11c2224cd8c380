//! Reader of safetensors heads.
//!
//! ```text
//! u64 length of the header, little-endian | header, JSON | data
//! ```
//!
//! The header maps names to `{"dtype", "shape", "data_offsets": [start, end]}`, with offsets into the data. Source:
//! <https://github.com/huggingface/safetensors>. Its limit of the header is used here. Unknown parts of the header are
//! skipped without memory for them.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use cairn_gguf::DType;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

const MAX_HEADER_BYTES: u64 = 100_000_000;
const LENGTH_BYTES: u64 = 8;
/// Files of the largest published models have a few thousand tensors each.
const MAX_TENSORS: usize = 1 << 16;
/// Tensors of weights have at most 4 dimensions; other tensors are left out.
const MAX_DIMS: usize = 8;

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

/// The tensors of a header and their entries.
struct Header(Vec<(String, Entry)>);

/// Entry of a tensor.
#[derive(Deserialize)]
struct Entry {
    dtype: Option<String>,
    shape: Option<Numbers>,
    data_offsets: Option<Numbers>,
}

/// At most [`MAX_DIMS`] numbers.
struct Numbers(Vec<u64>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    if entries.len() == MAX_TENSORS {
                        return Err(A::Error::custom(format!("it has more than {MAX_TENSORS} tensors")));
                    }
                    let entry = map.next_value();
                    let invalid =
                        |error: A::Error| A::Error::custom(format!("tensor `{}`: {error}", name.escape_debug()));
                    let entry = entry.map_err(invalid)?;
                    entries.push((name, entry));
                }
                Ok(Header(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Numbers, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    if numbers.len() == MAX_DIMS {
                        return Err(A::Error::custom(format!("a list has more than {MAX_DIMS} numbers")));
                    }
                    numbers.push(number);
                }
                Ok(Numbers(numbers))
            }
        }

        deserializer.deserialize_seq(List)
    }
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
    let header: Header = serde_json::from_slice(&header).map_err(|error| format!("invalid header: {error}"))?;
    let data = LENGTH_BYTES + length;
    let mut tensors = Vec::new();
    for (name, entry) in header.0 {
        let shown = name.escape_debug().to_string();
        let tensor = tensor(name, entry, index, data, size);
        tensors.extend(tensor.map_err(|reason| format!("tensor `{shown}`: {reason}"))?);
    }
    // An empty tensor may be at the position of the next one.
    tensors.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
    if let Some([first, second]) = tensors.windows(2).find(|pair| pair[0].offset + pair[0].bytes > pair[1].offset) {
        let [first, second] = [first, second].map(|tensor| tensor.name.escape_debug());
        return Err(format!("the tensors `{first}` and `{second}` overlap"));
    }
    Ok(tensors)
}

/// Reads the entry of a tensor. Returns `None` for other types than weights have.
fn tensor(name: String, entry: Entry, file: usize, data: u64, size: u64) -> Result<Option<SourceTensor>, String> {
    let dtype = match entry.dtype.as_deref() {
        Some("F32") => DType::F32,
        Some("F16") => DType::F16,
        Some("BF16") => DType::BF16,
        Some("F64" | "I64" | "I32" | "I16" | "I8" | "U64" | "U32" | "U16" | "U8" | "BOOL") => return Ok(None),
        Some(other) => return Err(format!("the type {other:?} is not supported")),
        None => return Err("it has no type".to_owned()),
    };
    let Numbers(shape) = entry.shape.ok_or("it has no shape")?;
    let Numbers(offsets) = entry.data_offsets.ok_or("it has no data_offsets")?;
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
