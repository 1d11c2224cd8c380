//! SentencePiece BPE: a text starts as characters, and the neighbours whose joined text is the piece with the best score are
//! joined until no neighbours make a piece (Kudo and Richardson 2018, arXiv:1808.06226). Characters that are no piece are spelled
//! as bytes, `<0xAB>`, where the vocabulary has those, else they become the unknown token.
//!
//! Blanks are written as `▁`, and a text that begins the input or follows a special token gets one in front, if the file says so.
//! Control tokens and bytes are never the result of joining: what a user typed stays text.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::blanks::{self, Words};
use crate::pieces::{Index, Pieces};
use crate::recent::Recent;
use crate::trie::LONGEST_BYTES;
use crate::vocab::{Kind, Vocab, byte_name};

/// No piece, no neighbour.
const NONE: u32 = u32::MAX;

/// A vocabulary of scored pieces.
#[derive(Debug)]
pub(crate) struct SentencePiece {
    /// The texts as they lie in the file, with `▁` for blanks.
    texts: Pieces,
    index: Index,
    /// The order of the scores, by id.
    ranks: Vec<u32>,
    /// The token of each byte, or none.
    bytes: Vec<u32>,
    unknown: Option<u32>,
    space_prefix: bool,
    longest_bytes: usize,
    words: Words,
}

/// A piece of the text, in a chain from which joined pieces drop out.
#[derive(Debug, Clone, Copy)]
struct Link {
    start: u32,
    /// Equal to `start` once it has been joined to the one before.
    end: u32,
    id: u32,
    before: u32,
    after: u32,
}

/// Two neighbours that may be joined; the greatest is the best score, then the leftmost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: Reverse<u32>,
    right: u32,
    /// Where the joined piece ends, by which a stale candidate is told.
    end: u32,
    id: u32,
}

/// Room for joining, kept between words.
#[derive(Default)]
struct Scratch {
    chain: Vec<Link>,
    queue: BinaryHeap<Candidate>,
}

impl SentencePiece {
    /// Takes the pieces over; the scores have been counted.
    pub(crate) fn build(vocab: &Vocab, kinds: &[Kind], unknown: Option<u32>, space_prefix: bool) -> SentencePiece {
        let mut texts = Pieces::default();
        for text in &vocab.tokens {
            texts.push(|bytes| bytes.extend_from_slice(text.as_bytes()));
        }
        let joins = |id: u32| {
            let kind = kinds.get(id as usize);
            matches!(kind, Some(Kind::Normal | Kind::UserDefined | Kind::Unused))
                && texts.get(id).len() <= LONGEST_BYTES
        };
        let index = Index::build(&texts, joins);
        let mut bytes = vec![NONE; 256];
        for ((id, text), kind) in (0..).zip(&vocab.tokens).zip(kinds) {
            if *kind == Kind::Byte
                && let Some(place) = byte_name(text).and_then(|byte| bytes.get_mut(usize::from(byte)))
            {
                *place = id;
            }
        }
        let joined = || (0..).zip(&vocab.tokens).filter(|&(id, _)| joins(id)).map(|(_, text)| text.as_str());
        SentencePiece {
            ranks: vocab.scores.iter().map(|&score| rank(score)).collect(),
            bytes,
            unknown,
            space_prefix,
            longest_bytes: joined().map(str::len).max().unwrap_or(0),
            words: Words::new(joined().flat_map(blanks::before_blanks).collect()),
            texts,
            index,
        }
    }

    /// Appends the ids of a part of the input; `fresh` when nothing or a special token stands in front of it.
    pub(crate) fn encode(&self, part: &str, fresh: bool, ids: &mut Vec<u32>) {
        let mut text = String::with_capacity(part.len() + part.len() / 2 + 3);
        if self.space_prefix && fresh {
            text.push(blanks::BLANK);
        }
        blanks::escape(part, &mut text);
        let mut scratch = Scratch::default();
        let mut recent = Recent::for_text(&text);
        self.words.cut(&text, 0, &mut |range| {
            let word = text.get(range).unwrap_or_default();
            recent.ids_of(word.as_bytes(), ids, |ids| self.join(word, &mut scratch, ids));
        });
    }

    /// The piece that `text` is from `start` to `end`.
    fn find(&self, text: &str, start: u32, end: u32) -> Option<u32> {
        let piece = text.as_bytes().get(start as usize..end as usize)?;
        if piece.len() > self.longest_bytes { None } else { self.index.find(&self.texts, piece) }
    }

    fn join(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        // Places are 32 bits wide, as ids are; no prompt comes near 4 GiB.
        if u32::try_from(text.len()).is_err() {
            return;
        }
        let Scratch { chain, queue } = scratch;
        chain.clear();
        queue.clear();
        for (at, (start, letter)) in (0_u32..).zip(text.char_indices()) {
            let (start, end) = (start as u32, (start + letter.len_utf8()) as u32);
            let id = self.find(text, start, end).unwrap_or(NONE);
            chain.push(Link { start, end, id, before: at.wrapping_sub(1), after: at + 1 });
        }
        let offer = |chain: &[Link], left: u32, right: u32, queue: &mut BinaryHeap<Candidate>| {
            if let (Some(first), Some(second)) = (chain.get(left as usize), chain.get(right as usize))
                && let Some(id) = self.find(text, first.start, second.end)
            {
                let rank = self.ranks.get(id as usize).copied().unwrap_or(0);
                queue.push(Candidate { rank, left: Reverse(left), right, end: second.end, id });
            }
        };
        for right in 1..chain.len() as u32 {
            offer(chain, right - 1, right, queue);
        }
        while let Some(Candidate { left: Reverse(left), right, end, id, .. }) = queue.pop() {
            let (Some(&first), Some(&second)) = (chain.get(left as usize), chain.get(right as usize)) else { continue };
            let stale = first.end != second.start || second.end != end || first.start == first.end;
            if stale {
                continue;
            }
            if let Some(link) = chain.get_mut(left as usize) {
                *link = Link { end, id, after: second.after, ..first };
            }
            if let Some(link) = chain.get_mut(right as usize) {
                link.end = link.start;
            }
            if let Some(link) = chain.get_mut(second.after as usize) {
                link.before = left;
            }
            offer(chain, first.before, left, queue);
            offer(chain, left, second.after, queue);
        }
        for link in chain.iter().filter(|link| link.start < link.end) {
            match link.id {
                NONE => self.spell(text.get(link.start as usize..link.end as usize).unwrap_or_default(), ids),
                id => ids.push(id),
            }
        }
    }

    /// Appends the bytes of a character that is no piece, or the unknown token once for a run of such characters.
    fn spell(&self, letter: &str, ids: &mut Vec<u32>) {
        let start = ids.len();
        for byte in letter.bytes() {
            match self.bytes.get(usize::from(byte)) {
                Some(&id) if id != NONE => ids.push(id),
                _ => {
                    ids.truncate(start);
                    if ids.last().copied() != self.unknown {
                        ids.extend(self.unknown);
                    }
                    return;
                }
            }
        }
    }
}

/// A score as a number that orders in the same way; what is no number comes last.
fn rank(score: f32) -> u32 {
    if score.is_nan() {
        return 0;
    }
    // Adding zero turns -0.0 into 0.0, which are equal as scores.
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

#[cfg(test)]
mod tests;
