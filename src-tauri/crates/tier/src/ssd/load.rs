//! Loading: the front first, which says whether the chunk is wanted at all, then the rows, piece by piece on several threads.
//!
//! A piece is read into memory that the disk can write to itself, checked while it is still in the processor's cache, and copied or
//! unpacked to its place.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use cairn_disk::{Blocks, Buffer, DiskError};

use super::scan::{self, Known};
use super::{Ssd, locked};
use crate::chunk::Chunk;
use crate::format::{BLOCK_BYTES, Front, Header, Workspace};
use crate::tier::{Miss, Stored, TierError, Wanted};

/// Bytes that are read at a time, where a section is no longer.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// Bytes that are read first: header, table and keys of a model with up to 101 layers.
const FIRST_BYTES: usize = 4 * BLOCK_BYTES;

/// Memory for one thread.
pub(super) struct Work {
    pub(super) buffer: Buffer,
    space: Workspace,
}

impl Ssd {
    /// Memory of at least so many bytes, of an earlier use where there is some.
    pub(super) fn work(&self, len_bytes: usize) -> Work {
        let mut work = locked(&self.work);
        match work.iter().position(|work| work.buffer.len() >= len_bytes) {
            Some(index) => work.swap_remove(index),
            None => Work { buffer: Buffer::new(len_bytes.max(PIECE_BYTES)), space: Workspace::default() },
        }
    }

    pub(super) fn put_back(&self, work: Work) {
        let mut kept = locked(&self.work);
        if kept.len() < self.options.threads && work.buffer.len() <= 4 * PIECE_BYTES {
            kept.push(work);
        }
    }
}

pub(super) fn load(ssd: &Ssd, wanted: &Wanted<'_>) -> Result<Chunk, Miss> {
    let path = ssd.layout.file(&wanted.id);
    let same = scan::same(&path);
    let blocks = match ssd.disk.open_blocks(&path) {
        Ok(blocks) => blocks,
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Err(Miss::Absent),
        Err(error) => return Err(TierError::from(error).into()),
    };
    let loaded = read(ssd, &*blocks, |front| {
        if front.head().id != wanted.id {
            return Err(Miss::Damaged("another chunk lies under this name"));
        }
        wanted.check(front.head())
    });
    if let Err(Miss::Damaged(_)) = loaded {
        // A guest leaves it where it is, and is not to tell of it again.
        scan::note(ssd, &path, same, Known::Spoiled);
        ssd.put_aside(&path);
    }
    Ok(loaded?.0)
}

/// Reads a whole file if its front is accepted.
pub(super) fn read(
    ssd: &Ssd,
    blocks: &dyn Blocks,
    accept: impl FnOnce(&Front) -> Result<(), Miss>,
) -> Result<(Chunk, Stored), Miss> {
    let (header, front) = read_front(ssd, blocks)?;
    let front = front.ok_or(Miss::Other("it is sealed, and there is no key"))?;
    accept(&front)?;
    let mut payload = vec![0; front.head().payload_bytes() as usize];
    let pieces = pieces(&front, &mut payload, header.file_bytes);
    let threads = ssd.options.threads.clamp(1, pieces.len().max(1));
    let pieces = Mutex::new(pieces.into_iter());
    let work = || read_pieces(ssd, blocks, &front, &pieces);
    let read = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mine = work();
        others.into_iter().fold(mine, |read, other| read.and(other.join().expect("reading does not panic")))
    });
    read?;
    let stored = header.stored(blocks.room_bytes().map_err(TierError::from)?);
    Ok((Chunk { head: front.head().clone(), payload: Arc::new(payload) }, stored))
}

/// The first block, of a file as long as it says.
pub(super) fn read_header(ssd: &Ssd, blocks: &dyn Blocks, buffer: &mut [u8]) -> Result<(Header, usize), Miss> {
    let count = blocks.read_at(0, buffer).map_err(TierError::from)?;
    let header = Header::parse(buffer.get(..count).unwrap_or_default(), &ssd.keys)?;
    if header.file_bytes != blocks.len_bytes().map_err(TierError::from)? {
        return Err(Miss::Damaged("it has another length"));
    }
    Ok((header, count))
}

/// Header, table and keys; only the header where those are sealed and there is no key.
pub(super) fn read_front(ssd: &Ssd, blocks: &dyn Blocks) -> Result<(Header, Option<Front>), Miss> {
    let mut work = ssd.work(FIRST_BYTES);
    let (header, count) = read_header(ssd, blocks, &mut work.buffer[..FIRST_BYTES])?;
    let front_bytes = header.front_bytes();
    let front = if front_bytes <= count {
        Front::parse(header.clone(), &work.buffer[..front_bytes], &ssd.keys)
    } else {
        // A header that was checked counts no more sections than there can be, so this is less than a megabyte.
        let mut buffer = Buffer::new(front_bytes);
        let count = blocks.read_at(0, &mut buffer).map_err(TierError::from)?;
        Front::parse(header.clone(), &buffer[..count], &ssd.keys)
    };
    ssd.put_back(work);
    match front {
        Ok(front) => Ok((header, Some(front))),
        Err(Miss::Other(_)) => Ok((header, None)),
        Err(miss) => Err(miss),
    }
}

/// Sections that lie one after the other, in the file and in the payload.
struct Piece<'a> {
    sections: Range<usize>,
    file: Range<u64>,
    rows: &'a mut [u8],
}

fn pieces<'a>(front: &Front, mut payload: &'a mut [u8], file_bytes: u64) -> Vec<Piece<'a>> {
    let mut cuts: Vec<(Range<usize>, Range<u64>, usize)> = Vec::new();
    for (index, (shape, file)) in front.sections().enumerate() {
        match cuts.last_mut() {
            Some((sections, so_far, rows)) if file.end - so_far.start <= PIECE_BYTES as u64 => {
                sections.end = index + 1;
                so_far.end = file.end;
                *rows += shape.bytes as usize;
            }
            _ => cuts.push((index..index + 1, file, shape.bytes as usize)),
        }
    }
    // The trailer comes with the last sections, or alone where there are none.
    match cuts.last_mut() {
        Some((_, file, _)) => file.end = file_bytes,
        None => cuts.push((0..0, file_bytes - BLOCK_BYTES as u64..file_bytes, 0)),
    }
    let mut pieces = Vec::with_capacity(cuts.len());
    for (sections, file, bytes) in cuts {
        let (rows, after) = payload.split_at_mut(bytes);
        payload = after;
        pieces.push(Piece { sections, file, rows });
    }
    pieces
}

/// Reads pieces until there are none left, or one is not right.
fn read_pieces<'a>(
    ssd: &Ssd,
    blocks: &dyn Blocks,
    front: &Front,
    pieces: &Mutex<std::vec::IntoIter<Piece<'a>>>,
) -> Result<(), Miss> {
    let next = || locked(pieces).next();
    let mut work: Option<Work> = None;
    while let Some(piece) = next() {
        let len_bytes = (piece.file.end - piece.file.start) as usize;
        let mut mine = work.take().filter(|work| work.buffer.len() >= len_bytes).unwrap_or_else(|| ssd.work(len_bytes));
        if let Err(miss) = read_piece(blocks, front, piece, &mut mine) {
            // The others find nothing left to do.
            locked(pieces).by_ref().for_each(drop);
            return Err(miss);
        }
        work = Some(mine);
    }
    work.into_iter().for_each(|work| ssd.put_back(work));
    Ok(())
}

fn read_piece(blocks: &dyn Blocks, front: &Front, piece: Piece<'_>, work: &mut Work) -> Result<(), Miss> {
    let start = piece.file.start;
    let Some(buffer) = work.buffer.get_mut(..(piece.file.end - start) as usize) else {
        return Err(Miss::Damaged("a piece is longer than its sections"));
    };
    let count = blocks.read_at(start, buffer).map_err(TierError::from)?;
    if count != buffer.len() {
        return Err(Miss::Damaged("it ends too early"));
    }
    let mut end = 0;
    let mut rest = piece.rows;
    for (index, (shape, file)) in front.sections().enumerate().take(piece.sections.end).skip(piece.sections.start) {
        let (rows, after) = rest.split_at_mut(shape.bytes as usize);
        rest = after;
        end = (file.end - start) as usize;
        front.open(index, &mut buffer[(file.start - start) as usize..end], rows, &mut work.space)?;
    }
    if end < buffer.len() { Ok(front.check_trailer(&buffer[end..])?) } else { Ok(()) }
}

impl From<DiskError> for TierError {
    fn from(error: DiskError) -> Self {
        match error.source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::Full(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}
