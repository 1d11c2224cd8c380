//! Create: makes a model from another model or from uploaded files, with other texts, options or a quantization.
//! Unchanged weights are shared.
//!
//! Requests are checked before anything is written. If a later step fails, what was written is removed. Uploaded files
//! stay for the next attempt, until garbage collection.

mod adapter;
mod base;
mod convert;
mod files;
mod quantise;
mod steps;

use std::path::PathBuf;

use crate::values::{Options, excerpt};
use cairn_convert::FileType;
use cairn_disk::RealDisk;
use cairn_store::{Layer, LayerKind, Library, LibraryWriter, MAX_LAYERS, ModelRef, WriteError};
use serde_json::{Map, Value, json};

use crate::library::catalog::{ADAPTER, PROJECTOR, is_pebble};
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::head::Head;
use crate::library::{head, pebble, template};
use adapter::UploadedAdapter;
use base::Base;
use cairn_prompt::Message;
pub use steps::CreateStep;
pub(crate) use steps::Steps;

/// Maximum size of the name of a renderer or parser, and of a required version. The longest name of Ollama has 17 bytes.
const MAX_FIELD_BYTES: usize = 256;

/// Request to create a model. Fields that are `None` or empty keep the value of the base model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Create {
    /// Name of the new model. An existing model of that name is replaced.
    pub name: String,
    /// Base model, which is pulled if it is missing.
    pub from: String,
    /// Uploaded files: the client's names, and digests. Beside a base model, a vision tower or an adapter, which are added to it.
    pub files: Option<Vec<(String, String)>>,
    /// Adapters, as names and digests.
    pub adapters: Vec<(String, String)>,
    /// Target type of the weights, for example `Q4_K_M`.
    pub quantize: Option<String>,
    /// Digest of an importance matrix for the quantization.
    pub imatrix: Option<String>,
    /// A Go template.
    pub template: Option<String>,
    /// A system message.
    pub system: Option<String>,
    /// Licences, in addition to those of the base.
    pub licenses: Vec<String>,
    /// Options, which override those of the base.
    pub parameters: Option<Map<String, Value>>,
    /// Messages that precede every conversation.
    pub messages: Vec<Message>,
    /// Ollama's renderer, which replaces the template.
    pub renderer: Option<String>,
    /// Ollama's parser of answers.
    pub parser: Option<String>,
    /// Oldest version of Ollama that can run the model.
    pub requires: Option<String>,
    /// Whether the registry of the base may be used over plain HTTP.
    pub insecure: bool,
    /// The client is on another machine, so a pull of the base needs permission
    /// ([`crate::transfers::Transfers::allow_remote`]).
    pub beyond: bool,
}

/// A valid request.
pub(crate) struct Checked {
    name: ModelRef,
    quantize: Option<FileType>,
    /// Path of the importance matrix.
    imatrix: Option<PathBuf>,
    adapter: Option<UploadedAdapter>,
    /// Layers of files that are added to the base model.
    added: Vec<Layer>,
}

impl Create {
    /// Checks a request before anything is downloaded or written.
    ///
    /// # Errors
    /// If the request is invalid.
    pub(crate) fn check(&self, library: &ModelLibrary) -> Result<Checked, Error> {
        self.check_in(library.catalog.own_library())
    }

    /// Name of the base model, if any.
    pub(crate) fn base_model(&self) -> Option<&str> {
        Some(self.from.as_str()).filter(|from| !from.trim().is_empty())
    }
}

impl ModelLibrary {
    /// Creates a model. Removes what was written if a step fails.
    ///
    /// # Errors
    /// If the base is missing or damaged, or on a disk error.
    pub(crate) fn create(&self, create: &Create, checked: Checked, steps: &mut Steps<'_>) -> Result<(), Error> {
        let library = self.catalog.own_library();
        let reserve_bytes = self.settings.downloads.reserve_bytes();
        let writer = LibraryWriter::open(library, &RealDisk)?.with_reserve(reserve_bytes);
        let mut base = match (create.base_model(), &create.files) {
            (Some(from), _) => self.base_of_model(from, &writer, steps)?.with(&checked.added),
            (None, Some(files)) => {
                // With an importance matrix, the weights are quantized after the conversion.
                let direct = checked.quantize.filter(|_| checked.imatrix.is_none());
                let checkpoint_type = direct.unwrap_or(FileType::F16);
                self.base_of_files(files, non_empty(&create.template).is_some(), checkpoint_type, &writer, steps)?
            }
            (None, None) => return Err(Error::NoBase),
        };
        let made = self.finish(create, checked, &mut base, &writer, steps);
        // Removes intermediate layers; after a failure, all new layers.
        base.made.iter().for_each(|layer| writer.remove_unreferenced(layer));
        made
    }

    /// Checks that the adapter among the layers, if there is one, fits the weights.
    fn check_adapter(&self, layers: &[Layer]) -> Result<(), Error> {
        let library = self.catalog.own_library();
        let of_kind = |kind: LayerKind| layers.iter().find(|layer| layer.kind == kind);
        let (model, adapter) = (of_kind(LayerKind::Model), of_kind(LayerKind::Other(ADAPTER.to_owned())));
        let Some((model, adapter)) = model.zip(adapter) else { return Ok(()) };
        let (model, adapter) = (library.blob(model)?, library.blob(adapter)?);
        self.engine.check_adapter(&model, &adapter).map_err(Error::AdapterUnusable)
    }

    /// Checks the vision tower of the layers, if there is one. A tower that was sent must fit the model, and this version must be able to
    /// compute it. A base model with another tower is usable without it.
    fn check_tower(&self, layers: &[Layer], is_new: bool, steps: &mut Steps<'_>) -> Result<(), Error> {
        let library = self.catalog.own_library();
        let head = |kind: LayerKind| -> Result<Option<Head>, Error> {
            let layer = layers.iter().find(|layer| layer.kind == kind);
            layer.map(|layer| head::read(&library.blob(layer)?)).transpose()
        };
        let heads = head(LayerKind::Model).and_then(|model| Ok((model, head(LayerKind::Other(PROJECTOR.to_owned()))?)));
        let (model, tower) = match heads {
            Ok((Some(model), tower)) => (model, tower),
            Err(error) if is_new => return Err(error),
            // An unreadable base model fails when it is loaded, with its reason.
            Ok((None, _)) | Err(_) => return Ok(()),
        };
        match cairn_runtime::check_vision(&model.gguf, tower.as_ref().map(|tower| &tower.gguf)) {
            Ok(_) => Ok(()),
            Err(reason) if is_new && tower.is_some() => Err(Error::TowerUnusable(reason)),
            Err(reason) => {
                steps.warning(format!("the model cannot see images: {reason}"));
                Ok(())
            }
        }
    }

    fn finish(
        &self,
        create: &Create,
        checked: Checked,
        base: &mut Base,
        writer: &LibraryWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        let is_of_files = create.base_model().is_none();
        let has_new = |media_type: &str| is_of_files || checked.added.iter().any(|layer| is_kind(layer, media_type));
        self.check_tower(&base.layers, has_new(PROJECTOR), steps)?;
        let has_new_adapter = has_new(ADAPTER);
        if let Some(target) = checked.quantize.filter(|target| base.weights != Some(*target)) {
            self.quantise(base, target, checked.imatrix.as_deref(), writer, steps)?;
        }
        for layer in &base.layers {
            let new = base.made.iter().any(|made| made.digest == layer.digest);
            steps.status(format!("{} layer {}", if new { "creating new" } else { "using existing" }, layer.digest));
        }
        if let Some(adapter) = checked.adapter {
            let adapter = adapter.layer(self, base, writer, steps)?;
            let layers = &mut base.layers;
            layers.retain(|layer| layer.kind != adapter.kind);
            layers.push(adapter);
            self.check_adapter(layers)?;
        } else if has_new_adapter {
            self.check_adapter(&base.layers)?;
        }
        let layers = &mut base.layers;
        let old_params = layers.iter().find(|layer| layer.kind == LayerKind::Params).cloned();
        for (kind, text) in create.texts(self.catalog.own_library(), old_params.as_ref())? {
            if kind != LayerKind::License {
                layers.retain(|layer| layer.kind != kind);
            }
            let layer = writer.put(kind, text.as_bytes())?;
            steps.status(format!("creating new layer {}", layer.digest));
            layers.push(layer);
        }
        for (field, text) in create.config_fields() {
            base.set(field, text);
        }
        // Includes names that the new model inherits from its base.
        for problem in template::warnings(&base.field("renderer"), &base.field("parser")) {
            steps.warning(problem);
        }
        steps.status("writing manifest".to_owned());
        writer.save(&checked.name, &base.config, &base.layers, true)?;
        steps.status("success".to_owned());
        Ok(())
    }
}

fn is_kind(layer: &Layer, media_type: &str) -> bool {
    matches!(&layer.kind, LayerKind::Other(kind) if kind == media_type)
}

fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Create {
    /// Checks everything that can be checked without work.
    fn check_in(&self, library: &Library) -> Result<Checked, Error> {
        let name: ModelRef = self.name.parse()?;
        if is_pebble(&name) {
            return Err(Error::BuiltIn(pebble::NAME));
        }
        if self.from.trim().is_empty() && self.files.is_none() {
            return Err(Error::NoBase);
        }
        // Saving a model with too many layers fails, too. But by then, each of these layers would already be a file.
        let layers = self.licenses.len() + self.files.as_ref().map_or(0, Vec::len);
        if layers > MAX_LAYERS {
            return Err(WriteError::TooManyLayers { layers }.into());
        }
        if let Some((field, text)) = self.config_fields().find(|(_, text)| text.len() > MAX_FIELD_BYTES) {
            return Err(Error::LongField { field, size_bytes: text.len(), max_bytes: MAX_FIELD_BYTES });
        }
        let quantize = non_empty(&self.quantize).map(|name| excerpt(name).parse::<FileType>()).transpose()?;
        // A model with unreadable options or an unreadable template cannot be run.
        if let Some(template) = non_empty(&self.template) {
            let template = cairn_prompt::Template::go(template).map_err(Error::InvalidTemplate)?;
            template.check_renders().map_err(Error::InvalidTemplate)?;
        }
        Options::default().merge(self.parameters.as_ref().unwrap_or(&Map::new()))?;
        let imatrix = match non_empty(&self.imatrix) {
            Some(_) if quantize.is_none() => return Err(Error::ImatrixAlone),
            Some(digest) => Some(files::blob(digest, library)?),
            None => None,
        };
        let added = match (self.base_model(), &self.files) {
            (Some(from), Some(files)) => files::added(files, from, library)?,
            _ => Vec::new(),
        };
        let adapter = UploadedAdapter::of(&self.adapters, library)?;
        if adapter.is_some() && added.iter().any(|layer| is_kind(layer, ADAPTER)) {
            return Err(Error::ManyAdapters);
        }
        Ok(Checked { name, quantize, imatrix, adapter, added })
    }

    /// Returns the new fields of the model's config.
    fn config_fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let fields = [("renderer", &self.renderer), ("parser", &self.parser), ("requires", &self.requires)];
        fields.into_iter().filter_map(|(field, text)| Some((field, non_empty(text)?)))
    }

    /// Returns the new texts with their layer kinds.
    fn texts(&self, library: &Library, params: Option<&Layer>) -> Result<Vec<(LayerKind, String)>, Error> {
        let mut texts = Vec::new();
        texts.extend(non_empty(&self.template).map(|text| (LayerKind::Template, text.to_owned())));
        texts.extend(non_empty(&self.system).map(|text| (LayerKind::System, text.to_owned())));
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

/// Normalises options to Go's format: sorted, whole numbers without a point. So equal options have equal digests.
fn canonical(parameters: Map<String, Value>) -> Value {
    let number = |value: Value| match value.as_f64() {
        // Larger floats cannot represent all whole numbers.
        Some(float) if value.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => (float as i64).into(),
        _ => value,
    };
    let mut parameters: Vec<(String, Value)> = parameters.into_iter().map(|(name, v)| (name, number(v))).collect();
    parameters.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(parameters.into_iter().collect())
}

#[cfg(test)]
mod tests;
