//! Builder of a forward pass.
//!
//! A family builds twice. The first build has no backend: it reports all missing and mis-shaped tensors before anything
//! is uploaded, and computes the memory requirements. The second build uploads the weights. A build from metadata alone
//! lists the tensors that a model must have.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use cairn_gguf::{DType, Gguf, Metadata, Tensor};
use cairn_tensor::{Backend, BackendError, BufferId, Bytes, Op, Plan, Projection, Rows, Weight, WeightId};

use crate::adapter::Adapter;
use crate::error::{LoadError, TensorFault, in_block};
use crate::file::ModelFile;
use adapted::Adapted;

mod adapted;

/// Id of a weight that cannot be added, in a plan that is not executed.
const NOT_UPLOADED: WeightId = WeightId(u32::MAX);

/// A tensor that a model must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredTensor {
    /// The name.
    pub name: String,
    /// The dimensions, row length first.
    pub dims: Vec<u64>,
}

/// Source of metadata and tensors.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// An open file.
    File(&'a ModelFile),
    /// The vision tower in an open file.
    Tower(&'a ModelFile, &'a Gguf),
    /// The head of a file, without the bytes of its tensors.
    Head(&'a Gguf),
    /// Metadata alone. All tensors are assumed to be valid.
    Metadata {
        /// The model's metadata.
        metadata: &'a Metadata,
        /// Returns whether the model has an optional tensor.
        has_tensor: &'a dyn Fn(&str) -> bool,
    },
}

impl<'a> Source<'a> {
    /// Returns metadata and tensor table of a file.
    fn gguf(self) -> Option<&'a Gguf> {
        match self {
            Source::File(file) => Some(file.gguf()),
            Source::Tower(_, gguf) | Source::Head(gguf) => Some(gguf),
            Source::Metadata { .. } => None,
        }
    }

    fn metadata(self) -> &'a Metadata {
        match self {
            Source::File(file) => file.gguf().metadata(),
            Source::Tower(_, gguf) | Source::Head(gguf) => gguf.metadata(),
            Source::Metadata { metadata, .. } => metadata,
        }
    }
}

/// Builder of a plan and its weights.
pub struct Builder<'a> {
    /// The plan.
    pub plan: Plan,
    source: Source<'a>,
    /// Biases that the model must have. Those of blocks without the prefix `blk.N.`.
    required_biases: HashSet<String>,
    backend: Option<&'a mut dyn Backend>,
    /// The weights of a build without a backend, without their bytes.
    shapes: Vec<Weight>,
    context_tokens: usize,
    weights: HashMap<(String, Part), WeightId>,
    weights_bytes: u64,
    requested: HashSet<String>,
    required: Vec<RequiredTensor>,
    faults: Vec<TensorFault>,
    backend_error: Option<BackendError>,
    adapters: &'a [Adapter],
    adapted: Adapted,
}

/// The part of a tensor that is one weight: `rows * cols` elements from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Part {
    first: usize,
    rows: usize,
    cols: usize,
}

impl<'a> Builder<'a> {
    /// Creates a builder for sequences of up to `context_tokens`. Without a backend nothing is uploaded.
    pub(crate) fn new(
        source: Source<'a>,
        adapters: &'a [Adapter],
        context_tokens: usize,
        backend: Option<&'a mut dyn Backend>,
    ) -> Self {
        Self {
            plan: Plan::default(),
            source,
            required_biases: block_biases(source),
            backend,
            shapes: Vec::new(),
            context_tokens,
            weights: HashMap::new(),
            weights_bytes: 0,
            requested: HashSet::new(),
            required: Vec::new(),
            faults: Vec::new(),
            backend_error: None,
            adapters,
            adapted: Adapted::default(),
        }
    }

    /// Returns the plan, and the size in bytes of all its weights.
    pub(crate) fn finish(mut self) -> Result<(Plan, u64), LoadError> {
        if !self.faults.is_empty() {
            return Err(LoadError::Tensors { faults: self.faults });
        }
        self.check_adapters()?;
        if let Some(error) = self.backend_error.take() {
            return Err(error.into());
        }
        Ok((self.take_plan()?, self.weights_bytes))
    }

    /// Returns the plan and begins another one with the same weights. Without a backend, checks the plan as a backend would, unless its
    /// tensors have faults.
    pub(crate) fn take_plan(&mut self) -> Result<Plan, LoadError> {
        let plan = std::mem::take(&mut self.plan);
        if self.backend.is_none() && self.faults.is_empty() {
            cairn_tensor::check_plan(&plan, &self.shapes)?;
        }
        Ok(plan)
    }

    /// Adds a weight. A build without a backend needs its shape only.
    fn add(&mut self, name: &str, dtype: DType, [rows, cols]: [usize; 2], bytes: impl FnOnce() -> Bytes) -> WeightId {
        let name = name.to_owned();
        let Some(backend) = &mut self.backend else {
            self.shapes.push(Weight { name, dtype, rows, cols, bytes: Vec::new().into() });
            return WeightId(self.shapes.len() as u32 - 1);
        };
        backend.upload(Weight { name, dtype, rows, cols, bytes: bytes() }).unwrap_or_else(|error| {
            self.backend_error.get_or_insert(error);
            NOT_UPLOADED
        })
    }

    /// Returns the tensors of a build from metadata, in the order of the forward pass.
    pub(crate) fn into_required(self) -> Vec<RequiredTensor> {
        self.required
    }

    /// Returns whether weights are uploaded.
    pub(crate) fn has_backend(&self) -> bool {
        self.backend.is_some()
    }

    /// Returns the model's metadata.
    pub fn metadata(&self) -> &'a Metadata {
        self.source.metadata()
    }

    /// Returns the maximum sequence length in tokens.
    pub fn context_tokens(&self) -> usize {
        self.context_tokens
    }

    /// Returns whether the model has a tensor of this name.
    pub fn has_tensor(&self, name: &str) -> bool {
        match self.source {
            Source::Metadata { has_tensor, .. } => has_tensor(name),
            _ => self.source.gguf().is_some_and(|gguf| gguf.tensor(name).is_some()),
        }
    }

    /// Declares the biases that every model of the family must have, by the prefixes of [`Builder::projection`] without
    /// `blk.N.`.
    pub fn require_biases(&mut self, prefixes: &[&str]) {
        self.required_biases.extend(prefixes.iter().map(|prefix| format!("{prefix}.bias")));
    }

    /// Returns whether the model has this bias or must have it, because the family requires it or another block has it.
    pub fn has_bias(&self, name: &str) -> bool {
        self.has_tensor(name) || self.required_biases.contains(in_block(name).map_or(name, |(_, name)| name))
    }

    /// Returns the number of rows of a matrix, if there is a file that has it.
    pub fn rows_of(&self, name: &str) -> Option<usize> {
        self.source.gguf()?.tensor(name)?.dims.get(1).map(|&rows| rows as usize)
    }

    /// Adds the matrix `[rows, cols]` of this name.
    pub fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> WeightId {
        self.weight(name, &[cols, rows], Part { first: 0, rows, cols })
    }

    /// Adds the tensor of this name, which has these dimensions, as a matrix `[rows, cols]`.
    pub(crate) fn reshaped(&mut self, name: &str, dims: &[usize], rows: usize, cols: usize) -> WeightId {
        self.weight(name, dims, Part { first: 0, rows, cols })
    }

    /// Adds the transpose `[rows, cols]` of the matrix `[cols, rows]` of this name, as a copy in f32.
    pub(crate) fn transposed(&mut self, name: &str, rows: usize, cols: usize) -> WeightId {
        let transpose = |tensors: &[Vec<f32>]| {
            let row = |row: usize| tensors[0][row..].iter().step_by(rows).copied();
            (0..rows).flat_map(row).collect()
        };
        self.derived(&[(name, &[rows, cols])], [rows, cols], transpose)
    }

    /// Adds a matrix `[rows, cols]` in f32 that is computed from the elements of tensors with these names and dimensions.
    pub(crate) fn derived(
        &mut self,
        tensors: &[(&str, &[usize])],
        [rows, cols]: [usize; 2],
        compute: impl FnOnce(&[Vec<f32>]) -> Vec<f32>,
    ) -> WeightId {
        let found: Vec<_> = tensors.iter().map(|&(name, dims)| self.tensor(name, dims)).collect();
        if found.iter().any(Option::is_none) {
            return NOT_UPLOADED;
        }
        self.weights_bytes += (rows * cols * size_of::<f32>()) as u64;
        self.add(tensors[0].0, DType::F32, [rows, cols], || {
            let mut decoded = Vec::new();
            for (found, (_, dims)) in found.into_iter().zip(tensors) {
                let (dtype, bytes) = found.expect("all tensors were found");
                let mut values = vec![0.0; dims.iter().product()];
                dtype.decode(&bytes.expect("a build with a backend has a file"), &mut values);
                decoded.push(values);
            }
            let bytes: Vec<u8> = compute(&decoded).into_iter().flat_map(f32::to_le_bytes).collect();
            bytes.into()
        })
    }

    /// Adds the rows of these ranges of the matrix `[total_rows, cols]` of this name, as a copy in this order.
    pub(crate) fn chosen_rows(
        &mut self,
        name: &str,
        total_rows: usize,
        ranges: Vec<Range<usize>>,
        cols: usize,
    ) -> WeightId {
        let Some((dtype, bytes)) = self.tensor(name, &[cols, total_rows]) else { return NOT_UPLOADED };
        if !cols.is_multiple_of(dtype.block()) {
            self.faults.push(TensorFault::DType { name: name.to_owned(), dtype });
            return NOT_UPLOADED;
        }
        let rows = ranges.iter().map(Range::len).sum();
        let row_bytes = dtype.row_bytes(cols);
        self.weights_bytes += (rows * row_bytes) as u64;
        self.add(name, dtype, [rows, cols], || {
            let bytes = bytes.expect("a build with a backend has a file");
            let of_range = |range: Range<usize>| bytes[range.start * row_bytes..range.end * row_bytes].iter().copied();
            ranges.into_iter().flat_map(of_range).collect::<Vec<u8>>().into()
        })
    }

    /// Adds the matrix `[rows, cols]` at an index of a tensor of `count` matrices.
    pub(crate) fn nth_matrix(&mut self, name: &str, [index, count]: [usize; 2], rows: usize, cols: usize) -> WeightId {
        let first = index.saturating_mul(rows).saturating_mul(cols);
        self.weight(name, &[cols, rows, count], Part { first, rows, cols })
    }

    /// Adds some rows of the matrix `[total_rows, cols]` of this name, which contains several weights.
    pub fn matrix_rows(&mut self, name: &str, total_rows: usize, rows: Range<usize>, cols: usize) -> WeightId {
        let part = Part { first: rows.start.saturating_mul(cols), rows: rows.len(), cols };
        self.weight(name, &[cols, total_rows], part)
    }

    /// Adds the matrices `[rows, cols]` of all experts as one matrix `[experts * rows, cols]`.
    pub fn experts(&mut self, name: &str, experts: usize, rows: usize, cols: usize) -> WeightId {
        self.weight(name, &[cols, rows, experts], Part { first: 0, rows: experts * rows, cols })
    }

    /// Adds the vector of this name.
    pub fn vector(&mut self, name: &str, len: usize) -> WeightId {
        self.weight(name, &[len], Part { first: 0, rows: 1, cols: len })
    }

    /// Adds the vector of this name, if the model has it.
    pub fn optional_vector(&mut self, name: &str, len: usize) -> Option<WeightId> {
        self.has_tensor(name).then(|| self.vector(name, len))
    }

    /// Reads the values of a vector, if the model has it, for computations at load time. They are 1 without a file.
    pub fn optional_values(&mut self, name: &str, len: usize) -> Option<Vec<f32>> {
        self.has_tensor(name).then(|| self.values(name, len))
    }

    /// Reads the values of a vector, for computations at load time. They are 1 without a file.
    pub fn values(&mut self, name: &str, len: usize) -> Vec<f32> {
        let mut values = vec![1.0; len];
        if let Some((dtype, Some(bytes))) = self.tensor(name, &[len]) {
            dtype.decode(&bytes, &mut values);
        }
        values
    }

    /// Adds a vector of ones, which is no tensor of the model.
    pub(crate) fn ones(&mut self, len: usize) -> WeightId {
        // No tensor is added by an empty name.
        let key = (String::new(), Part { first: 0, rows: 1, cols: len });
        if let Some(&id) = self.weights.get(&key) {
            return id;
        }
        self.weights_bytes += (len * size_of::<f32>()) as u64;
        let id = self.add("ones", DType::F32, [1, len], || 1f32.to_le_bytes().repeat(len).into());
        self.weights.insert(key, id);
        id
    }

    /// Adds `{prefix}.weight` `[rows, cols]`, and the bias if the model has one, as a projection into `out`.
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
        self.adapt(&format!("{prefix}.weight"), [cols, total_rows], first, out);
        Projection { weight, bias, out }
    }

    /// Adds a buffer with a row for each row of the batch.
    pub fn buffer(&mut self, width: usize) -> BufferId {
        self.plan.buffer(Rows::Batch, width)
    }

    /// Adds a step, and what adapters add to its products.
    pub fn push(&mut self, op: Op) {
        let product = match &op {
            Op::MatMul { x, projections } => Some((*x, projections.clone())),
            _ => None,
        };
        self.plan.push(op);
        if let Some((x, projections)) = product {
            self.push_adapters(x, &projections);
        }
    }

    /// Uploads a weight, each part of a tensor once. [`Builder::finish`] returns the errors.
    fn weight(&mut self, name: &str, dims: &[usize], part: Part) -> WeightId {
        let key = (name.to_owned(), part);
        if let Some(&id) = self.weights.get(&key) {
            return id;
        }
        let Some((dtype, bytes)) = self.tensor(name, dims) else { return NOT_UPLOADED };
        let Part { first, rows, cols } = part;
        if !first.is_multiple_of(dtype.block()) || !cols.is_multiple_of(dtype.block()) {
            // Only parts of vectors can begin or end inside a block.
            self.faults.push(TensorFault::DType { name: name.to_owned(), dtype });
            return NOT_UPLOADED;
        }
        let (start, len) = (dtype.row_bytes(first), rows * dtype.row_bytes(cols));
        self.weights_bytes += len as u64;
        let id = self.add(name, dtype, [rows, cols], || {
            let bytes = bytes.expect("a build with a backend has a file");
            bytes.slice(start..start + len).expect("the size of the tensor was checked")
        });
        self.weights.insert(key, id);
        id
    }

    /// Returns type and bytes of a tensor with these dimensions; no bytes for the head of a file. Without either, records
    /// the tensor; on an error, records the fault.
    fn tensor(&mut self, name: &str, need: &[usize]) -> Option<(DType, Option<Bytes>)> {
        let dims: Vec<u64> = need.iter().map(|&dim| dim as u64).collect();
        let first = self.requested.insert(name.to_owned());
        match self.source.gguf() {
            None => {
                if first {
                    self.required.push(RequiredTensor { name: name.to_owned(), dims });
                }
                None
            }
            Some(gguf) => match find(gguf, name, dims) {
                Ok(tensor) => Some((tensor.dtype, self.bytes(tensor))),
                Err(fault) => {
                    if first {
                        self.faults.push(fault);
                    }
                    None
                }
            },
        }
    }

    fn bytes(&self, tensor: &Tensor) -> Option<Bytes> {
        match self.source {
            Source::File(file) | Source::Tower(file, _) => Some(file.tensor_bytes(tensor)),
            Source::Head(_) | Source::Metadata { .. } => None,
        }
    }
}

/// Returns the biases of all blocks in the file, without the prefix `blk.N.`.
fn block_biases(source: Source<'_>) -> HashSet<String> {
    let Some(gguf) = source.gguf() else { return HashSet::new() };
    let names = gguf.tensors().iter().filter_map(|tensor| Some(in_block(&tensor.name)?.1));
    names.filter(|name| name.ends_with(".bias")).map(str::to_owned).collect()
}

/// Returns a tensor, which must have these dimensions.
fn find<'a>(gguf: &'a Gguf, name: &str, need: Vec<u64>) -> Result<&'a Tensor, TensorFault> {
    let name = name.to_owned();
    let Some(tensor) = gguf.tensor(&name) else { return Err(TensorFault::Missing { name }) };
    // Writers may pad dimensions with ones.
    let (have, padding) = tensor.dims.split_at(need.len().min(tensor.dims.len()));
    if have != need || padding.iter().any(|&dim| dim != 1) {
        return Err(TensorFault::Shape { name, need, have: tensor.dims.clone() });
    }
    if !tensor.dtype.is_weight() {
        return Err(TensorFault::DType { name, dtype: tensor.dtype });
    }
    Ok(tensor)
}

#[cfg(test)]
mod tests;
