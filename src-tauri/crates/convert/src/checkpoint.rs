//! Conversion of published checkpoints to GGUF: safetensors files with the descriptions of Hugging Face's libraries
//! (`config.json`, `tokenizer.json`, `modules.json`).
//!
//! A [`Conversion`] is planned from the heads of the files, which determines the output size. Then it reads, encodes and
//! writes one tensor after the other, a few megabytes of rows at a time. Matrices become F16; vectors and small tables
//! stay F32, as llama.cpp expects. Values that are not finite or that F16 cannot represent are an error.
//!
//! A new family is one file in `checkpoint/` and one line in [`FAMILIES`].

mod bert;
mod description;
mod error;
mod safetensors;
#[cfg(test)]
mod tests;
mod tokenizer;
mod word_pieces;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use cairn_gguf::{DType, Metadata, Writer};

pub use self::description::CheckpointFile;
use self::description::Description;
pub use self::error::ConvertError;
use self::safetensors::SourceTensor;
use crate::FileType;

/// Bytes of source rows that are read at once.
const SLAB_BYTES: u64 = 8 << 20;
/// Larger magnitudes cannot be represented in F16.
const MAX_F16: f32 = 65_504.0;

/// Model family: converts descriptions and names of tensors.
trait Family: Sync {
    /// Values of `architectures` in `config.json` of this family.
    fn architectures(&self) -> &'static [&'static str];

    /// Returns the metadata of the new file, including its vocabulary.
    fn metadata(&self, description: &Description<'_>) -> Result<Metadata, ConvertError>;

    /// Returns the new name of a tensor; `None` for a tensor that the forward pass does not need.
    fn tensor_name(&self, name: &str) -> Option<String>;

    /// Returns whether a matrix stays F32.
    fn is_precise(&self, new_name: &str) -> bool;
}

/// All families.
const FAMILIES: &[&dyn Family] = &[&bert::Bert];

/// Progress of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertProgress {
    /// Bytes of the source completed.
    pub done_bytes: u64,
    /// Bytes of all converted tensors of the source.
    pub total_bytes: u64,
}

/// A planned tensor of the new file.
struct PlannedTensor {
    source: SourceTensor,
    name: String,
    dtype: DType,
    /// Row length first.
    dims: Vec<u64>,
}

/// Planned conversion of a checkpoint.
pub struct Conversion<'a> {
    files: &'a [CheckpointFile],
    metadata: Metadata,
    tensors: Vec<PlannedTensor>,
}

impl<'a> Conversion<'a> {
    /// Plans the conversion of a checkpoint.
    ///
    /// # Errors
    /// If a file is damaged, a description is missing or invalid, or the family is not supported.
    pub fn new(files: &'a [CheckpointFile]) -> Result<Self, ConvertError> {
        let description = Description::read(files)?;
        let architecture = description.architecture()?;
        let found = FAMILIES.iter().find(|family| family.architectures().contains(&architecture));
        let family = found.ok_or_else(|| ConvertError::Architecture {
            name: architecture.to_owned(),
            supported: FAMILIES.iter().flat_map(|family| family.architectures()).copied().collect(),
        })?;
        let mut metadata = family.metadata(&description)?;
        metadata.set("general.file_type", FileType::F16.number());
        let (mut tensors, mut names) = (Vec::new(), HashSet::new());
        let has_weights = |file: &CheckpointFile| file.name.to_ascii_lowercase().ends_with(".safetensors");
        for (index, file) in files.iter().enumerate().filter(|(_, file)| has_weights(file)) {
            let invalid = |reason: String| ConvertError::File { name: file.name.clone(), reason };
            for source in safetensors::read(&file.file, index).map_err(invalid)? {
                let Some(name) = family.tensor_name(&source.name) else { continue };
                if !names.insert(name.clone()) {
                    return Err(invalid(format!("tensor `{}` occurs twice", source.name.escape_debug())));
                }
                let dims: Vec<u64> = source.shape.iter().rev().copied().collect();
                let is_precise = dims.len() < 2 || family.is_precise(&name);
                let dtype = if is_precise { DType::F32 } else { DType::F16 };
                tensors.push(PlannedTensor { source, name, dtype, dims });
            }
        }
        if tensors.is_empty() {
            return Err(ConvertError::NoTensors);
        }
        Ok(Self { files, metadata, tensors })
    }

    /// Returns the size of the new file.
    ///
    /// # Errors
    /// If a tensor cannot be written to a file.
    pub fn size_bytes(&self) -> Result<u64, ConvertError> {
        Ok(self.writer(|_, _| Ok(()))?.head().1)
    }

    /// Writes the new file. `on_progress` is called every few megabytes.
    ///
    /// # Errors
    /// I/O errors of the files and of `out`. A [`ConvertError`] is the source of an [`io::Error`] of the kind
    /// `InvalidData`.
    pub fn write_to(&self, out: &mut impl Write, on_progress: &mut dyn FnMut(ConvertProgress)) -> io::Result<()> {
        let total_bytes = self.tensors.iter().map(|tensor| tensor.source.bytes).sum();
        let state = RefCell::new((ConvertProgress { done_bytes: 0, total_bytes }, on_progress));
        let writer = self.writer(|tensor, out| {
            encode(&self.files[tensor.source.file].file, tensor, out, &mut |bytes| {
                let (progress, on_progress) = &mut *state.borrow_mut();
                progress.done_bytes += bytes;
                on_progress(*progress);
            })
        });
        writer.map_err(invalid_data)?.write_to(out)
    }

    /// Returns the writer of the new file. `fill` writes each tensor.
    fn writer<'f>(
        &'f self,
        fill: impl Fn(&PlannedTensor, &mut dyn Write) -> io::Result<()> + Copy + 'f,
    ) -> Result<Writer<'f>, ConvertError> {
        let mut writer = Writer::default();
        for (key, value) in self.metadata.iter() {
            writer.set(key, value.clone());
        }
        for tensor in &self.tensors {
            writer.tensor_from(tensor.name.clone(), tensor.dtype, &tensor.dims, move |out| fill(tensor, out))?;
        }
        Ok(writer)
    }
}

fn invalid_data(error: ConvertError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Reads a tensor in slabs and writes it in its new type.
fn encode(
    mut file: &File,
    tensor: &PlannedTensor,
    out: &mut dyn Write,
    on_done: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let SourceTensor { name, dtype, offset, bytes, .. } = &tensor.source;
    file.seek(SeekFrom::Start(*offset))?;
    let (mut slab, mut values, mut encoded) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = *bytes;
    while left > 0 {
        let length = left.min(SLAB_BYTES);
        slab.resize(length as usize, 0);
        file.read_exact(&mut slab)?;
        values.resize(slab.len() / dtype.block_bytes(), 0.0);
        dtype.decode(&slab, &mut values);
        // Branch-free check: an infinity is the largest magnitude, and a NaN makes the sum NaN.
        let (largest, sum) =
            values.iter().fold((0.0f32, 0.0f32), |(largest, sum), x| (largest.max(x.abs()), sum + x * 0.0));
        if !largest.is_finite() || sum.is_nan() {
            return Err(invalid_data(ConvertError::NotFinite { name: name.clone() }));
        }
        if tensor.dtype == DType::F16 && largest > MAX_F16 {
            return Err(invalid_data(ConvertError::TooLarge { name: name.clone() }));
        }
        encoded.clear();
        tensor.dtype.encode(&values, &mut encoded).expect("F32 and F16 have encoders and blocks of one");
        out.write_all(&encoded)?;
        on_done(length);
        left -= length;
    }
    Ok(())
}
