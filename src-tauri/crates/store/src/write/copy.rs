//! A second name for a model: the same manifest, byte for byte, so that both names have one identity.
//!
//! Within a library nothing else is needed. From another library the contents come along, each checked against its digest
//! on the way: what was damaged there is not spread.

use super::{LibraryWriter, Way, WriteError};
use crate::{Library, LibraryError, Manifest, ModelRef, Progress, StoredModel};

/// A model that has got another name.
#[derive(Debug, Clone)]
pub struct CopiedModel {
    /// The model under its new name.
    pub model: StoredModel,
    /// Bytes that were written for it: none within a library, or where contents were shared.
    pub copied_bytes: u64,
}

impl LibraryWriter<'_> {
    /// Gives the model `from` of the library `origin`, which may be this one, the name `to` here. A model that has the name
    /// gives way. `watch` is told how far each of the contents has come, and says whether to go on.
    ///
    /// # Errors
    /// When the model is gone, contents of it are missing or damaged, there is no room, or the disk refuses.
    pub fn copy(
        &self,
        origin: &Library,
        from: &ModelRef,
        to: &ModelRef,
        watch: &mut dyn FnMut(Progress) -> bool,
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
            let brought = self.bring(&origin.blob(layer)?, false, watch)?;
            if brought.layer.digest != layer.digest {
                if brought.way != Way::Present {
                    self.forget(&brought.layer);
                }
                let reason =
                    format!("of {} is damaged: its digest is {}", origin.root().display(), brought.layer.digest);
                return Err(LibraryError::Blob { digest: layer.digest, reason }.into());
            }
            if matches!(brought.way, Way::Copied { .. }) {
                copied_bytes += layer.size_bytes;
            }
        }
        let _turn = self.turn()?;
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

    /// A model of two texts, one of them the same everywhere. The manifest is one that no program of ours would write.
    fn model(library: &Library, path: &str, text: &str) -> Vec<u8> {
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
    fn a_copy_has_the_manifest_and_the_identity_of_the_original() {
        let folder = tempfile::tempdir().unwrap();
        let own = library(folder.path());
        let bytes = model(&own, "registry.ollama.ai/library/A/latest", "one");
        model(&own, "registry.ollama.ai/library/b/latest", "two");
        let writer = LibraryWriter::open(&own, &RealDisk).unwrap();
        let copy = |from: &str, to: &str| writer.copy(&own, &name(from), &name(to), &mut |_| true).unwrap();
        let copied = copy("a", "Me/New:v1");
        assert_eq!(
            (copied.model.name.to_string(), copied.copied_bytes),
            ("Me/New:v1".to_owned(), 0),
            "by its new name"
        );
        assert_eq!(copied.model.manifest.digest, Digest::of(&bytes), "one identity");
        assert_eq!(own.manifest_bytes(&name("me/new:v1")).unwrap(), bytes, "byte for byte");
        assert_eq!(copy("a", "B").model.name.to_string(), "b:latest", "a name that is there keeps its spelling");
        let blob = |text: &str| own.blob_path(&Digest::of(text.as_bytes())).exists();
        assert!(blob("one") && blob("shared") && !blob("two"), "what nobody has any more goes");
        assert_eq!(copy("a", "a").model.name.to_string(), "A:latest", "onto itself changes nothing");
        assert_eq!(own.list().unwrap().models.len(), 3, "three names");
        let error = writer.copy(&own, &name("nobody"), &name("x"), &mut |_| true);
        assert!(error.is_err(), "there is no such model");
    }

    #[test]
    fn a_copy_from_another_library_brings_sound_contents_only() {
        let folder = tempfile::tempdir().unwrap();
        let (own, far) = (library(&folder.path().join("own")), library(&folder.path().join("far")));
        let bytes = model(&far, "hf.co/me/a/Q8_0", "weights");
        let writer = LibraryWriter::open(&own, &RealDisk).unwrap();
        let copy = |to: &str| writer.copy(&far, &name("hf.co/me/a:Q8_0"), &name(to), &mut |_| true);
        let copied = copy("a").unwrap();
        for layer in &copied.model.manifest.layers {
            assert!(own.blob(layer).is_ok(), "all contents came along");
        }
        assert_eq!(own.manifest_bytes(&name("a")).unwrap(), bytes, "and the manifest");
        assert_eq!(copy("b").unwrap().copied_bytes, 0, "once is enough");
        for model in ["a", "b"] {
            writer.delete(&name(model)).unwrap();
        }
        fs::write(far.blob_path(&Digest::of(b"weights")), "WEIGHTS").unwrap();
        let error = copy("a").expect_err("one is damaged").to_string();
        assert!(error.contains("is damaged"), "{error}");
        assert_eq!(fs::read_dir(own.blobs()).unwrap().count(), 0, "nothing of it stays");
        assert!(writer.copy(&far, &name("hf.co/me/a:Q8_0"), &name("a"), &mut |_| false).is_err(), "interrupted");
        assert!(own.list().unwrap().models.is_empty(), "no model came to be");
    }
}
