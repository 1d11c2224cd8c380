//! Who sent the wrong bytes, when only the whole has a digest.
//!
//! A blob that came from one source and has the wrong digest is that source's fault. One that came from several, or in part
//! from an earlier run of the program, is nobody's yet: the digest of each source's share is noted before it is thrown
//! away, and the blob is fetched again from one source alone. If that comes out right, the shares that differ from it
//! show who was wrong; if not, that one source was, and the next is asked alone.

use std::ops::Range;

use cairn_disk::Partial;
use cairn_store::{Digest, Ranges, StagingError};
use sha2::Digest as _;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Sources that sent wrong bytes.
    pub(super) wrong: Vec<usize>,
    /// The only source that is asked.
    pub(super) alone: Option<usize>,
    shares: Vec<Share>,
}

#[derive(Debug)]
struct Share {
    source: usize,
    range: Range<u64>,
    digest: Digest,
}

impl Suspects {
    /// Takes note of a blob with the wrong digest, of which each source `supplied` a part; `earlier` came before. Returns
    /// who is asked next, alone: the last in the caller's order, which is who is asked when all else fails.
    pub(super) fn mismatch(
        &mut self,
        file: &dyn Partial,
        supplied: &[Ranges],
        earlier: &Ranges,
    ) -> Result<Option<usize>, StagingError> {
        let suppliers = supplied.iter().enumerate().filter(|(_, ranges)| !ranges.is_empty());
        match suppliers.map(|(source, _)| source).collect::<Vec<_>>().as_slice() {
            // Nothing came and nothing was there: the size is wrong, and asking again would bring nothing again.
            [] if earlier.is_empty() => return Ok(None),
            [only] if earlier.is_empty() => self.wrong.push(*only),
            _ => {
                for (source, ranges) in supplied.iter().enumerate() {
                    for range in ranges.iter() {
                        let digest = digest_of(file, range.clone())?;
                        self.shares.push(Share { source, range: range.clone(), digest });
                    }
                }
            }
        }
        self.alone = (0..supplied.len()).rev().find(|index| !self.wrong.contains(index));
        Ok(self.alone)
    }

    /// Compares the shares with a blob that has the right digest, and so tells who was wrong.
    pub(super) fn right(&mut self, file: &dyn Partial) -> Result<(), StagingError> {
        for share in std::mem::take(&mut self.shares) {
            if !self.wrong.contains(&share.source) && digest_of(file, share.range)? != share.digest {
                self.wrong.push(share.source);
            }
        }
        Ok(())
    }
}

fn digest_of(file: &dyn Partial, range: Range<u64>) -> Result<Digest, StagingError> {
    let mut hash = sha2::Sha256::new();
    let mut buffer = vec![0; PIECE_BYTES];
    let mut at = range.start;
    while at < range.end {
        let want = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let piece = buffer.get_mut(..want).unwrap_or_default();
        let count = file.read_at(at, piece)?;
        if count == 0 {
            break;
        }
        hash.update(piece.get(..count).unwrap_or_default());
        at += count as u64;
    }
    Ok(Digest::of_hash(hash))
}
