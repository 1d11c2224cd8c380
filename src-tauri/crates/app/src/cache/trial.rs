//! Tests a place for a tier before it is set: writes, reads and removes a small file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_disk::{Disk, RealDisk};
use cairn_tier::format::VERSION_FOLDER;
use cairn_tier::{Bucket, FileStore, SharedFolder};

use super::handle::KvCache;
use super::limits::check_folder;
use crate::settings::RemoteLocation;

/// Timeout of each step at a remote place. A slower bucket is of no use.
const STEP: Duration = Duration::from_secs(10);
/// Size of the test file: one page of a disk.
const BYTES: usize = 4096;

/// The places to test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheTest {
    /// A folder on this machine.
    pub folder: Option<PathBuf>,
    /// A mounted share, or the address of a bucket. The credentials are those of the daemon's environment.
    pub remote: Option<String>,
}

/// Result of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedPlace {
    /// The path or the address.
    pub place: String,
    /// Why the place cannot be used; `None` if it can.
    pub reason: Option<String>,
    /// Free bytes, if the place reports them.
    pub free_bytes: Option<u64>,
    /// Time for writing, reading and removing the file.
    pub round_trip: Option<Duration>,
}

impl KvCache {
    /// Tests the folder and the remote place, or the configured ones if `test` names none. Blocks.
    #[must_use]
    pub fn test(&self, test: CacheTest) -> [Option<TestedPlace>; 2] {
        if test == CacheTest::default() {
            let set = self.settings.reload().tiers;
            return [set.folder.map(|folder| self.try_folder(&folder)), set.remote.as_ref().map(try_remote)];
        }
        let remote = test.remote.map(|text| match self.settings.remote_place(&text) {
            Some(place) => try_remote(&place),
            None => TestedPlace {
                place: text,
                reason: Some("this is neither an absolute path nor the address of a bucket".to_owned()),
                free_bytes: None,
                round_trip: None,
            },
        });
        [test.folder.map(|folder| self.try_folder(&folder)), remote]
    }

    fn try_folder(&self, folder: &Path) -> TestedPlace {
        let libraries = self.library.roots();
        let is_new = !folder.exists();
        let began = Instant::now();
        let checked = check_folder(folder, &libraries);
        let round_trip = checked.is_ok().then(|| began.elapsed());
        let free_bytes = RealDisk.free_bytes(folder).ok();
        if is_new && checked.is_ok() {
            // The folder was created only for the test. If it cannot be removed, it does no harm.
            let _ = std::fs::remove_dir(folder);
        }
        TestedPlace { place: folder.display().to_string(), reason: checked.err(), free_bytes, round_trip }
    }
}

fn try_remote(place: &RemoteLocation) -> TestedPlace {
    let (files, free_bytes): (Result<Box<dyn FileStore>, String>, _) = match place {
        RemoteLocation::Folder(folder) => (Ok(Box::new(SharedFolder::new(folder))), RealDisk.free_bytes(folder).ok()),
        RemoteLocation::Bucket { address, settings } => {
            let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
            let bucket = Bucket::open(address, settings).map_err(|error| error.to_string());
            (bucket.map(|bucket| Box::new(bucket) as Box<dyn FileStore>), None)
        }
    };
    let tried = files.and_then(|files| round_trip(&*files));
    let (round_trip, reason) = match tried {
        Ok(took) => (Some(took), None),
        Err(reason) => (None, Some(reason)),
    };
    TestedPlace { place: place.to_string(), reason, free_bytes, round_trip }
}

/// Writes a file with a random name, reads it and removes it.
fn round_trip(files: &dyn FileStore) -> Result<Duration, String> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let own = format!("cairn-test-{:016x}", u64::from_le_bytes(random));
    let (name, draft) = (format!("{VERSION_FOLDER}/{own}"), format!("{own}-draft"));
    let bytes = random.repeat(BYTES / random.len());
    let began = Instant::now();
    let failed = |what: &str, error: String| format!("{what} failed: {error}");
    files.create(&name, bytes.clone(), &draft, STEP).map_err(|error| failed("writing", error.to_string()))?;
    let read = files.read(&name, 0..BYTES as u64, STEP, &|| {});
    let removed = files.remove(&name, STEP);
    match read {
        Ok(Some(read)) if read == bytes => {}
        Ok(Some(_)) => return Err("the test file has other contents than were written".to_owned()),
        Ok(None) => return Err("the test file is missing after the write".to_owned()),
        Err(error) => return Err(failed("reading", error.to_string())),
    }
    removed.map_err(|error| failed("removing", error.to_string()))?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_test_succeeds_and_leaves_no_file() {
        let share = tempfile::tempdir().expect("a temporary folder");
        let tested = try_remote(&RemoteLocation::Folder(share.path().to_owned()));
        assert!(tested.reason.is_none() && tested.round_trip.is_some() && tested.free_bytes.is_some(), "{tested:?}");
        let version = share.path().join(VERSION_FOLDER);
        for folder in [version.clone(), version.join("drafts")] {
            let entries = std::fs::read_dir(&folder).expect("the folder exists").flatten();
            let files = entries.filter(|entry| entry.path().is_file()).count();
            assert_eq!(files, 0, "no file is left in {}", folder.display());
        }
        let away = try_remote(&RemoteLocation::Folder(share.path().join("not mounted")));
        assert!(away.reason.is_some() && away.round_trip.is_none(), "{away:?}");
    }
}
