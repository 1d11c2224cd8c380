//! Checking the folder of kept prefixes to the last byte, beside a daemon or without one.

use std::path::PathBuf;

use super::book::Book;
use super::error::Error;
use super::tiers;
use crate::settings::Settings;

/// What lies in the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkup {
    /// The folder.
    pub folder: PathBuf,
    /// Chunks that are what was written.
    pub whole: u64,
    /// The room that those take.
    pub whole_bytes: u64,
    /// Files that are not, and why.
    pub damaged: Vec<(PathBuf, String)>,
    /// Files that could not be read, and why.
    pub unread: Vec<(PathBuf, String)>,
    /// Whole chunks that nobody can use, because a chunk before them is not there.
    pub orphans: u64,
    /// The room that those take.
    pub orphan_bytes: u64,
    /// Damaged files that were put aside before.
    pub aside: u64,
    /// Files that other installations keep there, which are left alone.
    pub foreign: u64,
    /// Whether what is damaged or of no use was removed.
    pub fixed: bool,
}

/// Reads every chunk of the folder that the settings name. With `fix`, what is damaged or of no use is removed; only a program that
/// no daemon is beside can. Blocks.
///
/// # Errors
/// Where there is no such folder, it cannot be read, or it is another program's to clear.
pub fn check_folder(settings: &Settings, fix: bool) -> Result<Checkup, Error> {
    let settings = Book::open(settings).applied(settings.clone()).tiers;
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
