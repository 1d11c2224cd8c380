//! Scans a remote tier: lists the names, then reads the headers of new files, a few at a time.
//!
//! A verified header is not read again while the file is unchanged. If there are more new files than a scan has time
//! for, the next scan continues. Until then [`crate::Tier::may_contain`] reports their names.

use std::collections::VecDeque;
use std::time::Duration;

use super::listing::ChunkFileName;
use super::{Probe, RemoteTier};
use crate::format::{FileKeys, Header, Preamble};
use crate::tier::{Miss, StoredChunk, TierError};

/// Maximum number of listed names.
const MAX_NAMES: usize = 1 << 20;
/// Maximum time that a scan spends on reading headers.
const HEADS_SPAN: Duration = Duration::from_secs(10);
/// Size of the first read: header, table and keys of a model with up to 101 layers.
pub(super) const FRONT_BYTES: u64 = 16 << 10;

pub(super) fn scan(remote: &RemoteTier, each: &mut dyn FnMut(StoredChunk)) -> Result<(), TierError> {
    let scanned = list(remote).and_then(|()| read_heads(remote));
    remote.names.heads().into_iter().for_each(each);
    scanned
}

/// Refreshes the listing if it is due.
fn list(remote: &RemoteTier) -> Result<(), TierError> {
    let now = remote.clock.now();
    let mut listed_at = remote.listed_at.lock();
    let fresh = listed_at.is_some_and(|then| now < then + remote.options.list_interval);
    if fresh && remote.breaker.is_closed() {
        return Ok(());
    }
    let within = remote.options.list_timeout;
    let listing = remote.ask(Probe::Allowed, within, move |files| {
        let mut listing = Vec::new();
        let mut each = |path: &str, listed| {
            listing.extend(ChunkFileName::parse(path).map(|name| (name, listed)));
            listing.len() < MAX_NAMES
        };
        files.list(&mut each, within).map(|()| listing)
    })?;
    remote.names.replace(listing);
    *listed_at = Some(now);
    Ok(())
}

fn read_heads(remote: &RemoteTier) -> Result<(), TierError> {
    let (began, within) = (remote.clock.now(), remote.timeout(FRONT_BYTES));
    let mut unread = remote.names.unread().into_iter();
    let mut reading = VecDeque::new();
    loop {
        // Half of the threads stay free for restores.
        while reading.len() < (remote.files.threads() / 2).max(1) && remote.clock.now() < began + HEADS_SPAN {
            let Some(name) = unread.next() else { break };
            let path = name.path();
            let call =
                remote.begin(Probe::Allowed, within, move |files| files.read(&path, 0..FRONT_BYTES, within, &|| ()))?;
            reading.push_back((name, call));
        }
        let Some((name, call)) = reading.pop_front() else { return Ok(()) };
        match remote.end(call)? {
            None => remote.names.forget(&name),
            Some(front) => match stored(&front, &name, &remote.keys) {
                Ok(stored) => remote.names.learn(name, stored),
                Err(_) => remote.names.spoil(name),
            },
        }
    }
}

/// Parses a header and compares it with the file's name.
pub(super) fn header(front: &[u8], name: &ChunkFileName, keys: &FileKeys) -> Result<Header, Miss> {
    let header = Header::parse(front, keys)?;
    if ChunkFileName::of(&header.id) == *name {
        Ok(header)
    } else {
        Err(Miss::Damaged("the file contains another chunk"))
    }
}

/// Parses the first blocks of a file. For models with very many layers they do not include the keys.
fn stored(front: &[u8], name: &ChunkFileName, keys: &FileKeys) -> Result<StoredChunk, Miss> {
    let header = header(front, name, keys)?;
    let stored = header.stored(header.file_bytes);
    let Some(front) = front.get(..header.preamble_bytes()) else { return Ok(stored) };
    let front = Preamble::parse(header, front, keys)?;
    Ok(StoredChunk { keys: Some(std::sync::Arc::clone(&front.head().keys)), ..stored })
}
