//! Which models there are, and where their files lie.
//!
//! Three sources, asked in this order: the built-in model, files that a client opened, libraries on disk. Names are
//! compared without regard to case.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cairn_prompt::Message;
use cairn_runtime::Source;
use cairn_store::{Digest, LayerKind, Libraries, Library, LibraryError, LibraryState, ModelRef, StoredModel};
use serde_json::{Map, Value};

use crate::library::create::{ADAPTER, PROJECTOR};
use crate::library::error::Error;
use crate::library::outside::Outside;
use crate::library::summary::{Details, Summary, capabilities, supported};
use crate::library::template::of_file;
use crate::library::{head, pebble};
use crate::settings::Settings;

/// The namespace of opened files' names. No library is asked for it while a file has the name.
const OPENED_NAMESPACE: &str = "file";

/// All models that this daemon knows.
pub(crate) struct Catalog {
    libraries: Libraries,
    hide_pebble: bool,
    pebble: Summary,
    /// SHA-256 of its file.
    pebble_weights: [u8; 32],
    opened: Mutex<HashMap<ModelRef, PathBuf>>,
    /// What opened files' contents are.
    outside: Outside,
    /// Of models that were asked for: what to call the engine's keys in `ps`.
    known: Mutex<HashMap<String, Summary>>,
}

/// A file that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The name by which it is known until the daemon ends.
    pub name: String,
    /// Whether the file says how a conversation becomes a prompt.
    pub has_chat_template: bool,
}

/// Where a model comes from.
pub(crate) enum Origin<'a> {
    /// It is part of this program.
    BuiltIn,
    /// A file that a client opened.
    Opened,
    /// A library has it.
    Stored(&'a Library, Box<StoredModel>),
}

/// A model, with all that a request to it needs.
pub(crate) struct Model {
    pub(crate) summary: Summary,
    /// The engine's key: equal keys are equal files.
    pub(crate) key: String,
    pub(crate) source: Source,
    /// SHA-256 of the weights' file, where it is known.
    pub(crate) weights: Option<[u8; 32]>,
    /// Options that the model's publisher set.
    pub(crate) params: Map<String, Value>,
    pub(crate) system: Option<String>,
    pub(crate) licenses: Vec<String>,
    /// Changes to the weights.
    pub(crate) adapters: Vec<PathBuf>,
    /// What makes pictures readable for it.
    pub(crate) projectors: Vec<PathBuf>,
    /// The oldest version of Ollama that can run it; empty for any.
    pub(crate) requires: String,
    /// Messages that precede every conversation.
    pub(crate) messages: Vec<Message>,
    /// A Go template from the library. The file's own template is inside the file.
    pub(crate) template: Option<String>,
    /// What Ollama would make this model's prompts with in a template's place; empty for nothing.
    pub(crate) renderer: String,
    /// What Ollama would read this model's answers with; empty for nothing.
    pub(crate) parser: String,
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
            capabilities: capabilities(head.gguf.metadata(), of_file(head.gguf.metadata())),
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
            outside: Outside::new(settings.tiers.digests_file.clone()),
            opened: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// All models, the newest first; the built-in one last, because it is as old as the program. A library that is not there
    /// or cannot be read is left out: see [`crate::App::libraries`]. Where none can be read the list would say that there
    /// is nothing, so then it fails.
    pub(crate) fn list(&self) -> Result<Vec<Summary>, Error> {
        let mut models: Vec<Summary> = Vec::new();
        let mut known: HashSet<ModelRef> = HashSet::new();
        let snapshots = self.libraries.snapshots();
        let unread = snapshots.iter().find_map(|snapshot| match &snapshot.state {
            LibraryState::Unreadable(reason) => Some((snapshot.library.root(), reason)),
            _ => None,
        });
        if let Some((root, reason)) = unread {
            tracing::warn!(library = %root.display(), reason, "cannot be read, and is left out of the list");
            if !snapshots.iter().any(|snapshot| snapshot.state == LibraryState::Present) {
                let source = std::io::Error::other(reason.clone());
                return Err(LibraryError::Io { path: root.to_owned(), source }.into());
            }
        }
        for snapshot in snapshots {
            for skipped in snapshot.listing.skipped {
                tracing::warn!(path = %skipped.path.display(), reason = skipped.reason, "left out of the list");
            }
            for model in snapshot.listing.models {
                if known.insert(model.name.clone()) {
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

    /// The model that a client means by `text`.
    pub(crate) fn find(&self, text: &str) -> Result<Model, Error> {
        let name: ModelRef = text.parse()?;
        let model = self.look_up(&name)?.ok_or_else(|| Error::NotFound(text.to_owned()))?;
        self.known.lock().insert(model.key.clone(), model.summary.clone());
        Ok(model)
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
        // A digest of the contents would take seconds for a large file: a changed file has another time or length.
        let identity = format!("{}\n{}\n{modified_at:?}", path.display(), head.file_bytes);
        let digest = Digest::of(identity.as_bytes()).hex();
        let summary = Summary {
            name: name.to_string(),
            digest: digest.clone(),
            size_bytes: head.file_bytes,
            modified_at,
            details: Details::of_file(&head.gguf),
            capabilities: capabilities(head.gguf.metadata(), of_file(head.gguf.metadata())),
            origin: Some("file"),
        };
        let weights = self.outside.weights(&head.paths);
        Ok(Model { weights, ..Model::bare(summary, digest, Source::File(path)) })
    }

    /// All libraries.
    pub(crate) fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// The library that is written to.
    pub(crate) fn own_library(&self) -> &Library {
        self.libraries.own()
    }

    /// Where the model of that name comes from; `None` when there is none.
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

    /// The model of that name in another library than our own, as it is spelled there, and where that library is.
    pub(crate) fn elsewhere(&self, name: &ModelRef) -> Result<Option<(ModelRef, PathBuf)>, Error> {
        let found = self.libraries.find_elsewhere(name)?;
        Ok(found.map(|(library, stored)| (stored.name, library.root().to_owned())))
    }

    /// What the engine's key stands for: the name that was last asked for.
    pub(crate) fn known(&self, key: &str) -> Option<Summary> {
        self.known.lock().get(key).cloned()
    }

    /// Gives a file on disk a name.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened, Error> {
        let failed = |reason: String| Error::File { path: path.to_owned(), reason };
        let file = path.canonicalize().map_err(|error| failed(error.to_string()))?;
        let head = head::read(path)?;
        let name = opened_name(path, &file);
        let opened = Opened { name: name.to_string(), has_chat_template: has_chat_template(&head.gguf) };
        // The path as it was given: a link's own name says more than its target's, and its neighbours may be parts.
        self.opened.lock().insert(name, path.to_owned());
        Ok(opened)
    }
}

/// Is it the name of the built-in model?
pub(crate) fn is_pebble(name: &ModelRef) -> bool {
    pebble::NAME.parse::<ModelRef>().is_ok_and(|pebble| pebble == *name)
}

/// Does the file say how a conversation becomes a prompt?
pub(crate) fn has_chat_template(gguf: &cairn_gguf::Gguf) -> bool {
    !crate::library::template::in_file(gguf.metadata()).is_empty()
}

impl Model {
    /// A model that is one file and nothing else.
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
            requires: String::new(),
            messages: Vec::new(),
            template: None,
            renderer: String::new(),
            parser: String::new(),
        }
    }
}

/// The name of an opened file: its own, as far as names can spell it, and the beginning of the digest of its path without
/// links, because two folders may hold files of one name.
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
        capabilities: supported(config.capabilities.unwrap_or_default()),
        origin: None,
    }
}

fn stored_model(library: &Library, stored: &StoredModel) -> Result<Model, Error> {
    let mut summary = stored_summary(library, stored);
    let config = library.config(&stored.manifest);
    let layer = stored.manifest.layer(&LayerKind::Model).ok_or_else(|| Error::NoFile(summary.name.clone()))?;
    let path = library.blob(layer)?;
    // Where the manifest names no config, the file itself tells. One that cannot be read fails later, with its reason.
    if summary.details.format.is_empty()
        && let Ok(head) = head::read(&path)
    {
        summary.details = Details::of_file(&head.gguf);
    }
    let source = Source::File(path);
    let text = |kind: LayerKind| library.texts(&stored.manifest, &kind);
    let of_kind = |kind: LayerKind| stored.manifest.layers.iter().filter(move |layer| layer.kind == kind);
    let paths = |media_type: &str| -> Result<Vec<PathBuf>, LibraryError> {
        of_kind(LayerKind::Other(media_type.to_owned())).map(|layer| library.blob(layer)).collect()
    };
    let params = match text(LayerKind::Params)? {
        Some(json) => serde_json::from_str(&json).unwrap_or_else(|error| {
            tracing::warn!(model = summary.name, %error, "the model's parameters cannot be read and are left out");
            Map::new()
        }),
        None => Map::new(),
    };
    Ok(Model {
        key: layer.digest.hex(),
        source,
        weights: Some(*layer.digest.as_bytes()),
        params,
        system: text(LayerKind::System)?.filter(|text| !text.is_empty()),
        licenses: of_kind(LayerKind::License).map(|layer| library.text(layer)).collect::<Result<_, _>>()?,
        adapters: paths(ADAPTER)?,
        projectors: paths(PROJECTOR)?,
        requires: config.requires,
        messages: text(LayerKind::Messages)?.map(|json| preceding(&summary.name, &json)).unwrap_or_default(),
        template: text(LayerKind::Template)?.filter(|text| !text.is_empty()),
        renderer: config.renderer,
        parser: config.parser,
        summary,
    })
}

/// The messages of a library's layer.
fn preceding(model: &str, json: &str) -> Vec<Message> {
    let read: Vec<cairn_wire::ollama::Message> = serde_json::from_str(json).unwrap_or_else(|error| {
        tracing::warn!(model, %error, "the model's messages cannot be read and are left out");
        Vec::new()
    });
    read.into_iter().map(|message| Message::new(message.role, message.content)).collect()
}

#[cfg(test)]
mod tests;
