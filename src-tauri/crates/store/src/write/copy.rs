//! Copies of models: the same manifest bytes under a second name, so that both names have one identity.
//!
//! A copy from another library imports the blobs too. Each is verified, so that damaged blobs do not spread.

use super::{ImportMethod, LibraryWriter, WriteError};
use crate::{Library, LibraryError, Manifest, ModelRef, Progress, StoredModel};

/// Copied model.
#[derive(Debug, Clone)]
pub struct CopiedModel {
    /// The model under its new name.
    pub model: StoredModel,
    /// Bytes that were copied: 0 within a library or with reflinks.
    pub copied_bytes: u64,
}

impl LibraryWriter<'_> {
    /// Copies the model `from` of the library `origin`, which may be this one, to the name `to` and replaces an existing model.
    /// `on_progress` gets the progress of each blob and returns whether to continue.
    ///
    /// # Errors
    /// If the model is gone, its blobs are missing or damaged, or there is no space; or on disk errors.
    pub fn copy(
        &self,
        origin: &Library,
        from: &ModelRef,
        to: &ModelRef,
        on_progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<CopiedModel, WriteError> {
        let bytes = origin.manifest_bytes(from)?;
        let manifest = Manifest::parse(&bytes).map_err(|reason| LibraryError::Manifest {
            path: origin.manifest_path(from).map_or_else(|_| origin.manifests(), |(path, _)| path),
            reason,
        })?;
        let mut copied_bytes = 0;
        for layer in manifest.layers.iter().chain(&manifest.config) {
            if self.library.blob(layer).is_ok() {
                continue;
            }
            let imported = self.import_file(&origin.blob(layer)?, false, on_progress)?;
            if imported.layer.digest != layer.digest {
                if imported.method != ImportMethod::Present {
                    self.remove_unreferenced(&imported.layer);
                }
                let reason =
                    format!("of {} is damaged: its digest is {}", origin.root().display(), imported.layer.digest);
                return Err(LibraryError::Blob { digest: layer.digest, reason }.into());
            }
            if matches!(imported.method, ImportMethod::Copied { .. }) {
                copied_bytes += layer.size_bytes;
            }
        }
        let _lock = self.lock()?;
        for layer in manifest.layers.iter().chain(&manifest.config) {
            self.library.blob(layer)?;
        }
        Ok(CopiedModel { model: self.write_manifest(to, &bytes, true)?, copied_bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use cairn_disk::RealDisk;

    use super::*;
    use crate::Digest;

    fn library(folder: &Path) -> Library {
        Library::new(folder.to_owned())
    }

    fn name(text: &str) -> ModelRef {
        text.parse().unwrap()
    }

    /// Creates a model of two texts, one of them the same in all models. Cairn would never format a manifest like this one.
    fn create_model(library: &Library, path: &str, text: &str) -> Vec<u8> {
        let mut layers = Vec::new();
        for (kind, text) in [("model", text), ("license", "shared")] {
            let digest = Digest::of(text.as_bytes());
            fs::create_dir_all(library.blobs()).unwrap();
            fs::write(library.blob_path(&digest), text).unwrap();
            let size = text.len();
            layers.push(format!(
                "{{ \"size\":{size}, \"mediaType\":\"application/vnd.ollama.image.{kind}\",\r\n\"digest\":\"{digest}\",\
                 \"annotations\":null}}"
            ));
        }
        let bytes = format!("\r\n{{\"layers\":[{}],\"more\":{{}}}}  \n\n", layers.join(",")).into_bytes();
        let path = library.manifests().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &bytes).unwrap();
        bytes
    }

    #[test]
    fn copy_has_the_manifest_and_identity_of_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let own = library(folder.path());
        let bytes = create_model(&own, "registry.ollama.ai/library/A/latest", "one");
        create_model(&own, "registry.ollama.ai/library/b/latest", "two");
        let writer = LibraryWriter::open(&own, &RealDisk).unwrap();
        let copy = |from: &str, to: &str| writer.copy(&own, &name(from), &name(to), &mut |_| true).unwrap();
        let copied = copy("a", "Me/New:v1");
        assert_eq!(
            (copied.model.name.to_string(), copied.copied_bytes),
            ("Me/New:v1".to_owned(), 0),
            "new name, nothing copied"
        );
        assert_eq!(copied.model.manifest.digest, Digest::of(&bytes), "same identity");
        assert_eq!(own.manifest_bytes(&name("me/new:v1")).unwrap(), bytes, "same bytes");
        assert_eq!(copy("a", "B").model.name.to_string(), "b:latest", "an existing name keeps its spelling");
        let blob = |text: &str| own.blob_path(&Digest::of(text.as_bytes())).exists();
        assert!(blob("one") && blob("shared") && !blob("two"), "only unreferenced blobs are removed");
        assert_eq!(copy("a", "a").model.name.to_string(), "A:latest", "a copy onto itself changes nothing");
        assert_eq!(own.list().unwrap().models.len(), 3, "three names");
        let error = writer.copy(&own, &name("missing"), &name("x"), &mut |_| true);
        assert!(error.is_err(), "no such model");
    }

    #[test]
    fn copy_from_another_library_imports_only_valid_blobs() {
        let folder = tempfile::tempdir().unwrap();
        let (own, far) = (library(&folder.path().join("own")), library(&folder.path().join("far")));
        let bytes = create_model(&far, "hf.co/me/a/Q8_0", "weights");
        let writer = LibraryWriter::open(&own, &RealDisk).unwrap();
        let copy = |to: &str| writer.copy(&far, &name("hf.co/me/a:Q8_0"), &name(to), &mut |_| true);
        let copied = copy("a").unwrap();
        for layer in &copied.model.manifest.layers {
            assert!(own.blob(layer).is_ok(), "all blobs are imported");
        }
        assert_eq!(own.manifest_bytes(&name("a")).unwrap(), bytes, "same manifest");
        assert_eq!(copy("b").unwrap().copied_bytes, 0, "existing blobs are not copied again");
        for model in ["a", "b"] {
            writer.delete(&name(model)).unwrap();
        }
        fs::write(far.blob_path(&Digest::of(b"weights")), "WEIGHTS").unwrap();
        let error = copy("a").expect_err("a blob is damaged").to_string();
        assert!(error.contains("is damaged"), "{error}");
        assert_eq!(fs::read_dir(own.blobs()).unwrap().count(), 0, "no blob remains");
        assert!(writer.copy(&far, &name("hf.co/me/a:Q8_0"), &name("a"), &mut |_| false).is_err(), "cancelled");
        assert!(own.list().unwrap().models.is_empty(), "no model was saved");
    }
}
