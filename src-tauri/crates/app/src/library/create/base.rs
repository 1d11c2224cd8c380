//! The base of a new model: its layers and config.

use cairn_convert::FileType;
use cairn_store::{ImportMethod, Layer, LayerKind, Library, LibraryError, LibraryWriter, StoredModel};
use serde_json::{Map, Value};

use super::steps::Steps;
use crate::library::catalog::Origin;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::import::config;
use crate::library::pebble;

/// Layers in Cairn's library, and a config.
pub(super) struct Base {
    /// JSON.
    pub(super) config: Vec<u8>,
    pub(super) layers: Vec<Layer>,
    /// Layers that were written for this model, including intermediate ones.
    pub(super) made: Vec<Layer>,
    /// Type that the weights were converted to for this model.
    pub(super) weights: Option<FileType>,
}

impl Base {
    /// Adds layers, in place of those of the same kind.
    pub(super) fn with(mut self, layers: &[Layer]) -> Self {
        self.layers.retain(|old| layers.iter().all(|new| new.kind != old.kind));
        self.layers.extend_from_slice(layers);
        self
    }

    /// Returns a text of the config; empty if there is none.
    pub(super) fn field(&self, field: &str) -> String {
        let fields: Map<String, Value> = serde_json::from_slice(&self.config).unwrap_or_default();
        fields.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Sets a field of the config. Other fields stay, including unknown ones.
    pub(super) fn set(&mut self, field: &str, text: &str) {
        let mut fields: Map<String, Value> = serde_json::from_slice(&self.config).unwrap_or_default();
        fields.insert(field.to_owned(), text.into());
        self.config = Value::Object(fields).to_string().into_bytes();
    }
}

impl ModelLibrary {
    /// Returns the base for the model `from`.
    pub(super) fn base_of_model(
        &self,
        from: &str,
        writer: &LibraryWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<Base, Error> {
        let name = self.catalog.name_of(from)?;
        let library = self.catalog.own_library();
        let (config, layers) = match self.catalog.origin(&name)? {
            None => return Err(Error::NotFound(from.to_owned())),
            Some(Origin::Opened) => return Err(Error::OutsideStore(name.to_string())),
            Some(Origin::BuiltIn) => {
                (config(&pebble::head().gguf).to_json(), vec![writer.put(LayerKind::Model, pebble::file())?])
            }
            Some(Origin::Stored(origin, stored)) => {
                (base_config(origin, &stored), base_layers(writer, library, origin, &stored, steps)?)
            }
        };
        Ok(Base { config, layers, made: Vec::new(), weights: None })
    }
}

/// Returns the base's config unchanged, including unknown fields.
fn base_config(origin: &Library, stored: &StoredModel) -> Vec<u8> {
    let text = stored.manifest.config.as_ref().and_then(|layer| origin.text(layer).ok());
    text.map_or_else(|| origin.config(&stored.manifest).to_json(), String::into_bytes)
}

/// Returns the base's layers in Cairn's library. Layers of another library are copied and verified, so that damage
/// does not spread.
fn base_layers(
    writer: &LibraryWriter<'_>,
    library: &Library,
    origin: &Library,
    stored: &StoredModel,
    steps: &mut Steps<'_>,
) -> Result<Vec<Layer>, Error> {
    for layer in &stored.manifest.layers {
        if library.blob(layer).is_err() {
            let root = origin.root().display();
            let status = format!("copying layer {} from {root}", layer.digest);
            steps.status(status.clone());
            let mut watch =
                |progress: cairn_store::Progress| steps.progress(&status, progress.done_bytes, progress.total_bytes);
            let imported = writer.import_file(&origin.blob(layer)?, false, &mut watch)?;
            if imported.layer.digest != layer.digest {
                if imported.method != ImportMethod::Present {
                    writer.remove_unreferenced(&imported.layer);
                }
                let reason = format!("of {root} is damaged: its digest is {}", imported.layer.digest);
                return Err(LibraryError::Blob { digest: layer.digest, reason }.into());
            }
        }
    }
    Ok(stored.manifest.layers.clone())
}
