//! The stream of an answer: text, thinking and tool calls as separate deltas, and usage at the end.

use cairn_runtime::PromptProgress;

use super::event::Event;
use super::local_answer::LocalAnswer;
use super::remote_answer::RemoteAnswer;
use crate::cache::KvCache;
use crate::values::Usage;

/// An answer in progress. Dropping it cancels the computation.
pub struct Answer {
    source: Source,
    /// Counts the prompt tokens of a local answer when it is dropped.
    count: Option<CountAtEnd>,
}

struct CountAtEnd(KvCache);

impl Drop for CountAtEnd {
    fn drop(&mut self) {
        self.0.count_answer();
    }
}

enum Source {
    Local(Box<LocalAnswer>),
    Remote(Box<RemoteAnswer>),
}

impl Answer {
    pub(crate) fn local(answer: LocalAnswer) -> Self {
        Self { source: Source::Local(Box::new(answer)), count: None }
    }

    pub(crate) fn remote(answer: RemoteAnswer) -> Self {
        Self { source: Source::Remote(Box::new(answer)), count: None }
    }

    /// Counts the answer in the hours of the cache.
    pub(super) fn counted_in(mut self, cache: &KvCache) -> Self {
        self.count = Some(CountAtEnd(cache.clone()));
        self
    }

    /// Tokens of the prompt; 0 if a remote computes the answer, which counts them at its end.
    #[must_use]
    pub fn prompt_tokens(&self) -> usize {
        match &self.source {
            Source::Local(answer) => answer.prompt_tokens(),
            Source::Remote(_) => 0,
        }
    }

    /// Size of the model's weights, if it was loaded on this machine for this answer.
    pub(crate) fn loaded_weights_bytes(&self) -> Option<u64> {
        match &self.source {
            Source::Local(answer) => answer.loaded_weights_bytes(),
            Source::Remote(_) => None,
        }
    }

    /// Progress of the prompt; `None` if a remote computes the answer.
    pub(crate) fn prompt_progress(&self) -> Option<PromptProgress> {
        match &self.source {
            Source::Local(answer) => Some(answer.prompt_progress()),
            Source::Remote(_) => None,
        }
    }

    /// Usage so far: the only usage of a cancelled answer. `None` before the first delta.
    #[must_use]
    pub fn so_far(&self) -> Option<Usage> {
        match &self.source {
            Source::Local(answer) => answer.so_far(),
            Source::Remote(answer) => answer.so_far(),
        }
    }

    /// Returns the next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Event> {
        match &mut self.source {
            Source::Local(answer) => answer.next().await,
            Source::Remote(answer) => answer.next().await,
        }
    }
}
