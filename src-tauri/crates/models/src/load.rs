//! From an open file to a model that a backend can run, and what that takes.

use cairn_gguf::{DType, Metadata};
use cairn_tensor::plan::Buffer;
use cairn_tensor::{Backend, Limits, Plan, Rows};

use crate::arch::{self, Architecture};
use crate::build::{Builder, Required, Source};
use crate::error::LoadError;
use crate::file::ModelFile;
use crate::hparams::{Hparams, Keys};

/// A model whose weights a backend holds.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its forward pass, not yet prepared.
    pub plan: Plan,
    /// Its shape.
    pub hparams: Hparams,
}

/// The memory that a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Bytes of the file that every token reads; host-memory backends use them where they are mapped.
    pub weights_bytes: u64,
    /// The type that keys and values have: the one that was asked about, or f16 where that does not fit the model's heads.
    pub kv_type: DType,
    /// Bytes of KV cache that one token adds.
    pub kv_bytes_per_token: u64,
    /// Bytes of KV cache for the context that was asked about, in whole pages.
    pub kv_bytes: u64,
    /// Bytes of activations for the largest batch.
    pub activations_bytes: u64,
}

impl Need {
    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        self.weights_bytes.saturating_add(self.kv_bytes).saturating_add(self.activations_bytes)
    }
}

/// Uploads a model's weights and writes its forward pass, for sequences of up to `context_tokens`: some models compute long
/// ones otherwise than short ones ([`Hparams::long_context`]), and what is cached of one must not meet the other.
///
/// # Errors
/// Where the family is unknown, metadata or tensors do not fit it, the backend refuses a weight, or the file has changed
/// since it was opened. Only in the last two cases has anything been uploaded.
pub fn load(file: &ModelFile, context_tokens: usize, backend: &mut dyn Backend) -> Result<Model, LoadError> {
    build(file, context_tokens, None)?;
    let (hparams, plan, _) = build(file, context_tokens, Some(backend))?;
    // Backends decode vectors when they are uploaded.
    file.check()?;
    Ok(Model { plan, hparams })
}

/// Says what a model needs for sequences of `context_tokens` in all, batches within `limits`, and keys and values of
/// `kv_type` or what [`Plan::kv_type`] makes of it.
///
/// # Errors
/// As [`load`], but for the backend's.
pub fn need(file: &ModelFile, context_tokens: usize, limits: Limits, kv_type: DType) -> Result<Need, LoadError> {
    let (_, plan, weights_bytes) = build(file, context_tokens, None)?;
    let (kv_type, _) = plan.kv_type(kv_type);
    let layout = plan.page_layout(kv_type);
    let pages = context_tokens.div_ceil(cairn_tensor::PAGE_TOKENS) as u64;
    let elements = |buffer: &Buffer| match buffer.rows {
        Rows::Batch => buffer.width as u64 * limits.rows as u64,
        Rows::Logits => buffer.width as u64 * limits.logit_rows as u64,
    };
    Ok(Need {
        weights_bytes,
        kv_type,
        kv_bytes_per_token: layout.token_bytes() as u64,
        kv_bytes: pages.saturating_mul(layout.page_bytes as u64),
        activations_bytes: plan.buffers.iter().map(elements).sum::<u64>() * size_of::<f32>() as u64,
    })
}

/// The tensors of a model with these metadata, in the order of its forward pass; of those that a model can do without, the
/// ones that `has` names. The vocabulary is that of the key `vocab_size`.
///
/// # Errors
/// Where the family is unknown or metadata do not fit it.
pub fn tensors(metadata: &Metadata, has: &dyn Fn(&str) -> bool) -> Result<Vec<Required>, LoadError> {
    let mut b = Builder::new(Source::Asking { metadata, has }, 0, None);
    family(metadata)?.build(&mut b)?;
    Ok(b.into_required())
}

/// Runs the file's family.
fn build<'a>(
    file: &'a ModelFile,
    context_tokens: usize,
    backend: Option<&'a mut dyn Backend>,
) -> Result<(Hparams, Plan, u64), LoadError> {
    let metadata = file.gguf().metadata();
    let mut b = Builder::new(Source::File(file), context_tokens, backend);
    let hparams = family(metadata)?.build(&mut b)?;
    let (plan, weights_bytes) = b.finish()?;
    Ok((hparams, plan, weights_bytes))
}

fn family(metadata: &Metadata) -> Result<&'static dyn Architecture, LoadError> {
    arch::find(Keys::new(metadata)?.architecture())
}
