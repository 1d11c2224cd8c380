//! What a family writes its forward pass into.
//!
//! A family is run twice. The first run has no backend: it finds every tensor that is missing or mis-shaped, so that all of
//! them are told at once and nothing is uploaded in vain; it also tells how much memory the model needs. The second run
//! uploads.

use std::collections::HashMap;

use cairn_gguf::{Gguf, Metadata, Tensor};
use cairn_tensor::{Backend, BackendError, BufferId, Op, Plan, Projection, Rows, Weight, WeightId};

use crate::error::{LoadError, TensorFault};
use crate::file::ModelFile;

/// A plan in the making, with the weights that it refers to.
pub struct Builder<'a> {
    /// The plan.
    pub plan: Plan,
    file: &'a ModelFile,
    backend: Option<&'a mut dyn Backend>,
    weights: HashMap<String, WeightId>,
    weights_bytes: u64,
    faults: Vec<TensorFault>,
    refused: Option<BackendError>,
}

impl<'a> Builder<'a> {
    /// Starts a plan for this file; without a backend nothing is uploaded.
    pub(crate) fn new(file: &'a ModelFile, backend: Option<&'a mut dyn Backend>) -> Self {
        let (plan, weights, faults) = (Plan::default(), HashMap::new(), Vec::new());
        Self { plan, file, backend, weights, weights_bytes: 0, faults, refused: None }
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

    /// The model's metadata.
    pub fn metadata(&self) -> &'a Metadata {
        self.gguf().metadata()
    }

    /// Whether the file has a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.gguf().tensor(name).is_some()
    }

    /// How many rows the matrix of this name has, where the file has it.
    pub fn rows_of(&self, name: &str) -> Option<usize> {
        self.gguf().tensor(name)?.dims.get(1).map(|&rows| rows as usize)
    }

    /// The matrix `[rows, cols]` of this name.
    pub fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> WeightId {
        self.weight(name, rows, &[cols as u64, rows as u64])
    }

    /// The vector of this name.
    pub fn vector(&mut self, name: &str, len: usize) -> WeightId {
        self.weight(name, 1, &[len as u64])
    }

    /// The vector of this name, where the file has it.
    pub fn optional_vector(&mut self, name: &str, len: usize) -> Option<WeightId> {
        self.has(name).then(|| self.vector(name, len))
    }

    /// The numbers of a vector, where the file has it, for what is computed once at load.
    pub fn optional_values(&mut self, name: &str, len: usize) -> Option<Vec<f32>> {
        self.gguf().tensor(name)?;
        let (tensor, bytes) = self.tensor(name, &[len as u64])?;
        let mut values = vec![0.0; len];
        tensor.dtype.decode(&bytes, &mut values);
        Some(values)
    }

    /// Adds `{prefix}.weight` `[rows, cols]`, and the bias where the file has one, as a product that fills `out`.
    pub fn projection(&mut self, prefix: &str, cols: usize, out: BufferId) -> Projection {
        let rows = self.plan.buffers[out.0 as usize].width;
        let weight = self.matrix(&format!("{prefix}.weight"), rows, cols);
        let bias = self.optional_vector(&format!("{prefix}.bias"), rows);
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

    fn gguf(&self) -> &'a Gguf {
        self.file.gguf()
    }

    /// Uploads a weight, once for each name. What is wrong with it is told by [`Builder::finish`].
    fn weight(&mut self, name: &str, rows: usize, dims: &[u64]) -> WeightId {
        // Stands for a weight in a plan that will not be run.
        const NOT_UPLOADED: WeightId = WeightId(u32::MAX);
        if let Some(&known) = self.weights.get(name) {
            return known;
        }
        let Some((tensor, bytes)) = self.tensor(name, dims) else { return NOT_UPLOADED };
        self.weights_bytes += tensor.bytes;
        let weight = Weight { name: name.to_owned(), dtype: tensor.dtype, rows, cols: dims[0] as usize, bytes };
        let uploaded = self.backend.as_mut().map_or(Ok(NOT_UPLOADED), |backend| backend.upload(weight));
        let id = uploaded.unwrap_or_else(|error| {
            self.refused.get_or_insert(error);
            NOT_UPLOADED
        });
        self.weights.insert(name.to_owned(), id);
        id
    }

    /// A tensor of these dimensions and its bytes.
    fn tensor(&mut self, name: &str, need: &[u64]) -> Option<(&'a Tensor, cairn_tensor::Bytes)> {
        let name = name.to_owned();
        let Some(tensor) = self.gguf().tensor(&name) else {
            self.faults.push(TensorFault::Missing { name });
            return None;
        };
        // Writers may pad dimensions with ones.
        let (have, padding) = tensor.dims.split_at(need.len().min(tensor.dims.len()));
        if have != need || padding.iter().any(|&dim| dim != 1) {
            self.faults.push(TensorFault::Shape { name, need: need.to_vec(), have: tensor.dims.clone() });
            return None;
        }
        if !tensor.dtype.is_weight() {
            self.faults.push(TensorFault::DType { name, dtype: tensor.dtype });
            return None;
        }
        Some((tensor, self.file.tensor_bytes(tensor)))
    }
}
