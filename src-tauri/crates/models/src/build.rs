//! What a family writes its forward pass into.
//!
//! A family is run twice. The first run has no backend: it finds every tensor that is missing or mis-shaped, so that all of
//! them are told at once and nothing is uploaded in vain; it also tells how much memory the model needs. The second run
//! uploads. A third kind of run has not even a file: it is asked which tensors a model of some metadata needs.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use cairn_gguf::{DType, Metadata};
use cairn_tensor::{Backend, BackendError, BufferId, Bytes, Op, Plan, Projection, Rows, Weight, WeightId};

use crate::error::{LoadError, TensorFault, in_block};
use crate::file::ModelFile;

/// Stands for a weight in a plan that will not be run.
const NOT_UPLOADED: WeightId = WeightId(u32::MAX);

/// A tensor that a model must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Required {
    /// Its name.
    pub name: String,
    /// Its dimensions, elements of a row first.
    pub dims: Vec<u64>,
}

/// Where a family's questions are answered from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// An open file.
    File(&'a ModelFile),
    /// Metadata alone: optional tensors are there where `has` says so, and every tensor is as it should be.
    Asking {
        /// Of the model.
        metadata: &'a Metadata,
        /// Whether the model has this tensor.
        has: &'a dyn Fn(&str) -> bool,
    },
}

/// A plan in the making, with the weights that it refers to.
pub struct Builder<'a> {
    /// The plan.
    pub plan: Plan,
    source: Source<'a>,
    /// The biases that the model must have; those of blocks by their names within a block.
    needed_biases: HashSet<String>,
    backend: Option<&'a mut dyn Backend>,
    context_tokens: usize,
    weights: HashMap<(String, Part), WeightId>,
    weights_bytes: u64,
    asked: HashSet<String>,
    required: Vec<Required>,
    faults: Vec<TensorFault>,
    refused: Option<BackendError>,
}

/// Which of a tensor's elements are one weight: `rows * cols` from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Part {
    first: usize,
    rows: usize,
    cols: usize,
}

impl<'a> Builder<'a> {
    /// Starts a plan for sequences of so many tokens; without a backend nothing is uploaded.
    pub(crate) fn new(source: Source<'a>, context_tokens: usize, backend: Option<&'a mut dyn Backend>) -> Self {
        Self {
            plan: Plan::default(),
            source,
            needed_biases: block_biases(source),
            backend,
            context_tokens,
            weights: HashMap::new(),
            weights_bytes: 0,
            asked: HashSet::new(),
            required: Vec::new(),
            faults: Vec::new(),
            refused: None,
        }
    }

    /// Ends the run: the plan, and the bytes of all weights that it uses.
    pub(crate) fn finish(self) -> Result<(Plan, u64), LoadError> {
        if !self.faults.is_empty() {
            return Err(LoadError::Tensors { faults: self.faults });
        }
        match self.refused {
            Some(error) => Err(error.into()),
            None => Ok((self.plan, self.weights_bytes)),
        }
    }

    /// Ends a run without a file: the tensors that were asked for, in the order of the forward pass.
    pub(crate) fn into_required(self) -> Vec<Required> {
        self.required
    }

    /// The model's metadata.
    pub fn metadata(&self) -> &'a Metadata {
        match self.source {
            Source::File(file) => file.gguf().metadata(),
            Source::Asking { metadata, .. } => metadata,
        }
    }

    /// The longest sequence, in tokens, that the model is loaded for.
    pub fn context_tokens(&self) -> usize {
        self.context_tokens
    }

    /// Whether the model has a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        match self.source {
            Source::File(file) => file.gguf().tensor(name).is_some(),
            Source::Asking { has, .. } => has(name),
        }
    }

    /// Says which biases no model of the family does without: names as [`Builder::projection`] takes them, but for `blk.N.`.
    pub fn need_biases(&mut self, prefixes: &[&str]) {
        self.needed_biases.extend(prefixes.iter().map(|prefix| format!("{prefix}.bias")));
    }

    /// Whether the model has a bias of this name, or must have it: the family needs it, or another of the model's blocks has it.
    pub fn has_bias(&self, name: &str) -> bool {
        self.has(name) || self.needed_biases.contains(in_block(name).map_or(name, |(_, name)| name))
    }

    /// How many rows the matrix of this name has, where there is a file and the file has it.
    pub fn rows_of(&self, name: &str) -> Option<usize> {
        let Source::File(file) = self.source else { return None };
        file.gguf().tensor(name)?.dims.get(1).map(|&rows| rows as usize)
    }

    /// The matrix `[rows, cols]` of this name.
    pub fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> WeightId {
        self.weight(name, &[cols, rows], Part { first: 0, rows, cols })
    }

    /// Some rows of the matrix `[total_rows, cols]` of this name, which holds several weights one after the other.
    pub fn matrix_rows(&mut self, name: &str, total_rows: usize, rows: Range<usize>, cols: usize) -> WeightId {
        let part = Part { first: rows.start.saturating_mul(cols), rows: rows.len(), cols };
        self.weight(name, &[cols, total_rows], part)
    }

    /// The matrices `[rows, cols]` of all experts, one after the other: `[experts * rows, cols]`.
    pub fn experts(&mut self, name: &str, experts: usize, rows: usize, cols: usize) -> WeightId {
        self.weight(name, &[cols, rows, experts], Part { first: 0, rows: experts * rows, cols })
    }

    /// The vector of this name.
    pub fn vector(&mut self, name: &str, len: usize) -> WeightId {
        self.weight(name, &[len], Part { first: 0, rows: 1, cols: len })
    }

    /// The vector of this name, where the model has it.
    pub fn optional_vector(&mut self, name: &str, len: usize) -> Option<WeightId> {
        self.has(name).then(|| self.vector(name, len))
    }

    /// The numbers of a vector, where the model has it, for what is computed once at load.
    pub fn optional_values(&mut self, name: &str, len: usize) -> Option<Vec<f32>> {
        if !self.has(name) {
            return None;
        }
        let mut values = vec![1.0; len];
        if let Some((dtype, bytes)) = self.tensor(name, &[len]) {
            dtype.decode(&bytes, &mut values);
        }
        Some(values)
    }

    /// Adds `{prefix}.weight` `[rows, cols]`, and the bias where the model has one, as a product that fills `out`.
    pub fn projection(&mut self, prefix: &str, cols: usize, out: BufferId) -> Projection {
        let rows = self.plan.buffers[out.0 as usize].width;
        self.projection_rows(prefix, rows, 0, cols, out)
    }

    /// As [`Builder::projection`], with the rows from `first` on of a weight and a bias that have `total_rows`.
    pub fn projection_rows(
        &mut self,
        prefix: &str,
        total_rows: usize,
        first: usize,
        cols: usize,
        out: BufferId,
    ) -> Projection {
        let rows = self.plan.buffers[out.0 as usize].width;
        let weight = self.matrix_rows(&format!("{prefix}.weight"), total_rows, first..first + rows, cols);
        let bias = format!("{prefix}.bias");
        let part = Part { first, rows: 1, cols: rows };
        let bias = self.has_bias(&bias).then(|| self.weight(&bias, &[total_rows], part));
        Projection { weight, bias, out }
    }

    /// Adds a buffer with a row for each row of the batch.
    pub fn buffer(&mut self, width: usize) -> BufferId {
        self.plan.buffer(Rows::Batch, width)
    }

    /// Adds a step.
    pub fn push(&mut self, op: Op) {
        self.plan.push(op);
    }

    /// Uploads a weight, each part of a tensor once. What is wrong with it is told by [`Builder::finish`].
    fn weight(&mut self, name: &str, dims: &[usize], part: Part) -> WeightId {
        let key = (name.to_owned(), part);
        if let Some(&known) = self.weights.get(&key) {
            return known;
        }
        let Some((dtype, bytes)) = self.tensor(name, dims) else { return NOT_UPLOADED };
        let Part { first, rows, cols } = part;
        if !first.is_multiple_of(dtype.block()) || !cols.is_multiple_of(dtype.block()) {
            // Only a part of a vector can begin or end inside a block.
            self.faults.push(TensorFault::DType { name: name.to_owned(), dtype });
            return NOT_UPLOADED;
        }
        let start = dtype.row_bytes(first);
        let range = start..start + rows * dtype.row_bytes(cols);
        let bytes = bytes.slice(range).expect("a part lies in the tensor, whose size was checked");
        self.weights_bytes += bytes.len() as u64;
        let weight = Weight { name: name.to_owned(), dtype, rows, cols, bytes };
        let uploaded = self.backend.as_mut().map_or(Ok(NOT_UPLOADED), |backend| backend.upload(weight));
        let id = uploaded.unwrap_or_else(|error| {
            self.refused.get_or_insert(error);
            NOT_UPLOADED
        });
        self.weights.insert(key, id);
        id
    }

    /// A tensor of these dimensions: its type and its bytes. Without a file it is noted, and without a sound one a fault.
    fn tensor(&mut self, name: &str, need: &[usize]) -> Option<(DType, Bytes)> {
        let dims: Vec<u64> = need.iter().map(|&dim| dim as u64).collect();
        let first = self.asked.insert(name.to_owned());
        match self.source {
            Source::Asking { .. } => {
                if first {
                    self.required.push(Required { name: name.to_owned(), dims });
                }
                None
            }
            Source::File(file) => match find(file, name, dims) {
                Ok(found) => Some(found),
                Err(fault) => {
                    if first {
                        self.faults.push(fault);
                    }
                    None
                }
            },
        }
    }
}

/// The biases that some block of the file has, by their names within a block.
fn block_biases(source: Source<'_>) -> HashSet<String> {
    let Source::File(file) = source else { return HashSet::new() };
    let names = file.gguf().tensors().iter().filter_map(|tensor| Some(in_block(&tensor.name)?.1));
    names.filter(|name| name.ends_with(".bias")).map(str::to_owned).collect()
}

/// The type and the bytes of a file's tensor, which must have these dimensions.
fn find(file: &ModelFile, name: &str, need: Vec<u64>) -> Result<(DType, Bytes), TensorFault> {
    let name = name.to_owned();
    let Some(tensor) = file.gguf().tensor(&name) else { return Err(TensorFault::Missing { name }) };
    // Writers may pad dimensions with ones.
    let (have, padding) = tensor.dims.split_at(need.len().min(tensor.dims.len()));
    if have != need || padding.iter().any(|&dim| dim != 1) {
        return Err(TensorFault::Shape { name, need, have: tensor.dims.clone() });
    }
    if !tensor.dtype.is_weight() {
        return Err(TensorFault::DType { name, dtype: tensor.dtype });
    }
    Ok((tensor.dtype, file.tensor_bytes(tensor)))
}
