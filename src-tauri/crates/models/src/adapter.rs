//! Low-rank adapters (Hu et al., arXiv 2106.09685): small files that change some matrices of a model.
//!
//! A GGUF file with `general.type` `adapter` has for each changed matrix `NAME` two tensors, `NAME.lora_a` `[rank, columns]` and
//! `NAME.lora_b` `[rows, rank]`. The product with `NAME` becomes `W x + scale * alpha / rank * B (A x)`, without changing `W`. So
//! sequences of one batch can use different adapters, or none.
//!
//! llama.cpp's `convert_lora_to_gguf.py` writes such files.

use std::collections::BTreeMap;

use cairn_gguf::{DType, Gguf, Tensor};
use cairn_tensor::Bytes;

use crate::adapter_error::{A, AdapterError, B};
use crate::file::ModelFile;

/// Highest rank. Usual ones are 4 to 256.
const MAX_RANK: u64 = 4096;

/// Open adapter.
#[derive(Debug)]
pub struct Adapter {
    file: ModelFile,
    /// 0 if the factor is the scale alone.
    alpha: f32,
    /// By the name of the changed matrix.
    targets: BTreeMap<String, Target>,
}

/// The tensors of a changed matrix.
#[derive(Debug)]
struct Target {
    a: Tensor,
    b: Tensor,
}

/// A part of an adapter that changes some rows of a matrix.
pub(crate) struct AdapterPart {
    pub(crate) rank: usize,
    pub(crate) factor: f32,
    /// Type and bytes of `[rank, columns]`.
    pub(crate) a: (DType, Bytes),
    /// Type and bytes of the rows of `[rows, rank]`.
    pub(crate) b: (DType, Bytes),
}

impl Adapter {
    /// Reads the head of an adapter.
    ///
    /// # Errors
    /// When the file is not an adapter, or its tensors are not pairs that fit together.
    pub fn new(file: ModelFile) -> Result<Adapter, AdapterError> {
        let metadata = file.gguf().metadata();
        for (key, need) in [("general.type", "adapter"), ("adapter.type", "lora")] {
            if metadata.str(key)? != Some(need) {
                return Err(AdapterError::Kind { key, need });
            }
        }
        let alpha = metadata.f32("adapter.lora.alpha")?.unwrap_or(0.0);
        if !alpha.is_finite() {
            return Err(AdapterError::Alpha { alpha });
        }
        let targets = targets(file.gguf())?;
        Ok(Adapter { file, alpha, targets })
    }

    /// Returns the file.
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// Checks that the adapter is for the family of a model.
    pub(crate) fn check_architecture(&self, model: &str) -> Result<(), AdapterError> {
        let adapter = self.file.gguf().metadata().str("general.architecture")?.unwrap_or_default();
        if adapter == model {
            return Ok(());
        }
        Err(AdapterError::Architecture { adapter: adapter.to_owned(), model: model.to_owned() })
    }

    /// Returns the names of the changed matrices.
    pub(crate) fn target_names(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    /// Returns the part that changes `rows` rows from `first` on of a matrix `[total_rows, columns]`, if it is changed.
    pub(crate) fn part(
        &self,
        name: &str,
        [columns, total_rows]: [usize; 2],
        first: usize,
        rows: usize,
    ) -> Result<Option<AdapterPart>, AdapterError> {
        let Some(Target { a, b }) = self.targets.get(name) else { return Ok(None) };
        let (rank, need) = (a.dims[1], [columns as u64, total_rows as u64]);
        if [a.dims[0], b.dims[1]] != need {
            let why = format!("the matrix is {need:?}, they are {:?} and {:?}", a.dims, b.dims);
            return Err(AdapterError::Shape { name: name.to_owned(), why });
        }
        let factor = if self.alpha == 0.0 { 1.0 } else { self.alpha / rank as f32 };
        let row_bytes = b.dtype.row_bytes(rank as usize);
        let b_bytes = self.file.tensor_bytes(b).slice(first * row_bytes..(first + rows) * row_bytes);
        Ok(Some(AdapterPart {
            rank: rank as usize,
            factor,
            a: (a.dtype, self.file.tensor_bytes(a)),
            b: (b.dtype, b_bytes.expect("the rows are some of those of the matrix")),
        }))
    }
}

/// Pairs the tensors of an adapter.
fn targets(gguf: &Gguf) -> Result<BTreeMap<String, Target>, AdapterError> {
    let mut targets = BTreeMap::new();
    for tensor in gguf.tensors() {
        let unpaired = || AdapterError::Unpaired { name: tensor.name.clone() };
        let Some(name) = tensor.name.strip_suffix(A) else {
            // Its pair is found by the other tensor.
            let other = tensor.name.strip_suffix(B).and_then(|name| gguf.tensor(&format!("{name}{A}")));
            other.ok_or_else(unpaired)?;
            continue;
        };
        let b = gguf.tensor(&format!("{name}{B}")).ok_or_else(unpaired)?;
        targets.insert(name.to_owned(), pair(name, tensor, b)?);
    }
    if targets.is_empty() { Err(AdapterError::Empty) } else { Ok(targets) }
}

fn pair(name: &str, a: &Tensor, b: &Tensor) -> Result<Target, AdapterError> {
    let bad = |why: String| AdapterError::Shape { name: name.to_owned(), why };
    let is_matrix = |tensor: &Tensor| tensor.dims.len() >= 2 && tensor.dims.iter().skip(2).all(|&dim| dim == 1);
    if !is_matrix(a) || !is_matrix(b) {
        return Err(bad(format!(
            "they are {:?} and {:?}, not matrices; adapters of experts are not supported",
            a.dims, b.dims
        )));
    }
    if a.dims[1] != b.dims[0] || a.dims[1] > MAX_RANK {
        return Err(bad(format!(
            "their ranks are {} and {}, which must be equal and at most {MAX_RANK}",
            a.dims[1], b.dims[0]
        )));
    }
    if let Some(tensor) = [a, b].into_iter().find(|tensor| !tensor.dtype.is_weight()) {
        return Err(bad(format!("`{}` is {}, which no weight can be", tensor.name.escape_debug(), tensor.dtype)));
    }
    Ok(Target { a: a.clone(), b: b.clone() })
}

#[cfg(test)]
mod tests;
