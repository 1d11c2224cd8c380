//! Whether the vision tower of a model can be computed, by the heads of both files.

use cairn_gguf::Gguf;
use cairn_models::{ModelFile, TowerHparams, is_embedding_model, translated};
use cairn_wire::excerpt;

use crate::error::LoadError;
use crate::scheduler::BATCH_ROWS;

/// Checks the vision tower of a model by the heads of the files, as they are in the files: the tower in the file `projector`, or else
/// the one in the model's own file. Returns whether there is one.
///
/// # Errors
/// Those of loading the tower that metadata and tensor table show. A `projector` without a tower is one.
pub fn check_vision(model: &Gguf, projector: Option<&Gguf>) -> Result<bool, LoadError> {
    let head = match (cairn_models::vision::head(projector.unwrap_or(model))?, projector) {
        (Some(head), _) => head,
        (None, None) if has_other_tower(model) => {
            let architecture = model.metadata().str("general.architecture").ok().flatten().unwrap_or_default();
            return Err(unsupported(format!("the vision tower in a file of {:?}", excerpt(architecture))));
        }
        (None, None) => return Ok(false),
        (None, Some(_)) => return Err(unsupported("a file without a vision tower".to_owned())),
    };
    let model = translated(model);
    if is_embedding_model(model.metadata()) {
        return Err(unsupported("a vision tower of an embedding model".to_owned()));
    }
    check(&head, &model).map(|_| true)
}

/// Memory of the vision tower that will be loaded: a separate file's, or the model's own. 0 if it cannot be used.
pub(crate) fn tower_bytes(file: &ModelFile, projector: Option<&ModelFile>) -> u64 {
    let head = projector.unwrap_or(file).tower();
    head.and_then(|head| check(head, file.gguf()).ok()).unwrap_or(0)
}

/// Checks that the tower with this head can be loaded for a model with this translated head. Returns its memory.
fn check(head: &Gguf, model: &Gguf) -> Result<u64, LoadError> {
    let width = cairn_models::vision::input_width(model)?;
    let (hparams, bytes) = cairn_models::vision::check(head, width)?;
    check_rows(&hparams)?;
    Ok(bytes)
}

/// Checks that a step of the text model has room for the rows of a picture that attend to each other.
pub(crate) fn check_rows(tower: &TowerHparams) -> Result<(), LoadError> {
    let rows = tower.most_output_rows();
    if tower.prompt.is_causal || rows <= BATCH_ROWS {
        return Ok(());
    }
    Err(unsupported(format!(
        "a vision tower with {rows} rows for a picture, more than {BATCH_ROWS} that attend to each other"
    )))
}

/// Whether a file without a tower that the engine can compute has the tensors of another one.
fn has_other_tower(model: &Gguf) -> bool {
    model.tensors().iter().any(|tensor| tensor.name.starts_with("v."))
}

fn unsupported(what: String) -> LoadError {
    cairn_models::LoadError::Unsupported { what }.into()
}
