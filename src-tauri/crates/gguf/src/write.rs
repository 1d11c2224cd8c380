//! A [`Gguf`](crate::Gguf) file out of metadata and tensors, version 3.
//!
//! Tensors are given whole or as a function that streams them, so that a file may be larger than memory. What a reader
//! would refuse is refused here, when it is added.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use crate::dtype::DType;
use crate::metadata::Metadata;
use crate::reader::DEFAULT_ALIGNMENT;
use crate::value::{Array, Value};

/// Why a tensor cannot be part of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Dimensions that a reader would refuse.
    #[error("tensor `{name}`: dimensions {dims:?} are not 1 to 4 of at least 1, in whole blocks of {dtype}")]
    Dimensions {
        /// Name of the tensor.
        name: String,
        /// Type of the tensor.
        dtype: DType,
        /// Dimensions of the tensor.
        dims: Vec<u64>,
    },
    /// The number of bytes does not match the type and dimensions of the tensor.
    #[error("tensor `{name}`: {need} bytes are needed, {have} are there")]
    Length {
        /// Name of the tensor.
        name: String,
        /// Bytes that the type and dimensions need.
        need: u64,
        /// Bytes that were given.
        have: u64,
    },
    /// A name that is empty or was used before.
    #[error("tensor `{name}`: a name must be new and not empty")]
    Name {
        /// Name of the tensor.
        name: String,
    },
}

type Fill<'a> = Box<dyn Fn(&mut dyn Write) -> io::Result<()> + 'a>;

enum Data<'a> {
    Bytes(Cow<'a, [u8]>),
    Fill(Fill<'a>),
}

struct Entry<'a> {
    name: String,
    dtype: DType,
    dims: Vec<u64>,
    bytes: u64,
    data: Data<'a>,
}

/// Collects metadata and tensors, then writes them as one file.
pub struct Writer<'a> {
    alignment: u64,
    metadata: Metadata,
    tensors: Vec<Entry<'a>>,
    names: HashSet<String>,
}

impl Default for Writer<'_> {
    fn default() -> Self {
        Writer::new(DEFAULT_ALIGNMENT)
    }
}

impl<'a> Writer<'a> {
    /// A file whose tensors begin at multiples of `alignment`, which is recorded when it is not the default of 32.
    ///
    /// # Panics
    /// When `alignment` is not a power of two that fits into a `u32`.
    pub fn new(alignment: u64) -> Writer<'a> {
        let recorded = u32::try_from(alignment).expect("an alignment fits into a u32");
        assert!(alignment.is_power_of_two(), "alignment {alignment} is not a power of two");
        let mut metadata = Metadata::new();
        if alignment != DEFAULT_ALIGNMENT {
            metadata.set("general.alignment", recorded);
        }
        Writer { alignment, metadata, tensors: Vec::new(), names: HashSet::new() }
    }

    /// Puts `value` under `key`, in place of an earlier value or at the end.
    ///
    /// # Panics
    /// When `key` is `general.alignment`, which [`Writer::new`] decides, or is empty.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> &mut Self {
        let key = key.into();
        assert!(!key.is_empty() && key != "general.alignment", "`{key}` cannot be set");
        self.metadata.set(key, value);
        self
    }

    /// Adds a tensor: dimensions in ggml's order (elements of a row first), and its blocks.
    ///
    /// # Errors
    /// When a reader would refuse the tensor, or `bytes` are not as many as it needs.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        dtype: DType,
        dims: &[u64],
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self, WriteError> {
        let (name, bytes) = (name.into(), bytes.into());
        let (need, have) = (size(&name, dtype, dims)?, bytes.len() as u64);
        if need != have {
            return Err(WriteError::Length { name, need, have });
        }
        self.add(name, dtype, dims, need, Data::Bytes(bytes))
    }

    /// Adds a tensor whose blocks `fill` writes when the file is written, so that they need not be in memory.
    ///
    /// # Errors
    /// When a reader would refuse the tensor.
    pub fn tensor_from(
        &mut self,
        name: impl Into<String>,
        dtype: DType,
        dims: &[u64],
        fill: impl Fn(&mut dyn Write) -> io::Result<()> + 'a,
    ) -> Result<&mut Self, WriteError> {
        let name = name.into();
        let bytes = size(&name, dtype, dims)?;
        self.add(name, dtype, dims, bytes, Data::Fill(Box::new(fill)))
    }

    fn add(
        &mut self,
        name: String,
        dtype: DType,
        dims: &[u64],
        bytes: u64,
        data: Data<'a>,
    ) -> Result<&mut Self, WriteError> {
        if name.is_empty() || !self.names.insert(name.clone()) {
            return Err(WriteError::Name { name });
        }
        self.tensors.push(Entry { name, dtype, dims: dims.to_vec(), bytes, data });
        Ok(self)
    }

    /// The whole file.
    ///
    /// # Panics
    /// When a function given to [`Writer::tensor_from`] fails or writes another number of bytes than its tensor has.
    pub fn finish(&self) -> Vec<u8> {
        let mut file = Vec::new();
        self.write_to(&mut file).expect("a vector takes all bytes and the tensors' functions write the promised bytes");
        file
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// Those of `out`, and `InvalidData` when a function given to [`Writer::tensor_from`] writes another number of bytes
    /// than its tensor has.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.head().0)?;
        for tensor in &self.tensors {
            match &tensor.data {
                Data::Bytes(bytes) => out.write_all(bytes)?,
                Data::Fill(fill) => {
                    let mut counted = Counted { out, bytes: 0 };
                    fill(&mut counted)?;
                    if counted.bytes != tensor.bytes {
                        let (need, have) = (tensor.bytes, counted.bytes);
                        let error = WriteError::Length { name: tensor.name.clone(), need, have };
                        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                    }
                }
            }
            out.write_all(&self.padding(tensor.bytes))?;
        }
        Ok(())
    }

    /// Everything before the first tensor's bytes, and the length that the whole file will have.
    pub fn head(&self) -> (Vec<u8>, u64) {
        let mut head = Vec::new();
        head.extend(*b"GGUF");
        head.extend(3u32.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            put_string(key, &mut head);
            head.extend((value.kind() as u32).to_le_bytes());
            put_value(value, &mut head);
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            put_string(&tensor.name, &mut head);
            head.extend((tensor.dims.len() as u32).to_le_bytes());
            head.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            head.extend(tensor.dtype.ggml_id().to_le_bytes());
            head.extend(offset.to_le_bytes());
            offset += tensor.bytes.next_multiple_of(self.alignment);
        }
        head.extend(self.padding(head.len() as u64));
        let length = head.len() as u64 + offset;
        (head, length)
    }

    /// Zeros up to the next multiple of the alignment.
    fn padding(&self, length: u64) -> Vec<u8> {
        vec![0; (length.next_multiple_of(self.alignment) - length) as usize]
    }
}

/// Counts what a tensor's function writes.
struct Counted<'a, W> {
    out: &'a mut W,
    bytes: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Bytes of a tensor whose dimensions a reader accepts.
fn size(name: &str, dtype: DType, dims: &[u64]) -> Result<u64, WriteError> {
    let refused = || WriteError::Dimensions { name: name.to_owned(), dtype, dims: dims.to_vec() };
    let block = dtype.block() as u64;
    let row = dims.first().ok_or_else(refused)?;
    if dims.len() > 4 || dims.contains(&0) || !row.is_multiple_of(block) {
        return Err(refused());
    }
    let elements = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    elements.and_then(|elements| (elements / block).checked_mul(dtype.block_bytes() as u64)).ok_or_else(refused)
}

fn put_string(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::U8(x) => out.push(*x),
        Value::I8(x) => out.extend(x.to_le_bytes()),
        Value::U16(x) => out.extend(x.to_le_bytes()),
        Value::I16(x) => out.extend(x.to_le_bytes()),
        Value::U32(x) => out.extend(x.to_le_bytes()),
        Value::I32(x) => out.extend(x.to_le_bytes()),
        Value::F32(x) => out.extend(x.to_le_bytes()),
        Value::Bool(x) => out.push(u8::from(*x)),
        Value::String(text) => put_string(text, out),
        Value::Array(array) => put_array(array, out),
        Value::U64(x) => out.extend(x.to_le_bytes()),
        Value::I64(x) => out.extend(x.to_le_bytes()),
        Value::F64(x) => out.extend(x.to_le_bytes()),
    }
}

fn put_array(array: &Array, out: &mut Vec<u8>) {
    out.extend((array.element_kind() as u32).to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    match array {
        Array::Bool(values) => out.extend(values.iter().map(|&x| u8::from(x))),
        Array::String(texts) => texts.iter().for_each(|text| put_string(text, out)),
        Array::Array(arrays) => arrays.iter().for_each(|array| put_array(array, out)),
        Array::U8(values) => out.extend(values),
        Array::I8(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::U16(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::I16(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::U32(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::I32(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::F32(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::U64(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::I64(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
        Array::F64(values) => out.extend(values.iter().flat_map(|x| x.to_le_bytes())),
    }
}
