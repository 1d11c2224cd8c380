//! Logits of a tiny model for one prompt.

use cairn_gguf::DType;
use cairn_tensor::{Backend, Batch, BufferId, Limits, PlanId};

use crate::common::{VOCABULARY, push_rows, read, table};
use crate::hybrid::Snapshots;

/// Writes a model into a backend.
pub(crate) type Model = fn(&mut dyn Backend, DType, Limits) -> (PlanId, BufferId);

/// The logits of all tokens of a sequence, computed in one batch.
pub(crate) fn logits(backend: &mut dyn Backend, model: Model, dtype: DType, tokens: usize) -> Vec<f32> {
    let (plan, buffer) = model(backend, dtype, Limits { rows: tokens, logit_rows: tokens });
    let mut batch = Batch { tables: vec![table(0, 1, tokens)], ..Batch::default() };
    backend.grow_pages(batch.tables[0].len()).expect("a few pages can be had");
    push_rows(&mut batch, 0, 0..tokens, true);
    Snapshots::default().link(&mut batch, |_| true);
    backend.run(plan, &batch).expect("the batch is sound");
    read(backend, plan, buffer, tokens, VOCABULARY)
}
