//! Quantisation of a model in F32, F16 or BF16 to another [`FileType`].
//!
//! A [`Quantisation`] is planned from a file's head, which determines the output size. It reads a few megabytes of rows at a time,
//! encodes them on all threads and writes them in order. So the output does not depend on the number of threads, and memory use not
//! on the size of the model. Values that are not finite or that the type cannot represent are an error, because they would corrupt
//! the model's answers.

mod mix;

pub(crate) use self::mix::types;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use cairn_gguf::{DType, Gguf, Tensor, WriteError, Writer};
use rayon::prelude::*;

use crate::FileType;

/// Bytes of `f32` values that are read at once: enough work for many threads.
const SLAB_BYTES: u64 = 32 << 20;
/// Approximate elements of one task, large enough to amortise the scheduling.
const TASK_ELEMENTS: usize = 64 << 10;
/// Below this magnitude no encoder's scale overflows an f16. Larger values are decoded after encoding and checked.
const SAFE_MAGNITUDE: f32 = 32_768.0;
/// `general.quantization_version` of the current block layouts.
const QUANTIZATION_VERSION: u32 = 2;

/// Error of a quantisation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantiseError {
    /// The weights are already quantised, or not weights.
    #[error("quantization is only supported for F16, BF16 and F32 models")]
    Source,
    /// Invalid metadata.
    #[error(transparent)]
    Metadata(#[from] cairn_gguf::Error),
    /// A tensor cannot be written to the new file.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A value is infinite or NaN.
    #[error("tensor `{}` has values that are not finite numbers", .name.escape_debug())]
    NotFinite {
        /// Name of the tensor.
        name: String,
    },
    /// A value is too large for the type.
    #[error("tensor `{}` has values that are too large for {dtype}", .name.escape_debug())]
    TooLarge {
        /// Name of the tensor.
        name: String,
        /// Target type of the tensor.
        dtype: DType,
    },
}

/// Progress of a quantisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of the current tensor, from 1.
    pub tensor: usize,
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes of the source completed.
    pub done_bytes: u64,
    /// Bytes of all tensors of the source.
    pub total_bytes: u64,
}

/// Planned quantisation of a model.
pub struct Quantisation<'a> {
    source: &'a Gguf,
    target: FileType,
    tensors: Vec<(&'a Tensor, DType)>,
}

impl<'a> Quantisation<'a> {
    /// Plans the type of each tensor. `head` may be that of a model in several files; the output is one file.
    ///
    /// # Errors
    /// [`QuantiseError::Source`] if weights have other types than the three, or [`QuantiseError::Metadata`].
    pub fn new(head: &'a Gguf, target: FileType) -> Result<Quantisation<'a>, QuantiseError> {
        let declared = head.metadata().u32("general.file_type")?.and_then(FileType::from_number);
        let tensors = mix::types(head, target)?;
        let changes = |&(tensor, dtype): &(&Tensor, DType)| tensor.dtype != dtype;
        if declared.is_some_and(|declared| !declared.is_float())
            || tensors.iter().filter(|row| changes(row)).any(|(tensor, _)| !is_float(tensor.dtype))
        {
            return Err(QuantiseError::Source);
        }
        Ok(Quantisation { source: head, target, tensors })
    }

    /// Returns the tensors in output order, each with its target type.
    pub fn tensors(&self) -> impl Iterator<Item = (&Tensor, DType)> {
        self.tensors.iter().copied()
    }

    /// Returns the head of the new file, which is everything before the weights, and the size of the file.
    ///
    /// # Errors
    /// If a tensor cannot be written to a file.
    pub fn head(&self) -> Result<(Vec<u8>, u64), QuantiseError> {
        Ok(self.writer(|_, _, _| Ok(()))?.head())
    }

    /// Writes the new file. `parts` are the model's files in order. `on_progress` is called every few megabytes.
    ///
    /// # Errors
    /// I/O errors of the files and of `out`. A [`QuantiseError`] is the source of an [`io::Error`] of the kind `InvalidData`.
    pub fn write_to(
        &self,
        parts: &[File],
        out: &mut impl Write,
        on_progress: &mut dyn FnMut(Progress),
    ) -> io::Result<()> {
        let total_bytes = self.tensors.iter().map(|(tensor, _)| tensor.bytes).sum();
        let state = RefCell::new((
            Progress { tensor: 0, tensors: self.tensors.len(), done_bytes: 0, total_bytes },
            on_progress,
        ));
        let writer = self.writer(|tensor, dtype, out| {
            state.borrow_mut().0.tensor += 1;
            let file = parts.get(tensor.part).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            encode(file, tensor, dtype, out, &mut |bytes| {
                let (progress, on_progress) = &mut *state.borrow_mut();
                progress.done_bytes += bytes;
                on_progress(*progress);
            })
        });
        writer.map_err(invalid)?.write_to(out)
    }

    /// Returns the writer of the new file. `fill` writes each tensor.
    fn writer<'f>(
        &'f self,
        fill: impl Fn(&Tensor, DType, &mut dyn Write) -> io::Result<()> + Copy + 'f,
    ) -> Result<Writer<'f>, QuantiseError> {
        // These keys come last, as in llama.cpp.
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

/// Reads a tensor in slabs of rows and writes it in its new type.
fn encode(
    mut file: &File,
    tensor: &Tensor,
    dtype: DType,
    out: &mut dyn Write,
    on_done: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let row = tensor.dims.first().copied().unwrap_or(1);
    let rows = tensor.elements() / row;
    let row_bytes = tensor.bytes / rows;
    let slab_rows = (SLAB_BYTES / (row * size_of::<f32>() as u64)).clamp(1, rows);
    let task_rows = (TASK_ELEMENTS / row as usize).max(1);
    let mut slab = vec![0; (slab_rows * row_bytes) as usize];
    file.seek(SeekFrom::Start(tensor.offset))?;
    let mut left = rows;
    while left > 0 {
        let slab = &mut slab[..(slab_rows.min(left) * row_bytes) as usize];
        file.read_exact(slab)?;
        if tensor.dtype == dtype && !is_float(dtype) {
            out.write_all(slab)?;
        } else {
            let encoded: Vec<Vec<u8>> = slab
                .par_chunks(task_rows * row_bytes as usize)
                .map(|rows| encode_rows(rows, tensor, dtype))
                .collect::<Result<_, _>>()
                .map_err(invalid)?;
            for bytes in &encoded {
                out.write_all(bytes)?;
            }
        }
        on_done(slab.len() as u64);
        left -= slab_rows.min(left);
    }
    Ok(())
}

/// Encodes rows of a tensor in its new type.
fn encode_rows(bytes: &[u8], tensor: &Tensor, dtype: DType) -> Result<Vec<u8>, QuantiseError> {
    let mut values = vec![0.0; bytes.len() / tensor.dtype.block_bytes()];
    tensor.dtype.decode(bytes, &mut values);
    // Branch-free check: an infinity is the largest magnitude, and a NaN makes the sum NaN.
    let (largest, sum) =
        values.iter().fold((0.0f32, 0.0f32), |(largest, sum), x| (largest.max(x.abs()), sum + x * 0.0));
    if !largest.is_finite() || sum.is_nan() {
        return Err(QuantiseError::NotFinite { name: tensor.name.clone() });
    }
    if tensor.dtype == dtype {
        return Ok(bytes.to_vec());
    }
    let mut encoded = Vec::new();
    dtype.encode(&values, &mut encoded).expect("types of a mix have encoders and fit the rows");
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
