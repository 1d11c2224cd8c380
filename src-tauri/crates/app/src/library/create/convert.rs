//! Converts uploaded safetensors files to a GGUF file, quantised while it is written, and to one of the vision tower.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use cairn_convert::{CheckpointFile, Conversion, ConvertError, FileType, checkpoint};
use cairn_gguf::Gguf;
use cairn_store::{Layer, LayerKind, LibraryWriter, WriteError};

use super::base::Base;
use super::files::UploadedFile;
use super::steps::Steps;
use crate::library::catalog::PROJECTOR;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::head;
use crate::library::import::config;
use crate::library::template;

impl ModelLibrary {
    /// Returns the base for a published checkpoint: weights in safetensors files, and their descriptions. The weights get the
    /// types of `target`. The chat template must be usable unless `replaces_template`.
    pub(super) fn base_of_checkpoint(
        &self,
        sent: &[UploadedFile],
        target: FileType,
        replaces_template: bool,
        writer: &LibraryWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<Base, Error> {
        let files = open(sent)?;
        let plan = Conversion::new(&files, target)?;
        if let Some(warning) = plan.left_out() {
            steps.warning(warning.to_owned());
        }
        let (head, size_bytes) = plan.head()?;
        let gguf = Gguf::parse_header(&head, size_bytes).map_err(ConvertError::from)?;
        if !replaces_template {
            template::check_file(&gguf).map_err(Error::FileTemplate)?;
        }
        // Its head shows whether the engine can compute the tower. So the warning precedes the conversion of the model, which takes long.
        let tower = plan.tower().map(|tower| usable_tower(tower, &gguf, steps)).transpose()?.flatten();
        let status = format!("converting model to {target}");
        let layer = write(&plan, Path::new("model.safetensors"), &status, writer, steps)?;
        steps.status("verifying conversion".to_owned());
        let path = self.catalog.own_library().blob(&layer)?;
        let checked = self.engine.check(&path).map_err(Error::from).and_then(|()| head::read(&path));
        let head = checked.inspect_err(|_| writer.remove_unreferenced(&layer))?;
        let mut layers = vec![layer];
        if let Some(tower) = tower {
            let made = projector(tower, target, writer, steps);
            layers.push(made.inspect_err(|_| writer.remove_unreferenced(&layers[0]))?);
        }
        Ok(Base { config: config(&head.gguf).to_json(), layers: layers.clone(), made: layers, weights: Some(target) })
    }
}

/// Returns the conversion of the vision tower for the model with the head `model`. A tower that the engine cannot compute is left
/// out with a warning.
fn usable_tower<'t, 'f>(
    tower: &'t Conversion<'f>,
    model: &Gguf,
    steps: &mut Steps<'_>,
) -> Result<Option<&'t Conversion<'f>>, Error> {
    let (head, size_bytes) = tower.head()?;
    let head = Gguf::parse_header(&head, size_bytes).map_err(ConvertError::from)?;
    match cairn_runtime::check_vision(model, Some(&head)) {
        Ok(_) => Ok(Some(tower)),
        Err(error) => {
            steps.warning(checkpoint::text_only(&error.to_string()));
            Ok(None)
        }
    }
}

/// Writes the vision tower.
fn projector(
    tower: &Conversion<'_>,
    target: FileType,
    writer: &LibraryWriter<'_>,
    steps: &mut Steps<'_>,
) -> Result<Layer, Error> {
    let file_type = checkpoint::tower_type(target);
    let status = format!("converting vision tower to {file_type}");
    let layer = write(tower, Path::new("model.safetensors"), &status, writer, steps)?;
    Ok(Layer { kind: LayerKind::Other(PROJECTOR.to_owned()), ..layer })
}

/// Opens uploaded files for a conversion.
pub(super) fn open(sent: &[UploadedFile]) -> Result<Vec<CheckpointFile>, Error> {
    let open = |file: &UploadedFile| {
        let opened = File::open(&file.path)
            .map_err(|error| Error::File { path: file.name.clone().into(), reason: error.to_string() });
        Ok(CheckpointFile { name: file.name.clone(), file: opened? })
    };
    sent.iter().map(open).collect()
}

/// Writes the file of a conversion. `source` names its source in errors.
pub(super) fn write(
    plan: &Conversion<'_>,
    source: &Path,
    status: &str,
    writer: &LibraryWriter<'_>,
    steps: &mut Steps<'_>,
) -> Result<Layer, Error> {
    let (_, size_bytes) = plan.head()?;
    let should_continue = std::cell::Cell::new(steps.progress(status, 0, 0));
    let mut fill = |mut out: &mut dyn Write| {
        plan.write_to(&mut out, &mut |progress| {
            should_continue.set(steps.progress(status, progress.done_bytes, progress.total_bytes));
        })
    };
    let reason = "it is converted from safetensors files";
    let imported = writer.import_generated(source, size_bytes, reason, &mut fill, &mut |_| should_continue.get());
    Ok(imported.map_err(conversion_error)?.layer)
}

/// Returns the error of the checkpoint, if it is the reason of a failed write.
fn conversion_error(error: WriteError) -> Error {
    match error {
        WriteError::Source { path, source } => match source.downcast::<ConvertError>() {
            Ok(error) => error.into(),
            Err(source) => WriteError::Source { path, source }.into(),
        },
        error => error.into(),
    }
}
