//! Trying a place for kept prefixes before it is set: a small file is written, read back and removed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_disk::{Disk, RealDisk};
use cairn_tier::format::VERSION_FOLDER;
use cairn_tier::{Bucket, FileStore, SharedFolder};

use super::handle::KvCache;
use super::limits::check_folder;
use crate::settings::RemotePlace;

/// What each step at a remote place may take: a bucket that is slower is of no use.
const STEP: Duration = Duration::from_secs(10);
/// What is written: as much as a page of a disk.
const BYTES: usize = 4096;

/// What to try.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheTest {
    /// A folder on this machine.
    pub folder: Option<PathBuf>,
    /// A mounted share, or a bucket's address, with the credentials that the daemon's environment has.
    pub remote: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedPlace {
    /// The path or the address.
    pub place: String,
    /// Why it cannot be used; none where it can.
    pub reason: Option<String>,
    /// Bytes that are free there, where that is known.
    pub free_bytes: Option<u64>,
    /// How long writing, reading and removing took.
    pub round_trip: Option<Duration>,
}

impl KvCache {
    /// Tries places: the folder, and the one elsewhere. Those that are set where none is named. Blocks.
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
                reason: Some("this is neither a path from the root nor an address of a bucket".to_owned()),
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
            // It was only a trial; a folder that stays behind empty does no harm.
            let _ = std::fs::remove_dir(folder);
        }
        TestedPlace { place: folder.display().to_string(), reason: checked.err(), free_bytes, round_trip }
    }
}

fn try_remote(place: &RemotePlace) -> TestedPlace {
    let (files, free_bytes): (Result<Box<dyn FileStore>, String>, _) = match place {
        RemotePlace::Folder(folder) => (Ok(Box::new(SharedFolder::new(folder))), RealDisk.free_bytes(folder).ok()),
        RemotePlace::Bucket { address, settings } => {
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

/// Writes a file that nobody else has, reads it and removes it.
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
        Ok(Some(_)) => return Err("what was read is not what was written".to_owned()),
        Ok(None) => return Err("what was written is not there".to_owned()),
        Err(error) => return Err(failed("reading", error.to_string())),
    }
    removed.map_err(|error| failed("removing", error.to_string()))?;
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_tried_and_no_file_is_left() {
        let share = tempfile::tempdir().expect("a temporary folder");
        let tested = try_remote(&RemotePlace::Folder(share.path().to_owned()));
        assert!(tested.reason.is_none() && tested.round_trip.is_some() && tested.free_bytes.is_some(), "{tested:?}");
        let version = share.path().join(VERSION_FOLDER);
        for folder in [version.clone(), version.join("drafts")] {
            let entries = std::fs::read_dir(&folder).expect("it was made").flatten();
            let files = entries.filter(|entry| entry.path().is_file()).count();
            assert_eq!(files, 0, "nothing of it is left in {}", folder.display());
        }
        let away = try_remote(&RemotePlace::Folder(share.path().join("not mounted")));
        assert!(away.reason.is_some() && away.round_trip.is_none(), "{away:?}");
    }
}
