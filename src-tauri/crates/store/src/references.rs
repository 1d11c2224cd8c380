//! References from manifests to blobs. Referenced blobs must not be removed.
//!
//! A file that cannot be parsed may be a manifest that a power cut damaged or a newer program wrote. All digests in its bytes
//! count as references. Such files are reported, so that the caller can decide whether that is safe enough.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::library::{is_temp_file, name_of, read_manifest};
use crate::{Digest, Library, LibraryError, Manifest, SkippedEntry};

/// Manifests are four folders deep. Deeper files may be copies that a user made, so they are read too.
const MAX_DEPTH: usize = 8;
/// Length of a digest: `sha256:` or `sha256-`, and 64 hex characters.
const DIGEST_CHARACTERS: usize = 71;

/// References of all manifests of a library.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// Number of manifests that reference each blob.
    counts: HashMap<Digest, usize>,
    /// Files at the path of a model's manifest that are not valid manifests.
    pub(crate) damaged: Vec<SkippedEntry>,
    /// Files and folders that cannot be read, so that their references are unknown.
    pub(crate) unreadable: Vec<SkippedEntry>,
    /// Temporary files of manifests that a killed program was writing. They were never published, so they reference nothing.
    pub(crate) temp_files: Vec<PathBuf>,
}

impl References {
    /// Reads all files below `manifests`.
    pub(crate) fn of(library: &Library) -> Self {
        let mut references = Self::default();
        references.read_folder(&library.manifests(), &mut Vec::new());
        references
    }

    /// Returns whether a manifest references the blob.
    pub(crate) fn contains(&self, digest: &Digest) -> bool {
        self.counts.contains_key(digest)
    }

    /// Returns the number of manifests that reference the blob.
    pub(crate) fn count(&self, digest: &Digest) -> usize {
        self.counts.get(digest).copied().unwrap_or(0)
    }

    /// Returns all referenced digests.
    pub(crate) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.counts.keys()
    }

    fn read_folder(&mut self, folder: &Path, parts: &mut Vec<String>) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && parts.is_empty() => return,
            Err(error) => return self.unreadable.push(skipped(folder, &error)),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.unreadable.push(skipped(folder, &error)),
            };
            parts.push(entry.file_name().to_string_lossy().into_owned());
            // `is_dir` follows links to folders. Everything else is a file.
            if entry.path().is_dir() {
                match parts.len() < MAX_DEPTH {
                    true => self.read_folder(&entry.path(), parts),
                    false => self.unreadable.push(skipped(&entry.path(), &"it is too deep for a manifest")),
                }
            } else if parts.last().is_some_and(|name| is_temp_file(name)) {
                self.temp_files.push(entry.path());
            } else {
                self.read_file(entry.path(), parts);
            }
            parts.pop();
        }
    }

    fn read_file(&mut self, path: PathBuf, parts: &[String]) {
        let bytes = match read_manifest(&path) {
            Ok((bytes, _)) => bytes,
            Err(error @ LibraryError::Io { .. }) => return self.unreadable.push(skipped(&path, &error)),
            Err(error) => return self.damaged.push(skipped(&path, &error)),
        };
        let is_model = match parts {
            [host, namespace, model, tag] => name_of([host, namespace, model, tag]).is_some(),
            _ => false,
        };
        let mut digests: Vec<Digest> = match Manifest::parse(&bytes) {
            Ok(manifest) => manifest.layers.iter().chain(&manifest.config).map(|layer| layer.digest).collect(),
            Err(reason) => {
                if is_model {
                    self.damaged.push(skipped(&path, &reason));
                }
                digests_in(&bytes)
            }
        };
        digests.sort_unstable();
        digests.dedup();
        for digest in digests {
            *self.counts.entry(digest).or_default() += 1;
        }
    }
}

fn skipped(path: &Path, reason: &dyn ToString) -> SkippedEntry {
    SkippedEntry { path: path.to_owned(), reason: reason.to_string() }
}

/// Finds all digests in the bytes.
fn digests_in(bytes: &[u8]) -> Vec<Digest> {
    let texts = bytes.windows(DIGEST_CHARACTERS).filter(|window| window.starts_with(b"sha256"));
    texts.filter_map(|window| std::str::from_utf8(window).ok()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_in_torn_manifests_count_as_references() {
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
        assert_eq!((count(whole), count(torn), count(stray)), (1, 1, 2), "a manifest counts once per digest");
        assert_eq!(references.damaged.len(), 1, "only files at the path of a manifest: {:?}", references.damaged);
        assert!(references.unreadable.is_empty(), "{:?}", references.unreadable);
        assert_eq!(references.temp_files.len(), 1, "an unfinished manifest: {:?}", references.temp_files);
        assert!(!references.contains(&Digest::of(b"d")), "an unfinished manifest references nothing");
        assert_eq!(references.digests().count(), 3, "all references");
    }

    #[test]
    fn missing_library_has_no_references() {
        let references = References::of(&Library::new(PathBuf::from("/nonexistent")));
        assert!(references.unreadable.is_empty() && references.digests().next().is_none(), "{references:?}");
    }
}
