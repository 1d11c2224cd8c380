//! Memory-mapped files. Only this module of the crate uses `unsafe`.
//!
//! If a mapped file shrinks or its disk is removed, reading a lost page raises SIGBUS, which ends the process by
//! default. Each mapping is therefore registered with [`bus_error`]. Its handler replaces the mapping by zero pages and
//! marks it as poisoned. Readers then read zeros, so callers must check [`Mapping::is_poisoned`] before they use
//! results.
#![expect(unsafe_code, reason = "mapping a file and handling SIGBUS need unsafe code")]

use std::fs::File;
use std::io;

use memmap2::Mmap;

#[cfg(unix)]
mod bus_error;

/// A whole file, mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapping {
    // Dropped before `map`, so that the handler never touches unmapped addresses.
    #[cfg(unix)]
    registration: bus_error::Registration,
    map: Mmap,
}

impl Mapping {
    /// Maps a non-empty file.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the bytes are only read, and only as numbers for which every bit pattern is valid, so a change by
        // another process can make results wrong but not memory; `ModelFile::check` detects it. The registration below
        // handles a shrinking file; on Windows `ModelFile::open` prevents writes while the file is open.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self {
            #[cfg(unix)]
            registration: bus_error::Registration::new(&map)?,
            map,
        })
    }

    /// Returns whether a read failed. From then on the bytes are zeros, at least in part.
    pub(crate) fn is_poisoned(&self) -> bool {
        #[cfg(unix)]
        return self.registration.is_poisoned();
        #[cfg(not(unix))]
        false
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}
