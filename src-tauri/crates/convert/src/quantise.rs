//! Weights made smaller: a model in F32, F16 or BF16 becomes one of another [`FileType`].
//!
//! A [`Quantisation`] is planned from a file's head, so that its size is known before anything is written. Written, it reads
//! a few megabytes of rows at a time, encodes them on all threads, and passes them on in order: the output does not depend
//! on the number of threads, and memory not on the size of the model. Values that no type can hold, or that are no numbers,
//! end it: what came of them would only show as nonsense that a model says.

mod mix;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use cairn_gguf::{DType, Gguf, Tensor, WriteError, Writer};
use rayon::prelude::*;

use crate::FileType;

/// Bytes of the values, as `f32`, that are read at once: enough to keep many threads busy.
const SLAB_BYTES: u64 = 32 << 20;
/// Elements of one piece of work, about: enough that a thread need not look for the next one all the time.
const PIECE_ELEMENTS: usize = 64 << 10;
/// Below this magnitude no scale that an encoder makes overflows an f16; above, what was encoded is decoded and looked at.
const SAFE_MAGNITUDE: f32 = 32_768.0;
/// `general.quantization_version`: the layouts of blocks have not changed since.
const QUANTIZATION_VERSION: u32 = 2;

/// Why a model cannot be quantised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantiseError {
    /// Weights that were quantised before, or are no weights.
    #[error("quantization is only supported for F16, BF16 and F32 models")]
    Source,
    /// Metadata that do not say what they should.
    #[error(transparent)]
    Metadata(#[from] cairn_gguf::Error),
    /// A tensor that cannot be part of the new file.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A value that is infinite or not a number.
    #[error("tensor `{}` has values that are not finite numbers", .name.escape_debug())]
    NotFinite {
        /// The tensor.
        name: String,
    },
    /// A value that is too large.
    #[error("tensor `{}` has values that are too large for {dtype}", .name.escape_debug())]
    TooLarge {
        /// The tensor.
        name: String,
        /// The type that it was to get.
        dtype: DType,
    },
}

/// How far a quantisation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The tensor that is being worked on, from 1.
    pub tensor: usize,
    /// How many there are.
    pub tensors: usize,
    /// Bytes of the source that are done.
    pub done_bytes: u64,
    /// Bytes of all its tensors.
    pub total_bytes: u64,
}

/// A model that is to be quantised.
pub struct Quantisation<'a> {
    source: &'a Gguf,
    target: FileType,
    tensors: Vec<(&'a Tensor, DType)>,
}

impl<'a> Quantisation<'a> {
    /// Plans which tensor becomes what. `head` may be that of a model in several files; the new one has one.
    ///
    /// # Errors
    /// [`QuantiseError::Source`] when weights are of other types than the three, or metadata are of wrong types.
    pub fn new(head: &'a Gguf, target: FileType) -> Result<Quantisation<'a>, QuantiseError> {
        let told = head.metadata().u32("general.file_type")?.and_then(FileType::from_number);
        let tensors = mix::types(head, target)?;
        let changes = |&(tensor, dtype): &(&Tensor, DType)| tensor.dtype != dtype;
        if told.is_some_and(|told| !told.is_float())
            || tensors.iter().filter(|row| changes(row)).any(|(tensor, _)| !is_float(tensor.dtype))
        {
            return Err(QuantiseError::Source);
        }
        Ok(Quantisation { source: head, target, tensors })
    }

    /// The tensors in the order in which they are written, each with the type that it gets.
    pub fn tensors(&self) -> impl Iterator<Item = (&Tensor, DType)> {
        self.tensors.iter().copied()
    }

    /// The new file's head, which is everything before the weights, and how many bytes the file will have.
    ///
    /// # Errors
    /// When a tensor cannot be part of a file.
    pub fn head(&self) -> Result<(Vec<u8>, u64), QuantiseError> {
        Ok(self.writer(|_, _, _| Ok(()))?.head())
    }

    /// Writes the new file. `parts` are the model's files, in order; `progress` is told after each few megabytes.
    ///
    /// # Errors
    /// Those of the files and of `out`; a [`QuantiseError`] comes inside an [`io::Error`] of the kind `InvalidData`.
    pub fn write_to(&self, parts: &[File], out: &mut impl Write, progress: &mut dyn FnMut(Progress)) -> io::Result<()> {
        let total_bytes = self.tensors.iter().map(|(tensor, _)| tensor.bytes).sum();
        let told =
            RefCell::new((Progress { tensor: 0, tensors: self.tensors.len(), done_bytes: 0, total_bytes }, progress));
        let writer = self.writer(|tensor, dtype, out| {
            told.borrow_mut().0.tensor += 1;
            let file = parts.get(tensor.part).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            encode(file, tensor, dtype, out, &mut |bytes| {
                let (now, progress) = &mut *told.borrow_mut();
                now.done_bytes += bytes;
                progress(*now);
            })
        });
        writer.map_err(invalid)?.write_to(out)
    }

    /// The new file, whose tensors `fill` writes.
    fn writer<'f>(
        &'f self,
        fill: impl Fn(&Tensor, DType, &mut dyn Write) -> io::Result<()> + Copy + 'f,
    ) -> Result<Writer<'f>, QuantiseError> {
        // At the end, as llama.cpp writes them.
        let last: [(&str, u32); 2] =
            [("general.quantization_version", QUANTIZATION_VERSION), ("general.file_type", self.target.number())];
        let replaced = |key: &str| {
            key == "general.alignment" || key.starts_with("split.") || last.iter().any(|(name, _)| *name == key)
        };
        let mut writer = Writer::new(self.source.alignment);
        for (key, value) in self.source.metadata().iter().filter(|(key, _)| !replaced(key)) {
            writer.set(key, value.clone());
        }
        for (key, value) in last {
            writer.set(key, value);
        }
        for &(tensor, dtype) in &self.tensors {
            writer.tensor_from(tensor.name.clone(), dtype, &tensor.dims, move |out| fill(tensor, dtype, out))?;
        }
        Ok(writer)
    }
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

fn invalid(error: QuantiseError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Reads a tensor, a slab of rows at a time, and writes it in its new type.
fn encode(
    mut file: &File,
    tensor: &Tensor,
    dtype: DType,
    out: &mut dyn Write,
    done: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let row = tensor.dims.first().copied().unwrap_or(1);
    let rows = tensor.elements() / row;
    let row_bytes = tensor.bytes / rows;
    let slab_rows = (SLAB_BYTES / (row * size_of::<f32>() as u64)).clamp(1, rows);
    let piece_rows = (PIECE_ELEMENTS / row as usize).max(1);
    let mut slab = vec![0; (slab_rows * row_bytes) as usize];
    file.seek(SeekFrom::Start(tensor.offset))?;
    let mut left = rows;
    while left > 0 {
        let slab = &mut slab[..(slab_rows.min(left) * row_bytes) as usize];
        file.read_exact(slab)?;
        if tensor.dtype == dtype && !is_float(dtype) {
            out.write_all(slab)?;
        } else {
            let pieces: Vec<Vec<u8>> = slab
                .par_chunks(piece_rows * row_bytes as usize)
                .map(|piece| encode_piece(piece, tensor, dtype))
                .collect::<Result<_, _>>()
                .map_err(invalid)?;
            for piece in &pieces {
                out.write_all(piece)?;
            }
        }
        done(slab.len() as u64);
        left -= slab_rows.min(left);
    }
    Ok(())
}

/// Some rows of a tensor in its new type.
fn encode_piece(bytes: &[u8], tensor: &Tensor, dtype: DType) -> Result<Vec<u8>, QuantiseError> {
    let mut values = vec![0.0; bytes.len() / tensor.dtype.block_bytes()];
    tensor.dtype.decode(bytes, &mut values);
    // An infinity is the largest, and what is not a number makes the sum none; both are found without a branch.
    let (largest, sum) =
        values.iter().fold((0.0f32, 0.0f32), |(largest, sum), x| (largest.max(x.abs()), sum + x * 0.0));
    if !largest.is_finite() || sum.is_nan() {
        return Err(QuantiseError::NotFinite { name: tensor.name.clone() });
    }
    if tensor.dtype == dtype {
        return Ok(bytes.to_vec());
    }
    let mut encoded = Vec::new();
    dtype.encode(&values, &mut encoded).expect("a mix has types with encoders, in whole blocks");
    if largest >= SAFE_MAGNITUDE {
        dtype.decode(&encoded, &mut values);
        if values.iter().any(|x| !x.is_finite()) {
            return Err(QuantiseError::TooLarge { name: tensor.name.clone(), dtype });
        }
    }
    Ok(encoded)
}

#[cfg(test)]
mod tests;
