//! Staging of blobs from another library of this machine, so that a pull need not download them.

use super::import_file::ProgressCallback;
use super::source::Source;
use super::{ImportMethod, LibraryWriter, WriteError};
use crate::{Layer, Library, LibraryError, Staging};

impl LibraryWriter<'_> {
    /// Copies a layer's blob from the library `origin` to the ready blobs of `staging`, as a reflink if possible. All bytes are
    /// verified. `on_progress` returns whether to continue.
    ///
    /// # Errors
    /// If `origin` does not have the blob or it is damaged, if there is no space, or on disk errors. Nothing has changed then.
    pub fn stage(
        &self,
        staging: &Staging,
        origin: &Library,
        layer: &Layer,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<ImportMethod, WriteError> {
        let source = Source::open(origin.blob(layer)?)?;
        let mut temp_file = self.create_temp_file()?;
        let (digest, method) = match self.reflink(&mut *temp_file, &source, on_progress)? {
            Ok(digest) => (digest, ImportMethod::Reflinked),
            Err(reason) => (self.copy_into(&mut *temp_file, &source, on_progress)?, ImportMethod::Copied { reason }),
        };
        if digest != layer.digest {
            let reason = format!("of {} is damaged: its digest is {digest}", origin.root().display());
            return Err(LibraryError::Blob { digest: layer.digest, reason }.into());
        }
        temp_file.persist(&staging.ready_path(&layer.digest))?;
        // An earlier partial download is not needed any more. It stays if another process is downloading the blob.
        let _ = staging.discard_partial(&layer.digest);
        Ok(method)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use cairn_disk::RealDisk;

    use super::*;
    use crate::{Digest, LayerKind};

    #[test]
    fn only_valid_blobs_of_another_library_are_staged() {
        let folder = tempfile::tempdir().unwrap();
        let (own, far) = (Library::new(folder.path().join("own")), Library::new(folder.path().join("far")));
        let staging = Staging::open(&own, Arc::new(RealDisk)).unwrap();
        let writer = LibraryWriter::open(&own, &RealDisk).unwrap();
        fs::create_dir_all(far.blobs()).unwrap();
        let layer = |text: &str| {
            let (digest, size_bytes) = (Digest::of(text.as_bytes()), text.len() as u64);
            Layer { kind: LayerKind::Model, digest, size_bytes }
        };
        let stage = |text: &str, continues: bool| writer.stage(&staging, &far, &layer(text), &mut |_| continues);
        let (valid, damaged) = (layer("sound"), layer("whole"));
        fs::write(far.blob_path(&valid.digest), "sound").unwrap();
        fs::write(far.blob_path(&damaged.digest), "WHOLE").unwrap();
        assert!(stage("sound", false).is_err(), "cancelled");
        assert!(staging.ready(&valid.digest, 5).is_none(), "a cancelled blob is not ready");
        let mut part = staging.claim(&valid.digest, 5).unwrap();
        part.file().write_at(0, b"so").unwrap();
        part.commit(&std::iter::once(0..2).collect()).unwrap();
        drop(part);
        stage("sound", true).unwrap();
        assert!(!staging.partial_path(&valid.digest).exists(), "the partial download is removed");
        let ready = staging.ready(&valid.digest, 5).expect("the blob is ready");
        assert_eq!(fs::read_to_string(ready).unwrap(), "sound", "contents");
        let error = stage("whole", true).expect_err("the bytes do not match").to_string();
        assert!(error.contains("is damaged"), "{error}");
        assert!(staging.ready(&damaged.digest, 5).is_none(), "a damaged blob is not staged");
        assert!(stage("missing", true).is_err(), "the blob is missing");
        assert_eq!(fs::read_dir(own.temp_files()).unwrap().count(), 0, "no temporary file remains");
    }
}
