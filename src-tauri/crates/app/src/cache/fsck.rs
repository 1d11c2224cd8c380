//! Full check of the SSD tier's folder. It works with or without a running daemon.

use std::path::PathBuf;

use super::error::Error;
use super::metadata::CacheMetadata;
use super::tiers;
use crate::settings::Settings;

/// Result of a check of the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkup {
    /// The folder.
    pub folder: PathBuf,
    /// Chunks that pass all checks.
    pub whole: u64,
    /// Bytes of these chunks.
    pub whole_bytes: u64,
    /// Damaged files, each with the reason.
    pub damaged: Vec<(PathBuf, String)>,
    /// Files that cannot be read, each with the reason.
    pub unread: Vec<(PathBuf, String)>,
    /// Valid chunks that cannot be used, because a chunk before them is missing.
    pub orphans: u64,
    /// Bytes of these chunks.
    pub orphan_bytes: u64,
    /// Damaged files that earlier runs moved to quarantine.
    pub aside: u64,
    /// Files of other installations, which are not changed.
    pub foreign: u64,
    /// Whether damaged files and orphans were removed.
    pub fixed: bool,
}

/// Reads every chunk of the folder that the settings name. With `fix`, removes damaged files and orphans. This
/// requires that no daemon uses the folder. Blocks.
///
/// # Errors
/// If the folder does not exist, cannot be read, or with `fix` is in use by another process.
pub fn check_folder(settings: &Settings, fix: bool) -> Result<Checkup, Error> {
    let settings = CacheMetadata::open(settings).apply_limits(settings.clone()).tiers;
    let Some(folder) = settings.folder.clone().filter(|folder| folder.exists()) else {
        return Err(Error::Off);
    };
    let report = tiers::folder(&folder, &settings).and_then(|ssd| ssd.fsck(fix).map_err(|error| error.to_string()));
    let report = report.map_err(Error::Folder)?;
    Ok(Checkup {
        folder,
        whole: report.whole,
        whole_bytes: report.whole_bytes,
        damaged: report.damaged.into_iter().map(|(path, why)| (path, why.to_owned())).collect(),
        unread: report.unread,
        orphans: report.orphans.len() as u64,
        orphan_bytes: report.orphan_bytes,
        aside: report.aside,
        foreign: report.foreign,
        fixed: fix,
    })
}
