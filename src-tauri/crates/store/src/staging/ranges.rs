//! Set of byte ranges: sorted, not empty, neither overlapping nor adjacent.

use std::ops::Range;

/// Set of byte offsets, stored as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Sorted by start, with a gap of at least one byte between neighbours.
    sorted: Vec<Range<u64>>,
}

impl Ranges {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a range, which may overlap the set. An empty range adds nothing.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        // Ranges that overlap or touch the new one are merged into it.
        let first = self.sorted.partition_point(|existing| existing.end < range.start);
        let after = self.sorted.partition_point(|existing| existing.start <= range.end);
        let mut joined = range;
        for existing in self.sorted.get(first..after).unwrap_or_default() {
            joined.start = joined.start.min(existing.start);
            joined.end = joined.end.max(existing.end);
        }
        self.sorted.splice(first..after.max(first), [joined]);
    }

    /// Removes all bytes from the offset `len_bytes` on.
    pub fn clip(&mut self, len_bytes: u64) {
        self.sorted.retain(|range| range.start < len_bytes);
        if let Some(last) = self.sorted.last_mut() {
            last.end = last.end.min(len_bytes);
        }
    }

    /// Returns the number of bytes in the set.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.sorted.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns the length of the range that starts at offset 0, or 0.
    #[must_use]
    pub fn prefix_bytes(&self) -> u64 {
        self.sorted.first().filter(|range| range.start == 0).map_or(0, |range| range.end)
    }

    /// Returns the first gap in `from..end`.
    #[must_use]
    pub fn first_gap(&self, from: u64, end: u64) -> Option<Range<u64>> {
        let next = self.sorted.partition_point(|range| range.end <= from);
        let mut rest = self.sorted.get(next..).unwrap_or_default().iter();
        let mut start = from;
        let mut following = rest.next();
        if let Some(range) = following.filter(|range| range.start <= start) {
            start = range.end;
            following = rest.next();
        }
        let end = following.map_or(end, |range| range.start.min(end));
        (start < end).then_some(start..end)
    }

    /// Returns whether the set contains no byte of the range.
    #[must_use]
    pub fn is_disjoint(&self, range: &Range<u64>) -> bool {
        let next = self.sorted.partition_point(|existing| existing.end <= range.start);
        range.is_empty() || self.sorted.get(next).is_none_or(|existing| existing.start >= range.end)
    }

    /// Returns the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.sorted.iter()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}

impl FromIterator<Range<u64>> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        ranges.into_iter().for_each(|range| set.insert(range));
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const END: u64 = 64;

    fn bits(ranges: &[Range<u64>]) -> Vec<bool> {
        (0..END).map(|byte| ranges.iter().any(|range| range.contains(&byte))).collect()
    }

    proptest! {
        /// Compares the set with one flag per byte.
        #[test]
        fn ranges_agree_with_one_flag_per_byte(pairs in prop::collection::vec((0..END, 0..12_u64), 0..12), from in 0..END) {
            let ranges: Vec<_> = pairs.into_iter().map(|(start, length)| start..(start + length).min(END)).collect();
            let set: Ranges = ranges.iter().cloned().collect();
            let flags = bits(&ranges);
            let kept: Vec<_> = set.iter().cloned().collect();
            prop_assert_eq!(bits(&kept), flags.clone(), "the same bytes");
            prop_assert!(kept.windows(2).all(|pair| pair[0].end < pair[1].start), "sorted, with gaps: {:?}", kept);
            prop_assert!(kept.iter().all(|range| range.start < range.end), "none is empty: {:?}", kept);
            prop_assert_eq!(set.total_bytes(), flags.iter().filter(|flag| **flag).count() as u64, "the total");
            prop_assert_eq!(set.prefix_bytes(), flags.iter().take_while(|flag| **flag).count() as u64, "the prefix");
            let start = (from..END).find(|byte| !flags[*byte as usize]);
            let gap = start.map(|start| start..(start..END).find(|byte| flags[*byte as usize]).unwrap_or(END));
            prop_assert_eq!(set.first_gap(from, END), gap, "the first gap from {}", from);
            for end in from..END {
                let none = (from..end).all(|byte| !flags[byte as usize]);
                prop_assert_eq!(set.is_disjoint(&(from..end)), none, "{}..{} of {:?}", from, end, kept);
            }
            let mut clipped = set.clone();
            clipped.clip(from);
            let below: Vec<_> = flags.iter().enumerate().map(|(at, flag)| *flag && (at as u64) < from).collect();
            prop_assert_eq!(bits(&clipped.iter().cloned().collect::<Vec<_>>()), below, "clipped at {}", from);
        }
    }
}
