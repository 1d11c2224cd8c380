//! The loop that computes: one thread for each loaded model.
//!
//! Every step gathers rows from all active sequences into one batch, so that several answers grow at once: first the
//! sequences that need a single row, then pieces of longer prompts, short ones while others are waiting for their next
//! token. After the step each sequence whose last row was in it gets its next token.
//!
//! **Invariant:** a row's logits do not depend on the batch around it, so the order chosen here changes when an answer
//! comes, never what it says.

mod recall;
mod space;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use cairn_kv::{Cache, Fixed, Rotation};
use cairn_models::ModelFile;
use cairn_tensor::{Backend, Batch, BufferId, PlanId, Row, Team};
use cairn_tokenizer::Tokenizer;

pub(crate) use self::recall::HAND_OVER;
use crate::errand::Errand;
use crate::random::Random;
use crate::request::{Event, GenerateError};
use crate::sequence::{Job, Sequence};
use crate::usage::Counters;

/// Rows of a batch that carries nothing but prompts.
pub(crate) const BATCH_ROWS: usize = 512;
/// Prompt rows of a batch that also carries the next token of running answers, so that these do not stall.
const SHARED_PROMPT_ROWS: usize = 64;
/// How long an answer waits for pages that other models hold. One that is unloaded takes up to [`HAND_OVER`] to give its own back, and
/// longer on a machine that is busy.
const PAGES_WITHIN: Duration = HAND_OVER.saturating_mul(5);
/// How long to sleep when every listener is behind.
const STALL: Duration = Duration::from_millis(1);

/// What a scheduler works with.
pub(crate) struct Scheduler {
    pub(crate) file: Arc<ModelFile>,
    /// The threads that compute; this one is the first of them.
    pub(crate) team: Arc<Team>,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) plan: PlanId,
    pub(crate) logits: BufferId,
    pub(crate) vocabulary: usize,
    pub(crate) cache: Cache,
    /// How the model's keys are turned, if they can be.
    pub(crate) rotation: Result<Rotation, Fixed>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// Sequences that are computed at once; further requests wait.
    pub(crate) parallel: usize,
    /// Requests without a place in the cache, next first but for those whose clients do not read.
    pub(crate) waiting: VecDeque<Waiting>,
    /// Set when pages ran out: nobody is admitted before an answer has ended, or its client has stopped reading.
    pub(crate) crowded: bool,
    /// Since when a sequence that is alone has found no page.
    pub(crate) short_since: Option<Instant>,
    /// What the last step took.
    pub(crate) step_took: Duration,
    /// Source of the seeds of requests that name none.
    pub(crate) seeds: Random,
    /// What is asked of the model, for whoever reads metrics.
    pub(crate) counters: Arc<Counters>,
    pub(crate) inbox: Receiver<Job>,
    /// What else is asked of it.
    pub(crate) errands: Receiver<Errand>,
    /// Requests not yet begun, counted for the queue's limit.
    pub(crate) queued: Arc<AtomicUsize>,
    /// Set by the engine to end all work, and by the scheduler when it has ended.
    pub(crate) closing: Arc<AtomicBool>,
    pub(crate) alive: Arc<AtomicBool>,
}

impl Scheduler {
    /// Serves requests until the engine lets go of the model, or the model's file fails.
    pub(crate) fn run(mut self) {
        // Two threads of a team on one core would wait for each other at every barrier.
        self.team.pin_caller();
        let mut active = Vec::new();
        let mut batch = Batch::default();
        let mut row = vec![0.0; self.vocabulary];
        // The last to be declared is dropped first: whoever is told of the end by a drop may ask again at once.
        let _alive = Alive(Arc::clone(&self.alive));
        let (mut keeping, mut answering) = (false, None);
        loop {
            let open = self.receive(active.is_empty() && !keeping);
            self.run_errands(&mut active);
            if !open && self.waiting.is_empty() && active.is_empty() {
                break self.hand_over();
            }
            if self.closing.load(Ordering::Relaxed) {
                self.fail(&mut active, &GenerateError::Unloaded);
                break self.hand_over();
            }
            self.admit(&mut active);
            self.absorb(&mut active);
            self.make_space(&mut active);
            answering = if active.is_empty() { None } else { answering.or_else(|| self.cache.answering()) };
            keeping = self.keep(!active.is_empty());
            if let Err(error) = self.step(&mut active, &mut batch, &mut row) {
                tracing::error!(%error, "the model is unloaded");
                self.fail(&mut active, &error);
                break;
            }
        }
    }

    /// Copies what is due for the tiers: a whole chunk where nobody waits, else as much as makes the step before it hardly longer.
    /// Returns whether there was something.
    fn keep(&mut self, answering: bool) -> bool {
        let began = Instant::now();
        let most_bytes = if answering { slice_bytes(self.step_took) } else { usize::MAX };
        let keeping = self.cache.keep_some(self.backend.as_ref(), most_bytes);
        if answering && keeping {
            self.counters.count(|usage| usage.stalls.add(began.elapsed()));
        }
        keeping
    }

    /// Takes in new requests; waits for one when there is nothing to do. Returns whether more can come.
    fn receive(&mut self, idle: bool) -> bool {
        if idle && self.waiting.is_empty() {
            // The time-out is there only to notice a shutdown.
            match self.inbox.recv_timeout(Duration::from_millis(200)) {
                Ok(job) => self.waiting.push_back(Waiting::New(Box::new(job))),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        loop {
            match self.inbox.try_recv() {
                Ok(job) => self.waiting.push_back(Waiting::New(Box::new(job))),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Gives waiting requests a place, in their order, as long as there is one. Who does not read waits without hindering
    /// those behind, and who has gone does not count.
    fn admit(&mut self, active: &mut Vec<Sequence>) {
        let before = self.new_requests();
        self.waiting.retain(|waiting| !waiting.gone());
        self.queued.fetch_sub(before - self.new_requests(), Ordering::Relaxed);
        while let Some(next) = self.waiting.iter().position(|waiting| !waiting.stalled())
            && self.find_place(active)
        {
            match self.waiting.remove(next).expect("the position was just found, and places are added behind it") {
                Waiting::New(job) => {
                    self.queued.fetch_sub(1, Ordering::Relaxed);
                    active.extend(self.begin(*job));
                }
                Waiting::Paused(mut sequence) => {
                    let (seq, cached) = self.cache.open_for(sequence.history(), sequence.whose());
                    sequence.reopen(seq, cached);
                    self.recall(&mut sequence);
                    active.push(*sequence);
                }
            }
        }
    }

    /// Whether one more sequence may be active. One whose client does not read gives up its place to one that waits.
    fn find_place(&mut self, active: &mut Vec<Sequence>) -> bool {
        if active.len() < self.parallel && (active.is_empty() || !self.crowded) {
            return true;
        }
        let Some(stalled) = active.iter().position(Sequence::stalled) else { return false };
        let sequence = active.remove(stalled);
        self.cache.close(sequence.seq);
        self.waiting.push_back(Waiting::Paused(Box::new(sequence)));
        true
    }

    fn new_requests(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting, Waiting::New(_))).count()
    }

    /// Finds a place for a request and what the cache has of its prompt, or tells it why not.
    fn begin(&mut self, mut job: Job) -> Option<Sequence> {
        let prompt = &job.request.prompt;
        let (prompt_tokens, context_tokens) = (prompt.len(), job.context_tokens);
        let refused = if prompt.is_empty() {
            GenerateError::EmptyPrompt
        } else if prompt_tokens >= context_tokens {
            GenerateError::PromptTooLong { prompt_tokens, context_tokens }
        } else if let Some(&token) = prompt.iter().find(|&&token| token as usize >= self.vocabulary) {
            // A backend refuses the whole batch, and with it everybody else's answer.
            GenerateError::UnknownToken { token, vocabulary: self.vocabulary }
        } else {
            let (seq, cached) = self.cache.open_for(prompt, &job.request.whose);
            self.counters.count(|usage| usage.lookup(prompt_tokens, cached));
            let mut sequence = Sequence::new(job, seq, cached, self.seeds.next(), Arc::clone(&self.tokenizer));
            if sequence.wants_nothing() {
                self.cache.close(seq);
                return None;
            }
            self.recall(&mut sequence);
            return Some(sequence);
        };
        job.listener.end(Event::Failed(refused));
        None
    }

    /// Ends the answers of those who have gone.
    pub(crate) fn let_go(&mut self, active: &mut Vec<Sequence>) {
        for gone in active.extract_if(.., |sequence| sequence.cancelled()) {
            self.cache.close(gone.seq);
            self.crowded = false;
        }
    }

    /// Computes one batch and hands out its tokens.
    fn step(&mut self, active: &mut Vec<Sequence>, batch: &mut Batch, logits: &mut [f32]) -> Result<(), GenerateError> {
        self.let_go(active);
        let parts = self.gather(active, batch);
        if parts.is_empty() {
            if !active.is_empty() || !self.waiting.is_empty() {
                std::thread::sleep(STALL);
            }
            return Ok(());
        }
        let began = Instant::now();
        self.short_since = None;
        let run = self.backend.run(self.plan, batch);
        let took = began.elapsed();
        self.step_took = took;
        // A file that changed under the mapping makes any result worthless, so that comes first.
        self.file.check().map_err(|error| GenerateError::ModelVanished(error.to_string()))?;
        run.map_err(|error| GenerateError::Backend(error.to_string()))?;

        if let [Part { index, tokens }] = parts[..] {
            let from = active[index].computed();
            self.cache.computed(from..from + tokens, took);
        }
        let mut ended = Vec::new();
        let mut logit_row = 0;
        for Part { index, tokens } in parts {
            let sequence = &mut active[index];
            self.cache.advance(sequence.seq, &sequence.pending()[..tokens]);
            sequence.advance(tokens);
            if sequence.pending().is_empty() {
                self.prefilled(sequence);
                self.backend.read(self.plan, self.logits, logit_row..logit_row + 1, logits);
                logit_row += 1;
                if sequence.extend(logits) {
                    ended.push(index);
                }
            }
        }
        ended.sort_unstable();
        self.crowded &= ended.is_empty();
        for index in ended.into_iter().rev() {
            self.cache.close(active.remove(index).seq);
        }
        Ok(())
    }

    /// Fills the batch. Sequences that find no page wait for a later step; where nobody can go on, the youngest gives its
    /// pages back.
    fn gather(&mut self, active: &mut Vec<Sequence>, batch: &mut Batch) -> Vec<Part> {
        loop {
            let mut parts = Vec::with_capacity(active.len());
            batch.rows.clear();
            let mut starved = None;
            let answering = active.iter().any(|s| s.pending().len() == 1 && !s.stalled() && !s.waits());
            let mut prompt_rows = if answering { SHARED_PROMPT_ROWS } else { BATCH_ROWS };
            let shortest_first = {
                let ready = |&i: &usize| !active[i].stalled() && !active[i].waits();
                let mut order: Vec<usize> = (0..active.len()).filter(ready).collect();
                order.sort_by_key(|&i| active[i].pending().len() > 1);
                order
            };
            for index in shortest_first {
                let sequence = &active[index];
                let pending = sequence.pending();
                let tokens = if pending.len() == 1 { 1 } else { pending.len().min(prompt_rows) };
                if tokens == 0 || batch.rows.len() + tokens > BATCH_ROWS {
                    continue;
                }
                if let Err(error) = self.cache.reserve(self.backend.as_mut(), sequence.seq, tokens) {
                    starved = Some(error);
                    continue;
                }
                if tokens > 1 {
                    prompt_rows -= tokens;
                }
                let seq = parts.len();
                if batch.tables.len() <= seq {
                    batch.tables.push(Vec::new());
                }
                batch.tables[seq].clear();
                batch.tables[seq].extend_from_slice(self.cache.pages(sequence.seq));
                for (offset, &token) in pending[..tokens].iter().enumerate() {
                    let slot = sequence.computed() + offset;
                    let last = offset + 1 == pending.len();
                    batch.rows.push(Row::text(seq as u32, token, slot as u32, last));
                }
                parts.push(Part { index, tokens });
            }
            batch.tables.truncate(parts.len());
            let Some(error) = starved.filter(|_| parts.is_empty()) else { return parts };
            if !self.give_way(active, &error) {
                return parts;
            }
        }
    }

    /// Frees pages when no sequence can go on: one whose client does not read, else the youngest, gives up its place and
    /// waits, and what it had computed may be evicted. One that is alone and still finds no page cannot be answered.
    /// Returns whether anybody is left to go on.
    fn give_way(&mut self, active: &mut Vec<Sequence>, error: &cairn_kv::Error) -> bool {
        let stalled = active.iter().rposition(Sequence::stalled);
        let Some(last) = active.len().checked_sub(1) else { return false };
        let mut sequence = active.remove(stalled.unwrap_or(last));
        self.cache.close(sequence.seq);
        let alone = active.is_empty();
        if alone && !self.pages_may_come() {
            sequence.fail(GenerateError::CacheFull(error.to_string()));
            return false;
        }
        if !alone {
            tracing::warn!(%error, "KV pages are short: an answer waits for another to end");
        }
        self.crowded = true;
        self.waiting.push_front(Waiting::Paused(Box::new(sequence)));
        !alone
    }

    /// Whether a sequence that is alone may still find pages: a model that was unloaded gives back its own when it has handed over
    /// what it had computed, and by then another may have begun to answer.
    fn pages_may_come(&mut self) -> bool {
        let since = *self.short_since.get_or_insert_with(Instant::now);
        self.cache.others_have_pages() && since.elapsed() < PAGES_WITHIN
    }

    /// Ends all answers with an error; nothing of the failed step is kept.
    fn fail(&mut self, active: &mut Vec<Sequence>, error: &GenerateError) {
        // Whoever is told now may ask again at once, and must then get a fresh load.
        self.alive.store(false, Ordering::Release);
        while let Ok(job) = self.inbox.try_recv() {
            self.waiting.push_back(Waiting::New(Box::new(job)));
        }
        for waiting in self.waiting.drain(..) {
            match waiting {
                Waiting::New(mut job) => job.listener.end(Event::Failed(error.clone())),
                Waiting::Paused(mut sequence) => sequence.fail(error.clone()),
            }
        }
        for mut sequence in active.drain(..) {
            sequence.fail(error.clone());
            self.cache.discard(sequence.seq);
        }
    }
}

/// How much to copy for the tiers after a step that took so long: a fiftieth of that, at about a nanosecond for each byte.
fn slice_bytes(step: Duration) -> usize {
    const LEAST: u128 = 64 << 10;
    (step.as_nanos() / 50).clamp(LEAST, cairn_kv::SLICE_BYTES as u128) as usize
}

/// A request without a place in the cache.
pub(crate) enum Waiting {
    /// Not yet begun.
    New(Box<Job>),
    /// Begun, and sent back when pages ran out.
    Paused(Box<Sequence>),
}

impl Waiting {
    /// Whether its client has gone.
    fn gone(&self) -> bool {
        match self {
            Self::New(job) => job.listener.gone(),
            Self::Paused(sequence) => sequence.cancelled(),
        }
    }

    /// Whether its client would not read what a place yields.
    fn stalled(&self) -> bool {
        match self {
            Self::New(_) => false,
            Self::Paused(sequence) => sequence.stalled(),
        }
    }
}

/// A sequence's share of a batch.
struct Part {
    /// Index among the active sequences.
    index: usize,
    /// Rows.
    tokens: usize,
}

/// Marks the model as gone when its thread ends, by a panic too.
struct Alive(Arc<AtomicBool>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
