//! Reader of safetensors heads, and of the list of a checkpoint's files.
//!
//! ```text
//! u64 length of the header, little-endian | header, JSON | data
//! ```
//!
//! The header maps names to `{"dtype", "shape", "data_offsets": [start, end]}`, with offsets into the data. Source:
//! <https://github.com/huggingface/safetensors>. Its limit of the header is used here. Unknown parts of the header are
//! skipped without memory for them.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use cairn_gguf::DType;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::limited::{self, Limit};

const MAX_HEADER_BYTES: u64 = 100_000_000;
const LENGTH_BYTES: u64 = 8;
/// Files of the largest published models have a few thousand tensors each.
const TENSORS: Limit = Limit::new(1 << 16, "it", "tensors");
/// Largest number of tensors of all files together. The largest published checkpoints have about 100,000.
pub(super) const MAX_TENSORS: usize = 1 << 18;
const INDEX_TENSORS: Limit = Limit::new(MAX_TENSORS, "it", "tensors");
/// Longest name of a tensor. Published names have up to about 100 bytes, and errors contain them.
const MAX_NAME_BYTES: usize = 1 << 10;
/// End of the names of files.
const ENDING: &str = ".safetensors";
/// Tensors of weights have at most 4 dimensions; other tensors are left out.
const DIMS: Limit = Limit::new(8, "a list", "numbers");

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// F32, F16 or BF16.
    Float(DType),
    /// 8-bit floats with four exponent bits.
    E4M3,
    /// Bytes, for example two 4-bit floats each.
    Byte,
    /// Numbers of this many bytes that are no weights.
    Other(u64),
}

impl Format {
    pub(super) fn bytes(self) -> u64 {
        match self {
            Format::Float(dtype) => dtype.block_bytes() as u64,
            Format::E4M3 | Format::Byte => 1,
            Format::Other(bytes) => bytes,
        }
    }
}

/// A tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceTensor {
    pub(super) name: String,
    pub(super) format: Format,
    /// Rows first.
    pub(super) shape: Vec<u64>,
    /// Index of the file.
    pub(super) file: usize,
    /// Position in the file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl SourceTensor {
    /// Returns the tensor with a prefix before its name.
    pub(super) fn with_prefix(self, prefix: &str) -> Self {
        Self { name: format!("{prefix}.{}", self.name), ..self }
    }
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

/// At most [`DIMS`] numbers.
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
                    TENSORS.check(entries.len())?;
                    if name.len() > MAX_NAME_BYTES {
                        let why = format!("a name has {} bytes, and the limit is {MAX_NAME_BYTES}", name.len());
                        return Err(A::Error::custom(why));
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
        limited::list(deserializer, DIMS).map(Numbers)
    }
}

/// List of a checkpoint's files: `model.safetensors.index.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    /// File of each tensor.
    weight_map: Names,
}

/// At most [`INDEX_TENSORS`] names with values.
#[derive(Debug)]
struct Names(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        limited::map(deserializer, INDEX_TENSORS, "a map of tensors to files").map(Names)
    }
}

impl Index {
    /// Returns the names of the files.
    pub(super) fn files(&self) -> Result<BTreeSet<&str>, String> {
        let files: BTreeSet<&str> = self.weight_map.0.iter().map(|(_, file)| file.as_str()).collect();
        // The names are compared with those of files that are open, and never used as paths.
        match files.iter().find(|file| file.contains(['/', '\\', ':']) || !file.ends_with(ENDING)) {
            Some(file) => Err(format!("{file:?} is not the name of a safetensors file in the same folder")),
            None => Ok(files),
        }
    }

    /// Returns the tensors that a file should have.
    pub(super) fn tensors_of<'a>(&'a self, file: &'a str) -> impl Iterator<Item = &'a str> {
        self.weight_map.0.iter().filter(move |(_, other)| other == file).map(|(name, _)| name.as_str())
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
        let tensor = tensor(&name, entry, index, data, size);
        tensors.push(tensor.map_err(|reason| format!("tensor `{}`: {reason}", name.escape_debug()))?);
    }
    // An empty tensor may be at the position of the next one.
    tensors.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
    if let Some([first, second]) = tensors.windows(2).find(|pair| pair[0].offset + pair[0].bytes > pair[1].offset) {
        let [first, second] = [first, second].map(|tensor| tensor.name.escape_debug());
        return Err(format!("the tensors `{first}` and `{second}` overlap"));
    }
    Ok(tensors)
}

/// Checks that a file has the tensors that the index names.
pub(super) fn check_names<'a>(tensors: &[SourceTensor], names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let found: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut missing = names.filter(|name| !found.contains(name));
    missing.next().map_or(Ok(()), |name| Err(format!("tensor `{}` of the index is missing", name.escape_debug())))
}

/// Reads the entry of a tensor.
fn tensor(name: &str, entry: Entry, file: usize, data: u64, size: u64) -> Result<SourceTensor, String> {
    let format = match entry.dtype.as_deref() {
        Some("F32") => Format::Float(DType::F32),
        Some("F16") => Format::Float(DType::F16),
        Some("BF16") => Format::Float(DType::BF16),
        Some("F8_E4M3") => Format::E4M3,
        Some("U8") => Format::Byte,
        Some("F64" | "I64" | "U64") => Format::Other(8),
        Some("I32" | "U32") => Format::Other(4),
        Some("I16" | "U16") => Format::Other(2),
        Some("I8" | "BOOL") => Format::Other(1),
        Some(other) => return Err(format!("the type {:?} is not supported", cairn_wire::excerpt(other))),
        None => return Err("it has no type".to_owned()),
    };
    let Numbers(shape) = entry.shape.ok_or("it has no shape")?;
    let Numbers(offsets) = entry.data_offsets.ok_or("it has no data_offsets")?;
    let elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    let need = elements.and_then(|elements| elements.checked_mul(format.bytes()));
    let [start, end] = offsets[..] else { return Err(format!("data_offsets are {offsets:?}")) };
    let bytes = end.checked_sub(start).ok_or_else(|| format!("data_offsets are {offsets:?}"))?;
    if need != Some(bytes) {
        let dtype = entry.dtype.unwrap_or_default();
        return Err(format!("{bytes} bytes do not fit the shape {shape:?} of {dtype}"));
    }
    match data.checked_add(end) {
        Some(end) if end <= size => {
            Ok(SourceTensor { name: name.to_owned(), format, shape, file, offset: data + start, bytes })
        }
        _ => Err(format!("it ends at {end} of the data, beyond the end of the file")),
    }
}
