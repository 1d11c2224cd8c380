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

use crate::{FileType, Importance, ImportanceError};

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
    /// The type has too few bits to be useful without an importance matrix.
    #[error(
        "{target} needs an importance matrix, because so few bits without one give useless weights; pass one with --imatrix \
         (`cairn imatrix` computes it), or use Q2_K or more bits"
    )]
    NeedsImportance {
        /// The target.
        target: FileType,
    },
    /// The importance matrix lacks a tensor.
    #[error(
        "the importance matrix has no entry for `{}`, which {dtype} needs; use one that was computed with this model",
        .name.escape_debug()
    )]
    NoEntry {
        /// Name of the tensor.
        name: String,
        /// Its type in the new file.
        dtype: DType,
    },
    /// The importance matrix belongs to another model.
    #[error(transparent)]
    Importance(#[from] ImportanceError),
    /// Numbers of the importance matrix are so large that weights would not be finite.
    #[error(
        "the importance matrix has too large numbers for `{}`; compute it again with `cairn imatrix`",
        .name.escape_debug()
    )]
    ImportanceTooLarge {
        /// Name of the tensor.
        name: String,
    },
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
    importance: Option<&'a Importance>,
    tensors: Vec<(&'a Tensor, DType)>,
}

impl<'a> Quantisation<'a> {
    /// Plans the type of each tensor. `head` may be that of a model in several files; the output is one file.
    ///
    /// # Errors
    /// [`QuantiseError::Source`] if weights have other types than the three, [`QuantiseError::NeedsImportance`], or
    /// [`QuantiseError::Metadata`].
    pub fn new(head: &'a Gguf, target: FileType) -> Result<Quantisation<'a>, QuantiseError> {
        Self::with_importance(head, target, None)
    }

    /// Like [`Quantisation::new`], with errors weighted by an importance matrix if there is one.
    ///
    /// # Errors
    /// Those of [`Quantisation::new`]; or the importance matrix belongs to another model, or lacks an entry that the type of
    /// a tensor needs.
    pub fn with_importance(
        head: &'a Gguf,
        target: FileType,
        importance: Option<&'a Importance>,
    ) -> Result<Quantisation<'a>, QuantiseError> {
        match importance {
            Some(importance) => importance.check(head)?,
            None if target.needs_importance() => return Err(QuantiseError::NeedsImportance { target }),
            None => {}
        }
        let declared = head.metadata().u32("general.file_type")?.and_then(FileType::from_number);
        let tensors = mix::types(head, target, importance.is_some())?;
        let changes = |&(tensor, dtype): &(&Tensor, DType)| tensor.dtype != dtype;
        if declared.is_some_and(|declared| !declared.is_float())
            || tensors.iter().filter(|row| changes(row)).any(|(tensor, _)| !is_float(tensor.dtype))
        {
            return Err(QuantiseError::Source);
        }
        let is_multiplied = |tensor: &Tensor| !matches!(tensor.name.as_str(), "token_embd.weight" | "output.weight");
        for &(tensor, dtype) in tensors.iter().filter(|row| changes(row) && is_multiplied(row.0)) {
            let needs_entry = dtype.needs_importance() || (target == FileType::Q2_K_S && dtype == DType::Q2_K);
            if needs_entry && importance.is_none_or(|importance| importance.of(tensor).is_none()) {
                return Err(QuantiseError::NoEntry { name: tensor.name.clone(), dtype });
            }
        }
        Ok(Quantisation { source: head, target, importance, tensors })
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
            let importance = self.importance.and_then(|importance| importance.of(tensor));
            encode(file, tensor, dtype, importance, out, &mut |bytes| {
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
    importance: Option<&[f32]>,
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
                .enumerate()
                .map(|(task, bytes)| {
                    let first = rows - left + (task * task_rows) as u64;
                    encode_rows(Rows { bytes, first, importance }, tensor, dtype)
                })
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

/// Rows of a tensor.
struct Rows<'a> {
    bytes: &'a [u8],
    /// Number of the first row in the tensor.
    first: u64,
    /// Importance of the columns of all stacked matrices.
    importance: Option<&'a [f32]>,
}

impl Rows<'_> {
    /// Encodes the values of the rows.
    fn encode(&self, values: &[f32], tensor: &Tensor, dtype: DType) -> Vec<u8> {
        const FITS: &str = "types of a mix have encoders and fit the rows";
        let mut encoded = Vec::new();
        let Some(importance) = self.importance else {
            dtype.encode(values, &mut encoded).expect(FITS);
            return encoded;
        };
        let dim = |at: usize| tensor.dims.get(at).copied().unwrap_or(1);
        let columns = dim(0) as usize;
        let matrices_of_rows = (self.first..).map(|row| (row / dim(1) % dim(2)) as usize);
        for (row, matrix) in values.chunks_exact(columns).zip(matrices_of_rows) {
            let importance = &importance[matrix * columns..][..columns];
            dtype.encode_weighted(row, importance, &mut encoded).expect(FITS);
        }
        encoded
    }
}

/// Encodes rows of a tensor in its new type.
fn encode_rows(rows: Rows<'_>, tensor: &Tensor, dtype: DType) -> Result<Vec<u8>, QuantiseError> {
    let bytes = rows.bytes;
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
    let encoded = rows.encode(&values, tensor, dtype);
    // Sums of a search with huge importance can overflow, whatever the weights are.
    if largest >= SAFE_MAGNITUDE || rows.importance.is_some() {
        dtype.decode(&encoded, &mut values);
        if values.iter().any(|x| !x.is_finite()) {
            let name = tensor.name.clone();
            return Err(match largest >= SAFE_MAGNITUDE {
                true => QuantiseError::TooLarge { name, dtype },
                false => QuantiseError::ImportanceTooLarge { name },
            });
        }
    }
    Ok(encoded)
}

#[cfg(test)]
mod tests;
