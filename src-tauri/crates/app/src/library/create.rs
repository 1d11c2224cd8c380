//! Create: a model of another one or of files that were sent, with other words, options or smaller weights. Weights that stay
//! as they are, are shared.
//!
//! What is wrong with a request is found before anything is written. If a later step fails, what was written is removed; files
//! that were sent stay for the next try, until garbage is collected.

mod base;
mod files;
mod quantise;
mod steps;

use cairn_convert::FileType;
use cairn_disk::RealDisk;
use cairn_store::{Layer, LayerKind, Library, LibraryWriter, ModelRef};
use cairn_wire::Options;
use serde_json::{Map, Value, json};

use crate::library::catalog::is_pebble;
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::pebble;
use base::Base;
use cairn_prompt::Message;
pub(crate) use files::{ADAPTER, PROJECTOR};
pub use steps::CreateStep;
pub(crate) use steps::Steps;

/// A model that is to be made. What is `None` or empty stays as it is in the model that it is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Create {
    /// The new model's name; an existing model of that name is replaced.
    pub name: String,
    /// The model that it is made of, which is pulled where it is not here; files count only where this is empty.
    pub from: String,
    /// The files that it is made of: names, as their sender calls them, and digests of contents that were sent.
    pub files: Option<Vec<(String, String)>>,
    /// Changes to the weights, as names and digests.
    pub adapters: Vec<(String, String)>,
    /// What weights are to be quantised to, `Q4_K_M` for instance.
    pub quantize: Option<String>,
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
    /// What Ollama is to make prompts with in a template's place.
    pub renderer: Option<String>,
    /// What Ollama is to read answers with.
    pub parser: Option<String>,
    /// The oldest version of Ollama that can run it.
    pub requires: Option<String>,
    /// Whether the registry of the model that it is made of may be asked over plain http.
    pub insecure: bool,
    /// Another machine asks, and what has to be fetched is held to what that may have ([`crate::transfers::Transfers::allow_remote`]).
    pub beyond: bool,
}

/// A request whose every part makes sense.
pub(crate) struct Checked {
    name: ModelRef,
    quantize: Option<FileType>,
    adapter: Option<Layer>,
}

impl Create {
    /// Checks a request, before anything is fetched or written.
    ///
    /// # Errors
    /// What is wrong with the request.
    pub(crate) fn check(&self, library: &ModelLibrary) -> Result<Checked, Error> {
        self.check_in(library.catalog.own_library())
    }

    /// The model that this one is made of, if it is made of one.
    pub(crate) fn base_model(&self) -> Option<&str> {
        Some(self.from.as_str()).filter(|from| !from.trim().is_empty())
    }
}

impl ModelLibrary {
    /// Makes a model. What was written is removed if a later step fails.
    ///
    /// # Errors
    /// When the base is missing or damaged, or the disk refuses.
    pub(crate) fn create(&self, create: &Create, checked: Checked, steps: &mut Steps<'_>) -> Result<(), Error> {
        let library = self.catalog.own_library();
        let reserve_bytes = self.settings.downloads.reserve_bytes();
        let writer = LibraryWriter::open(library, &RealDisk)?.with_reserve(reserve_bytes);
        let mut base = match (create.base_model(), &create.files) {
            (Some(from), _) => self.base_of_model(from, &writer, steps)?,
            (None, Some(files)) => self.base_of_files(files, &writer, steps)?,
            (None, None) => return Err(Error::NoBase),
        };
        let made = self.finish(create, checked, &mut base, &writer, steps);
        // Layers that were only intermediate, and all new layers if a step failed.
        base.made.iter().for_each(|layer| writer.remove_unreferenced(layer));
        made
    }

    fn finish(
        &self,
        create: &Create,
        checked: Checked,
        base: &mut Base,
        writer: &LibraryWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        if let Some(target) = checked.quantize {
            self.quantise(base, target, writer, steps)?;
        }
        for layer in &base.layers {
            let new = base.made.iter().any(|made| made.digest == layer.digest);
            steps.status(format!("{} layer {}", if new { "creating new" } else { "using existing" }, layer.digest));
        }
        let layers = &mut base.layers;
        if let Some(adapter) = checked.adapter {
            steps.status(format!("using existing layer {}", adapter.digest));
            layers.retain(|layer| layer.kind != adapter.kind);
            layers.push(adapter);
        }
        let old_params = layers.iter().find(|layer| layer.kind == LayerKind::Params).cloned();
        for (kind, text) in create.texts(self.catalog.own_library(), old_params.as_ref())? {
            if kind != LayerKind::License {
                layers.retain(|layer| layer.kind != kind);
            }
            let layer = writer.put(kind, text.as_bytes())?;
            steps.status(format!("creating new layer {}", layer.digest));
            layers.push(layer);
        }
        let told = [("renderer", &create.renderer), ("parser", &create.parser), ("requires", &create.requires)];
        for (field, text) in told {
            if let Some(text) = some(text) {
                base.set(field, text);
            }
        }
        steps.status("writing manifest".to_owned());
        writer.save(&checked.name, &base.config, &base.layers, true)?;
        steps.status("success".to_owned());
        Ok(())
    }
}

fn some(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Create {
    /// Refuses what could only fail later, before any work is done.
    fn check_in(&self, library: &Library) -> Result<Checked, Error> {
        let name: ModelRef = self.name.parse()?;
        if is_pebble(&name) {
            return Err(Error::BuiltIn(pebble::NAME));
        }
        if self.from.trim().is_empty() && self.files.is_none() {
            return Err(Error::NoBase);
        }
        let quantize = some(&self.quantize).map(str::parse).transpose()?;
        // A model with unreadable options or an unreadable template cannot be run.
        if let Some(template) = some(&self.template) {
            cairn_prompt::Template::go(template).map_err(Error::InvalidTemplate)?;
        }
        Options::default().merge(self.parameters.as_ref().unwrap_or(&Map::new()))?;
        Ok(Checked { name, quantize, adapter: files::adapter(&self.adapters, library)? })
    }

    /// The texts that are new, each with what it is for.
    fn texts(&self, library: &Library, params: Option<&Layer>) -> Result<Vec<(LayerKind, String)>, Error> {
        let mut texts = Vec::new();
        texts.extend(some(&self.template).map(|text| (LayerKind::Template, text.to_owned())));
        texts.extend(some(&self.system).map(|text| (LayerKind::System, text.to_owned())));
        texts.extend(self.licenses.iter().map(|text| (LayerKind::License, text.clone())));
        if let Some(parameters) = self.parameters.as_ref().filter(|parameters| !parameters.is_empty()) {
            let before = params.map(|layer| library.text(layer)).transpose()?.unwrap_or_default();
            let mut merged: Map<String, Value> = serde_json::from_str(&before).unwrap_or_default();
            merged.extend(parameters.clone());
            texts.push((LayerKind::Params, canonical(merged).to_string()));
        }
        if !self.messages.is_empty() {
            let message = |m: &Message| match &m.thinking {
                None => json!({"role": m.role, "content": m.content}),
                Some(thinking) => json!({"role": m.role, "content": m.content, "thinking": thinking}),
            };
            texts.push((LayerKind::Messages, Value::Array(self.messages.iter().map(message).collect()).to_string()));
        }
        Ok(texts)
    }
}

/// Options as Go writes them, independent of the request's order and spelling: sorted, whole numbers without a point.
/// Equal options are equal contents then.
fn canonical(parameters: Map<String, Value>) -> Value {
    let number = |value: Value| match value.as_f64() {
        // Beyond that, a float does not tell whole numbers apart.
        Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => (float as i64).into(),
        _ => value,
    };
    let mut parameters: Vec<(String, Value)> = parameters.into_iter().map(|(name, v)| (name, number(v))).collect();
    parameters.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(parameters.into_iter().collect())
}

#[cfg(test)]
mod tests;
