//! Context shift: drops tokens from the middle of a sequence, and rotates the keys after them to earlier positions.
//!
//! Above the first layer, the remaining rows were computed with the dropped tokens, so they differ from the rows of the remaining tokens
//! alone. **Invariant:** other sequences never use them. After a shift, the pages beyond the kept prefix belong to the sequence
//! alone. Neither the trie nor a tier gets them.

use std::ops::Range;

use cairn_tensor::{Backend, Kv, PAGE_TOKENS, PageId, StateId};

use super::{Cache, Error, SeqId};
use crate::rotation::Rotation;

/// Why a sequence was not shifted. It is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ShiftError {
    /// There is no full page between the kept prefix and the end.
    #[error("no full page to drop: {kept_tokens} of {tokens} tokens must stay")]
    Short {
        /// Tokens of the kept prefix, in full pages.
        kept_tokens: usize,
        /// All tokens.
        tokens: usize,
    },
    /// Window layers would attend to positions whose rows are missing.
    #[error("window layers lack rows that were not restored")]
    Window,
    /// The states of recurrent layers depend on all tokens, also on those that would be dropped.
    #[error("the model has recurrent layers")]
    Recurrent,
    /// Keys of this type are rounded by blocks, and were shifted before.
    #[error("keys of this type would be rounded a second time")]
    Rounded,
    /// No page is free for a copy.
    #[error(transparent)]
    Pages(#[from] Error),
}

impl Cache {
    /// Drops half of the full pages after the first `keep_tokens` tokens, at least one, and moves the rest there. Returns the dropped
    /// tokens.
    ///
    /// # Errors
    /// See [`ShiftError`].
    pub fn shift(
        &mut self,
        backend: &mut dyn Backend,
        seq: SeqId,
        keep_tokens: usize,
        rotation: &Rotation,
    ) -> Result<Range<usize>, ShiftError> {
        self.cancel_restore(seq);
        if self.is_recurrent() {
            return Err(ShiftError::Recurrent);
        }
        let sequence = self.sequence(seq);
        let tokens = sequence.keys.len();
        let keep_pages = keep_tokens.div_ceil(PAGE_TOKENS);
        let Some(full_pages) = (tokens / PAGE_TOKENS).checked_sub(keep_pages).filter(|pages| *pages > 0) else {
            return Err(ShiftError::Short { kept_tokens: keep_pages * PAGE_TOKENS, tokens });
        };
        if sequence.private && rotation.is_coarse() {
            return Err(ShiftError::Rounded);
        }
        let dropped_pages = (full_pages / 2).max(1);
        let dropped = keep_pages * PAGE_TOKENS..(keep_pages + dropped_pages) * PAGE_TOKENS;
        let moved = sequence.pages[keep_pages + dropped_pages..tokens.div_ceil(PAGE_TOKENS)].to_vec();
        let after = [&sequence.pages[..keep_pages], &moved].concat();
        if self.usable_end(&after, tokens - dropped.len()) < tokens - dropped.len() {
            return Err(ShiftError::Window);
        }
        self.make_room(backend, moved.iter().filter(|&&page| !self.pool.writable(page)).count())?;

        let mut released = Vec::with_capacity(moved.len());
        for (nth, &page) in moved.iter().enumerate() {
            let used = (tokens - dropped.end - nth * PAGE_TOKENS).min(PAGE_TOKENS);
            let own = if self.pool.writable(page) {
                page
            } else {
                let own = self.pool.take().expect("make_room freed enough pages");
                backend.copy_page(page, own, used);
                self.pool.set_missing_window_rows(own, self.pool.is_missing_window_rows(page));
                released.push(page);
                own
            };
            self.rotate_page(backend, own, used, dropped.len(), rotation);
            self.sequence_mut(seq).pages[keep_pages + dropped_pages + nth] = own;
        }
        let sequence = self.sequences.get_mut(&seq).expect(super::OPEN);
        sequence.keys.drain(dropped.clone());
        released.extend(sequence.pages.drain(keep_pages..keep_pages + dropped_pages));
        while sequence.published > keep_pages {
            sequence.published -= 1;
            sequence.node = self.trie.parent(sequence.node);
        }
        sequence.private = true;
        self.clock += 1;
        released.into_iter().for_each(|page| self.release(page));
        Ok(dropped)
    }

    /// Rotates all keys in the first `used` slots of a page.
    fn rotate_page(&self, backend: &mut dyn Backend, page: PageId, used: usize, tokens: usize, rotation: &Rotation) {
        let mut section = Vec::new();
        for state in (0..self.layout.sections.len() as u32).map(StateId) {
            section.resize(self.layout.section(state, Kv::Keys).len(), 0);
            backend.read_section(page, state, Kv::Keys, &mut section);
            rotation.rotate(state, &mut section, used, tokens);
            backend.write_section(page, state, Kv::Keys, &section);
        }
    }
}
