//! Saving: a draft, then its name.

use cairn_disk::Mode;

use super::{Ssd, load, locked};
use crate::chunk::Chunk;
use crate::format::{BLOCK_BYTES, Header, Packing, encode};
use crate::tier::{Miss, Stored, TierError};

pub(super) fn save(ssd: &Ssd, chunk: &Chunk) -> Result<Stored, TierError> {
    let path = ssd.layout.file(&chunk.head.id);
    let packing = *locked(&ssd.packing);
    if let Some((header, room_bytes)) = there(ssd, chunk, packing) {
        return Ok(header.stored(room_bytes));
    }
    let file = encode(chunk, packing, &ssd.keys, (ssd.nonce)())?;
    let mut draft = ssd.disk.draft(&ssd.layout.drafts(), Mode::Private)?;
    draft.past_cache();
    let mut work = ssd.work(BLOCK_BYTES);
    let buffer = &mut *work.buffer;
    let mut filled = 0;
    for mut piece in file.pieces() {
        while !piece.is_empty() {
            let (now, later) = piece.split_at(piece.len().min(buffer.len() - filled));
            buffer[filled..filled + now.len()].copy_from_slice(now);
            filled += now.len();
            piece = later;
            if filled == buffer.len() {
                draft.write(buffer)?;
                filled = 0;
            }
        }
    }
    draft.write(&buffer[..filled])?;
    ssd.put_back(work);
    ssd.disk.create_dir_all(path.parent().expect("files lie in folders"))?;
    if ssd.options.durable {
        draft.keep(&path)?
    } else {
        draft.keep_unsynced(&path)?
    }
    let room_bytes = ssd.disk.open_blocks(&path).and_then(|blocks| blocks.room_bytes());
    // Another process may have removed it already. Then it takes no room, and to count some is the safe side.
    Ok(file.header().stored(room_bytes.unwrap_or(file.header().file_bytes)))
}

/// What is there under this chunk's name, if it serves as well. That takes no longer than to write it, and is seldom asked: whoever
/// saves does not know of a file. A header alone would not do, since a guest has no other way to be rid of rows that are damaged.
fn there(ssd: &Ssd, chunk: &Chunk, packing: Packing) -> Option<(Header, u64)> {
    let blocks = ssd.disk.open_blocks(&ssd.layout.file(&chunk.head.id)).ok()?;
    let mut work = ssd.work(BLOCK_BYTES);
    let header = load::read_header(ssd, &*blocks, &mut work.buffer[..BLOCK_BYTES]).ok();
    ssd.put_back(work);
    let (header, _) = header.filter(|(header, _)| serves_as_well(header, chunk, packing))?;
    match load::read(ssd, &*blocks, |_| Ok(())) {
        // One that is sealed with a key that is not there may be whole.
        Ok(_) | Err(Miss::Other(_)) => Some((header, blocks.room_bytes().ok()?)),
        Err(_) => None,
    }
}

/// Whether those who could use this chunk can use what is there. Rows of another arithmetic, or rounded ones, have the same name; the
/// newer arithmetic is the one in use, and exact rows are better than rounded ones.
fn serves_as_well(there: &Header, chunk: &Chunk, packing: Packing) -> bool {
    let head = &chunk.head;
    let rounded = head.flags.lossy || packing.is_lossy();
    there.id == head.id && there.class == head.class && (rounded || !there.flags.lossy)
}
