//! The schedule of chunks to flush to the tiers.
//!
//! A chunk is flushed when its prefix is used a second time, when its prefix has been idle for a while, when its pages are
//! evicted, and when the model is unloaded. The tiers decide which flushed chunks survive a crash; those that probably do are
//! flushed soon after the end of an answer. The scheduler thread copies the rows between two steps, in small slices while it
//! answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cairn_tier::Group;

use crate::trie::NodeId;

/// Time without use after which a prefix is flushed.
const IDLE: Duration = Duration::from_secs(30);
/// As [`IDLE`], for a prefix that must survive a crash. An agent's next request often follows sooner, and makes the last chunk
/// longer.
const SOON: Duration = Duration::from_secs(1);

/// A chunk in the schedule. The trie node of its last page identifies it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When the next group is flushed; none if all wanted groups were.
    due: Option<Duration>,
    /// Number of pages up to its last token. Earlier chunks of a prefix are flushed first.
    pages: usize,
    /// Groups to flush.
    wanted: GroupSet,
    /// Groups that were flushed.
    flushed: GroupSet,
    /// Whether the prefix was used again.
    is_reused: bool,
}

/// A set of layer groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GroupSet {
    full: bool,
    window: bool,
}

impl Entry {
    /// The group to flush next. Windows are last, because they are of no use alone.
    fn next(&self) -> Option<Group> {
        let full = (self.wanted.full && !self.flushed.full).then_some(Group::Full);
        full.or((self.wanted.window && !self.flushed.window).then_some(Group::Window))
    }
}

/// The cached chunks and their flush times, by the trie node of their last page.
#[derive(Debug, Default)]
pub(crate) struct FlushSchedule {
    entries: BTreeMap<NodeId, Entry>,
    due: BTreeSet<(Duration, usize, NodeId)>,
}

impl FlushSchedule {
    /// Records a use at `now` of the prefix that ends with this chunk. `window`: rows of window layers are wanted too. `soon`: the
    /// chunk must survive a crash.
    pub(crate) fn add_use(&mut self, node: NodeId, pages: usize, window: bool, soon: bool, now: Duration) {
        let idle = now.saturating_add(if soon { SOON } else { IDLE });
        let entry = match self.entries.get(&node) {
            // After a second use, a third is likely.
            Some(entry) => Entry { due: entry.due.map(|due| due.min(now)), is_reused: true, ..*entry },
            None => Entry {
                due: Some(idle),
                pages,
                wanted: GroupSet { full: true, window: false },
                flushed: GroupSet::default(),
                is_reused: false,
            },
        };
        let wanted = GroupSet { window: entry.wanted.window || window, ..entry.wanted };
        let entry = Entry { wanted, ..entry };
        self.set(node, Entry { due: entry.due.or(Some(idle).filter(|_| entry.next().is_some())), ..entry });
    }

    /// Whether the prefix of a chunk was used again.
    pub(crate) fn is_reused(&self, node: NodeId) -> bool {
        self.entries.get(&node).is_some_and(|entry| entry.is_reused)
    }

    /// The next chunk that is due.
    pub(crate) fn next(&self, now: Duration) -> Option<NodeId> {
        self.due.first().filter(|(due, ..)| *due <= now).map(|&(.., node)| node)
    }

    /// When the next chunk is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(due, ..)| *due)
    }

    /// All chunks that were not flushed, earlier chunks of a prefix first.
    pub(crate) fn all(&self) -> Vec<NodeId> {
        let mut all: Vec<_> = self.due.iter().map(|&(_, pages, node)| (pages, node)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, node)| node).collect()
    }

    /// The group of a chunk to flush next; none if all were flushed.
    pub(crate) fn next_group(&self, node: NodeId) -> Option<Group> {
        self.entries.get(&node).filter(|entry| entry.due.is_some())?.next()
    }

    /// Records that a group of a chunk was flushed.
    pub(crate) fn set_flushed(&mut self, node: NodeId, group: Group) {
        let Some(&(mut entry)) = self.entries.get(&node) else { return };
        match group {
            Group::Full => entry.flushed.full = true,
            Group::Window => entry.flushed.window = true,
        }
        self.set(node, Entry { due: entry.due.filter(|_| entry.next().is_some()), ..entry });
    }

    /// Retries a chunk later, because the tiers had no room.
    pub(crate) fn retry_at(&mut self, node: NodeId, time: Duration) {
        if let Some(&entry) = self.entries.get(&node) {
            self.set(node, Entry { due: Some(time), ..entry });
        }
    }

    /// Removes a chunk whose node has left the trie.
    pub(crate) fn remove(&mut self, node: NodeId) {
        if let Some(Entry { due: Some(due), pages, .. }) = self.entries.remove(&node) {
            self.due.remove(&(due, pages, node));
        }
    }

    fn set(&mut self, node: NodeId, entry: Entry) {
        self.remove(node);
        self.due.extend(entry.due.map(|due| (due, entry.pages, node)));
        self.entries.insert(node, entry);
    }
}
