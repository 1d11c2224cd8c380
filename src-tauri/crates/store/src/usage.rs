//! Disk usage of a library: each model's own and shared bytes, garbage, and incomplete downloads.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::garbage_file::{GarbageFile, GarbageKind, on_disk};
use crate::references::References;
use crate::write::{WriteError, garbage_files};
use crate::{Digest, Library, ModelRef, SkippedEntry};

/// Disk usage of a library. Blobs that several models share count once.
#[derive(Debug, Default)]
pub struct DiskUsage {
    /// Models of the library, the largest first.
    pub models: Vec<ModelDiskUsage>,
    /// Bytes of all blobs that manifests reference.
    pub model_bytes: u64,
    /// Part of `model_bytes` in blobs that more than one model references.
    pub shared_bytes: u64,
    /// Blobs that no manifest references.
    pub unreferenced: Vec<GarbageFile>,
    /// Running and interrupted downloads, of Cairn and Ollama.
    pub partials: Vec<GarbageFile>,
    /// Manifests that cannot be read.
    pub skipped: Vec<SkippedEntry>,
}

/// Disk usage of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDiskUsage {
    /// Name of the model.
    pub name: ModelRef,
    /// Bytes of blobs that only this model references: deleting the model frees them.
    pub own_bytes: u64,
    /// Bytes of blobs that other models reference too.
    pub shared_bytes: u64,
    /// Number of missing blobs.
    pub missing: usize,
}

impl DiskUsage {
    /// Returns the sum of the sizes of `files`.
    #[must_use]
    pub fn bytes_of(files: &[GarbageFile]) -> u64 {
        files.iter().map(|file| file.size_bytes).sum()
    }
}

impl Library {
    /// Computes the disk usage. An absent library uses nothing.
    ///
    /// # Errors
    /// If the library exists and cannot be read.
    pub fn usage(&self, now: SystemTime) -> Result<DiskUsage, WriteError> {
        let listing = self.list()?;
        let references = References::of(self);
        let size = |digest: &Digest| fs::metadata(self.blob_path(digest)).ok().map(|metadata| on_disk(&metadata));
        let sizes: HashMap<Digest, u64> = references.digests().filter_map(|d| Some((*d, size(d)?))).collect();
        let mut usage = DiskUsage { skipped: listing.skipped, ..DiskUsage::default() };
        for model in listing.models {
            let mut digests: Vec<Digest> = model.manifest.layers.iter().map(|layer| layer.digest).collect();
            digests.extend(model.manifest.config.as_ref().map(|layer| layer.digest));
            digests.sort_unstable();
            digests.dedup();
            let mut row = ModelDiskUsage { name: model.name, own_bytes: 0, shared_bytes: 0, missing: 0 };
            for digest in digests {
                match sizes.get(&digest) {
                    None => row.missing += 1,
                    Some(bytes) if references.count(&digest) > 1 => row.shared_bytes += bytes,
                    Some(bytes) => row.own_bytes += bytes,
                }
            }
            usage.models.push(row);
        }
        let total = |row: &ModelDiskUsage| std::cmp::Reverse(row.own_bytes + row.shared_bytes);
        usage.models.sort_by(|a, b| total(a).cmp(&total(b)).then_with(|| a.name.full().cmp(&b.name.full())));
        usage.model_bytes = sizes.values().sum();
        let shared = sizes.iter().filter(|(digest, _)| references.count(digest) > 1);
        usage.shared_bytes = shared.map(|(_, bytes)| bytes).sum();
        let files = garbage_files(self, &references, now)?;
        (usage.unreferenced, usage.partials) =
            files.into_iter().partition(|file| file.kind == GarbageKind::Unreferenced);
        for folder in ["partials", "ready", "drafts"] {
            add_own_downloads(&self.root().join(".cairn").join(folder), &mut usage.partials);
        }
        Ok(usage)
    }
}

/// Adds all files of Cairn's own downloads.
fn add_own_downloads(folder: &Path, partials: &mut Vec<GarbageFile>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            add_own_downloads(&entry.path(), partials);
        } else if found.is_file() && found.len() > 0 {
            let size_bytes = on_disk(&found);
            partials.push(GarbageFile { path: entry.path(), size_bytes, kind: GarbageKind::Partial, is_recent: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LayerKind, LibraryWriter};
    use cairn_disk::RealDisk;

    #[test]
    fn shared_blobs_are_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::new(folder.path().join("models"));
        let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
        // Whole blocks, so that length and allocation agree on every file system.
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
        assert_eq!(rows, expected, "both models share weights and config");
        assert_eq!((usage.model_bytes, usage.shared_bytes), (7 * 4096, 5 * 4096), "each blob counts once");
        assert_eq!(DiskUsage::bytes_of(&usage.unreferenced), 4096, "unreferenced blobs");
        assert_eq!(
            DiskUsage::bytes_of(&usage.partials),
            3 * 4096,
            "downloads of Ollama and Cairn, but not the records of `.cairn/brought`"
        );

        let blob = library.blob_path(&Digest::of(&vec![2; 8192]));
        fs::remove_file(blob).unwrap();
        let usage = library.usage(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(usage.models[0].missing, 1, "a missing blob is counted");
        let absent = Library::new(folder.path().join("absent")).usage(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!((absent.models.len(), absent.model_bytes), (0, 0), "an absent library uses nothing");
    }
}
