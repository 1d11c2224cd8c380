//! Contents that another library of this machine has, for a model that is on its way: they need not be fetched.

use super::bring::Watch;
use super::source::Source;
use super::{LibraryWriter, Way, WriteError};
use crate::{Layer, Library, LibraryError, Staging};

impl LibraryWriter<'_> {
    /// Takes a layer's contents from the library `origin` to those that are ready in `staging`, shared where the file system
    /// can, else copied; each byte is checked. `watch` is told how far it has come, and says whether to go on.
    ///
    /// # Errors
    /// When that library does not have them, or has damaged ones, there is no room, or the disk refuses; nothing is ready
    /// then that was not before.
    pub fn stage(
        &self,
        staging: &Staging,
        origin: &Library,
        layer: &Layer,
        watch: &mut Watch<'_>,
    ) -> Result<Way, WriteError> {
        let source = Source::open(origin.blob(layer)?)?;
        let mut draft = self.draft()?;
        let (digest, way) = match self.share(&mut *draft, &source, watch)? {
            Ok(digest) => (digest, Way::Reflinked),
            Err(reason) => (self.copy_into(&mut *draft, &source, watch)?, Way::Copied { reason }),
        };
        if digest != layer.digest {
            let reason = format!("of {} is damaged: its digest is {digest}", origin.root().display());
            return Err(LibraryError::Blob { digest: layer.digest, reason }.into());
        }
        draft.keep(&staging.ready_path(&layer.digest))?;
        // A part of it that was fetched before is needed no more. Where somebody fetches it just now, it stays.
        let _ = staging.discard_partial(&layer.digest);
        Ok(way)
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
    fn sound_contents_become_ready_and_damaged_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let (own, far) = (Library::new(folder.path().join("own")), Library::new(folder.path().join("far")));
        let staging = Staging::open(&own, Arc::new(RealDisk)).unwrap();
        let writer = LibraryWriter::open(&own, &RealDisk).unwrap();
        fs::create_dir_all(far.blobs()).unwrap();
        let layer = |text: &str| {
            let (digest, size_bytes) = (Digest::of(text.as_bytes()), text.len() as u64);
            Layer { kind: LayerKind::Model, digest, size_bytes }
        };
        let stage = |text: &str, goes_on: bool| writer.stage(&staging, &far, &layer(text), &mut |_| goes_on);
        let (sound, damaged) = (layer("sound"), layer("whole"));
        fs::write(far.blob_path(&sound.digest), "sound").unwrap();
        fs::write(far.blob_path(&damaged.digest), "WHOLE").unwrap();
        assert!(stage("sound", false).is_err(), "interrupted");
        assert!(staging.ready(&sound.digest, 5).is_none(), "and not there");
        let mut part = staging.claim(&sound.digest, 5).unwrap();
        part.file().write_at(0, b"so").unwrap();
        part.keep(&std::iter::once(0..2).collect()).unwrap();
        drop(part);
        stage("sound", true).unwrap();
        assert!(!staging.partial_path(&sound.digest).exists(), "what was fetched of it is needed no more");
        let ready = staging.ready(&sound.digest, 5).expect("it is there");
        assert_eq!(fs::read_to_string(ready).unwrap(), "sound", "whole");
        let error = stage("whole", true).expect_err("its bytes are others").to_string();
        assert!(error.contains("is damaged"), "{error}");
        assert!(staging.ready(&damaged.digest, 5).is_none(), "what is damaged is not taken");
        assert!(stage("nobody has it", true).is_err(), "nor what is not there");
        assert_eq!(fs::read_dir(own.drafts()).unwrap().count(), 0, "no draft stays");
    }
}
