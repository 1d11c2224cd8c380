//! Files as memory: the only place of this crate with `unsafe`.
//!
//! A file that shrinks under its mapping, or whose disk goes away, makes the next read of a lost page a bus error, which ends the
//! process by default. Each mapping is therefore registered with [`bus_error`], whose handler puts zero pages in the place of
//! the mapping and marks it as poisoned. Readers go on with zeros, and whoever uses the results asks
//! [`Mapping::poisoned`] first.
#![expect(unsafe_code, reason = "mapping a file, and surviving that it shrinks, cannot be said in safe Rust")]

use std::fs::File;
use std::io;

use memmap2::Mmap;

#[cfg(unix)]
mod bus_error;

/// A whole file, mapped for reading.
#[derive(Debug)]
pub(crate) struct Mapping {
    // Dropped before `map`, so that the handler never touches addresses that are no longer ours.
    #[cfg(unix)]
    watch: bus_error::Watch,
    map: Mmap,
}

impl Mapping {
    /// Maps a file that is not empty.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the bytes are only read, and only as numbers for which every bit pattern is valid, so a change by another
        // process can make results wrong but not memory; `ModelFile::check` finds it. That the file shrinks is what the
        // registration below is for; on Windows `ModelFile::open` forbids writing while the file is open.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self {
            #[cfg(unix)]
            watch: bus_error::Watch::new(&map)?,
            map,
        })
    }

    /// Whether a read has met a page that was gone. From then on the bytes are zeros, at least in part.
    pub(crate) fn poisoned(&self) -> bool {
        #[cfg(unix)]
        return self.watch.poisoned();
        #[cfg(not(unix))]
        false
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}
