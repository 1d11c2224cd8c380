//! The adapter of a new model: an uploaded GGUF file, or one that is converted from the files of a PEFT adapter.

use std::path::Path;

use cairn_convert::Conversion;
use cairn_store::{Layer, LayerKind, Library, LibraryWriter};

use super::base::Base;
use super::convert;
use super::files::{self, UploadedFile};
use super::steps::Steps;
use crate::library::catalog::ADAPTER;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::head;

/// An uploaded adapter.
pub(super) enum UploadedAdapter {
    /// A GGUF file.
    Gguf(Layer),
    /// Weights in a safetensors file and their description.
    Safetensors(Vec<UploadedFile>),
}

impl UploadedAdapter {
    /// Returns the uploaded adapter, if any.
    pub(super) fn of(adapters: &[(String, String)], library: &Library) -> Result<Option<Self>, Error> {
        let sent = files::sent(adapters, library)?;
        let weights = sent.iter().filter(|file| file.has_ending(".safetensors") || file.has_magic()).count();
        if weights > 1 {
            return Err(Error::ManyAdapters);
        }
        if sent.iter().any(|file| file.has_ending(".safetensors")) {
            return Ok(Some(UploadedAdapter::Safetensors(sent)));
        }
        match sent.as_slice() {
            [] => Ok(None),
            [adapter] if adapter.is_adapter()? => {
                Ok(Some(UploadedAdapter::Gguf(adapter.layer(LayerKind::Other(ADAPTER.to_owned())))))
            }
            [adapter] => Err(adapter.failed(Error::NoAdapter)),
            _ => Err(Error::ManyAdapters),
        }
    }

    /// Returns the adapter's layer for a model with the weights of `base`. Converts the adapter if necessary.
    pub(super) fn layer(
        self,
        library: &ModelLibrary,
        base: &mut Base,
        writer: &LibraryWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<Layer, Error> {
        let files = match self {
            UploadedAdapter::Gguf(layer) => {
                steps.status(format!("using existing layer {}", layer.digest));
                return Ok(layer);
            }
            UploadedAdapter::Safetensors(files) => files,
        };
        let weights = base.layers.iter().find(|layer| layer.kind == LayerKind::Model).ok_or(Error::NoFiles)?;
        let head = head::read(&library.catalog.own_library().blob(weights)?)?;
        let files = convert::open(&files)?;
        let plan = Conversion::of_adapter(&files, &head::as_loaded(&head.gguf))?;
        let made = convert::write(&plan, Path::new("adapter_model.safetensors"), "converting adapter", writer, steps)?;
        base.made.push(made.clone());
        steps.status(format!("creating new layer {}", made.digest));
        Ok(Layer { kind: LayerKind::Other(ADAPTER.to_owned()), ..made })
    }
}
