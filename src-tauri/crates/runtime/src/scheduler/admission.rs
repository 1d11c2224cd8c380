//! Admission: which waiting requests become active, and which active sequences make room for them.
//!
//! The next request is of the client with the fewest active sequences, so that a client with many requests does not delay those of
//! others. A client without an active sequence takes the place of another client's second one. Paused sequences keep
//! their rows cached and continue later.
//!
//! Many more requests may wait than are active, so a step looks at them only after a change that may admit one: a command, which also
//! reports clients that read or leave, or another number of requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_tier::Key;

use super::{PAGE_TIMEOUT, Scheduler};
use crate::client::{Client, Priority};
use crate::encoder::PictureEncoder;
use crate::input;
use crate::picture::{self, PromptPicture};
use crate::request::{Event, GenerateError};
use crate::sequence::{Job, Sequence};

/// Time without reads after which a sequence makes room for another one. A client that is busy for a moment keeps its place.
const BLOCKED_TIME: Duration = Duration::from_millis(100);

/// A request that is not active.
pub(crate) enum Waiting {
    /// The request has not begun.
    New(Box<Job>),
    /// The sequence has begun and was paused.
    Paused(Box<Sequence>),
}

impl Waiting {
    pub(super) fn client(&self) -> &Client {
        match self {
            Self::New(job) => &job.client,
            Self::Paused(sequence) => sequence.client(),
        }
    }

    fn is_cancelled(&self) -> bool {
        match self {
            Self::New(job) => job.events.is_cancelled(),
            Self::Paused(sequence) => sequence.is_cancelled(),
        }
    }

    /// Whether its client does not read.
    pub(super) fn is_blocked(&self) -> bool {
        match self {
            Self::New(_) => false,
            Self::Paused(sequence) => sequence.is_blocked(),
        }
    }

    /// Whether its client does not read. If so, the client wakes the scheduler when it reads.
    fn waits_for_client(&self) -> bool {
        match self {
            Self::New(_) => false,
            Self::Paused(sequence) => sequence.is_blocked() && sequence.wait_for_client(),
        }
    }
}

/// The state at the end of an admission. While it is the same, another admission would change nothing: between two of them, requests
/// are added by commands only, and no sequence becomes active.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Number of commands so far.
    commands: u64,
    active: usize,
    waiting: usize,
    is_crowded: bool,
    /// Whether a request waits for room only.
    has_ready: bool,
}

impl Scheduler {
    /// Admits waiting requests while there is room. Requests whose client does not read do not hold up others. Cancelled
    /// requests are dropped.
    pub(super) fn admit(&mut self, active: &mut Vec<Sequence>) {
        let has_ready = self.admission.has_ready;
        let is_same = self.admission == self.admission_state(active, has_ready);
        if is_same && !(has_ready && self.longest_unread(active).is_some()) {
            return;
        }
        let before = self.waiting.len();
        self.waiting.retain(|waiting| !waiting.is_cancelled());
        self.has_changed |= self.waiting.len() < before;
        if self.waiting.is_empty() && active.is_empty() {
            // The sequence that was short of pages was cancelled.
            self.short_of_pages_since = None;
        }
        let clients = active.iter().map(Sequence::client).chain(self.waiting.iter().map(Waiting::client));
        self.shares.set_present(clients);
        let mut next = self.next_waiting(active);
        while let Some(index) = next
            && self.has_room(active, index)
        {
            match self
                .waiting
                .remove(index)
                .expect("the position was just found, and paused sequences are added behind it")
            {
                Waiting::New(job) => {
                    if let Some(place) = &job.place {
                        let waited = place.waited();
                        self.counters.count(|metrics| metrics.queue_waits.add(waited));
                    }
                    active.extend(self.begin(*job));
                    self.has_changed = true;
                }
                Waiting::Paused(mut sequence) => {
                    let (seq, cached) = self.cache.open_scoped(sequence.keys(), sequence.scope());
                    sequence.reopen(seq, cached);
                    self.begin_restore(&mut sequence);
                    active.push(*sequence);
                    // A sequence that waits for pages of other models is tried again after a command only.
                    self.has_changed |= self.short_of_pages_since.is_none();
                }
            }
            next = self.next_waiting(active);
        }
        self.admission = self.admission_state(active, next.is_some());
    }

    fn admission_state(&self, active: &[Sequence], has_ready: bool) -> Admission {
        Admission {
            commands: self.received,
            active: active.len(),
            waiting: self.waiting.len(),
            is_crowded: self.is_crowded,
            has_ready,
        }
    }

    /// The position of the next request to admit.
    fn next_waiting(&self, active: &[Sequence]) -> Option<usize> {
        let ready = (0..self.waiting.len()).filter(|&index| !self.waiting[index].waits_for_client());
        ready.min_by_key(|&index| {
            let client = self.waiting[index].client();
            let running = active.iter().filter(|sequence| sequence.client() == client).count();
            // Requests that differ in the used time only are admitted alike, so the next step need not compare it again.
            (client.priority, running, self.shares.used(client), index)
        })
    }

    /// Whether the waiting request at `next` may become active. Pauses another sequence if that makes room: one whose client
    /// does not read, or one of a client that has more than its share.
    fn has_room(&mut self, active: &mut Vec<Sequence>, next: usize) -> bool {
        if active.len() < self.parallel && (active.is_empty() || !self.is_crowded) {
            return true;
        }
        let unread = self.longest_unread(active);
        let is_unread = unread.is_some();
        let Some(paused) = unread.or_else(|| self.over_share(active, next)) else { return false };
        let mut sequence = active.remove(paused);
        self.cache.close(sequence.seq);
        if is_unread {
            sequence.leave_queue();
            self.counters.count(|metrics| metrics.unread_pauses += 1);
        }
        self.waiting.push_back(Waiting::Paused(Box::new(sequence)));
        true
    }

    /// The sequence whose client has read nothing for the longest time, if that is [`BLOCKED_TIME`] or nothing else can run.
    fn longest_unread(&self, active: &mut [Sequence]) -> Option<usize> {
        let now = Instant::now();
        let can_run = active.iter().any(|sequence| !sequence.is_blocked());
        let unread = active.iter_mut().enumerate().filter_map(|(index, sequence)| {
            let since = sequence.unread_since(now).filter(|_| sequence.is_blocked())?;
            (!can_run || now - since >= BLOCKED_TIME).then_some((since, index))
        });
        unread.min().map(|(_, index)| index)
    }

    /// The youngest sequence of the client with the most sequences, if the client of the waiting request at `next` has none; or
    /// the youngest batch request, if that one is interactive.
    fn over_share(&self, active: &[Sequence], next: usize) -> Option<usize> {
        let waiting = self.waiting[next].client();
        if self.is_crowded || active.iter().any(|sequence| sequence.client() == waiting) {
            return None;
        }
        let of_most = |&index: &usize| {
            let client = active[index].client();
            (client.priority, sequences_of(active, client), index)
        };
        let index = (0..active.len()).max_by_key(of_most)?;
        let client = active[index].client();
        let is_less_urgent = client.priority == Priority::Batch && waiting.priority == Priority::Interactive;
        (is_less_urgent || (sequences_of(active, client) > 1 && client.priority >= waiting.priority)).then_some(index)
    }

    /// Opens a sequence for a request with the cached prefix of its prompt, or fails the request.
    fn begin(&mut self, mut job: Job) -> Option<Sequence> {
        let prompt = &job.request.prompt;
        let (prompt_tokens, context_tokens) = (prompt.len(), job.context_tokens);
        let error = if prompt.is_empty() {
            GenerateError::EmptyPrompt
        } else if prompt_tokens >= context_tokens {
            GenerateError::PromptTooLong { prompt_tokens, context_tokens }
        } else if let Some(token) = self.unknown_token(prompt, &job.request.pictures) {
            // A backend rejects the whole batch, and with it the answers of all other requests.
            GenerateError::UnknownToken { token, vocabulary: self.vocabulary }
        } else {
            let tower = self.encoder.as_ref().map(PictureEncoder::identity);
            let start = self.input.as_ref().map(|input| input.start);
            let keys = match start {
                Some(start) => input::keys(prompt).into_iter().chain([Key::token(start)]).collect(),
                None => {
                    let mut keys = Vec::with_capacity(prompt.len());
                    picture::extend_keys(&mut keys, prompt, &job.request.pictures, tower.as_ref());
                    keys
                }
            };
            let (seq, cached) = self.cache.open_scoped(&keys, &job.request.scope);
            self.counters.count(|metrics| metrics.add_lookup(prompt_tokens, cached));
            let sequence = Sequence::new(job, seq, cached, self.seeds.next(), Arc::clone(&self.tokenizer));
            let mut sequence = match start {
                Some(start) => sequence.with_input(start),
                None => sequence.with_keys(keys, tower),
            };
            if sequence.finish_if_empty() {
                self.cache.close(seq);
                return None;
            }
            self.begin_restore(&mut sequence);
            return Some(sequence);
        };
        job.events.end(Event::Error(error));
        None
    }

    /// The first number in a prompt that is no token, nor one of these pictures with all its rows.
    pub(super) fn unknown_token(&self, prompt: &[u32], pictures: &[PromptPicture]) -> Option<u32> {
        let tower = self.encoder.as_ref().map(PictureEncoder::hparams);
        let is_picture = |run: &[u32]| {
            let picture = picture::picture_index(run[0]).and_then(|index| pictures.get(index));
            picture.zip(tower).is_some_and(|(picture, tower)| run.len() == picture.rows() && picture.fits(tower))
        };
        let mut runs = prompt.chunk_by(|a, b| a == b);
        runs.find(|run| run[0] as usize >= self.vocabulary && !is_picture(run)).map(|run| run[0])
    }

    /// Frees pages when no sequence can continue. Pauses a sequence whose client does not read, else the youngest; its rows may
    /// be evicted. Fails a sequence that is alone, once no other model will free pages. Returns whether a sequence is left.
    pub(super) fn preempt(
        &mut self,
        active: &mut Vec<Sequence>,
        error: &cairn_kv::Error,
        others_have_pages: bool,
    ) -> bool {
        let blocked = active.iter().rposition(Sequence::is_blocked);
        let Some(last) = active.len().checked_sub(1) else { return false };
        let mut sequence = active.remove(blocked.unwrap_or(last));
        self.cache.close(sequence.seq);
        let was_alone = active.is_empty();
        if was_alone && !self.pages_may_come(others_have_pages) {
            sequence.fail(GenerateError::CacheFull(error.to_string()));
            self.has_changed = true;
            return false;
        }
        if !was_alone {
            tracing::warn!(%error, "KV cache is full: a generation is paused until another finishes");
            self.has_changed = true;
        }
        self.is_crowded = true;
        self.waiting.push_front(Waiting::Paused(Box::new(sequence)));
        !was_alone
    }

    /// Whether a sequence that is alone may still get pages: an unloaded model frees its pages after its flush, and another
    /// model may have started to answer by then.
    fn pages_may_come(&mut self, others_have_pages: bool) -> bool {
        let since = *self.short_of_pages_since.get_or_insert_with(Instant::now);
        others_have_pages && since.elapsed() < PAGE_TIMEOUT
    }
}

/// Number of active sequences of a client.
fn sequences_of(active: &[Sequence], client: &Client) -> usize {
    active.iter().filter(|sequence| sequence.client().name == client.name).count()
}
