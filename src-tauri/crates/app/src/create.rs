//! Create: a model that is another one with a different system message, other options or messages. The weights are shared.

use cairn_disk::RealDisk;
use cairn_store::{Layer, LayerKind, Library, LibraryWriter, ModelRef, StoredModel};
use cairn_wire::Options;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::catalog::{Origin, is_pebble};
use crate::import::config;
use crate::summary::Details;
use crate::{App, Error, Message, pebble};

/// Reports that may wait for a slow reader before the work waits too.
const WAITING_EVENTS: usize = 16;

/// A model that is to be made of another. What is `None` or empty stays as it is there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Create {
    /// What it is to be called; a model of that name gives way.
    pub name: String,
    /// The model that it is made of.
    pub from: String,
    /// A Go template.
    pub template: Option<String>,
    /// A system message.
    pub system: Option<String>,
    /// Licences, added to those that are there.
    pub licenses: Vec<String>,
    /// Options, over those that are there.
    pub parameters: Option<Map<String, Value>>,
    /// Messages that precede every conversation.
    pub messages: Vec<Message>,
}

/// What becomes of it.
#[derive(Debug)]
pub enum CreateEvent {
    /// A step, in Ollama's words.
    Status(String),
    /// The end: nothing has changed.
    Failed(Error),
}

impl App {
    /// Makes a model on a thread of its own; the last status is `success`. Must be called inside a tokio runtime.
    #[must_use]
    pub fn create(&self, create: Create) -> mpsc::Receiver<CreateEvent> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let app = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut tell = |status: String| {
                // The work is short, and done whether or not somebody listens.
                let _ = sender.blocking_send(CreateEvent::Status(status));
            };
            if let Err(error) = app.create_now(&create, &mut tell) {
                let _ = sender.blocking_send(CreateEvent::Failed(error));
            }
        });
        receiver
    }

    fn create_now(&self, create: &Create, tell: &mut dyn FnMut(String)) -> Result<(), Error> {
        let name: ModelRef = create.name.parse()?;
        if is_pebble(&name) {
            return Err(Error::BuiltIn(pebble::NAME));
        }
        if create.from.trim().is_empty() {
            return Err(Error::NoBase);
        }
        // A model whose options or template cannot be read would be of no use to anybody.
        if let Some(template) = create.template.as_deref().filter(|text| !text.is_empty()) {
            cairn_prompt::Template::go(template).map_err(Error::InvalidTemplate)?;
        }
        Options::default().merge(create.parameters.as_ref().unwrap_or(&Map::new()))?;
        let base: ModelRef = create.from.parse()?;
        let library = self.catalog.own_library();
        let writer = LibraryWriter::open(library, &RealDisk)?;
        let (config, mut layers) = match self.catalog.origin(&base)? {
            None => return Err(Error::NotFound(create.from.clone())),
            Some(Origin::Opened) => return Err(Error::OutsideStore(base.to_string())),
            Some(Origin::BuiltIn) => {
                let details = Details::of_file(&pebble::head().gguf);
                (config(details).to_json(), vec![writer.put(LayerKind::Model, pebble::file())?])
            }
            Some(Origin::Stored(origin, stored)) => {
                (base_config(origin, &stored), base_layers(&writer, library, origin, &stored, tell)?)
            }
        };
        for layer in &layers {
            tell(format!("using existing layer {}", layer.digest));
        }
        let old_params = layers.iter().find(|layer| layer.kind == LayerKind::Params).cloned();
        for (kind, text) in create.texts(library, old_params.as_ref())? {
            if kind != LayerKind::License {
                layers.retain(|layer| layer.kind != kind);
            }
            let layer = writer.put(kind, text.as_bytes())?;
            tell(format!("creating new layer {}", layer.digest));
            layers.push(layer);
        }
        tell("writing manifest".to_owned());
        writer.save(&name, &config, &layers, true)?;
        tell("success".to_owned());
        Ok(())
    }
}

impl Create {
    /// The texts that are new, each with what it is for.
    fn texts(&self, library: &Library, params: Option<&Layer>) -> Result<Vec<(LayerKind, String)>, Error> {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let mut texts = Vec::new();
        texts.extend(some(&self.template).map(|text| (LayerKind::Template, text)));
        texts.extend(some(&self.system).map(|text| (LayerKind::System, text)));
        texts.extend(self.licenses.iter().map(|text| (LayerKind::License, text.clone())));
        if let Some(parameters) = self.parameters.as_ref().filter(|parameters| !parameters.is_empty()) {
            let before = params.map(|layer| library.text(layer)).transpose()?.unwrap_or_default();
            let mut merged: Map<String, Value> = serde_json::from_str(&before).unwrap_or_default();
            merged.extend(parameters.clone());
            texts.push((LayerKind::Params, Value::Object(merged).to_string()));
        }
        if !self.messages.is_empty() {
            let message = |m: &Message| json!({"role": m.role, "content": m.content});
            texts.push((LayerKind::Messages, Value::Array(self.messages.iter().map(message).collect()).to_string()));
        }
        Ok(texts)
    }
}

/// The base's config as it is, with the fields that only others know.
fn base_config(origin: &Library, stored: &StoredModel) -> Vec<u8> {
    let text = stored.manifest.config.as_ref().and_then(|layer| origin.text(layer).ok());
    text.map_or_else(|| origin.config(&stored.manifest).to_json(), String::into_bytes)
}

/// The base's contents, in our own library.
fn base_layers(
    writer: &LibraryWriter<'_>,
    library: &Library,
    origin: &Library,
    stored: &StoredModel,
    tell: &mut dyn FnMut(String),
) -> Result<Vec<Layer>, Error> {
    for layer in &stored.manifest.layers {
        if library.blob(layer).is_err() {
            tell(format!("copying layer {} from {}", layer.digest, origin.root().display()));
            writer.bring(&origin.blob(layer)?, false, &mut |_| true)?;
        }
    }
    Ok(stored.manifest.layers.clone())
}

#[cfg(test)]
mod tests;
