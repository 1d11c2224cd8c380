//! Bytes to a [`Gguf`]: header, metadata, tensor table, and the check that every tensor is inside the file.
//!
//! ```text
//! "GGUF"  version: u32  tensors: u64  entries: u64
//! entry:  key: string  type: u32  value          string: length: u64, bytes; array: type: u32, count: u64, elements
//! tensor: name: string  dimensions: u32  each: u64  type: u32  offset: u64, from the start of the data section
//! padding up to a multiple of `general.alignment`, then the data section
//! ```
//!
//! Version 1 has `u32` where later ones have `u64` for counts, lengths and dimensions; 2 and 3 differ only in that 3 may be
//! big-endian. All lengths are checked in `u64` against the bytes that remain before anything is allocated.

mod cursor;
mod values;

use std::collections::HashMap;

use crate::dtype::DType;
use crate::error::{Error, Location};
use crate::metadata::Metadata;
use crate::value::Value;
use cursor::Cursor;
pub use cursor::{MAX_HEAD_BYTES, MAX_MEMORY_BYTES};

/// Alignment of the data section where `general.alignment` is absent, from the specification.
pub const DEFAULT_ALIGNMENT: u64 = 32;

const MAX_DIMENSIONS: u32 = 4; // GGML_MAX_DIMS
const MAX_KEY_BYTES: u64 = 65_535; // the specification's "at most 2^16 - 1 bytes"
const MAX_TENSOR_NAME_BYTES: u64 = 65_535; // the specification has 64, real files have a few more

/// Memory of an entry of an index: a name's position and a number, and a byte of the table, which is up to 16/7 as large as what is
/// in it.
const INDEX_BYTES: u64 = 33 * 16 / 7 + 1;
/// Memory of a metadata entry, without its key and value.
const ENTRY_BYTES: u64 = size_of::<(String, Value)>() as u64 + INDEX_BYTES;
/// Memory of a tensor without its name: its row, its dimensions, its entry in the index, and a position when all are sorted.
const TENSOR_BYTES: u64 = size_of::<Tensor>() as u64 + 8 * MAX_DIMENSIONS as u64 + INDEX_BYTES + 8;

/// The head of a GGUF file: everything but the tensors' bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Gguf {
    /// Version of the format, 1 to 3.
    pub version: u32,
    /// The multiple at which each tensor's bytes begin, relative to the data section.
    pub alignment: u64,
    /// Where the data section begins, in bytes from the start of the file.
    pub data_offset: u64,
    metadata: Metadata,
    tensors: Vec<Tensor>,
    index: HashMap<String, usize>,
}

/// One row of the tensor table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The tensor's name, unique in its file.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Dimensions in ggml's order: elements of a row first, then rows.
    pub dims: Vec<u64>,
    /// Where its bytes begin, from the start of the file.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// Index of the file that contains it, for a [split model](crate::split); else 0.
    pub part: usize,
}

impl Tensor {
    /// How many elements it has.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

impl Gguf {
    /// Reads the head of a whole file, and checks that every tensor is inside the file.
    pub fn parse(bytes: &[u8]) -> Result<Gguf, Error> {
        Gguf::parse_header(bytes, bytes.len() as u64)
    }

    /// Reads the head of a file of `file_len` bytes of which `bytes` is the beginning. [`Error::Truncated`] means that
    /// the head is longer than `bytes`.
    pub fn parse_header(bytes: &[u8], file_len: u64) -> Result<Gguf, Error> {
        let mut cursor = Cursor::new(bytes);
        let version = version(&mut cursor)?;
        let location = || Location::Header;
        let tensor_count_at = cursor.offset();
        let tensor_count = cursor.length("tensor count", location)?;
        let entry_count_at = cursor.offset();
        let entry_count = cursor.length("metadata count", location)?;
        // The smallest entry is a key of one byte, a type and a value of one byte.
        cursor.check_count("metadata count", entry_count, cursor.length_bytes() + 6, entry_count_at, location)?;
        // The smallest row is a name of one byte, one dimension, a type and an offset.
        cursor.check_count("tensor count", tensor_count, 2 * cursor.length_bytes() + 17, tensor_count_at, location)?;

        cursor.take_memory(entry_count * ENTRY_BYTES, "metadata count", entry_count_at, location)?;
        cursor.take_memory(tensor_count * TENSOR_BYTES, "tensor count", tensor_count_at, location)?;

        let (metadata, alignment) = metadata(&mut cursor, entry_count)?;
        let mut tensors = Vec::with_capacity(tensor_count as usize);
        let mut index = HashMap::with_capacity(tensor_count as usize);
        for row in 0..tensor_count {
            let at = cursor.offset();
            let tensor = tensor(&mut cursor, row, alignment)?;
            if index.insert(tensor.name.clone(), tensors.len()).is_some() {
                return Err(Error::Repeated { location: Location::Tensor(tensor.name), offset: at });
            }
            tensors.push(tensor);
        }

        let data_offset = cursor.offset().next_multiple_of(alignment);
        for tensor in &mut tensors {
            place_in_file(tensor, data_offset, file_len)?;
        }
        check_overlaps(&tensors)?;
        Ok(Gguf { version, alignment, data_offset, metadata, tensors, index })
    }

    /// Keys and values in the file's order.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensor table in the file's order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor table alone.
    pub(crate) fn into_tensors(self) -> Vec<Tensor> {
        self.tensors
    }

    /// Changes metadata and tensor table, so that a file is read as one of another layout. Tensors must stay inside their
    /// files.
    ///
    /// # Errors
    /// That of `change`, and [`Error::Repeated`] if two tensors have one name afterwards.
    pub fn try_change<E: From<Error>>(
        mut self,
        change: impl FnOnce(&mut Metadata, &mut Vec<Tensor>) -> Result<(), E>,
    ) -> Result<Gguf, E> {
        change(&mut self.metadata, &mut self.tensors)?;
        self.index.clear();
        for (at, tensor) in self.tensors.iter().enumerate() {
            if self.index.insert(tensor.name.clone(), at).is_some() {
                let (location, offset) = (Location::Tensor(tensor.name.clone()), tensor.offset);
                return Err(Error::Repeated { location, offset }.into());
            }
        }
        Ok(self)
    }

    /// Appends a tensor to the table. Its name must be new.
    pub(crate) fn add(&mut self, tensor: Tensor) {
        self.index.insert(tensor.name.clone(), self.tensors.len());
        self.tensors.push(tensor);
    }

    /// Returns the tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(*self.index.get(name)?)
    }
}

fn version(cursor: &mut Cursor<'_>) -> Result<u32, Error> {
    match cursor.rest().first_chunk::<4>() {
        Some(b"GGUF") => {}
        Some(b"FUGG") => return Err(Error::BigEndian { offset: 0 }),
        _ => return Err(Error::Magic { found: cursor.rest().iter().take(4).copied().collect() }),
    }
    cursor.array::<4>("magic", || Location::Header)?;
    let version = u32::from_le_bytes(cursor.array("version", || Location::Header)?);
    match version {
        1..=3 => {
            cursor.set_version(version);
            Ok(version)
        }
        // A big-endian writer leaves the magic's bytes in order, so only the version shows it.
        _ if (1..=3).contains(&version.swap_bytes()) => Err(Error::BigEndian { offset: 4 }),
        _ => Err(Error::Version { version }),
    }
}

/// Reads the metadata and the alignment that they set.
fn metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<(Metadata, u64), Error> {
    let mut metadata = Metadata::with_capacity(count as usize);
    let mut alignment = DEFAULT_ALIGNMENT;
    for entry in 0..count {
        let at = cursor.offset();
        let key = cursor.name("key", MAX_KEY_BYTES, || Location::Entry(entry))?;
        cursor.take_memory(2 * key.len() as u64, "key", at, || Location::Entry(entry))?;
        let type_at = cursor.offset();
        let value = values::value(cursor, key)?;
        if key == "general.alignment" {
            alignment = power_of_two(&value, type_at + 4)?;
        }
        if metadata.set(key, value).is_some() {
            return Err(Error::Repeated { location: Location::Key(key.to_owned()), offset: at });
        }
    }
    Ok((metadata, alignment))
}

fn power_of_two(value: &Value, offset: u64) -> Result<u64, Error> {
    match value.integer() {
        Some(integer) => match u32::try_from(integer) {
            Ok(alignment) if alignment.is_power_of_two() => Ok(alignment.into()),
            _ => Err(Error::Alignment { found: integer.to_string(), offset }),
        },
        None => Err(Error::Alignment { found: format!("of type {}", value.type_name()), offset }),
    }
}

/// Reads one row; the offset it returns is still relative to the data section.
fn tensor(cursor: &mut Cursor<'_>, row: u64, alignment: u64) -> Result<Tensor, Error> {
    let name_at = cursor.offset();
    let name = cursor.name("name", MAX_TENSOR_NAME_BYTES, || Location::TensorRow(row))?;
    cursor.take_memory(2 * name.len() as u64, "name", name_at, || Location::TensorRow(row))?;
    let location = || Location::Tensor(name.to_owned());

    let at = cursor.offset();
    let count = u32::from_le_bytes(cursor.array("dimension count", location)?);
    if !(1..=MAX_DIMENSIONS).contains(&count) {
        return Err(Error::Dimensions { location: location(), have: count, offset: at, limit: MAX_DIMENSIONS });
    }
    let dims_at = cursor.offset();
    let mut dims = Vec::with_capacity(count as usize);
    for axis in 0..count as usize {
        let at = cursor.offset();
        match cursor.length("dimension", location)? {
            0 => return Err(Error::EmptyDimension { location: location(), axis, offset: at }),
            dim => dims.push(dim),
        }
    }

    let at = cursor.offset();
    let id = u32::from_le_bytes(cursor.array("type", location)?);
    let dtype = DType::from_ggml_id(id).ok_or_else(|| Error::DType { location: location(), id, offset: at })?;
    let elements = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    let elements =
        elements.ok_or_else(|| Error::Elements { location: location(), dims: dims.clone(), offset: dims_at })?;
    let row_elements = dims.first().copied().unwrap_or_default();
    let (block, block_bytes) = (dtype.block() as u64, dtype.block_bytes() as u64);
    if !row_elements.is_multiple_of(block) {
        let block = dtype.block();
        return Err(Error::PartialBlock {
            location: location(),
            offset: dims_at,
            dtype,
            elements: row_elements,
            block,
        });
    }
    let bytes = (elements / block).checked_mul(block_bytes);
    let bytes = bytes.ok_or_else(|| Error::Elements { location: location(), dims: dims.clone(), offset: dims_at })?;

    let at = cursor.offset();
    let offset = u64::from_le_bytes(cursor.array("data offset", location)?);
    if !offset.is_multiple_of(alignment) {
        return Err(Error::Misaligned { location: location(), offset: at, data_offset: offset, alignment });
    }
    Ok(Tensor { name: name.to_owned(), dtype, dims, offset, bytes, part: 0 })
}

/// Makes a tensor's offset count from the start of the file.
fn place_in_file(tensor: &mut Tensor, data_offset: u64, file_len: u64) -> Result<(), Error> {
    let offset = tensor.offset.checked_add(data_offset);
    if offset.and_then(|offset| offset.checked_add(tensor.bytes)).is_none_or(|end| end > file_len) {
        return Err(Error::OutOfFile {
            location: Location::Tensor(tensor.name.clone()),
            need: tensor.bytes,
            offset: offset.unwrap_or(u64::MAX),
            have: file_len,
        });
    }
    tensor.offset = offset.unwrap_or(u64::MAX);
    Ok(())
}

fn check_overlaps(tensors: &[Tensor]) -> Result<(), Error> {
    let mut by_offset: Vec<&Tensor> = tensors.iter().collect();
    // Unlike a stable sort, this one allocates nothing.
    by_offset.sort_unstable_by_key(|tensor| (tensor.offset, tensor.bytes));
    for (earlier, later) in by_offset.iter().zip(by_offset.iter().skip(1)) {
        // Both ends were checked against the file's size, so the sum does not overflow.
        let end = earlier.offset + earlier.bytes;
        if later.offset < end {
            let (location, other) = (Location::Tensor(later.name.clone()), earlier.name.clone());
            return Err(Error::Overlap { location, offset: later.offset, other, end });
        }
    }
    Ok(())
}
