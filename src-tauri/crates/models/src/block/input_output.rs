//! Input and output of a forward pass: the embedding table, and the logits or the rows that an embedding model pools.

use cairn_tensor::{BufferId, Op, Projection, Rows};

use super::{Norm, Stream};
use crate::build::Builder;
use crate::hparams::Hparams;

/// Component of [`cairn_tensor::Row::pos`].
const POSITION: usize = 0;

/// Fills the residual stream with the batch's embeddings.
pub(crate) fn embed(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) {
    let table = b.matrix("token_embd.weight", hparams.vocab, hparams.embedding_length);
    b.push(Op::Embed { table, out: stream.residual });
}

/// Adds learned positions (Vaswani et al., arXiv 1706.03762, section 3.5) to the residual stream.
pub(crate) fn add_positions(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) {
    let table = b.matrix("position_embd.weight", hparams.context_length, hparams.embedding_length);
    b.push(Op::AddEmbedding { x: stream.residual, table, component: POSITION });
}

/// Gathers the rows with requested output, and returns their buffer. It is the plan's output unless a caller replaces
/// it.
pub(crate) fn output_rows(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) -> BufferId {
    let rows = b.plan.buffer(Rows::Logits, hparams.embedding_length);
    b.push(Op::Gather { x: stream.residual, out: rows });
    b.plan.logits = Some(rows);
    rows
}

/// Adds the logits of the rows that request them, and returns their buffer. The rows are gathered first, so that the
/// norm and the largest product run only for these rows. Without an output matrix the model uses its embedding table
/// (Press & Wolf, arXiv 1608.05859). The output of an embedding model are the normalised rows; it has no logits.
pub(crate) fn logits(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) -> Option<BufferId> {
    logits_after(b, hparams, stream, "output_norm")
}

/// The same with another name of the last norm.
pub(crate) fn logits_after(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, norm: &str) -> Option<BufferId> {
    let last = output_rows(b, hparams, stream);
    logits_of(b, hparams, last, norm)
}

/// The same of gathered rows.
pub(crate) fn logits_of(b: &mut Builder<'_>, hparams: &Hparams, last: BufferId, norm: &str) -> Option<BufferId> {
    let width = hparams.embedding_length;
    Norm::new(hparams).push(b, norm, last, last);
    if hparams.embedding.is_some() {
        return None;
    }
    let out = b.plan.buffer(Rows::Logits, hparams.vocab);
    let table = if b.has_tensor("output.weight") { "output.weight" } else { "token_embd.weight" };
    let weight = b.matrix(table, hparams.vocab, width);
    let bias = b.optional_vector("output.bias", hparams.vocab);
    if table == "output.weight" {
        b.adapt(table, [width, hparams.vocab], 0, out);
    }
    b.push(Op::MatMul { x: last, projections: vec![Projection { weight, bias, out }] });
    b.plan.logits = Some(out);
    Some(out)
}
