//! Errors of reading a file and of metadata lookups.
//!
//! An error carries the facts (location, offset, need, have); the caller that opened the file adds its name.

use std::fmt;

use crate::dtype::DType;

/// The part of a file that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// Magic, version and counts.
    Header,
    /// The metadata entry at this index, before its key is read.
    Entry(u64),
    /// The metadata value under this key.
    Key(String),
    /// The row of the tensor table at this index, before its name is read.
    TensorRow(u64),
    /// The tensor of this name.
    Tensor(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Header => f.write_str("header"),
            Location::Entry(index) => write!(f, "metadata entry {index}"),
            Location::Key(key) => write!(f, "metadata key `{}`", key.escape_debug()),
            Location::TensorRow(index) => write!(f, "tensor table row {index}"),
            Location::Tensor(name) => write!(f, "tensor `{}`", name.escape_debug()),
        }
    }
}

/// Reason why bytes are not a usable GGUF file, or why a metadata value does not have the requested type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first four bytes are something else.
    #[error("not a GGUF file: it must start with \"GGUF\" at offset 0, where it has \"{}\"", .found.escape_ascii())]
    Magic {
        /// The file's first bytes, at most four.
        found: Vec<u8>,
    },
    /// Magic or version is byte-swapped.
    #[error("header: this is a big-endian GGUF file, at offset {offset}; only little-endian ones are read")]
    BigEndian {
        /// Byte offset in the file.
        offset: u64,
    },
    /// A version that this reader does not know.
    #[error("header: GGUF version {version} at offset 4; versions 1 to 3 are read")]
    Version {
        /// The version that was found.
        version: u32,
    },
    /// The file ends too early, or a length or count exceeds the remaining bytes.
    #[error("{location}: {what} at offset {offset} needs {need} bytes, {have} remain")]
    Truncated {
        /// What was being read.
        location: Location,
        /// Name of the field.
        what: &'static str,
        /// Byte offset of the field in the file.
        offset: u64,
        /// Bytes needed from there on, at the least.
        need: u64,
        /// Bytes that are left from there on.
        have: u64,
    },
    /// Metadata and tensor table are longer than those of any model.
    #[error("{location}: {what} at offset {offset} leads beyond the {limit} bytes that a head may have")]
    LongHead {
        /// What was being read.
        location: Location,
        /// Name of the field.
        what: &'static str,
        /// Byte offset of the field in the file.
        offset: u64,
        /// Maximum number of bytes that are read.
        limit: usize,
    },
    /// Metadata and tensor table need more memory than those of any model.
    #[error("{location}: {what} at offset {offset} makes the head take {need} bytes of memory; {limit} are allowed")]
    Memory {
        /// What was being read.
        location: Location,
        /// Name of the field.
        what: &'static str,
        /// Byte offset in the file.
        offset: u64,
        /// Bytes of memory for the head as far as this field.
        need: u64,
        /// Maximum number of bytes of memory.
        limit: u64,
    },
    /// A count so large that the bytes it needs cannot be counted.
    #[error("{location}: {what} at offset {offset} is {value}, which is more than any file holds")]
    TooLarge {
        /// What was being read.
        location: Location,
        /// Name of the field.
        what: &'static str,
        /// Byte offset in the file.
        offset: u64,
        /// The value that was found.
        value: u64,
    },
    /// A string that is not UTF-8.
    #[error("{location}: {what} at offset {offset} is not UTF-8: byte {valid} of it breaks the encoding")]
    NotUtf8 {
        /// What was being read.
        location: Location,
        /// Name of the field.
        what: &'static str,
        /// Byte offset of the string's first byte in the file.
        offset: u64,
        /// Number of valid bytes at the start of the string.
        valid: u64,
    },
    /// A value type outside the format's thirteen.
    #[error("{location}: value type {id} at offset {offset} is unknown; types are 0 to 12")]
    ValueType {
        /// What was being read.
        location: Location,
        /// The type number that was found.
        id: u32,
        /// Byte offset in the file.
        offset: u64,
    },
    /// A boolean byte other than 0 and 1.
    #[error("{location}: boolean at offset {offset} is {found}; it must be 0 or 1")]
    Bool {
        /// What was being read.
        location: Location,
        /// The byte that was found.
        found: u8,
        /// Byte offset in the file.
        offset: u64,
    },
    /// Arrays inside arrays, too many levels.
    #[error("{location}: array at offset {offset} is nested deeper than {limit} levels")]
    Depth {
        /// What was being read.
        location: Location,
        /// Byte offset of the array in the file.
        offset: u64,
        /// The deepest nesting that is read.
        limit: u32,
    },
    /// A key or a name of no length, or longer than the format allows.
    #[error("{location}: {what} at offset {offset} has {have} bytes; 1 to {limit} are allowed")]
    NameLength {
        /// What was being read.
        location: Location,
        /// Name of the field.
        what: &'static str,
        /// Byte offset in the file.
        offset: u64,
        /// Length of the key or name in bytes.
        have: u64,
        /// The longest that is allowed.
        limit: u64,
    },
    /// A key or a tensor name that occurs twice.
    #[error("{location} is repeated at offset {offset}")]
    Repeated {
        /// The key or tensor.
        location: Location,
        /// Byte offset of the second occurrence in the file.
        offset: u64,
    },
    /// `general.alignment` is not a power of two that fits into a `u32`.
    #[error("metadata key `general.alignment`: value at offset {offset} is {found}; it must be a power of two, as u32")]
    Alignment {
        /// The value that was found, or its type if it is not an integer.
        found: String,
        /// Byte offset in the file.
        offset: u64,
    },
    /// A tensor of no dimensions or of too many.
    #[error("{location}: {have} dimensions at offset {offset}; 1 to {limit} are read")]
    Dimensions {
        /// The tensor.
        location: Location,
        /// How many dimensions it claims.
        have: u32,
        /// Byte offset in the file.
        offset: u64,
        /// The most that are read.
        limit: u32,
    },
    /// A dimension of zero elements.
    #[error("{location}: dimension {axis} at offset {offset} is 0")]
    EmptyDimension {
        /// The tensor.
        location: Location,
        /// Which dimension, counted from 0.
        axis: usize,
        /// Byte offset in the file.
        offset: u64,
    },
    /// A tensor type that this engine does not read.
    #[error("{location}: type {id} at offset {offset} is {}", type_fault(*id))]
    DType {
        /// The tensor.
        location: Location,
        /// ggml's number of the type.
        id: u32,
        /// Byte offset in the file.
        offset: u64,
    },
    /// Dimensions whose product overflows.
    #[error("{location}: dimensions {dims:?} at offset {offset} have more elements than any file holds")]
    Elements {
        /// The tensor.
        location: Location,
        /// Dimensions of the tensor.
        dims: Vec<u64>,
        /// Byte offset in the file.
        offset: u64,
    },
    /// A row that does not consist of whole blocks.
    #[error(
        "{location}: rows of {elements} elements at offset {offset} are not whole blocks; {dtype} has {block} in a block"
    )]
    PartialBlock {
        /// The tensor.
        location: Location,
        /// Byte offset in the file.
        offset: u64,
        /// Type of the tensor.
        dtype: DType,
        /// Elements in a row.
        elements: u64,
        /// Elements in a block.
        block: usize,
    },
    /// A tensor whose bytes do not start at a multiple of the alignment.
    #[error(
        "{location}: data offset {data_offset}, at offset {offset}, is not a multiple of the alignment {alignment}"
    )]
    Misaligned {
        /// The tensor.
        location: Location,
        /// Byte offset in the file.
        offset: u64,
        /// Offset of the tensor from the start of the data section.
        data_offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor that leaves the file.
    #[error("{location}: needs {need} bytes at offset {offset}, the file has {have} bytes")]
    OutOfFile {
        /// The tensor.
        location: Location,
        /// Bytes of the tensor.
        need: u64,
        /// Byte offset of the tensor in the file.
        offset: u64,
        /// The file's size.
        have: u64,
    },
    /// Two tensors that share bytes.
    #[error("{location}: begins at offset {offset}, inside tensor `{other}`, which ends at {end}")]
    Overlap {
        /// The tensor that begins later.
        location: Location,
        /// Byte offset of that tensor in the file.
        offset: u64,
        /// Name of the tensor that it overlaps.
        other: String,
        /// Byte offset of the end of the overlapped tensor.
        end: u64,
    },
    /// A key that a reader needs and the file lacks.
    #[error("metadata key `{key}` is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A value of another type than the requested one.
    #[error("metadata key `{key}`: expected {expected}, found {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The requested type.
        expected: &'static str,
        /// The type in the file.
        found: String,
    },
    /// An integer that does not fit into the requested type.
    #[error("metadata key `{key}`: {value} ({found}) does not fit into {expected}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The requested type.
        expected: &'static str,
        /// The type in the file.
        found: String,
        /// The value in the file.
        value: i128,
    },
}

/// Describes a type that is not supported.
fn type_fault(id: u32) -> String {
    DType::refused_name(id).map_or("unknown".to_owned(), |name| format!("{name}, which is not read"))
}
