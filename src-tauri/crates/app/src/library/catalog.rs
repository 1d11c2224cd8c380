//! The catalog: resolves names to models and their files.
//!
//! The sources are, in order: the built-in model, files that a client opened, libraries on disk. Case does not matter
//! in names.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cairn_prompt::{Capabilities, Message};
use cairn_runtime::{AdapterSource, Source};
use cairn_store::{
    Digest, LayerKind, Libraries, Library, LibraryError, LibraryState, ModelRef, NameError, StoredModel,
};
use serde_json::{Map, Value};

use crate::library::error::Error;
use crate::library::file_digests::FileDigests;
use crate::library::summary::{Details, Summary, capabilities, stored_capabilities};
use crate::library::{head, pebble};
use crate::settings::Settings;

/// Media type of adapters.
pub(crate) const ADAPTER: &str = "application/vnd.ollama.image.adapter";
/// Media type of projectors, which encode images for a model.
pub(crate) const PROJECTOR: &str = "application/vnd.ollama.image.projector";
/// Namespace of opened files. Libraries are not searched for such a name while a file has it.
const OPENED_NAMESPACE: &str = "file";

/// All models of this daemon.
pub(crate) struct Catalog {
    libraries: Libraries,
    hide_pebble: bool,
    pebble: Summary,
    /// SHA-256 of the built-in model's file.
    pebble_weights: [u8; 32],
    opened: Mutex<HashMap<ModelRef, PathBuf>>,
    /// Digests of opened files.
    file_digests: FileDigests,
    /// Summaries of requested models by engine key, for `ps`.
    by_key: Mutex<HashMap<String, Summary>>,
}

/// An opened file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Name of the file until the daemon stops.
    pub name: String,
    /// Whether the file has a chat template.
    pub has_chat_template: bool,
}

/// Origin of a model.
pub(crate) enum Origin<'a> {
    /// The built-in model.
    BuiltIn,
    /// A file that a client opened.
    Opened,
    /// A model in a library.
    Stored(&'a Library, Box<StoredModel>),
}

/// A resolved model.
pub(crate) struct Model {
    pub(crate) summary: Summary,
    /// Engine key: equal keys mean equal files.
    pub(crate) key: String,
    pub(crate) source: Source,
    /// SHA-256 of the weights, if it is available.
    pub(crate) weights: Option<[u8; 32]>,
    /// Options that the model's publisher set.
    pub(crate) params: Map<String, Value>,
    pub(crate) system: Option<String>,
    pub(crate) licenses: Vec<String>,
    /// Adapters.
    pub(crate) adapters: Vec<AdapterSource>,
    /// Projectors, which encode images for the model.
    pub(crate) projectors: Vec<PathBuf>,
    /// SHA-256 of the first projector, if it is available.
    pub(crate) projector_weights: Option<[u8; 32]>,
    /// Oldest version of Ollama that can run the model; empty for any.
    pub(crate) requires: String,
    /// Messages that precede every conversation.
    pub(crate) messages: Vec<Message>,
    /// A Go template from the library. The file's own template is inside the file.
    pub(crate) template: Option<String>,
    /// Ollama's renderer, which replaces the template; empty for none.
    pub(crate) renderer: String,
    /// Ollama's parser of answers; empty for none.
    pub(crate) parser: String,
}

impl Model {
    /// Returns the name with its registry, as errors of Ollama show it.
    pub(crate) fn full_name(&self) -> String {
        self.summary.name.parse().map_or_else(|_| self.summary.name.clone(), |name: ModelRef| name.full())
    }
}

impl Catalog {
    pub(crate) fn new(settings: &Settings, started_at: SystemTime) -> Self {
        let head = pebble::head();
        let pebble_digest = Digest::of(pebble::file());
        let pebble = Summary {
            name: pebble::NAME.to_owned(),
            digest: pebble_digest.hex(),
            size_bytes: head.file_bytes,
            modified_at: started_at,
            details: Details::of_file(&head.gguf),
            capabilities: file_capabilities(&head.gguf),
            origin: Some("built in"),
        };
        Self {
            libraries: Libraries::new(
                settings.library.clone(),
                settings.models.linked.clone(),
                settings.ollama_library.clone(),
            ),
            hide_pebble: settings.models.hide_pebble,
            pebble,
            pebble_weights: *pebble_digest.as_bytes(),
            file_digests: FileDigests::new(settings.tiers.digests_file.clone()),
            opened: Mutex::default(),
            by_key: Mutex::default(),
        }
    }

    /// Lists all models, newest first; the built-in model is last. Missing or unreadable libraries are left out: see
    /// [`ModelLibrary::libraries`](crate::library::ModelLibrary::libraries). Fails if no library can be read, because
    /// the list would be misleading.
    pub(crate) fn list(&self) -> Result<Vec<Summary>, Error> {
        let mut models: Vec<Summary> = Vec::new();
        let mut names: HashSet<ModelRef> = HashSet::new();
        let snapshots = self.libraries.snapshots();
        let unread = snapshots.iter().find_map(|snapshot| match &snapshot.state {
            LibraryState::Unreadable(reason) => Some((snapshot.library.root(), reason)),
            _ => None,
        });
        if let Some((root, reason)) = unread {
            tracing::warn!(library = %root.display(), reason, "cannot read the library; leaving it out of the list");
            if !snapshots.iter().any(|snapshot| snapshot.state == LibraryState::Present) {
                let source = std::io::Error::other(reason.clone());
                return Err(LibraryError::Io { path: root.to_owned(), source }.into());
            }
        }
        for snapshot in snapshots {
            for skipped in snapshot.listing.skipped {
                tracing::warn!(path = %skipped.path.display(), reason = skipped.reason, "leaving the model out of the list");
            }
            for model in snapshot.listing.models {
                if names.insert(model.name.clone()) {
                    models.push(stored_summary(snapshot.library, &model));
                }
            }
        }
        models.sort_by(|a, b| b.modified_at.cmp(&a.modified_at).then_with(|| a.name.cmp(&b.name)));
        models.retain(|model| !model.name.eq_ignore_ascii_case(pebble::NAME));
        if !self.hide_pebble {
            models.push(self.pebble.clone());
        }
        Ok(models)
    }

    /// Finds the model that a client calls `text`.
    pub(crate) fn find(&self, text: &str) -> Result<Model, Error> {
        let model = self.look_up(&self.name_of(text)?)?.ok_or_else(|| Error::NotFound(text.to_owned()))?;
        self.by_key.lock().insert(model.key.clone(), model.summary.clone());
        Ok(model)
    }

    /// Returns the name of the model that a client calls `text`. The mark `:local` is not part of it, unless a model
    /// has this tag.
    pub(crate) fn name_of(&self, text: &str) -> Result<ModelRef, NameError> {
        let name = text.parse::<ModelRef>();
        let Some(local) = local_name(text) else { return name };
        match name {
            Ok(name) if !matches!(self.origin(&name), Ok(None)) => Ok(name),
            _ => local.parse(),
        }
    }

    fn look_up(&self, name: &ModelRef) -> Result<Option<Model>, Error> {
        if is_pebble(name) {
            let model = Model::bare(self.pebble.clone(), self.pebble.digest.clone(), pebble::source());
            return Ok(Some(Model { weights: Some(self.pebble_weights), ..model }));
        }
        let opened = self.opened.lock().get(name).cloned();
        if let Some(path) = opened {
            return self.opened_model(name, path).map(Some);
        }
        let found = self.libraries.find(name)?;
        found.map(|(library, stored)| stored_model(library, &stored)).transpose()
    }

    fn opened_model(&self, name: &ModelRef, path: PathBuf) -> Result<Model, Error> {
        let io = |error: std::io::Error| Error::File { path: path.clone(), reason: error.to_string() };
        let modified_at = std::fs::metadata(&path).and_then(|found| found.modified()).map_err(io)?;
        let head = head::read(&path)?;
        // A digest of a large file would take seconds, so the time and the size identify the contents.
        let identity = format!("{}\n{}\n{modified_at:?}", path.display(), head.file_bytes);
        let digest = Digest::of(identity.as_bytes()).hex();
        let summary = Summary {
            name: name.to_string(),
            digest: digest.clone(),
            size_bytes: head.file_bytes,
            modified_at,
            details: Details::of_file(&head.gguf),
            capabilities: file_capabilities(&head.gguf),
            origin: Some("file"),
        };
        let weights = self.file_digests.weights(&head.paths);
        Ok(Model { weights, ..Model::bare(summary, digest, Source::File(path)) })
    }

    /// All libraries.
    pub(crate) fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// Returns Cairn's own library.
    pub(crate) fn own_library(&self) -> &Library {
        self.libraries.own()
    }

    /// Returns the origin of a model; `None` if it does not exist.
    pub(crate) fn origin(&self, name: &ModelRef) -> Result<Option<Origin<'_>>, Error> {
        if is_pebble(name) {
            return Ok(Some(Origin::BuiltIn));
        }
        if self.opened.lock().contains_key(name) {
            return Ok(Some(Origin::Opened));
        }
        let found = self.libraries.find(name)?;
        Ok(found.map(|(library, stored)| Origin::Stored(library, Box::new(stored))))
    }

    /// Finds a model in another library. Returns its stored name and the library's root.
    pub(crate) fn elsewhere(&self, name: &ModelRef) -> Result<Option<(ModelRef, PathBuf)>, Error> {
        let found = self.libraries.find_elsewhere(name)?;
        Ok(found.map(|(library, stored)| (stored.name, library.root().to_owned())))
    }

    /// Returns the summary of the model that last used an engine key.
    pub(crate) fn by_engine_key(&self, key: &str) -> Option<Summary> {
        self.by_key.lock().get(key).cloned()
    }

    /// Makes a file available under a name.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened, Error> {
        let failed = |reason: String| Error::File { path: path.to_owned(), reason };
        let file = path.canonicalize().map_err(|error| failed(error.to_string()))?;
        let head = head::read(path)?;
        let name = opened_name(path, &file);
        let opened = Opened { name: name.to_string(), has_chat_template: has_chat_template(&head.gguf) };
        // The given path is stored: the name of a link says more than its target's, and parts of a split model are
        // next to it.
        self.opened.lock().insert(name, path.to_owned());
        Ok(opened)
    }
}

/// Returns a name without Ollama's mark for a model of this machine, `:local`; `None` if it has no mark.
#[must_use]
pub fn local_name(text: &str) -> Option<&str> {
    let (name, mark) = text.trim().rsplit_once(':')?;
    mark.eq_ignore_ascii_case("local").then_some(name)
}

/// Whether this is the name of the built-in model.
pub(crate) fn is_pebble(name: &ModelRef) -> bool {
    pebble::NAME.parse::<ModelRef>().is_ok_and(|pebble| pebble == *name)
}

/// Whether a file has a chat template.
pub(crate) fn has_chat_template(gguf: &cairn_gguf::Gguf) -> bool {
    !head::chat_template(head::as_loaded(gguf).metadata()).is_empty()
}

fn file_capabilities(gguf: &cairn_gguf::Gguf) -> Vec<String> {
    let loaded = head::as_loaded(gguf);
    let metadata = loaded.metadata();
    capabilities(metadata, Capabilities::of_jinja(head::chat_template(metadata)))
}

impl Model {
    /// Creates a model of one file.
    fn bare(summary: Summary, key: String, source: Source) -> Self {
        Self {
            summary,
            key,
            source,
            weights: None,
            params: Map::new(),
            system: None,
            licenses: Vec::new(),
            adapters: Vec::new(),
            projectors: Vec::new(),
            projector_weights: None,
            requires: String::new(),
            messages: Vec::new(),
            template: None,
            renderer: String::new(),
            parser: String::new(),
        }
    }
}

/// Returns the name of an opened file: the file name with invalid characters replaced, and the beginning of the digest
/// of its canonical path, because two folders may have files of the same name.
fn opened_name(path: &Path, file: &Path) -> ModelRef {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let spelled: String = stem.chars().map(allowed).take(80).collect();
    let spelled = spelled.trim_start_matches(['-', '.']);
    let model = if spelled.is_empty() { "model" } else { spelled };
    let digest = Digest::of(file.as_os_str().as_encoded_bytes()).hex();
    let tag = &digest[..8];
    format!("{OPENED_NAMESPACE}/{model}:{tag}").parse().expect("every character was chosen to be allowed")
}

fn stored_summary(library: &Library, model: &StoredModel) -> Summary {
    let config = library.config(&model.manifest);
    Summary {
        name: model.name.to_string(),
        digest: model.manifest.digest.hex(),
        size_bytes: model.manifest.size_bytes(),
        modified_at: model.modified_at,
        details: Details::of_config(&config),
        capabilities: stored_capabilities(&config),
        origin: None,
    }
}

fn stored_model(library: &Library, stored: &StoredModel) -> Result<Model, Error> {
    let mut summary = stored_summary(library, stored);
    let config = library.config(&stored.manifest);
    let layer = stored.manifest.layer(&LayerKind::Model).ok_or_else(|| Error::NoFile(summary.name.clone()))?;
    let path = library.blob(layer)?;
    // If the manifest has no config, the file has the details. An unreadable file fails later, with its reason.
    if summary.details.format.is_empty()
        && let Ok(head) = head::read(&path)
    {
        summary.details = Details::of_file(&head.gguf);
    }
    let source = Source::File(path);
    let text = |kind: LayerKind| library.joined_texts(&stored.manifest, &kind);
    let of_kind = |kind: LayerKind| stored.manifest.layers.iter().filter(move |layer| layer.kind == kind);
    let paths = |media_type: &str| -> Result<Vec<PathBuf>, LibraryError> {
        of_kind(LayerKind::Other(media_type.to_owned())).map(|layer| library.blob(layer)).collect()
    };
    let params = match text(LayerKind::Params)? {
        Some(json) => serde_json::from_str(&json).unwrap_or_else(|error| {
            tracing::warn!(model = summary.name, %error, "cannot read the model's parameters; ignoring them");
            Map::new()
        }),
        None => Map::new(),
    };
    let adapters: Vec<AdapterSource> = of_kind(LayerKind::Other(ADAPTER.to_owned()))
        .map(|layer| Ok(AdapterSource { path: library.blob(layer)?, digest: Some(*layer.digest.as_bytes()) }))
        .collect::<Result<_, LibraryError>>()?;
    let projector = of_kind(LayerKind::Other(PROJECTOR.to_owned())).next();
    // Models with other adapters or another projector share the file, but not the loaded model.
    let key = of_kind(LayerKind::Other(ADAPTER.to_owned()))
        .chain(projector)
        .fold(layer.digest.hex(), |key, other| format!("{key}+{}", other.digest.hex()));
    Ok(Model {
        key,
        source,
        weights: Some(*layer.digest.as_bytes()),
        params,
        system: text(LayerKind::System)?.filter(|text| !text.is_empty()),
        licenses: library.texts(&stored.manifest, &LayerKind::License)?,
        adapters,
        projectors: paths(PROJECTOR)?,
        projector_weights: projector.map(|layer| *layer.digest.as_bytes()),
        requires: config.requires,
        messages: text(LayerKind::Messages)?.map(|json| preceding(&summary.name, &json)).unwrap_or_default(),
        template: text(LayerKind::Template)?.filter(|text| !text.is_empty()),
        renderer: config.renderer,
        parser: config.parser,
        summary,
    })
}

/// Parses the messages of a layer.
fn preceding(model: &str, json: &str) -> Vec<Message> {
    let read: Vec<crate::values::OllamaMessage> = serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::warn!(model, %error, "cannot read the model's messages; ignoring them");
        Vec::new()
    });
    read.into_iter().map(|message| Message::new(message.role, message.content)).collect()
}

#[cfg(test)]
mod tests;
