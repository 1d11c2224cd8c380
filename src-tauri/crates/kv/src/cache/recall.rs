//! The way in: chunks from the tiers become pages of a sequence.
//!
//! A recall begins where the pages in memory end. Its chunks are written into the sequence's own new pages and filed as if they had
//! been computed; whatever ends it early, the sequence goes on by computing the rest.

use std::time::Duration;

use cairn_tensor::{Backend, PAGE_TOKENS};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::{End, Next, Restored, Restoring};
use cairn_tier::{Key, Place};

use super::{Cache, Error, SeqId};

/// A recall under way. Dropping it ends it.
pub struct Recall {
    restoring: Restoring,
    end: usize,
}

impl std::fmt::Debug for Recall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recall").field("end", &self.end).finish_non_exhaustive()
    }
}

/// What a recall has at the moment.
#[derive(Debug)]
pub enum Recalled {
    /// So many more tokens of the sequence, from there.
    Tokens(usize, Place),
    /// Nothing yet.
    Waiting,
    /// No more, and why.
    Ended(End),
    /// No more, since sequences in use hold all pages.
    NoPages(Error),
    /// No more, since a chunk is not made as this model's are.
    Misfit,
}

impl Cache {
    /// What the tiers have of this sequence's tokens beyond what it has: none where that is not worth a recall. `worth` is told the
    /// tokens that could come and their bytes by place, and says how many of them are to come and how long to wait.
    pub fn recall(
        &mut self,
        seq: SeqId,
        tokens: &[u32],
        worth: impl FnOnce(usize, usize) -> Option<Duration>,
    ) -> Option<Recall> {
        let have = self.len(seq);
        let keeper = self.keeper.as_ref()?;
        let usable = tokens.len().saturating_sub(1);
        let keys = tokens[..usable].iter().copied().map(Key::token).collect();
        let keeping = keeper.keeping.within(self.sequence(seq).whose.space.as_deref());
        let coverage = keeping.tiers.find_after(&keeping.prefix(keys), have);
        let end = coverage.tokens();
        if end <= have {
            keeper.keeping.tiers.touch(&coverage);
            return None;
        }
        let within = worth(have, end)?;
        let keeper = self.keeper.as_ref()?;
        // Rows come by whole pages.
        let from = have / PAGE_TOKENS * PAGE_TOKENS;
        let restoring = keeper.keeping.tiers.restore(&coverage, from..end, within);
        self.truncate(seq, from);
        Some(Recall { restoring, end })
    }

    /// Brings the next chunk that has arrived into the sequence, without waiting for one.
    pub fn absorb(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: &[u32], recall: &mut Recall) -> Recalled {
        match recall.restoring.try_next() {
            Next::Waiting => Recalled::Waiting,
            Next::Ended(end) => Recalled::Ended(end),
            Next::Ready(restored) => self.take(backend, seq, tokens, &restored),
        }
    }

    fn take(&mut self, backend: &mut dyn Backend, seq: SeqId, tokens: &[u32], restored: &Restored) -> Recalled {
        let have = self.len(seq);
        let first = restored.head().first_position as usize;
        let end = first + restored.rows();
        let keeper = self.keeper.as_ref().expect("a recall is begun by a cache that keeps");
        let fits = restored.head().sections == keeper.geometry.sections(restored.head().keys.len())
            && restored.head().rows == keeper.keeping.rows;
        if !fits || !(first..end).contains(&have) || !first.is_multiple_of(CHUNK_TOKENS) || end >= tokens.len() {
            return Recalled::Misfit;
        }
        if let Err(error) = self.reserve(backend, seq, end - have) {
            return Recalled::NoPages(error);
        }
        for index in have / PAGE_TOKENS..end.div_ceil(PAGE_TOKENS) {
            let page = self.pages(seq)[index];
            let keeper = self.keeper.as_ref().expect("as above");
            keeper.geometry.place(backend, page, restored.payload(), index - first / PAGE_TOKENS);
        }
        self.advance(seq, &tokens[have..end]);
        Recalled::Tokens(end - have, restored.place())
    }
}
