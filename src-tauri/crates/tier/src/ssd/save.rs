//! Saving: writes a draft, then renames it.

use cairn_disk::Mode;

use super::{SsdTier, load};
use crate::chunk::Chunk;
use crate::format::{BLOCK_BYTES, Header, Packing, encode_in_parts};
use crate::tier::{Miss, SaveControl, StoredChunk, TierError};

pub(super) fn save(ssd: &SsdTier, chunk: &Chunk, control: &dyn SaveControl) -> Result<Option<StoredChunk>, TierError> {
    let path = ssd.layout.file(&chunk.head.id);
    let packing = *ssd.packing.lock();
    if let Some((header, room_bytes)) = equivalent_file(ssd, chunk, packing) {
        return Ok(control.may_publish().then(|| header.stored(room_bytes)));
    }
    let file = encode_in_parts(chunk, packing, &ssd.keys, (ssd.nonce)(), &|bytes| control.after_part(bytes))?;
    let mut draft = ssd.disk.create_temp_file(&ssd.layout.drafts(), Mode::Private)?;
    draft.bypass_page_cache();
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
                control.after_part(buffer.len());
            }
        }
    }
    draft.write(&buffer[..filled])?;
    ssd.put_back(work);
    ssd.disk.create_dir_all(path.parent().expect("chunk files have a parent folder"))?;
    if !control.may_publish() {
        return Ok(None);
    }
    if ssd.options.durable {
        draft.persist(&path)?
    } else {
        draft.persist_unsynced(&path)?
    }
    let room_bytes = ssd.disk.open_blocks(&path).and_then(|blocks| blocks.allocated_bytes());
    // Another process may have removed the file already. Assuming its size errs on the safe side.
    Ok(Some(file.header().stored(room_bytes.unwrap_or(file.header().file_bytes))))
}

/// Returns the header of the stored file if the file is valid and serves as well as the new chunk. The whole file is
/// verified, because a guest can replace damaged rows in no other way. This is rare: callers usually know which files
/// exist.
fn equivalent_file(ssd: &SsdTier, chunk: &Chunk, packing: Packing) -> Option<(Header, u64)> {
    let blocks = ssd.disk.open_blocks(&ssd.layout.file(&chunk.head.id)).ok()?;
    let mut work = ssd.work(BLOCK_BYTES);
    let header = load::read_header(ssd, &*blocks, &mut work.buffer[..BLOCK_BYTES]).ok();
    ssd.put_back(work);
    let (header, _) = header.filter(|(header, _)| serves_as_well(header, chunk, packing))?;
    match load::read(ssd, &*blocks, |_| Ok(())) {
        // An encrypted file without a key may be valid.
        Ok(_) | Err(Miss::Mismatch(_)) => Some((header, blocks.allocated_bytes().ok()?)),
        Err(_) => None,
    }
}

/// Returns whether the stored file serves every request that the new chunk would serve. Rows of another arithmetic and
/// rounded rows have the same name. The newer arithmetic is the one in use, and exact rows are better than rounded
/// ones.
fn serves_as_well(existing: &Header, chunk: &Chunk, packing: Packing) -> bool {
    let head = &chunk.head;
    let rounded = head.flags.lossy || packing.is_lossy();
    existing.id == head.id && existing.class == head.class && (rounded || !existing.flags.lossy)
}
