//! Vision towers: encoders that turn a picture into rows which take the place of tokens in a text model.
//!
//! A tower has a file of its own, as llama.cpp's converter writes it (`clip.*` keys, `v.*` and `mm.*` tensors), or is in the
//! text model's file in Ollama's layout ([`ModelFile::tower`]). [`load`] uploads its weights and returns a plan over the patches
//! of one picture. The rows of the batch are patches, and those with logits are output rows.
//!
//! A new kind of tower is one file and one line in [`TOWERS`].

mod gemma3;
mod gemma4;
mod hparams;
mod layout;
mod llava;
mod patches;
mod pixtral;
mod qwen;
mod rows;
#[cfg(test)]
mod tests;
mod tiles;
mod transformer;

use cairn_gguf::{DType, Gguf};
use cairn_tensor::plan::Buffer;
use cairn_tensor::{Backend, Plan, Rows};
use cairn_wire::excerpt;

use crate::block::deepstack::deepstack_layers;
use crate::build::{Builder, Source};
use crate::compat;
use crate::error::{LoadError, TensorFault};
use crate::file::ModelFile;
use crate::hparams::{Keys, MAX_WIDTH};
use hparams::TowerKind;
pub use hparams::{Grid, PicturePrompt, PictureSize, TowerHparams};
pub use layout::PictureLayout;
pub use tiles::Tiles;

/// A vision tower with its weights in a backend.
#[derive(Clone, Debug)]
pub struct Tower {
    /// The forward pass of one picture, not yet prepared. Its logits are the output rows.
    pub plan: Plan,
    /// The shape.
    pub hparams: TowerHparams,
}

/// A kind of towers.
trait VisionTower: Sync {
    /// Values of the key `projector_type`.
    fn projectors(&self) -> &'static [&'static str];

    /// Reads the metadata and adds the forward pass to the builder.
    fn build(&self, b: &mut Builder<'_>) -> Result<TowerHparams, LoadError>;
}

/// All supported kinds.
const TOWERS: &[&dyn VisionTower] =
    &[&gemma3::Gemma3, &gemma4::Gemma4, &llava::Llava, &pixtral::Pixtral, &qwen::Qwen25, &qwen::Qwen3];

/// Uploads the weights of the tower in a file, for a text model with rows of `width` elements.
///
/// # Errors
/// When the file has no tower or one of another kind, metadata or tensors do not fit it, its output has another width, the
/// backend rejects a weight, or the file has changed since it was opened.
pub fn load(file: &ModelFile, width: usize, backend: &mut dyn Backend) -> Result<Tower, LoadError> {
    let head =
        file.tower().ok_or_else(|| LoadError::Unsupported { what: "a file without a vision tower".to_owned() })?;
    check(head, width)?;
    let mut b = Builder::new(Source::Tower(file, head), &[], 0, Some(backend));
    let hparams = build(&mut b)?;
    let (plan, _) = b.finish()?;
    file.check()?;
    Ok(Tower { plan, hparams })
}

/// Checks by the head of a tower ([`ModelFile::tower`]) whether it can be loaded for a text model with rows of
/// `width` elements. Returns its shape, and the bytes of memory for weights, pages and activations.
///
/// # Errors
/// As [`load`].
pub fn check(head: &Gguf, width: usize) -> Result<(TowerHparams, u64), LoadError> {
    let mut b = Builder::new(Source::Head(head), &[], 0, None);
    let hparams = build(&mut b)?;
    let (plan, weights_bytes) = b.finish()?;
    if hparams.output_length != width {
        return Err(LoadError::TowerWidth { tower: hparams.output_length, model: width });
    }
    let limits = hparams.limits();
    let elements = |buffer: &Buffer| match buffer.rows {
        Rows::Batch => buffer.width as u64 * limits.rows as u64,
        Rows::Logits => buffer.width as u64 * limits.logit_rows as u64,
    };
    let activations_bytes = plan.buffers.iter().map(elements).sum::<u64>() * size_of::<f32>() as u64;
    let pages_bytes = hparams.pages() as u64 * plan.page_layout(DType::F16).page_bytes as u64;
    Ok((hparams, weights_bytes.saturating_add(activations_bytes).saturating_add(pages_bytes)))
}

/// Width of the embedding rows of the text model with this head, which is translated.
///
/// # Errors
/// When the model has no embedding table, or its keys are invalid.
pub fn input_width(model: &Gguf) -> Result<usize, LoadError> {
    const TABLE: &str = "token_embd.weight";
    let width = model.tensor(TABLE).and_then(|table| table.dims.first().copied());
    let missing = || LoadError::Tensors { faults: vec![TensorFault::Missing { name: TABLE.to_owned() }] };
    let width = width.ok_or_else(missing)? as usize;
    let keys = Keys::new(model.metadata())?;
    Ok(width.saturating_mul(1 + deepstack_layers(&keys)?))
}

/// Returns the head of the tower in the file with this head, which is not translated: the file's own, or that of the tower
/// beside a text model.
///
/// # Errors
/// When the head cannot be translated.
pub fn head(gguf: &Gguf) -> Result<Option<Gguf>, LoadError> {
    match compat::is_tower(gguf.metadata()) {
        true => Ok(Some(gguf.clone())),
        false => compat::tower(gguf),
    }
}

/// Returns the number of rows of a matrix; 1 if the file has none, which is reported when the matrix is added.
fn matrix_rows(b: &Builder<'_>, name: &str) -> usize {
    b.rows_of(name).filter(|&rows| rows <= MAX_WIDTH as usize).unwrap_or(1)
}

fn build(b: &mut Builder<'_>) -> Result<TowerHparams, LoadError> {
    let keys = Keys::new(b.metadata())?;
    // Files with several encoders name the kind of each.
    let kind = match keys.str("vision.projector_type")? {
        None => keys.str("projector_type")?,
        kind => kind,
    };
    let kind = kind.unwrap_or("mlp");
    let tower = TOWERS.iter().find(|tower| tower.projectors().contains(&kind));
    let unsupported = || LoadError::Unsupported { what: format!("a vision tower of the kind {:?}", excerpt(kind)) };
    tower.ok_or_else(unsupported)?.build(b)
}
