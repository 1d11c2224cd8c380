//! Identifies the source of wrong bytes, although only the whole blob has a digest.
//!
//! If one source sent the whole blob, it is at fault. If several sources or an earlier run contributed, the digest of each
//! source's ranges is stored before the data is deleted, and the blob is downloaded again from a single source. If that
//! data is correct, the stored digests show which sources sent wrong bytes. If not, the single source is at fault, and the
//! next one is tried alone.

use std::ops::Range;

use cairn_disk::PartialFile;
use cairn_store::{Digest, Ranges, StagingError};
use sha2::Digest as _;

/// Size of a read.
const PIECE_BYTES: usize = 256 << 10;

/// The evidence so far.
#[derive(Debug, Default)]
pub(super) struct CorruptionTracker {
    /// Sources that sent wrong bytes.
    pub(super) wrong: Vec<usize>,
    /// The single source of the next attempt.
    pub(super) alone: Option<usize>,
    shares: Vec<Share>,
}

#[derive(Debug)]
struct Share {
    source: usize,
    range: Range<u64>,
    digest: Digest,
}

impl CorruptionTracker {
    /// Records a digest mismatch. `supplied` are the ranges of each source; `earlier` are those of earlier runs. Returns the
    /// single source for the next attempt: the last one in order that is not at fault, usually the origin.
    pub(super) fn mismatch(
        &mut self,
        file: &dyn PartialFile,
        supplied: &[Ranges],
        earlier: &Ranges,
    ) -> Result<Option<usize>, StagingError> {
        let suppliers = supplied.iter().enumerate().filter(|(_, ranges)| !ranges.is_empty());
        match suppliers.map(|(source, _)| source).collect::<Vec<_>>().as_slice() {
            // No bytes were received or stored: the expected size is wrong, and a retry does not help.
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

    /// Compares the stored digests with a correct blob, to identify the sources of wrong bytes.
    pub(super) fn confirm(&mut self, file: &dyn PartialFile) -> Result<(), StagingError> {
        for share in std::mem::take(&mut self.shares) {
            if !self.wrong.contains(&share.source) && digest_of(file, share.range)? != share.digest {
                self.wrong.push(share.source);
            }
        }
        Ok(())
    }
}

fn digest_of(file: &dyn PartialFile, range: Range<u64>) -> Result<Digest, StagingError> {
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
