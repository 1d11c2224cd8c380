//! Prefix tree over token texts.
//!
//! Nodes are stored in one array, breadth first, so the children of a node are adjacent and ordered by byte. The tree
//! has at most as many nodes as the texts have bytes. Texts longer than [`LONGEST_BYTES`] are skipped, because lookups
//! at every position of a text take time proportional to the product of the lengths.

use std::collections::VecDeque;
use std::ops::Range;

/// Maximum size of a text, several times the longest in published vocabularies.
pub(crate) const LONGEST_BYTES: usize = 1024;

/// No token ends here.
const NONE: u32 = u32::MAX;

/// Node of the tree.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// The first child.
    children: u32,
    /// Number of children, at most 256.
    count: u16,
    /// Byte of the edge to this node.
    byte: u8,
    token: u32,
}

/// Texts with their ids.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
}

impl Trie {
    /// Builds the tree. Of equal texts the last one wins. Empty texts are skipped.
    pub(crate) fn build<'a>(texts: impl Iterator<Item = (&'a [u8], u32)>) -> Trie {
        let wanted = texts.filter(|(text, _)| !text.is_empty() && text.len() <= LONGEST_BYTES);
        let mut texts: Vec<(&[u8], u32)> = wanted.collect();
        texts.sort_by_key(|&(text, _)| text);
        let root = Node { children: 0, count: 0, byte: 0, token: NONE };
        let mut trie = Trie { nodes: vec![root] };
        // Each entry is a node, the range of texts below it, and its depth.
        let mut open: VecDeque<(usize, Range<usize>, usize)> = VecDeque::from([(0, 0..texts.len(), 0)]);
        while let Some((node, mut range, depth)) = open.pop_front() {
            let children = trie.nodes.len();
            while let Some(&(text, id)) = texts.get(range.start).filter(|_| range.start < range.end) {
                let Some(&byte) = text.get(depth) else {
                    if let Some(here) = trie.nodes.get_mut(node) {
                        here.token = id;
                    }
                    range.start += 1;
                    continue;
                };
                let same = texts.get(range.clone()).unwrap_or_default();
                let length = same.partition_point(|(text, _)| text.get(depth) <= Some(&byte));
                open.push_back((trie.nodes.len(), range.start..range.start + length, depth + 1));
                trie.nodes.push(Node { children: 0, count: 0, byte, token: NONE });
                range.start += length;
            }
            let count = trie.nodes.len() - children;
            if let Some(here) = trie.nodes.get_mut(node) {
                here.children = children as u32;
                here.count = count as u16;
            }
        }
        trie
    }

    /// Calls `found` with the length and id of each token that is a prefix of `text`, shortest first.
    pub(crate) fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut node = self.nodes.first();
        for (length, &byte) in (1..).zip(text) {
            node = node.and_then(|node| self.child(*node, byte));
            match node {
                None => return,
                Some(node) if node.token != NONE => found(length, node.token),
                Some(_) => {}
            }
        }
    }

    /// Returns the longest token that is a prefix of `text`.
    pub(crate) fn longest(&self, text: &[u8]) -> Option<(usize, u32)> {
        let mut longest = None;
        self.prefixes(text, |length, id| longest = Some((length, id)));
        longest
    }

    fn child(&self, node: Node, byte: u8) -> Option<&Node> {
        let first = node.children as usize;
        let children = self.nodes.get(first..first + usize::from(node.count))?;
        let at = children.binary_search_by_key(&byte, |child| child.byte).ok()?;
        children.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(texts: &[&str], text: &str) {
        let trie = Trie::build((0..).zip(texts).map(|(id, text)| (text.as_bytes(), id)));
        let mut got = Vec::new();
        trie.prefixes(text.as_bytes(), |length, id| got.push((length, id)));
        let begins = |length: usize| text.as_bytes().get(..length);
        let last = |prefix: &[u8]| texts.iter().rposition(|text| text.as_bytes() == prefix);
        let wanted: Vec<(usize, u32)> =
            (1..=text.len()).filter_map(|length| Some((length, last(begins(length)?)? as u32))).collect();
        assert_eq!(got, wanted, "{texts:?} in front of {text:?}");
        assert_eq!(trie.longest(text.as_bytes()), wanted.last().copied(), "the longest of them");
    }

    #[test]
    fn prefixes_are_found_shortest_first() {
        let texts = ["a", "ab", "abc", "b", "", "ab", "é", "éa"];
        for text in ["", "a", "abcd", "ba", "c", "éa", "é\u{301}"] {
            check(&texts, text);
        }
        check(&[], "a");
    }

    #[test]
    fn too_long_tokens_are_skipped() {
        let long = "a".repeat(LONGEST_BYTES + 1);
        let trie = Trie::build([(long.as_bytes(), 7), (b"a".as_slice(), 1)].into_iter());
        assert_eq!(trie.longest(long.as_bytes()), Some((1, 1)), "only the short one is there");
    }

    proptest! {
        #[test]
        fn prefixes_equal_linear_search(texts in prop::collection::vec("[abé]{0,4}", 0..20), text in "[abcé]{0,8}") {
            check(&texts.iter().map(String::as_str).collect::<Vec<_>>(), &text);
        }
    }
}
