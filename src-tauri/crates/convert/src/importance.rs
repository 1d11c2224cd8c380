//! Importance matrices: for each column of a model's matrices the mean square of its inputs on some text.
//!
//! llama.cpp has two kinds of files, the older ([`dat`]) and GGUF ([`sums`]). A quantisation gives errors in important
//! columns more weight. Files come from strangers, so every count is checked against the bytes that are present.

mod dat;
mod sums;

use std::collections::BTreeMap;

use cairn_gguf::{Gguf, Tensor};

pub use sums::ActivationSums;

/// Largest file that is read. That of a model with 60 layers of 256 experts has about 1 GB.
pub const MAX_FILE_BYTES: u64 = 4 << 30;
/// Most entries. A model has at most this many tensors (`cairn_gguf`).
const MAX_ENTRIES: usize = 1 << 16;
/// Longest name of a tensor, in bytes.
const MAX_NAME_BYTES: usize = 1 << 10;

/// Importance of the columns of a model's matrices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance {
    /// For each tensor a number for each column; for stacked experts those of all experts, one after the other.
    entries: BTreeMap<String, Vec<f32>>,
    /// Names of the texts it was computed on, as the file has them.
    pub datasets: Vec<String>,
    /// Number of chunks of text.
    pub chunks: u32,
}

/// Error of an importance matrix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportanceError {
    /// The file is neither of the two kinds.
    #[error("the file is not an importance matrix of llama.cpp: {reason}; make one with `cairn imatrix`")]
    Format {
        /// The reason.
        reason: String,
    },
    /// A number is negative or not finite.
    #[error("the importance matrix has a number for `{}` that is negative or not finite", .name.escape_debug())]
    Number {
        /// Name of the tensor.
        name: String,
    },
    /// An entry for a tensor that the model lacks.
    #[error(
        "the importance matrix has an entry `{}`, but the model has no such tensor; use one that was computed with this model",
        .name.escape_debug()
    )]
    UnknownTensor {
        /// Name of the tensor.
        name: String,
    },
    /// No entry for any tensor of the model.
    #[error("the importance matrix has no entry for a tensor of this model; use one that was computed with this model")]
    NoTensor,
    /// An entry of another size than the tensor's columns.
    #[error(
        "the importance matrix has {found} numbers for `{}`, but the tensor has {expected} columns; use one that was computed with this model",
        .name.escape_debug()
    )]
    Columns {
        /// Name of the tensor.
        name: String,
        /// Numbers in the file.
        found: usize,
        /// Columns of the tensor, times the number of experts.
        expected: u64,
    },
}

impl Importance {
    /// Parses a file of either kind.
    ///
    /// # Errors
    /// [`ImportanceError::Format`] or [`ImportanceError::Number`].
    pub fn parse(bytes: &[u8]) -> Result<Importance, ImportanceError> {
        if bytes.starts_with(b"GGUF") { sums::parse(bytes) } else { dat::parse(bytes) }
    }

    /// Adds an entry. Fails if there is one of that name, or on an invalid number.
    fn insert(&mut self, name: &str, values: Vec<f32>) -> Result<(), ImportanceError> {
        if values.iter().any(|value| !(value.is_finite() && *value >= 0.0)) {
            return Err(ImportanceError::Number { name: name.to_owned() });
        }
        if self.entries.insert(name.to_owned(), values).is_some() {
            return Err(format_error(format!("it has two entries `{}`", name.escape_debug())));
        }
        Ok(())
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the importance of a tensor's columns: one number for each, for each of its stacked matrices.
    #[must_use]
    pub fn of(&self, tensor: &Tensor) -> Option<&[f32]> {
        let values = self.entries.get(&tensor.name)?;
        (values.len() as u64 == columns(tensor)).then_some(values)
    }

    /// Checks that the entries belong to a model.
    ///
    /// # Errors
    /// If an entry of a layer has no tensor or another size, or if no entry has a tensor.
    pub fn check(&self, head: &Gguf) -> Result<(), ImportanceError> {
        let mut found = false;
        for (name, values) in &self.entries {
            // llama.cpp has entries for the output, also of models that use the embedding as the output.
            let is_of_layer = name.starts_with("blk.");
            match head.tensor(name) {
                None if is_of_layer => return Err(ImportanceError::UnknownTensor { name: name.clone() }),
                None => {}
                // The embedding is not multiplied with, so llama.cpp ignores a wrong size too.
                Some(_) if name == "token_embd.weight" => {}
                Some(tensor) if columns(tensor) != values.len() as u64 => {
                    let (found, expected) = (values.len(), columns(tensor));
                    return Err(ImportanceError::Columns { name: name.clone(), found, expected });
                }
                Some(_) => found = true,
            }
        }
        if found { Ok(()) } else { Err(ImportanceError::NoTensor) }
    }
}

fn columns(tensor: &Tensor) -> u64 {
    let dim = |at: usize| tensor.dims.get(at).copied().unwrap_or(1);
    dim(0).saturating_mul(dim(2))
}

fn format_error(reason: impl Into<String>) -> ImportanceError {
    ImportanceError::Format { reason: reason.into() }
}

#[cfg(test)]
mod tests;
