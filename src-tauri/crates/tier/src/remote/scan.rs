//! Finding what is there: names by a listing, the rest from the first blocks of each file, a few at a time.
//!
//! Heads that were read once are not read again as long as the file is the same. Where there are more new ones than a scan has time
//! for, the next goes on; until then [`crate::Tier::may_hold`] knows their names.

use std::collections::VecDeque;
use std::time::Duration;

use super::names::Name;
use super::{Remote, Try};
use crate::format::{FileKeys, Front, Header};
use crate::tier::{Miss, Stored, TierError};

/// Names that are kept: of more files than any place for caches should have.
const MAX_NAMES: usize = 1 << 20;
/// How long a scan reads heads.
const HEADS_SPAN: Duration = Duration::from_secs(10);
/// Bytes that are read first: header, table and keys of a model with up to 101 layers.
pub(super) const FRONT_BYTES: u64 = 16 << 10;

pub(super) fn scan(remote: &Remote, each: &mut dyn FnMut(Stored)) -> Result<(), TierError> {
    let scanned = list(remote).and_then(|()| read_heads(remote));
    remote.names.heads().into_iter().for_each(each);
    scanned
}

/// Brings the names up to date, where that is due.
fn list(remote: &Remote) -> Result<(), TierError> {
    let now = remote.clock.now();
    let mut listed_at = remote.listed_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let fresh = listed_at.is_some_and(|then| now < then + remote.options.relist);
    if fresh && remote.breaker.is_closed() {
        return Ok(());
    }
    let within = remote.options.list;
    let listing = remote.ask(Try::Yes, within, move |files| {
        let mut listing = Vec::new();
        let mut each = |path: &str, listed| {
            listing.extend(Name::parse(path).map(|name| (name, listed)));
            listing.len() < MAX_NAMES
        };
        files.list(&mut each, within).map(|()| listing)
    })?;
    remote.names.replace(listing);
    *listed_at = Some(now);
    Ok(())
}

fn read_heads(remote: &Remote) -> Result<(), TierError> {
    let (began, within) = (remote.clock.now(), remote.within(FRONT_BYTES));
    let mut unread = remote.names.unread().into_iter();
    let mut reading = VecDeque::new();
    loop {
        // Half of the threads stay free for those who wait for rows.
        while reading.len() < (remote.files.threads() / 2).max(1) && remote.clock.now() < began + HEADS_SPAN {
            let Some(name) = unread.next() else { break };
            let path = name.path();
            let call =
                remote.begin(Try::Yes, within, move |files| files.read(&path, 0..FRONT_BYTES, within, &|| ()))?;
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

/// The header of a file, which must be the one under this name.
pub(super) fn header(front: &[u8], name: &Name, keys: &FileKeys) -> Result<Header, Miss> {
    let header = Header::parse(front, keys)?;
    if Name::of(&header.id) == *name { Ok(header) } else { Err(Miss::Damaged("another chunk lies under this name")) }
}

/// What the first blocks of a file tell. Of one with very many layers they do not have the keys: it is found without them.
fn stored(front: &[u8], name: &Name, keys: &FileKeys) -> Result<Stored, Miss> {
    let header = header(front, name, keys)?;
    let stored = header.stored(header.file_bytes);
    let Some(front) = front.get(..header.front_bytes()) else { return Ok(stored) };
    let front = Front::parse(header, front, keys)?;
    Ok(Stored { keys: Some(std::sync::Arc::clone(&front.head().keys)), ..stored })
}
