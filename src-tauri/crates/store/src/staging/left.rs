//! What is left of downloads that nobody goes on with: a tag moved in the middle, say, and its model came in another version.

use std::fs;

use super::{Staging, StagingError, names_in};
use crate::Digest;
use crate::write::{Leftover, LeftoverKind, on_disk};

impl Staging {
    /// The files of blobs that no process is at work on, unless they are `wanted`. Each is for [`Staging::discard`].
    #[must_use]
    pub fn left_behind(&self, wanted: impl Fn(&Digest) -> bool) -> Vec<(Digest, Leftover)> {
        let mut left = Vec::new();
        for folder in [&self.partials, &self.ready] {
            for name in names_in(folder) {
                let Ok(digest) = name.parse::<Digest>() else { continue };
                // One that is wanted is not even looked at: that would keep whoever begins with it just now from it.
                if wanted(&digest) || matches!(self.take(&digest), Err(StagingError::InUse(_))) {
                    continue;
                }
                let path = folder.join(name);
                let size_bytes = fs::metadata(&path).map_or(0, |found| on_disk(&found));
                left.push((digest, Leftover { path, size_bytes, kind: LeftoverKind::Partial, young: false }));
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cairn_disk::RealDisk;

    use super::*;
    use crate::Library;

    #[test]
    fn what_nobody_wants_and_nobody_fetches_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let staging = Staging::open(&Library::new(folder.path().to_owned()), Arc::new(RealDisk)).unwrap();
        let [left, wanted, fetched, ready] = [&b"a"[..], b"b", b"c", b"d"].map(Digest::of);
        let begin = |digest: &Digest| {
            let mut blob = staging.claim(digest, 4096).unwrap();
            blob.file().write_at(0, &[1; 4096]).unwrap();
            blob.keep(&std::iter::once(0..4096).collect()).unwrap();
            blob
        };
        drop((begin(&left), begin(&wanted)));
        let _at_work = begin(&fetched);
        begin(&ready).finish().unwrap();
        let found = staging.left_behind(|digest| *digest == wanted);
        let mut digests: Vec<Digest> = found.iter().map(|(digest, _)| *digest).collect();
        digests.sort_unstable();
        let mut expected = vec![left, ready];
        expected.sort_unstable();
        assert_eq!(digests, expected, "one that is not whole, and one that is");
        assert!(found.iter().all(|(_, file)| file.size_bytes == 4096 && file.path.exists()), "{found:?}");
        for (digest, _) in found {
            staging.discard(&digest).unwrap();
        }
        assert!(staging.left_behind(|digest| *digest == wanted).is_empty(), "they are gone");
    }
}
