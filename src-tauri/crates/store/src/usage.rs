//! What a library takes on the disk: each model's own and shared bytes, what nobody needs, and downloads under way.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::references::References;
use crate::write::{Leftover, LeftoverKind, WriteError, leftovers, on_disk};
use crate::{Digest, Library, ModelRef, Skipped};

/// What a library takes on the disk. Contents that several models share are counted once.
#[derive(Debug, Default)]
pub struct Usage {
    /// Its models, the largest first.
    pub models: Vec<ModelUsage>,
    /// Bytes of all contents that manifests name.
    pub model_bytes: u64,
    /// Those of them that more than one model has.
    pub shared_bytes: u64,
    /// Contents that no manifest names.
    pub unreferenced: Vec<Leftover>,
    /// Downloads under way, or broken off: ours and Ollama's.
    pub partials: Vec<Leftover>,
    /// Manifests that cannot be read.
    pub skipped: Vec<Skipped>,
}

/// What a model takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsage {
    /// Its name.
    pub name: ModelRef,
    /// Bytes of its contents that no other model has: what deleting it frees.
    pub own_bytes: u64,
    /// Bytes of its contents that others have too.
    pub shared_bytes: u64,
    /// Contents that are not there.
    pub missing: usize,
}

impl Usage {
    /// Bytes of everything in `leftovers`.
    #[must_use]
    pub fn bytes_of(leftovers: &[Leftover]) -> u64 {
        leftovers.iter().map(|left| left.size_bytes).sum()
    }
}

impl Library {
    /// What it takes on the disk. A library that is not there takes nothing.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn usage(&self, now: SystemTime) -> Result<Usage, WriteError> {
        let listing = self.list()?;
        let references = References::of(self);
        let size = |digest: &Digest| fs::metadata(self.blob_path(digest)).ok().map(|found| on_disk(&found));
        let sizes: HashMap<Digest, u64> = references.digests().filter_map(|d| Some((*d, size(d)?))).collect();
        let mut usage = Usage { skipped: listing.skipped, ..Usage::default() };
        for model in listing.models {
            let mut digests: Vec<Digest> = model.manifest.layers.iter().map(|layer| layer.digest).collect();
            digests.extend(model.manifest.config.as_ref().map(|layer| layer.digest));
            digests.sort_unstable();
            digests.dedup();
            let mut row = ModelUsage { name: model.name, own_bytes: 0, shared_bytes: 0, missing: 0 };
            for digest in digests {
                match sizes.get(&digest) {
                    None => row.missing += 1,
                    Some(bytes) if references.count(&digest) > 1 => row.shared_bytes += bytes,
                    Some(bytes) => row.own_bytes += bytes,
                }
            }
            usage.models.push(row);
        }
        let total = |row: &ModelUsage| std::cmp::Reverse(row.own_bytes + row.shared_bytes);
        usage.models.sort_by(|a, b| total(a).cmp(&total(b)).then_with(|| a.name.full().cmp(&b.name.full())));
        usage.model_bytes = sizes.values().sum();
        let shared = sizes.iter().filter(|(digest, _)| references.count(digest) > 1);
        usage.shared_bytes = shared.map(|(_, bytes)| bytes).sum();
        let left = leftovers(self, &references, now)?;
        (usage.unreferenced, usage.partials) =
            left.into_iter().partition(|left| left.kind == LeftoverKind::Unreferenced);
        for folder in ["partials", "ready", "drafts"] {
            own_partials(&self.root().join(".cairn").join(folder), &mut usage.partials);
        }
        Ok(usage)
    }
}

/// Files of our own downloads, whatever they are called.
fn own_partials(folder: &Path, partials: &mut Vec<Leftover>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            own_partials(&entry.path(), partials);
        } else if found.is_file() && found.len() > 0 {
            let size_bytes = on_disk(&found);
            partials.push(Leftover { path: entry.path(), size_bytes, kind: LeftoverKind::Partial, young: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LayerKind, LibraryWriter};
    use cairn_disk::RealDisk;

    #[test]
    fn shared_contents_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().join("models"));
        let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
        // Whole blocks, so that a length and its place on the disk agree on every file system.
        let put = |byte: u8, blocks: usize| writer.put(LayerKind::Model, &vec![byte; blocks * 4096]).unwrap();
        let (shared, own) = (put(1, 4), put(2, 2));
        let config = vec![b' '; 4096];
        let save = |name: &str, layers: &[_]| writer.save(&name.parse().unwrap(), &config, layers, false).unwrap();
        save("big", &[shared.clone(), own]);
        save("small", &[shared.clone(), shared]);
        put(3, 1);
        fs::write(library.blobs().join("sha256-12-partial"), vec![4; 8192]).unwrap();
        fs::create_dir_all(library.root().join(".cairn/partials")).unwrap();
        fs::write(library.root().join(".cairn/partials/sha256-34"), vec![5; 4096]).unwrap();
        fs::create_dir_all(library.root().join(".cairn/brought")).unwrap();
        fs::write(library.root().join(".cairn/brought/56"), vec![6; 4096]).unwrap();
        let usage = library.usage(SystemTime::UNIX_EPOCH).unwrap();
        let rows: Vec<_> = usage.models.iter().map(|m| (m.name.to_string(), m.own_bytes, m.shared_bytes)).collect();
        let expected = [("big:latest".to_owned(), 8192, 5 * 4096), ("small:latest".to_owned(), 0, 5 * 4096)];
        assert_eq!(rows, expected, "two models share weights and config");
        assert_eq!((usage.model_bytes, usage.shared_bytes), (7 * 4096, 5 * 4096), "everything once");
        assert_eq!(Usage::bytes_of(&usage.unreferenced), 4096, "what nobody names");
        assert_eq!(
            Usage::bytes_of(&usage.partials),
            3 * 4096,
            "downloads, Ollama's and ours, and not what is remembered of models that came"
        );

        let blob = library.blob_path(&Digest::of(&vec![2; 8192]));
        fs::remove_file(blob).unwrap();
        let usage = library.usage(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(usage.models[0].missing, 1, "a model that lost something");
        let nowhere = Library::new(folder.path().join("nowhere")).usage(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!((nowhere.models.len(), nowhere.model_bytes), (0, 0), "what is not there takes nothing");
    }
}
