//! Loading: reads the preamble first, which determines whether the chunk matches, then the rows in pieces on several
//! threads.
//!
//! A piece is read with direct I/O into an aligned buffer, verified while it is in the processor's cache, and copied
//! or decoded into the payload.

use std::ops::Range;
use std::sync::Arc;

use cairn_disk::{AlignedBuffer, BlockReader, DiskError};
use parking_lot::Mutex;

use super::SsdTier;
use super::file_cache::{self, FileState};
use crate::chunk::Chunk;
use crate::format::{BLOCK_BYTES, Header, Preamble, Workspace};
use crate::tier::{ChunkRequest, Miss, StoredChunk, TierError};

/// Size of a read, unless a section is larger.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// Size of the first read: header, table and keys of a model with up to 101 layers.
const FIRST_BYTES: usize = 4 * BLOCK_BYTES;

/// Buffers of one thread.
pub(super) struct IoBuffers {
    pub(super) buffer: AlignedBuffer,
    space: Workspace,
}

impl SsdTier {
    /// Takes buffers of at least this size, reusing old ones.
    pub(super) fn work(&self, len_bytes: usize) -> IoBuffers {
        let mut work = self.work.lock();
        match work.iter().position(|work| work.buffer.len() >= len_bytes) {
            Some(index) => work.swap_remove(index),
            None => IoBuffers { buffer: AlignedBuffer::new(len_bytes.max(PIECE_BYTES)), space: Workspace::default() },
        }
    }

    pub(super) fn put_back(&self, work: IoBuffers) {
        let mut kept = self.work.lock();
        if kept.len() < self.options.threads && work.buffer.len() <= 4 * PIECE_BYTES {
            kept.push(work);
        }
    }
}

pub(super) fn load(ssd: &SsdTier, wanted: &ChunkRequest<'_>) -> Result<Chunk, Miss> {
    let path = ssd.layout.file(&wanted.id);
    let stamp = file_cache::stamp(&path);
    let blocks = match ssd.disk.open_blocks(&path) {
        Ok(blocks) => blocks,
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Err(Miss::Absent),
        Err(error) => return Err(TierError::from(error).into()),
    };
    let loaded = read(ssd, &*blocks, |front| {
        if front.head().id != wanted.id {
            return Err(Miss::Damaged("the file contains another chunk"));
        }
        wanted.check(front.head())
    });
    if let Err(Miss::Damaged(_)) = loaded {
        // A guest leaves the file in place, and its scans must not report it.
        file_cache::cache_state(ssd, &path, stamp, FileState::Damaged);
        ssd.quarantine(&path);
    }
    Ok(loaded?.0)
}

/// Reads a whole file if `accept` returns `Ok` for its preamble.
pub(super) fn read(
    ssd: &SsdTier,
    blocks: &dyn BlockReader,
    accept: impl FnOnce(&Preamble) -> Result<(), Miss>,
) -> Result<(Chunk, StoredChunk), Miss> {
    let (header, front) = read_preamble(ssd, blocks)?;
    let front = front.ok_or(Miss::Mismatch("the file is encrypted and the key is missing"))?;
    accept(&front)?;
    let mut payload = vec![0; front.head().payload_bytes() as usize];
    let pieces = pieces(&front, &mut payload, header.file_bytes);
    let threads = ssd.options.threads.clamp(1, pieces.len().max(1));
    let pieces = Mutex::new(pieces.into_iter());
    let work = || read_pieces(ssd, blocks, &front, &pieces);
    let read = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().fold(own, |read, other| read.and(other.join().expect("reading does not panic")))
    });
    read?;
    let stored = header.stored(blocks.allocated_bytes().map_err(TierError::from)?);
    Ok((Chunk { head: front.head().clone(), payload: Arc::new(payload) }, stored))
}

/// Reads the header and compares the file's length with it.
pub(super) fn read_header(ssd: &SsdTier, blocks: &dyn BlockReader, buffer: &mut [u8]) -> Result<(Header, usize), Miss> {
    let count = blocks.read_at(0, buffer).map_err(TierError::from)?;
    let header = Header::parse(buffer.get(..count).unwrap_or_default(), &ssd.keys)?;
    if header.file_bytes != blocks.len_bytes().map_err(TierError::from)? {
        return Err(Miss::Damaged("the file has another length than its header says"));
    }
    Ok((header, count))
}

/// Reads header, table and keys. Returns only the header if the file is encrypted and the key is missing.
pub(super) fn read_preamble(ssd: &SsdTier, blocks: &dyn BlockReader) -> Result<(Header, Option<Preamble>), Miss> {
    let mut work = ssd.work(FIRST_BYTES);
    let (header, count) = read_header(ssd, blocks, &mut work.buffer[..FIRST_BYTES])?;
    let preamble_bytes = header.preamble_bytes();
    let front = if preamble_bytes <= count {
        Preamble::parse(header.clone(), &work.buffer[..preamble_bytes], &ssd.keys)
    } else {
        // A verified header limits the number of sections, so this is less than a megabyte.
        let mut buffer = AlignedBuffer::new(preamble_bytes);
        let count = blocks.read_at(0, &mut buffer).map_err(TierError::from)?;
        Preamble::parse(header.clone(), &buffer[..count], &ssd.keys)
    };
    ssd.put_back(work);
    match front {
        Ok(front) => Ok((header, Some(front))),
        Err(Miss::Mismatch(_)) => Ok((header, None)),
        Err(miss) => Err(miss),
    }
}

/// Consecutive sections, in the file and in the payload.
struct Piece<'a> {
    sections: Range<usize>,
    file: Range<u64>,
    rows: &'a mut [u8],
}

fn pieces<'a>(front: &Preamble, mut payload: &'a mut [u8], file_bytes: u64) -> Vec<Piece<'a>> {
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
    // The trailer is read with the last sections.
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

/// Reads pieces until none is left or one is invalid.
fn read_pieces<'a>(
    ssd: &SsdTier,
    blocks: &dyn BlockReader,
    front: &Preamble,
    pieces: &Mutex<std::vec::IntoIter<Piece<'a>>>,
) -> Result<(), Miss> {
    let next = || pieces.lock().next();
    let mut work: Option<IoBuffers> = None;
    while let Some(piece) = next() {
        let len_bytes = (piece.file.end - piece.file.start) as usize;
        let mut own = work.take().filter(|work| work.buffer.len() >= len_bytes).unwrap_or_else(|| ssd.work(len_bytes));
        if let Err(miss) = read_piece(blocks, front, piece, &mut own) {
            // Leaves no work for the other threads.
            pieces.lock().by_ref().for_each(drop);
            return Err(miss);
        }
        work = Some(own);
    }
    work.into_iter().for_each(|work| ssd.put_back(work));
    Ok(())
}

fn read_piece(blocks: &dyn BlockReader, front: &Preamble, piece: Piece<'_>, work: &mut IoBuffers) -> Result<(), Miss> {
    let start = piece.file.start;
    let Some(buffer) = work.buffer.get_mut(..(piece.file.end - start) as usize) else {
        return Err(Miss::Damaged("a piece is longer than its sections"));
    };
    let count = blocks.read_at(start, buffer).map_err(TierError::from)?;
    if count != buffer.len() {
        return Err(Miss::Damaged("the file ends too early"));
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
