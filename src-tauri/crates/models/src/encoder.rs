//! Encoders: models in which each token attends to the whole text, with one vector of it as output. One file and one row
//! each.

mod bert;
mod gemma_embedding;
mod nomic_bert;

#[cfg(test)]
mod tests;

use cairn_gguf::{Metadata, Pooling};
use cairn_tensor::{BufferId, Op, Rows};

use crate::arch::Architecture;
use crate::block::{Norm, Stream, add_positions, embed, output_rows};
use crate::build::Builder;
use crate::embedding::EmbeddingOutput;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

/// All supported encoders.
pub const ENCODERS: &[&dyn Architecture] = &[&bert::Bert, &gemma_embedding::GemmaEmbedding, &nomic_bert::NomicBert];

/// Components of [`cairn_tensor::Row::pos`].
const SEGMENT: usize = 1;
/// Always 0.
const FIRST_SEGMENT: usize = 2;

/// Reads the keys that all encoders share.
fn hparams(b: &Builder<'_>, norm: NormKind) -> Result<Hparams, LoadError> {
    let hparams = Hparams::read_with(b, norm)?;
    let output = hparams.embedding.unwrap_or(EmbeddingOutput::ENCODER);
    Ok(Hparams { embedding: Some(EmbeddingOutput { is_causal: false, ..output }), ..hparams })
}

/// Fills the residual stream as BERT does: the sum of token, position and segment (arXiv 1810.04805, figure 2), then a
/// norm.
fn embed_sum(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, has_positions: bool) {
    let (x, width) = (stream.residual, hparams.embedding_length);
    embed(b, hparams, stream);
    let segments = "token_types.weight";
    if let Some(rows) = b.has_tensor(segments).then(|| b.rows_of(segments).unwrap_or(2)) {
        let table = b.matrix(segments, rows, width);
        // Models of RoBERTa's structure have one segment, also for pairs.
        let component = if rows == 1 { FIRST_SEGMENT } else { SEGMENT };
        b.push(Op::AddEmbedding { x, table, component });
    }
    if has_positions {
        add_positions(b, hparams, stream);
    }
    Norm::new(hparams).push(b, "token_embd_norm", x, x);
}

/// Adds the output: the rows that are pooled, or the score of a cross-encoder (Nogueira & Cho, arXiv 1901.04085).
fn output(b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream) -> Result<(), LoadError> {
    let rows = output_rows(b, hparams, stream);
    if !matches!(hparams.embedding, Some(EmbeddingOutput { pooling: Pooling::Rank, .. })) {
        return Ok(());
    }
    let labels = b.rows_of("cls.output.weight").unwrap_or(1);
    if labels != 1 {
        return Err(LoadError::Unsupported { what: format!("a cross-encoder with {labels} labels") });
    }
    let width = hparams.embedding_length;
    let mut x = rows;
    let project = |b: &mut Builder<'_>, prefix: &str, width_out: usize, x: BufferId| {
        let out = b.plan.buffer(Rows::Logits, width_out);
        let projections = vec![b.projection(prefix, width, out)];
        b.push(Op::MatMul { x, projections });
        out
    };
    if b.has_tensor("cls.weight") {
        x = project(b, "cls", width, x);
        // tanh
        b.push(Op::Softcap { x, cap: 1.0 });
    }
    b.plan.logits = Some(project(b, "cls.output", 1, x));
    Ok(())
}

/// Refuses metadata of a variant that is computed differently.
fn refuse(keys: &Keys<'_>, key: &str, what: &str) -> Result<(), LoadError> {
    match keys.u32(key)? {
        None | Some(0) => Ok(()),
        Some(_) => Err(LoadError::Unsupported { what: what.to_owned() }),
    }
}

/// Returns whether an architecture is an encoder, which computes vectors of texts and no text.
pub fn is_encoder(architecture: &str) -> bool {
    ENCODERS.iter().any(|family| family.names().contains(&architecture))
}

/// Returns whether a model with these metadata computes vectors of texts and no text.
pub fn is_embedding_model(metadata: &Metadata) -> bool {
    let Ok(keys) = Keys::new(metadata) else { return false };
    is_encoder(keys.architecture()) || keys.embedding_output().is_ok_and(|output| output.is_some())
}
