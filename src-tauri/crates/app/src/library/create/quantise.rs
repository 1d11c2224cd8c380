//! Quantizes the weights of a model.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cairn_convert::importance::MAX_FILE_BYTES;
use cairn_convert::{FileType, Importance, Quantisation, QuantiseError};
use cairn_store::{LayerKind, LibraryWriter};

use super::base::Base;
use super::steps::Steps;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::head;
use crate::library::summary::Details;

impl ModelLibrary {
    /// Quantizes the base's weights to a new file, with errors weighted by an importance matrix if there is one.
    pub(super) fn quantise(
        &self,
        base: &mut Base,
        target: FileType,
        imatrix: Option<&Path>,
        writer: &LibraryWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        let library = self.catalog.own_library();
        let layer = base.layers.iter_mut().find(|layer| layer.kind == LayerKind::Model).ok_or(Error::NoFiles)?;
        let path = library.blob(layer)?;
        let head = head::read(&path)?;
        let importance = imatrix.map(importance).transpose()?;
        let plan = Quantisation::with_importance(&head.gguf, target, importance.as_ref())?;
        let (_, size_bytes) = plan.head()?;
        let file = File::open(&path).map_err(|error| Error::File { path: path.clone(), reason: error.to_string() })?;
        let parts = [file];
        let status = format!("quantizing {} model to {target}", Details::of_file(&head.gguf).quantization);
        let should_continue = std::cell::Cell::new(steps.progress(&status, 0, head.file_bytes));
        let mut fill = |mut out: &mut dyn std::io::Write| {
            plan.write_to(&parts, &mut out, &mut |progress| {
                should_continue.set(steps.progress(&status, progress.done_bytes, progress.total_bytes));
            })
        };
        let made = writer
            .import_generated(&path, size_bytes, "its weights are quantized", &mut fill, &mut |_| {
                should_continue.get()
            })?
            .layer;
        *layer = made.clone();
        base.made.push(made.clone());
        steps.status("verifying conversion".to_owned());
        let path = library.blob(&made)?;
        self.engine.check(&path)?;
        base.set("file_type", &Details::of_file(&head::read(&path)?.gguf).quantization);
        Ok(())
    }
}

/// Reads an importance matrix.
fn importance(path: &Path) -> Result<Importance, Error> {
    let failed = |reason: String| Error::File { path: path.to_path_buf(), reason };
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(failed(format!("an importance matrix has at most {} GiB", MAX_FILE_BYTES >> 30)));
    }
    Ok(Importance::parse(&bytes).map_err(QuantiseError::from)?)
}
