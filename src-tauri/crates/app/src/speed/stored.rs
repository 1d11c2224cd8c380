//! JSON files in the cache folder that can be computed again: an unreadable one counts as absent.

use std::path::Path;

use cairn_disk::{Disk, Mode, RealDisk};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most bytes of a file. [`MAX_MODELS`](super::measured::MAX_MODELS) models have less.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a file; the default if it is absent, too long or unreadable.
pub(super) fn read<T: DeserializeOwned + Default>(path: &Path) -> T {
    let is_read = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    if !is_read {
        return T::default();
    }
    let bytes = RealDisk.read(path).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        tracing::debug!(path = %path.display(), %error, "measured speeds cannot be read; they are measured again");
        T::default()
    })
}

/// Replaces a file. A failure is logged only: the next start measures again.
pub(super) fn write(path: &Path, content: &impl Serialize) {
    let json = serde_json::to_vec(content).expect("texts and numbers are serialisable");
    let folder = path.parent().map_or(Ok(()), |folder| RealDisk.create_dir_all(folder));
    if let Err(error) = folder.and_then(|()| RealDisk.write_atomic(path, &json, Mode::Private)) {
        tracing::warn!(%error, "cannot store measured speeds");
    }
}
