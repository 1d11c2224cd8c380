//! Loading a model into a backend, and its memory requirements.

use cairn_gguf::{DType, Gguf, Metadata, Pooling};
use cairn_tensor::plan::Buffer;
use cairn_tensor::{Backend, Limits, Plan, Rows};
use cairn_wire::excerpt;

use crate::adapter::Adapter;
use crate::adapter_error::{AdapterError, MAX_ADAPTERS};
use crate::arch::{ARCHITECTURES, Architecture};
use crate::build::{Builder, RequiredTensor, Source};
use crate::compat;
use crate::embedding::EmbeddingOutput;
use crate::encoder::ENCODERS;
use crate::encoder_decoder::{ENCODER_DECODERS, Encoder};
use crate::error::LoadError;
use crate::file::ModelFile;
use crate::hparams::{Hparams, Keys};

/// Model whose weights are uploaded to a backend.
#[derive(Clone, Debug)]
pub struct Model {
    /// The forward pass, not yet prepared.
    pub plan: Plan,
    /// The shape.
    pub hparams: Hparams,
    /// Stores keys and values of an encoder's rows, in the same pages, if the model has an encoder and a decoder. Not yet prepared.
    pub store: Option<Plan>,
}

/// A model's plans without a backend, or with weights in one.
struct Built {
    hparams: Hparams,
    plan: Plan,
    store: Option<Plan>,
    /// Only without a backend.
    encoder: Option<Plan>,
    weights_bytes: u64,
}

/// Memory requirements of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRequirements {
    /// Bytes of weights; host-memory backends use them in the mapped file.
    pub weights_bytes: u64,
    /// Type of keys and values: the requested one, or f16 if that does not fit the model's heads.
    pub kv_type: DType,
    /// Bytes of KV cache per token.
    pub kv_bytes_per_token: u64,
    /// Bytes of KV cache for the requested context, in whole pages.
    pub kv_bytes: u64,
    /// Bytes of activations for the largest batch.
    pub activations_bytes: u64,
}

impl MemoryRequirements {
    /// Returns the sum of all requirements.
    pub fn total_bytes(&self) -> u64 {
        self.weights_bytes.saturating_add(self.kv_bytes).saturating_add(self.activations_bytes)
    }
}

/// Uploads a model's weights and builds its forward pass, for sequences of up to `context_tokens`. Some models compute
/// long and short sequences differently ([`Hparams::long_context`]); their cached rows must not be mixed.
///
/// # Errors
/// When the family is unknown, metadata or tensors do not fit it, the backend rejects a weight, or the file has changed
/// since it was opened. Weights may have been uploaded only in the last two cases.
pub fn load(file: &ModelFile, context_tokens: usize, backend: &mut dyn Backend) -> Result<Model, LoadError> {
    load_with_adapters(file, &[], context_tokens, backend)
}

/// Like [`load`], with adapters, which sequences refer to by their index. A sequence that uses none is computed as without them.
///
/// # Errors
/// Those of [`load`]; or an adapter does not fit the model.
pub fn load_with_adapters(
    file: &ModelFile,
    adapters: &[Adapter],
    context_tokens: usize,
    backend: &mut dyn Backend,
) -> Result<Model, LoadError> {
    check_adapters(file, adapters, context_tokens)?;
    let Built { hparams, plan, store, .. } = build(Source::File(file), adapters, context_tokens, Some(backend))?;
    // The upload has decoded vectors, so the files must be unchanged.
    file.check()?;
    adapters.iter().try_for_each(|adapter| adapter.file().check())?;
    Ok(Model { plan, hparams, store })
}

/// Checks that adapters fit a model, and the model itself, by the shapes of their tensors. Only small vectors are read.
///
/// # Errors
/// Those of [`load_with_adapters`], except errors of the backend.
pub fn check_adapters(file: &ModelFile, adapters: &[Adapter], context_tokens: usize) -> Result<(), LoadError> {
    if adapters.len() > MAX_ADAPTERS {
        return Err(AdapterError::Count { count: adapters.len() }.into());
    }
    build(Source::File(file), adapters, context_tokens, None).map(drop)
}

/// Uploads the weights of the encoder of a model that has a decoder beside it.
///
/// # Errors
/// Those of [`load`]; or the model has no such encoder.
pub fn load_encoder(file: &ModelFile, backend: &mut dyn Backend) -> Result<Encoder, LoadError> {
    let family = family(file.gguf().metadata())?;
    let Some(family) = family.encoder_decoder() else {
        return Err(LoadError::Unsupported { what: "a model without an encoder beside its decoder".to_owned() });
    };
    let mut b = Builder::new(Source::File(file), &[], 0, Some(backend));
    family.build_encoder(&mut b)?;
    let (plan, _) = b.finish()?;
    file.check()?;
    let width = plan.logits.map_or(0, |output| plan.buffers[output.0 as usize].width);
    Ok(Encoder { plan, width })
}

/// Computes the memory requirements for `context_tokens` in total, batches within `limits`, and keys and values of
/// `kv_type` or its replacement by [`Plan::kv_type`].
///
/// # Errors
/// As [`load`], except errors of the backend.
pub fn memory_requirements(
    file: &ModelFile,
    context_tokens: usize,
    limits: Limits,
    kv_type: DType,
) -> Result<MemoryRequirements, LoadError> {
    Ok(requirements(Source::File(file), context_tokens, limits, kv_type)?.1)
}

/// Checks by the translated head of a file ([`translate`](crate::translate)) whether the model can be loaded, and computes
/// its memory requirements as [`memory_requirements`] does. The bytes of the tensors are not read.
///
/// # Errors
/// As [`memory_requirements`].
pub fn check_head(
    gguf: &Gguf,
    context_tokens: usize,
    limits: Limits,
    kv_type: DType,
) -> Result<(Hparams, MemoryRequirements), LoadError> {
    requirements(Source::Head(gguf), context_tokens, limits, kv_type)
}

fn requirements(
    source: Source<'_>,
    context_tokens: usize,
    limits: Limits,
    kv_type: DType,
) -> Result<(Hparams, MemoryRequirements), LoadError> {
    let Built { hparams, plan, encoder, store, weights_bytes } = build(source, &[], context_tokens, None)?;
    let limits = hparams.limits(context_tokens, limits);
    let (kv_type, _) = plan.kv_type(kv_type);
    let layout = plan.page_layout(kv_type);
    let pages = context_tokens.div_ceil(cairn_tensor::PAGE_TOKENS) as u64;
    let elements = |buffer: &Buffer| match buffer.rows {
        Rows::Batch => buffer.width as u64 * limits.rows as u64,
        Rows::Logits => buffer.width as u64 * limits.logit_rows as u64,
    };
    let activations = |plan: &Plan| plan.buffers.iter().map(elements).sum::<u64>() * size_of::<f32>() as u64;
    let input_tokens = context_tokens.min(hparams.context_length);
    let encoder_bytes = encoder.map_or(0, |encoder| Encoder::bytes(&encoder, input_tokens));
    let requirements = MemoryRequirements {
        weights_bytes,
        kv_type,
        kv_bytes_per_token: layout.token_bytes() as u64,
        // A sequence reads one snapshot of its recurrent states and writes another.
        kv_bytes: pages.saturating_mul(layout.page_bytes as u64).saturating_add(2 * layout.snapshot.bytes as u64),
        activations_bytes: activations(&plan)
            .saturating_add(store.as_ref().map_or(0, activations))
            .saturating_add(encoder_bytes),
    };
    Ok((hparams, requirements))
}

/// Lists the tensors of a model with these metadata, in the order of its forward pass. `has_tensor` selects optional
/// tensors. The vocabulary size is the key `vocab_size`.
///
/// # Errors
/// When the family is unknown or metadata does not fit it.
pub fn required_tensors(
    metadata: &Metadata,
    has_tensor: &dyn Fn(&str) -> bool,
) -> Result<Vec<RequiredTensor>, LoadError> {
    let mut b = Builder::new(Source::Metadata { metadata, has_tensor }, &[], 0, None);
    let family = family(metadata)?;
    if let Some(family) = family.encoder_decoder() {
        family.build_encoder(&mut b)?;
        family.build_store(&mut b)?;
    }
    family.build(&mut b)?;
    Ok(b.into_required())
}

/// Builds the forward pass of the file's family.
fn build<'a>(
    source: Source<'a>,
    adapters: &'a [Adapter],
    context_tokens: usize,
    backend: Option<&'a mut dyn Backend>,
) -> Result<Built, LoadError> {
    let mut b = Builder::new(source, adapters, context_tokens, backend);
    let architecture = b.metadata().str("general.architecture")?.unwrap_or_default();
    adapters.iter().try_for_each(|adapter| adapter.check_architecture(architecture))?;
    let family = family(b.metadata())?;
    let (mut encoder, mut store) = (None, None);
    if let Some(family) = family.encoder_decoder() {
        if !adapters.is_empty() {
            let what = format!("an adapter of the family {}, which has an encoder and a decoder", architecture);
            return Err(LoadError::Unsupported { what });
        }
        // The encoder's weights are in a backend of its own.
        if !b.has_backend() {
            family.build_encoder(&mut b)?;
            encoder = Some(b.take_plan()?);
        }
        family.build_store(&mut b)?;
        store = Some(b.take_plan()?);
    }
    let hparams = family.build(&mut b)?;
    if hparams.embedding.is_some() && !adapters.is_empty() {
        return Err(LoadError::Unsupported { what: "an adapter of an embedding model".to_owned() });
    }
    let (plan, weights_bytes) = b.finish()?;
    let is_ranked = matches!(hparams.embedding, Some(EmbeddingOutput { pooling: Pooling::Rank, .. }));
    if is_ranked && plan.logits.is_none_or(|scores| plan.buffers[scores.0 as usize].width != 1) {
        return Err(LoadError::Unsupported { what: format!("a reranker of the family {}", hparams.architecture) });
    }
    if hparams.embedding.is_none() && plan.states.is_empty() {
        // Without keys and values, pages would have no size, and the cache no limit.
        let what = format!("a model of {} without attention", hparams.architecture);
        return Err(LoadError::Unsupported { what });
    }
    Ok(Built { hparams, plan, store, encoder, weights_bytes })
}

fn family(metadata: &Metadata) -> Result<&'static dyn Architecture, LoadError> {
    let name = Keys::new(metadata)?.architecture();
    let all = || {
        let encoder_decoders = ENCODER_DECODERS.iter().map(|family| *family as &dyn Architecture);
        ARCHITECTURES.iter().chain(ENCODERS).copied().chain(encoder_decoders)
    };
    let found = all().find(|family| family.names().contains(&name));
    found.ok_or_else(|| LoadError::UnknownArchitecture {
        name: excerpt(name).escape_debug().to_string(),
        model: compat::model_of(name),
        supported: all().flat_map(|family| family.names()).copied().collect(),
    })
}

#[cfg(test)]
mod tests;
