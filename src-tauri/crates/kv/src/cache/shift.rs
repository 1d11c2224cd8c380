//! Making room in a full sequence by forgetting what stands after its beginning, and turning what follows to earlier positions.
//!
//! The rows that stay still carry, in the layers above the first, what was forgotten: they are not the rows of the tokens that are
//! left. **Invariant:** so nobody else ever sees them. From its first shift on, a sequence's pages beyond the kept beginning are its
//! own; neither the trie nor a tier learns of them, and they end with the sequence.

use std::ops::Range;

use cairn_tensor::{Backend, Kv, PAGE_TOKENS, PageId, StateId};

use super::{Cache, Error, SeqId};
use crate::rotation::Rotation;

/// Why a sequence was not shifted; it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ShiftError {
    /// There is no whole page between the beginning that is kept and the end.
    #[error("nothing can go: {kept_tokens} tokens are to be kept of {tokens}")]
    Short {
        /// Tokens at the beginning that are to be kept, by whole pages.
        kept_tokens: usize,
        /// Tokens in all.
        tokens: usize,
    },
    /// Layers with a window would see positions of which they lack the rows.
    #[error("what layers with a window would see was not brought back")]
    Window,
    /// Keys of this type are rounded by blocks, and have been once already.
    #[error("keys of this type would be rounded a second time")]
    Rounded,
    /// No page could be had for a copy.
    #[error(transparent)]
    Pages(#[from] Error),
}

impl Cache {
    /// Forgets half of the whole pages after the first `keep_tokens` tokens, one at least, and moves the rest there. Returns which tokens
    /// are gone.
    ///
    /// # Errors
    /// [`ShiftError`] says why it cannot be done.
    pub fn shift(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        keep_tokens: usize,
        rotation: &Rotation,
    ) -> Result<Range<usize>, ShiftError> {
        self.abandon(seq);
        let sequence = self.sequence(seq);
        let tokens = sequence.keys.len();
        let keep_pages = keep_tokens.div_ceil(PAGE_TOKENS);
        let Some(whole) = (tokens / PAGE_TOKENS).checked_sub(keep_pages).filter(|pages| *pages > 0) else {
            return Err(ShiftError::Short { kept_tokens: keep_pages * PAGE_TOKENS, tokens });
        };
        if sequence.private && rotation.is_coarse() {
            return Err(ShiftError::Rounded);
        }
        let gone_pages = (whole / 2).max(1);
        let gone = keep_pages * PAGE_TOKENS..(keep_pages + gone_pages) * PAGE_TOKENS;
        let moved = sequence.pages[keep_pages + gone_pages..tokens.div_ceil(PAGE_TOKENS)].to_vec();
        let after = [&sequence.pages[..keep_pages], &moved].concat();
        if self.usable_end(&after, tokens - gone.len()) < tokens - gone.len() {
            return Err(ShiftError::Window);
        }
        self.make_room(backend, moved.iter().filter(|&&page| !self.pool.writable(page)).count())?;

        let mut left = Vec::with_capacity(moved.len());
        for (nth, &page) in moved.iter().enumerate() {
            let used = (tokens - gone.end - nth * PAGE_TOKENS).min(PAGE_TOKENS);
            let own = if self.pool.writable(page) {
                page
            } else {
                let own = self.pool.take().expect("make_room left enough free pages");
                backend.copy_page(page, own, used);
                self.pool.set_windowless(own, self.pool.is_windowless(page));
                left.push(page);
                own
            };
            self.turn(backend, own, used, gone.len(), rotation);
            self.sequence_mut(seq).pages[keep_pages + gone_pages + nth] = own;
        }
        let sequence = self.sequences.get_mut(&seq).expect(super::OPEN);
        sequence.keys.drain(gone.clone());
        left.extend(sequence.pages.drain(keep_pages..keep_pages + gone_pages));
        while sequence.published > keep_pages {
            sequence.published -= 1;
            sequence.node = self.trie.parent(sequence.node);
        }
        sequence.private = true;
        self.clock += 1;
        left.into_iter().for_each(|page| self.release(page));
        Ok(gone)
    }

    /// Turns all keys in the first `used` slots of a page.
    fn turn(&self, backend: &mut dyn Backend, page: PageId, used: usize, tokens: usize, rotation: &Rotation) {
        let mut section = Vec::new();
        for state in (0..self.layout.sections.len() as u32).map(StateId) {
            section.resize(self.layout.section(state, Kv::Keys).len(), 0);
            backend.read_section(page, state, Kv::Keys, &mut section);
            rotation.turn(state, &mut section, used, tokens);
            backend.write_section(page, state, Kv::Keys, &section);
        }
    }
}
