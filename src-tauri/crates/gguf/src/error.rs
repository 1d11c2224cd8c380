//! What can be wrong with a file, with a question to its metadata, and with a request to encode.
//!
//! An error carries the facts (place, offset, need, have); the name of the file is known only to the one who opened it.

use std::fmt;

use crate::DType;

/// The part of a file that an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Magic, version and counts.
    Header,
    /// The metadata entry at this index, while its key is not known yet.
    Entry(u64),
    /// The metadata value under this key.
    Key(String),
    /// The row of the tensor table at this index, while its name is not known yet.
    TensorRow(u64),
    /// The tensor of this name.
    Tensor(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Header => f.write_str("header"),
            Place::Entry(index) => write!(f, "metadata entry {index}"),
            Place::Key(key) => write!(f, "metadata key `{}`", key.escape_debug()),
            Place::TensorRow(index) => write!(f, "tensor table row {index}"),
            Place::Tensor(name) => write!(f, "tensor `{}`", name.escape_debug()),
        }
    }
}

/// Why bytes are not a GGUF file that can be used, or a metadata value is not what was asked for.
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
        /// Where the swapped bytes stand.
        offset: u64,
    },
    /// A version that this reader does not know.
    #[error("header: GGUF version {version} at offset 4; versions 1 to 3 are read")]
    Version {
        /// The version that was found.
        version: u32,
    },
    /// The bytes end too early, or a length or count is larger than what remains could hold.
    #[error("{place}: {what} at offset {offset} needs {need} bytes, {have} remain")]
    Truncated {
        /// What was being read.
        place: Place,
        /// The field.
        what: &'static str,
        /// Where the field begins.
        offset: u64,
        /// Bytes needed from there on, at the least.
        need: u64,
        /// Bytes that are left from there on.
        have: u64,
    },
    /// Metadata and tensor table are longer than those of any model.
    #[error("{place}: {what} at offset {offset} leads beyond the {limit} bytes that a head may have")]
    LongHead {
        /// What was being read.
        place: Place,
        /// The field.
        what: &'static str,
        /// Where the field begins.
        offset: u64,
        /// The most that is read.
        limit: usize,
    },
    /// What the metadata and the tensor table hold takes more memory than any model's.
    #[error("{place}: {what} at offset {offset} makes the head take {need} bytes of memory; {limit} are allowed")]
    Memory {
        /// What was being read.
        place: Place,
        /// The field.
        what: &'static str,
        /// Where the field stands.
        offset: u64,
        /// Bytes of memory for the head as far as this field.
        need: u64,
        /// The most that is taken.
        limit: u64,
    },
    /// A count so large that the bytes it needs cannot be counted.
    #[error("{place}: {what} at offset {offset} is {value}, which is more than any file holds")]
    TooLarge {
        /// What was being read.
        place: Place,
        /// The field.
        what: &'static str,
        /// Where the field stands.
        offset: u64,
        /// The value that was found.
        value: u64,
    },
    /// A string that is not UTF-8.
    #[error("{place}: {what} at offset {offset} is not UTF-8: byte {valid} of it breaks the encoding")]
    NotUtf8 {
        /// What was being read.
        place: Place,
        /// The field.
        what: &'static str,
        /// Where the string's bytes begin.
        offset: u64,
        /// How many of its bytes are valid.
        valid: u64,
    },
    /// A value type outside the format's thirteen.
    #[error("{place}: value type {id} at offset {offset} is unknown; types are 0 to 12")]
    ValueType {
        /// What was being read.
        place: Place,
        /// The type number that was found.
        id: u32,
        /// Where it stands.
        offset: u64,
    },
    /// A boolean byte other than 0 and 1.
    #[error("{place}: boolean at offset {offset} is {found}; it must be 0 or 1")]
    Bool {
        /// What was being read.
        place: Place,
        /// The byte that was found.
        found: u8,
        /// Where it stands.
        offset: u64,
    },
    /// Arrays inside arrays, too many levels.
    #[error("{place}: array at offset {offset} is nested deeper than {limit} levels")]
    Depth {
        /// What was being read.
        place: Place,
        /// Where the array begins.
        offset: u64,
        /// The deepest nesting that is read.
        limit: u32,
    },
    /// A key or a name of no length, or longer than the format allows.
    #[error("{place}: {what} at offset {offset} has {have} bytes; 1 to {limit} are allowed")]
    NameLength {
        /// What was being read.
        place: Place,
        /// The field.
        what: &'static str,
        /// Where its length stands.
        offset: u64,
        /// Its length in bytes.
        have: u64,
        /// The longest that is allowed.
        limit: u64,
    },
    /// A key or a tensor name that occurs twice.
    #[error("{place} is repeated at offset {offset}")]
    Repeated {
        /// The key or tensor.
        place: Place,
        /// Where its second row begins.
        offset: u64,
    },
    /// `general.alignment` is not a power of two that fits into a `u32`.
    #[error("metadata key `general.alignment`: value at offset {offset} is {found}; it must be a power of two, as u32")]
    Alignment {
        /// The value that was found, or its type where that is no integer.
        found: String,
        /// Where the value stands.
        offset: u64,
    },
    /// A tensor of no dimensions or of too many.
    #[error("{place}: {have} dimensions at offset {offset}; 1 to {limit} are read")]
    Dimensions {
        /// The tensor.
        place: Place,
        /// How many dimensions it claims.
        have: u32,
        /// Where the count stands.
        offset: u64,
        /// The most that are read.
        limit: u32,
    },
    /// A dimension of zero elements.
    #[error("{place}: dimension {axis} at offset {offset} is 0")]
    EmptyDimension {
        /// The tensor.
        place: Place,
        /// Which dimension, counted from 0.
        axis: usize,
        /// Where it stands.
        offset: u64,
    },
    /// A tensor type that this engine does not read.
    #[error("{place}: type {id} at offset {offset} is {}", type_fault(*id))]
    DType {
        /// The tensor.
        place: Place,
        /// ggml's number of the type.
        id: u32,
        /// Where the number stands.
        offset: u64,
    },
    /// Dimensions whose product overflows.
    #[error("{place}: dimensions {dims:?} at offset {offset} have more elements than any file holds")]
    Elements {
        /// The tensor.
        place: Place,
        /// Its dimensions.
        dims: Vec<u64>,
        /// Where they stand.
        offset: u64,
    },
    /// A row that does not consist of whole blocks.
    #[error(
        "{place}: rows of {elements} elements at offset {offset} are not whole blocks; {dtype} has {block} in a block"
    )]
    PartialBlock {
        /// The tensor.
        place: Place,
        /// Where the number of elements stands.
        offset: u64,
        /// Its type.
        dtype: DType,
        /// Elements in a row.
        elements: u64,
        /// Elements in a block.
        block: usize,
    },
    /// A tensor whose bytes do not start at a multiple of the alignment.
    #[error("{place}: data offset {data_offset}, at offset {offset}, is not a multiple of the alignment {alignment}")]
    Misaligned {
        /// The tensor.
        place: Place,
        /// Where its data offset stands.
        offset: u64,
        /// Its offset from the start of the data section.
        data_offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor that leaves the file.
    #[error("{place}: needs {need} bytes at offset {offset}, the file has {have} bytes")]
    OutOfFile {
        /// The tensor.
        place: Place,
        /// Its bytes.
        need: u64,
        /// Where they should begin, from the start of the file.
        offset: u64,
        /// The file's size.
        have: u64,
    },
    /// Two tensors that share bytes.
    #[error("{place}: begins at offset {offset}, inside tensor `{other}`, which ends at {end}")]
    Overlap {
        /// The tensor that begins later.
        place: Place,
        /// Where it begins.
        offset: u64,
        /// The tensor that it begins in.
        other: String,
        /// Where that one ends.
        end: u64,
    },
    /// A key that a reader needs and the file lacks.
    #[error("metadata key `{key}` is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A value of another type than was asked for.
    #[error("metadata key `{key}`: expected {expected}, found {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The type in the file.
        found: String,
    },
    /// An integer that does not fit into the type that was asked for.
    #[error("metadata key `{key}`: {value} ({found}) does not fit into {expected}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The type that was asked for.
        expected: &'static str,
        /// The type in the file.
        found: String,
        /// The value in the file.
        value: i128,
    },
}

/// Why elements cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The type can be read but not written from floats.
    #[error("{dtype} has no encoder")]
    NoEncoder {
        /// The type.
        dtype: DType,
    },
    /// The elements are not whole blocks.
    #[error("{elements} elements are not whole blocks; {dtype} has {block} elements in a block")]
    PartialBlock {
        /// The type.
        dtype: DType,
        /// Elements that were given.
        elements: usize,
        /// Elements in a block.
        block: usize,
    },
}

/// What is wrong with a type that is not read.
fn type_fault(id: u32) -> String {
    DType::refused_name(id).map_or("unknown".to_owned(), |name| format!("{name}, which is not read"))
}
