//! llama.cpp's newer files: GGUF with `general.type` `imatrix`, and for each tensor `NAME` of the model two tensors.
//!
//! `NAME.in_sum2` has the sum of the squared inputs of each column, a row for each stacked matrix. `NAME.counts` has the number
//! of inputs of each matrix. A matrix without inputs is unimportant evenly: 1 for each column.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cairn_gguf::{Array, DType, Gguf, Strings, Tensor, Writer};

use super::{Importance, ImportanceError, MAX_ENTRIES, MAX_NAME_BYTES, format_error};

const TYPE: &str = "imatrix";
const DATASETS: &str = "imatrix.datasets";
const CHUNK_COUNT: &str = "imatrix.chunk_count";
const CHUNK_SIZE: &str = "imatrix.chunk_size";
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// Sums of squared inputs of a model's matrices, of which a file is written.
#[derive(Clone, Debug, Default)]
pub struct ActivationSums {
    /// For each tensor the sums of its columns, and the number of inputs.
    entries: BTreeMap<String, Sums>,
}

#[derive(Clone, Debug)]
struct Sums {
    /// For each stacked matrix, the sum of each column.
    columns: Vec<f32>,
    /// For each stacked matrix, the number of inputs.
    counts: Vec<f32>,
}

impl ActivationSums {
    /// Adds an input of the matrix number `matrix` of a tensor of `matrices` stacked ones. All inputs of a tensor have the same
    /// length.
    pub fn add(&mut self, name: &str, matrix: usize, matrices: usize, input: &[f32]) {
        if !self.entries.contains_key(name) {
            let sums = Sums { columns: vec![0.0; input.len() * matrices], counts: vec![0.0; matrices] };
            self.entries.insert(name.to_owned(), sums);
        }
        let Some(sums) = self.entries.get_mut(name) else { return };
        let Some(columns) = sums.columns.get_mut(matrix * input.len()..(matrix + 1) * input.len()) else { return };
        columns.iter_mut().zip(input).for_each(|(sum, x)| *sum += x * x);
        if let Some(count) = sums.counts.get_mut(matrix) {
            *count += 1.0;
        }
    }

    /// Sets the sums of a tensor: for each stacked matrix the number of inputs, and the sum of each column's squares, which may be
    /// empty for a matrix without inputs.
    pub fn insert(&mut self, name: &str, matrices: Vec<(u64, Vec<f64>)>) {
        let columns = matrices.iter().map(|(_, sums)| sums.len()).max().unwrap_or(0);
        if columns == 0 {
            return;
        }
        let mut sums = Sums { columns: Vec::with_capacity(columns * matrices.len()), counts: Vec::new() };
        for (count, mut squares) in matrices {
            squares.resize(columns, 0.0);
            sums.columns.extend(squares.into_iter().map(|sum| sum as f32));
            sums.counts.push(count as f32);
        }
        self.entries.insert(name.to_owned(), sums);
    }

    /// Number of tensors with inputs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no input was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes a file. `dataset` names the text, of which `chunks` chunks of `chunk_tokens` tokens were computed.
    ///
    /// # Errors
    /// I/O errors of `out`.
    pub fn write_to(&self, dataset: &str, chunks: u32, chunk_tokens: u32, out: &mut impl Write) -> io::Result<()> {
        let mut datasets = Strings::with_capacity(1, dataset.len());
        datasets.push(dataset);
        let mut writer = Writer::default();
        writer.set("general.type", TYPE).set(DATASETS, Array::String(datasets));
        writer.set(CHUNK_COUNT, chunks).set(CHUNK_SIZE, chunk_tokens);
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        for (name, sums) in &self.entries {
            let matrices = sums.counts.len();
            let columns = sums.columns.len() / matrices;
            let dims = [columns as u64, matrices as u64];
            let write = writer.tensor(format!("{name}{SUMS}"), DType::F32, &dims, bytes(&sums.columns));
            write.map_err(io::Error::other)?;
            let write = writer.tensor(format!("{name}{COUNTS}"), DType::F32, &[1, dims[1]], bytes(&sums.counts));
            write.map_err(io::Error::other)?;
        }
        writer.write_to(out)
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Importance, ImportanceError> {
    let invalid = |error: cairn_gguf::Error| format_error(error.to_string());
    let head = Gguf::parse(bytes).map_err(invalid)?;
    let metadata = head.metadata();
    if metadata.str("general.type").map_err(invalid)? != Some(TYPE) {
        return Err(format_error(format!("it is a GGUF file, but its general.type is not \"{TYPE}\"")));
    }
    let mut importance = Importance {
        chunks: metadata.u32(CHUNK_COUNT).map_err(invalid)?.unwrap_or(0),
        datasets: metadata.strings(DATASETS).map_err(invalid)?.map(Strings::to_vec).unwrap_or_default(),
        ..Importance::default()
    };
    if head.tensors().len() > 2 * MAX_ENTRIES {
        return Err(format_error(format!("it has more than {MAX_ENTRIES} entries")));
    }
    for sums in head.tensors() {
        let Some(name) = sums.name.strip_suffix(SUMS) else { continue };
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(format_error("an entry has no name, or one that is too long"));
        }
        let counts_name = format!("{name}{COUNTS}");
        let counts = head.tensor(&counts_name);
        let counts =
            counts.ok_or_else(|| format_error(format!("the tensor `{}` is missing", counts_name.escape_debug())))?;
        let (values, counts) = (floats(bytes, sums)?, floats(bytes, counts)?);
        let columns = sums.dims.first().copied().unwrap_or(1) as usize;
        if values.len() != columns * counts.len() {
            let reason = format!("`{}` has {} values for {} counts", name.escape_debug(), values.len(), counts.len());
            return Err(format_error(reason));
        }
        if counts.iter().any(|count| !count.is_finite()) {
            return Err(ImportanceError::Number { name: name.to_owned() });
        }
        let matrices = values.chunks(columns).zip(&counts);
        let means =
            matrices.flat_map(|(sums, &count)| sums.iter().map(move |sum| if count > 0.0 { sum / count } else { 1.0 }));
        importance.insert(name, means.collect())?;
    }
    if importance.is_empty() {
        return Err(format_error(format!("it has no tensor with a name that ends with `{SUMS}`")));
    }
    Ok(importance)
}

/// Values of an F32 tensor.
fn floats(file: &[u8], tensor: &Tensor) -> Result<Vec<f32>, ImportanceError> {
    let bytes = file.get(tensor.offset as usize..(tensor.offset + tensor.bytes) as usize);
    match bytes {
        Some(bytes) if tensor.dtype == DType::F32 => {
            Ok(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
        }
        _ => Err(format_error(format!("`{}` is {}, not F32", tensor.name.escape_debug(), tensor.dtype))),
    }
}
