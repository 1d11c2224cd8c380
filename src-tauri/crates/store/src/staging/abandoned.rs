//! Abandoned downloads: for example, a tag moved during a pull, and the model was pulled in another version.

use std::fs;

use super::{Staging, StagingError, names_in};
use crate::Digest;
use crate::garbage_file::{GarbageFile, GarbageKind, on_disk};

impl Staging {
    /// Returns the files of blobs that no process has locked, except those that are `wanted`. [`Staging::discard`] removes them.
    #[must_use]
    pub fn abandoned_blobs(&self, wanted: impl Fn(&Digest) -> bool) -> Vec<(Digest, GarbageFile)> {
        let mut abandoned = Vec::new();
        for folder in [&self.partials, &self.ready] {
            for name in names_in(folder) {
                let Ok(digest) = name.parse::<Digest>() else { continue };
                // A wanted blob is not even locked: the lock would make a download that is just starting fail.
                if wanted(&digest) || matches!(self.lock(&digest), Err(StagingError::InUse(_))) {
                    continue;
                }
                let path = folder.join(name);
                let size_bytes = fs::metadata(&path).map_or(0, |metadata| on_disk(&metadata));
                abandoned
                    .push((digest, GarbageFile { path, size_bytes, kind: GarbageKind::Partial, is_recent: false }));
            }
        }
        abandoned
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_disk::RealDisk;

    use super::*;
    use crate::Library;

    #[test]
    fn staged_blobs_are_abandoned_unless_wanted_or_locked() {
        let folder = tempfile::tempdir().unwrap();
        let staging = Staging::open(&Library::new(folder.path().to_owned()), Arc::new(RealDisk)).unwrap();
        let [partial, wanted, active, ready] = [&b"a"[..], b"b", b"c", b"d"].map(Digest::of);
        let begin = |digest: &Digest| {
            let mut blob = staging.claim(digest, 4096).unwrap();
            blob.file().write_at(0, &[1; 4096]).unwrap();
            blob.commit(&std::iter::once(0..4096).collect()).unwrap();
            blob
        };
        drop((begin(&partial), begin(&wanted)));
        let _active = begin(&active);
        begin(&ready).finish().unwrap();
        let found = staging.abandoned_blobs(|digest| *digest == wanted);
        let mut digests: Vec<Digest> = found.iter().map(|(digest, _)| *digest).collect();
        digests.sort_unstable();
        let mut expected = vec![partial, ready];
        expected.sort_unstable();
        assert_eq!(digests, expected, "a partial and a complete blob");
        assert!(found.iter().all(|(_, file)| file.size_bytes == 4096 && file.path.exists()), "{found:?}");
        for (digest, _) in found {
            staging.discard(&digest).unwrap();
        }
        assert!(staging.abandoned_blobs(|digest| *digest == wanted).is_empty(), "discarded blobs are gone");
    }
}
