//! Which contents the manifests of a library name: what must stay when something is removed.
//!
//! A file that is no manifest may have been one, torn by a power cut or written by a newer program. The digests that can
//! still be read in it count as named. Whether that is enough is for whoever asks to decide, so such files are told of.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::library::{is_draft, name_of, read_manifest};
use crate::{Digest, Library, LibraryError, Manifest, Skipped};

/// Manifests are four folders below theirs. What is deeper is nobody's, but may be a copy that somebody made by hand.
const MAX_DEPTH: usize = 8;
/// Characters of a digest: `sha256:` or `sha256-`, and 64 of hex.
const DIGEST_CHARACTERS: usize = 71;

/// What the manifests of a library name.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// How many manifests name which contents.
    named: HashMap<Digest, usize>,
    /// Where a model's manifest should be, and is none.
    pub(crate) damaged: Vec<Skipped>,
    /// Files and folders that the system does not let us read: nobody knows what they name.
    pub(crate) unread: Vec<Skipped>,
    /// Manifests that a killed program was writing. Nobody had been told of them yet, so they name nothing.
    pub(crate) drafts: Vec<PathBuf>,
}

impl References {
    /// Reads every file below `manifests`.
    pub(crate) fn of(library: &Library) -> Self {
        let mut references = Self::default();
        references.read_folder(&library.manifests(), &mut Vec::new());
        references
    }

    /// Is it named by a manifest?
    pub(crate) fn names(&self, digest: &Digest) -> bool {
        self.named.contains_key(digest)
    }

    /// How many manifests name it.
    pub(crate) fn count(&self, digest: &Digest) -> usize {
        self.named.get(digest).copied().unwrap_or(0)
    }

    /// Everything that is named.
    pub(crate) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.named.keys()
    }

    fn read_folder(&mut self, folder: &Path, parts: &mut Vec<String>) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && parts.is_empty() => return,
            Err(error) => return self.unread.push(skipped(folder, &error)),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.unread.push(skipped(folder, &error)),
            };
            parts.push(entry.file_name().to_string_lossy().into_owned());
            // Folders may be links; files are all that is left.
            if entry.path().is_dir() {
                match parts.len() < MAX_DEPTH {
                    true => self.read_folder(&entry.path(), parts),
                    false => self.unread.push(skipped(&entry.path(), &"it is too deep for a manifest")),
                }
            } else if parts.last().is_some_and(|name| is_draft(name)) {
                self.drafts.push(entry.path());
            } else {
                self.read_file(entry.path(), parts);
            }
            parts.pop();
        }
    }

    fn read_file(&mut self, path: PathBuf, parts: &[String]) {
        let bytes = match read_manifest(&path) {
            Ok((bytes, _)) => bytes,
            Err(error @ LibraryError::Io { .. }) => return self.unread.push(skipped(&path, &error)),
            Err(error) => return self.damaged.push(skipped(&path, &error)),
        };
        let is_model = match parts {
            [host, namespace, model, tag] => name_of([host, namespace, model, tag]).is_some(),
            _ => false,
        };
        let mut named: Vec<Digest> = match Manifest::parse(&bytes) {
            Ok(manifest) => manifest.layers.iter().chain(&manifest.config).map(|layer| layer.digest).collect(),
            Err(reason) => {
                if is_model {
                    self.damaged.push(skipped(&path, &reason));
                }
                digests_in(&bytes)
            }
        };
        named.sort_unstable();
        named.dedup();
        for digest in named {
            *self.named.entry(digest).or_default() += 1;
        }
    }
}

fn skipped(path: &Path, reason: &dyn ToString) -> Skipped {
    Skipped { path: path.to_owned(), reason: reason.to_string() }
}

/// Everything in some bytes that reads as a digest.
fn digests_in(bytes: &[u8]) -> Vec<Digest> {
    let texts = bytes.windows(DIGEST_CHARACTERS).filter(|window| window.starts_with(b"sha256"));
    texts.filter_map(|window| std::str::from_utf8(window).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_manifests_keep_what_they_name() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().to_owned());
        let write = |path: &str, text: &str| {
            let path = library.manifests().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let [whole, torn, stray] = [b"a", b"b", b"c"].map(|bytes| Digest::of(bytes));
        let layer = |digest: Digest| format!(r#"{{"layers":[{{"digest":"{digest}","size":1}}"#);
        write("h/n/m/whole", &format!("{},{{\"digest\":\"{whole}\"}}]}}", layer(whole)));
        write("h/n/m/torn", &layer(torn));
        write("h/n/m/torn~", &layer(stray));
        write("h/n/m/deep/er/still", &layer(stray));
        write("note", "not a manifest");
        write("h/n/m/.latest.7-0.tmp", &layer(Digest::of(b"d")));
        let references = References::of(&library);
        let count = |digest| references.count(&digest);
        assert_eq!((count(whole), count(torn), count(stray)), (1, 1, 2), "manifests, not layers, are counted");
        assert_eq!(references.damaged.len(), 1, "only what should be a model's: {:?}", references.damaged);
        assert!(references.unread.is_empty(), "{:?}", references.unread);
        assert_eq!(references.drafts.len(), 1, "one that was never finished: {:?}", references.drafts);
        assert!(!references.names(&Digest::of(b"d")), "nobody names it");
        assert_eq!(references.digests().count(), 3, "in all");
    }

    #[test]
    fn no_manifests_name_nothing() {
        let references = References::of(&Library::new(PathBuf::from("/nonexistent")));
        assert!(references.unread.is_empty() && references.digests().next().is_none(), "{references:?}");
    }
}
