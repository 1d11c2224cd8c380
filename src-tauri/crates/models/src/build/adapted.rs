//! What adapters add to the products of a plan.
//!
//! Each changed product is followed by two small ones and an addition: `hidden = A x`, `delta = B hidden`, `out += delta` for
//! the rows that use the adapter. Buffers are shared by all products of a plan.

use std::collections::{HashMap, HashSet};

use cairn_gguf::DType;
use cairn_tensor::{BufferId, Bytes, Op, Projection, Rows, WeightId};

use super::Builder;
use crate::adapter_error::AdapterError;

/// State of a build with adapters.
#[derive(Default)]
pub(super) struct Adapted {
    /// Parts of products that are not pushed yet.
    waiting: Vec<Output>,
    /// Changed matrices, with the number of the adapter.
    names: HashSet<(usize, String)>,
    /// Buffers by whether they are for logits, width and number.
    buffers: HashMap<(bool, usize, usize), BufferId>,
    error: Option<AdapterError>,
}

/// An output that an adapter changes.
struct Output {
    adapter: usize,
    a: WeightId,
    b: WeightId,
    rank: usize,
    factor: f32,
    out: BufferId,
}

impl Builder<'_> {
    /// Adds the adapters of a projection into `out`: rows from `first` on of the matrix `[total_rows, columns]`.
    pub(crate) fn adapt(&mut self, name: &str, [columns, total_rows]: [usize; 2], first: usize, out: BufferId) {
        let rows = self.plan.buffers[out.0 as usize].width;
        let adapters = self.adapters;
        for (adapter, file) in adapters.iter().enumerate() {
            let part = match file.part(name, [columns, total_rows], first, rows) {
                Ok(Some(part)) => part,
                Ok(None) => continue,
                Err(error) => {
                    self.adapted.error.get_or_insert(error);
                    continue;
                }
            };
            self.adapted.names.insert((adapter, name.to_owned()));
            let (rank, factor) = (part.rank, part.factor);
            let a = self.upload_part(format!("{name}.lora_a"), part.a, [rank, columns]);
            let b = self.upload_part(format!("{name}.lora_b"), part.b, [rows, rank]);
            self.adapted.waiting.push(Output { adapter, a, b, rank, factor, out });
        }
    }

    fn upload_part(&mut self, name: String, (dtype, bytes): (DType, Bytes), [rows, cols]: [usize; 2]) -> WeightId {
        self.weights_bytes += bytes.len() as u64;
        self.add(&name, dtype, [rows, cols], || bytes)
    }

    /// Adds the steps of the adapters after a product.
    pub(super) fn push_adapters(&mut self, x: BufferId, projections: &[Projection]) {
        let is_changed = |part: &mut Output| projections.iter().any(|projection| projection.out == part.out);
        let mut parts: Vec<Output> = self.adapted.waiting.extract_if(.., is_changed).collect();
        parts.sort_by_key(|part| part.adapter);
        for parts in parts.chunk_by(|one, next| one.adapter == next.adapter) {
            let adapter = parts[0].adapter as u32;
            let product = |weight, out| Projection { weight, bias: None, out };
            let hidden: Vec<Projection> = parts
                .iter()
                .enumerate()
                .map(|(index, part)| product(part.a, self.adapter_buffer(part.out, part.rank, index)))
                .collect();
            let outs: Vec<BufferId> = hidden.iter().map(|projection| projection.out).collect();
            self.plan.push(Op::MatMulAdapter { adapter, x, projections: hidden });
            for (part, hidden) in parts.iter().zip(outs) {
                let width = self.plan.buffers[part.out.0 as usize].width;
                // A rank may equal a width, so the numbers of these buffers continue after those.
                let delta = self.adapter_buffer(part.out, width, parts.len());
                self.plan.push(Op::MatMulAdapter { adapter, x: hidden, projections: vec![product(part.b, delta)] });
                self.plan.push(Op::AddAdapter { adapter, x: part.out, y: delta, factor: part.factor });
            }
        }
    }

    /// Returns a buffer with as many rows as `like`.
    fn adapter_buffer(&mut self, like: BufferId, width: usize, number: usize) -> BufferId {
        let rows = self.plan.buffers[like.0 as usize].rows;
        let plan = &mut self.plan;
        let key = (rows == Rows::Logits, width, number);
        *self.adapted.buffers.entry(key).or_insert_with(|| plan.buffer(rows, width))
    }

    /// Checks that every matrix of every adapter was used.
    pub(super) fn check_adapters(&mut self) -> Result<(), AdapterError> {
        if let Some(error) = self.adapted.error.take() {
            return Err(error);
        }
        for (adapter, file) in self.adapters.iter().enumerate() {
            for name in file.target_names() {
                if self.adapted.names.contains(&(adapter, name.to_owned())) {
                    continue;
                }
                let why = match self.has_tensor(name) {
                    true => "which this version cannot adapt: it is not multiplied as one matrix",
                    false => "which the model does not have; use the adapter with its base model",
                };
                return Err(AdapterError::Target { name: name.to_owned(), why });
            }
        }
        debug_assert!(self.adapted.waiting.is_empty(), "every projection is part of a product");
        Ok(())
    }
}
