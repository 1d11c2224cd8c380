//! Uploaded files as the base of a model.
//!
//! Clients choose the files' names. They order the parts of a model and appear in errors. They are never used as paths.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cairn_convert::FileType;
use cairn_gguf::Gguf;
use cairn_gguf::split::Split;
use cairn_store::{Digest, Layer, LayerKind, Library, LibraryWriter};

use super::base::Base;
use super::steps::Steps;
use crate::library::catalog::{ADAPTER, PROJECTOR};
use crate::library::error::Error;
use crate::library::handle::ModelLibrary;
use crate::library::head;
use crate::library::head::Head;
use crate::library::import::{config, merge};
use crate::library::template;

/// First bytes of a GGUF file.
const MAGIC: &[u8; 4] = b"GGUF";
/// Ends of the names of weights in other formats.
const OTHER_WEIGHTS: [&str; 3] = [".safetensors", ".bin", ".pth"];

/// An uploaded file.
pub(super) struct UploadedFile {
    /// The client's name of the file.
    pub(super) name: String,
    /// Path in the library.
    pub(super) path: PathBuf,
    digest: Digest,
    size_bytes: u64,
}

/// Purpose of a GGUF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Model,
    Projector,
    Adapter,
}

impl Purpose {
    fn layer_kind(self) -> LayerKind {
        match self {
            Self::Model => LayerKind::Model,
            Self::Projector => LayerKind::Other(PROJECTOR.to_owned()),
            Self::Adapter => LayerKind::Other(ADAPTER.to_owned()),
        }
    }
}

impl UploadedFile {
    pub(super) fn layer(&self, kind: LayerKind) -> Layer {
        Layer { kind, digest: self.digest, size_bytes: self.size_bytes }
    }

    /// Returns an error with the client's name of the file.
    pub(super) fn failed(&self, error: Error) -> Error {
        match error {
            Error::File { reason, .. } => Error::File { path: PathBuf::from(&self.name), reason },
            error => Error::File { path: PathBuf::from(&self.name), reason: error.to_string() },
        }
    }

    /// Whether the file begins as a GGUF file.
    pub(super) fn has_magic(&self) -> bool {
        let mut start = [0; MAGIC.len()];
        File::open(&self.path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *MAGIC
    }

    pub(super) fn has_ending(&self, ending: &str) -> bool {
        self.name.to_ascii_lowercase().ends_with(ending)
    }

    /// Whether a GGUF file is an adapter.
    pub(super) fn is_adapter(&self) -> Result<bool, Error> {
        Ok(purpose(&self.head()?.gguf) == Purpose::Adapter)
    }

    fn head(&self) -> Result<Head, Error> {
        if !self.has_magic() {
            return Err(Error::NotGguf);
        }
        head::read_one(&self.path).map_err(|error| self.failed(error))
    }
}

/// Returns the path of an uploaded blob.
pub(super) fn blob(digest: &str, library: &Library) -> Result<PathBuf, Error> {
    let file = sent(&[("imatrix".to_owned(), digest.to_owned())], library)?;
    file.into_iter().next().map(|file| file.path).ok_or(Error::NoFiles)
}

impl ModelLibrary {
    /// Returns the base for uploaded files: one GGUF file or the parts of one, and optionally a projector; or a
    /// checkpoint in safetensors files, which is converted to `checkpoint_type`. The chat template of the file must be usable
    /// unless `replaces_template`.
    pub(super) fn base_of_files(
        &self,
        files: &[(String, String)],
        replaces_template: bool,
        checkpoint_type: FileType,
        writer: &LibraryWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<Base, Error> {
        let library = self.catalog.own_library();
        let sent = sent(files, library)?;
        if sent.is_empty() {
            return Err(Error::NoFiles);
        }
        if sent.iter().any(|file| file.has_ending(".safetensors")) {
            return self.base_of_checkpoint(&sent, checkpoint_type, replaces_template, writer, steps);
        }
        let (mut models, mut beside) = (Vec::new(), Vec::new());
        for file in sent.iter().filter(|file| file.has_ending(".gguf") || file.has_magic()) {
            let head = file.head()?;
            match purpose(&head.gguf) {
                Purpose::Model => models.push((file, head)),
                purpose => beside.push((file, file.layer(purpose.layer_kind()))),
            }
        }
        let beside = single_layers(beside)?;
        let mut made = Vec::new();
        let (head, layer) = match models.len() {
            0 => return Err(Error::UnknownFiles),
            1 => {
                let (file, head) = models.remove(0);
                // For a single part of a split model, this fails and names the missing parts.
                let head = match Split::of(&file.name, &head.gguf) {
                    Ok(None) => head,
                    _ => joined(vec![(file, head)])?,
                };
                self.engine.check(&file.path).map_err(|error| file.failed(error.into()))?;
                steps.status("parsing GGUF".to_owned());
                (head, file.layer(LayerKind::Model))
            }
            count => {
                let name = PathBuf::from(&models[0].0.name);
                let parts = joined(models)?;
                steps.status("parsing GGUF".to_owned());
                let status = format!("merging {count} files");
                let mut watch = |progress: cairn_store::Progress| {
                    steps.progress(&status, progress.done_bytes, progress.total_bytes)
                };
                let layer = merge::import_merged(writer, &parts, &name, &mut watch)?.layer;
                made.push(layer.clone());
                (self.merged(&layer, &name).inspect_err(|_| writer.remove_unreferenced(&layer))?, layer)
            }
        };
        if let Err(error) = template::check_file(&head.gguf)
            && !replaces_template
        {
            made.iter().for_each(|layer| writer.remove_unreferenced(layer));
            return Err(Error::FileTemplate(error));
        }
        let config = config(&head.gguf).to_json();
        Ok(Base { config, layers: [vec![layer], beside].concat(), made, weights: None })
    }

    /// Checks a merged file and returns its head.
    fn merged(&self, layer: &Layer, name: &Path) -> Result<Head, Error> {
        let path = self.catalog.own_library().blob(layer)?;
        let failed = |reason: String| Error::File { path: name.to_owned(), reason };
        self.engine.check(&path).map_err(|error| failed(error.to_string()))?;
        head::read(&path).map_err(|error| failed(error.to_string()))
    }
}

/// Returns the layers of uploaded files that are added to the base model `from`: a projector, an adapter.
///
/// # Errors
/// If one of the files is another base, several have one purpose, or none can be used.
pub(super) fn added(files: &[(String, String)], from: &str, library: &Library) -> Result<Vec<Layer>, Error> {
    let sent = sent(files, library)?;
    let mut layers = Vec::new();
    for file in &sent {
        let second_base = || Error::TwoBases { from: from.to_owned(), file: file.name.clone() };
        let is_gguf = file.has_ending(".gguf") || file.has_magic();
        if !is_gguf && OTHER_WEIGHTS.iter().any(|ending| file.has_ending(ending)) {
            return Err(second_base());
        }
        if is_gguf {
            match purpose(&file.head()?.gguf) {
                Purpose::Model => return Err(second_base()),
                purpose => layers.push((file, file.layer(purpose.layer_kind()))),
            }
        }
    }
    if layers.is_empty() && !sent.is_empty() {
        return Err(Error::UnknownFiles);
    }
    single_layers(layers)
}

/// Returns the layers of files, of which no two may have one purpose: only one of them would be used.
fn single_layers(files: Vec<(&UploadedFile, Layer)>) -> Result<Vec<Layer>, Error> {
    for (at, (file, layer)) in files.iter().enumerate() {
        let Some((other, _)) = files[..at].iter().find(|(_, other)| other.kind == layer.kind) else { continue };
        if layer.kind == Purpose::Adapter.layer_kind() {
            return Err(Error::ManyAdapters);
        }
        return Err(Error::ManyTowers { first: other.name.clone(), second: file.name.clone() });
    }
    Ok(files.into_iter().map(|(_, layer)| layer).collect())
}

/// Joins the heads of a model's parts, which may be in any order.
fn joined(mut models: Vec<(&UploadedFile, Head)>) -> Result<Head, Error> {
    let number = |(file, head): &(&UploadedFile, Head)| match Split::of(&file.name, &head.gguf) {
        Ok(Some(split)) => split.number,
        _ => 0,
    };
    models.sort_by_key(number);
    let (first, head) = &models[0];
    let first = *first;
    let failed = |reason: String| Error::File { path: PathBuf::from(&first.name), reason };
    match Split::of(&first.name, &head.gguf).map_err(|error| failed(error.to_string()))? {
        None => return Err(Error::ManyModels),
        Some(split) if split.count as usize != models.len() => {
            return Err(failed(format!("this model has {} files, but {} were sent", split.count, models.len())));
        }
        Some(_) => {}
    }
    let parts = models.into_iter().map(|(file, head)| (file.name.clone(), head)).collect();
    head::join(parts).map_err(failed)
}

/// Checks names and digests, and that the blobs exist.
pub(super) fn sent(files: &[(String, String)], library: &Library) -> Result<Vec<UploadedFile>, Error> {
    if files.iter().any(|(name, _)| !is_relative(name)) {
        return Err(Error::FilePath);
    }
    let mut sent = files
        .iter()
        .map(|(name, digest)| {
            let digest: Digest = digest.parse()?;
            let path = library.blob_path(&digest);
            match path.metadata() {
                Ok(found) if found.is_file() => {
                    Ok(UploadedFile { name: name.clone(), path, digest, size_bytes: found.len() })
                }
                _ => Err(Error::NoBlob(digest)),
            }
        })
        .collect::<Result<Vec<UploadedFile>, Error>>()?;
    // JSON maps have no order, and equal requests must create equal models.
    sent.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sent)
}

/// Whether a name is a relative path without `.` and `..`, on any system.
fn is_relative(name: &str) -> bool {
    let drive = name.as_bytes().get(1) == Some(&b':');
    !drive && !name.contains('\0') && name.split(['/', '\\']).all(|part| !matches!(part, "" | "." | ".."))
}

fn purpose(gguf: &Gguf) -> Purpose {
    let metadata = gguf.metadata();
    let text = |key: &str| metadata.str(key).ok().flatten().unwrap_or_default();
    let architecture = text("general.architecture");
    let has = |key: &str| metadata.get(&format!("{architecture}.{key}")).is_some();
    match text("general.type") {
        "adapter" => Purpose::Adapter,
        "projector" | "mmproj" => Purpose::Projector,
        _ if architecture == "clip" || (has("vision.block_count") && !has("block_count")) => Purpose::Projector,
        _ => Purpose::Model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_exclude_absolute_and_parent_paths() {
        for name in ["m.gguf", "a/b/m.gguf", "a b", "...", "a..b", ".hidden"] {
            assert!(is_relative(name), "{name:?}");
        }
        for name in
            ["", "/m", "../m", "a/../m", "a/..", ".", "./m", "a//m", "a/", "\\m", "..\\m", "C:\\m", "C:m", "a\0b"]
        {
            assert!(!is_relative(name), "{name:?}");
        }
    }
}
