//! Models with an encoder and a decoder: the encoder reads the whole input, and the decoder generates an answer to it. One file and one
//! row each.
//!
//! Such a model has three plans:
//!
//! ```text
//! encoder   tokens of the input             -> a row for each of them
//! store     rows of the encoder             -> keys and values of them for all layers of the decoder
//! decoder   tokens of the answer so far     -> logits
//! ```
//!
//! The last two share pages and states. A sequence begins with the slots of its input, where each state holds keys and values of the
//! encoder's rows. Those of the decoder's own rows follow: see [`cairn_tensor::part_attention`]. The encoder has a backend of its own,
//! because its keys and values are needed for one input at a time only.

mod t5;
#[cfg(test)]
mod tests;

use cairn_gguf::DType;
use cairn_tensor::plan::Buffer;
use cairn_tensor::{Batch, Limits, PAGE_TOKENS, PageId, Plan, Row};

use crate::arch::EncoderDecoder;
use crate::hparams::Hparams;

/// All supported families with an encoder and a decoder.
pub const ENCODER_DECODERS: &[&dyn EncoderDecoder] = &[&t5::T5];

/// The encoder of a model, with its weights in a backend.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// The forward pass of one input, not yet prepared. Its logits are the output rows.
    pub plan: Plan,
    /// Elements of an output row.
    pub width: usize,
}

impl Encoder {
    /// Limits for inputs of up to `tokens`, which are one batch.
    pub fn limits(tokens: usize) -> Limits {
        Limits { rows: tokens, logit_rows: tokens }
    }

    /// Pages of the keys and values of an input.
    pub fn pages(tokens: usize) -> usize {
        tokens.div_ceil(PAGE_TOKENS)
    }

    /// The batch of an input: each row attends to all of them.
    pub fn batch(input: &[u32]) -> Batch {
        let count = input.len() as u32;
        let row = |(slot, &token): (u32, &u32)| Row { want_logits: true, ..Row::encoder(0, token, slot, 0, count) };
        let table = (0..Self::pages(input.len()) as u32).map(PageId).collect();
        Batch { rows: (0..count).zip(input).map(row).collect(), tables: vec![table], ..Batch::default() }
    }

    /// Bytes of memory for an input of this many tokens: pages and activations.
    pub(crate) fn bytes(plan: &Plan, tokens: usize) -> u64 {
        let elements: u64 = plan.buffers.iter().map(|buffer: &Buffer| buffer.width as u64).sum();
        let activations = elements.saturating_mul(tokens as u64).saturating_mul(size_of::<f32>() as u64);
        let (kv_type, _) = plan.kv_type(DType::F16);
        let pages = Self::pages(tokens) as u64 * plan.page_layout(kv_type).page_bytes as u64;
        activations.saturating_add(pages)
    }
}

/// Position of a row of the decoder: its place behind `input` rows.
pub fn decoder_position(slot: u32, input: u32) -> [u32; 4] {
    [slot - input, 0, 0, input]
}

/// Doubles the positions of a model with as many positions for the input as for the answer.
fn with_both_lengths(hparams: Hparams, start: u32) -> Hparams {
    Hparams { context_length: hparams.context_length.saturating_mul(2), decoder_start: Some(start), ..hparams }
}
