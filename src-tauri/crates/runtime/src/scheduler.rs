//! The scheduler: one thread for each loaded model that computes batches.
//!
//! Every step gathers rows of all active sequences into one batch, so that several answers grow at the same time. First come
//! the sequences that need a single row, then parts of longer prompts. Prompt parts are short while other sequences decode. A
//! sequence whose last row was in the batch gets its next token after the step.
//!
//! All that happens outside of the thread reaches it as a [`Command`]. A scheduler without work blocks until the next command
//! or deadline.
//!
//! **Invariant:** a row's logits do not depend on the rest of the batch. The order of rows changes latency, never an answer.

mod context_full;
mod drain;
mod restore;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cairn_kv::{Cache, Rotation, RotationError};
use cairn_models::ModelFile;
use cairn_tensor::{Backend, Batch, BufferId, PlanId, Row, Team};
use cairn_tokenizer::Tokenizer;

pub(crate) use self::restore::FLUSH_TIMEOUT;
use crate::command::{CacheCommand, Command, DrainLimits};
use crate::metrics::Counters;
use crate::random::Random;
use crate::request::{Event, GenerateError};
use crate::sequence::{Job, Sequence};

/// Rows of a batch that has prompt rows only.
pub(crate) const BATCH_ROWS: usize = 512;
/// Prompt rows of a batch that also decodes, so that running answers do not stall.
const SHARED_PROMPT_ROWS: usize = 64;
/// Timeout for pages that other models hold. An unloaded model takes up to [`FLUSH_TIMEOUT`] to free its pages, and longer on a
/// busy machine.
const PAGE_TIMEOUT: Duration = FLUSH_TIMEOUT.saturating_mul(5);

/// A model's scheduler.
pub(crate) struct Scheduler {
    pub(crate) file: Arc<ModelFile>,
    /// The compute threads. The scheduler's thread is the first of them.
    pub(crate) team: Arc<Team>,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) plan: PlanId,
    pub(crate) logits: BufferId,
    pub(crate) vocabulary: usize,
    pub(crate) cache: Cache,
    /// Rotation of the model's keys, or the reason why it is impossible.
    pub(crate) rotation: Result<Rotation, RotationError>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// Maximum number of active sequences. Further requests wait.
    pub(crate) parallel: usize,
    /// Requests that are not active, in the order of admission. Paused sequences whose client does not read are skipped.
    pub(crate) waiting: VecDeque<Waiting>,
    /// Set when pages ran out. No sequence is admitted until one has finished or paused.
    pub(crate) is_crowded: bool,
    /// Time at which the only active sequence first found no free page; `None` if it is not short of pages.
    pub(crate) short_of_pages_since: Option<Instant>,
    /// Duration of the last step.
    pub(crate) step_time: Duration,
    /// Seeds for requests without one.
    pub(crate) seeds: Random,
    pub(crate) counters: Arc<Counters>,
    pub(crate) commands: Receiver<Command>,
    /// Number of new requests, for the queue's limit.
    pub(crate) queued: Arc<AtomicUsize>,
    /// Limits of the generations, if the model is drained to make room for another one.
    pub(crate) drain_limits: Option<DrainLimits>,
    pub(crate) phase: Phase,
    /// Cleared when the scheduler accepts no more requests.
    pub(crate) alive: Arc<AtomicBool>,
    /// Whether the current round of the loop changed something, so that another round may too.
    pub(crate) has_changed: bool,
}

/// How far a scheduler is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The scheduler accepts requests.
    #[default]
    Running,
    /// The scheduler completes its generations, accepts no new requests, and ends.
    Draining,
    /// The scheduler ends now.
    ShuttingDown,
}

impl Scheduler {
    /// Serves requests until the model is unloaded, or its file fails.
    pub(crate) fn run(mut self) {
        // Two threads of a team on one core would wait for each other at every barrier.
        self.team.pin_caller();
        let mut active = Vec::new();
        let mut batch = Batch::default();
        let mut row = vec![0.0; self.vocabulary];
        // Declared last, so dropped first: a client that sees its generation fail may load the model again at once.
        let _alive = ClearOnDrop(Arc::clone(&self.alive));
        let mut answering = None;
        loop {
            self.receive(&mut active);
            match self.phase {
                Phase::ShuttingDown => {
                    self.fail(&mut active, &GenerateError::Unloaded);
                    break self.flush_all();
                }
                Phase::Draining if self.waiting.is_empty() && active.is_empty() => break self.flush_all(),
                Phase::Draining | Phase::Running => {}
            }
            self.has_changed = false;
            self.enforce_drain_limits(&mut active);
            self.admit(&mut active);
            self.resume_full_contexts(&mut active);
            self.poll_restores(&mut active);
            answering = if active.is_empty() { None } else { answering.or_else(|| self.cache.answering()) };
            self.flush_some(!active.is_empty());
            if let Err(error) = self.step(&mut active, &mut batch, &mut row) {
                tracing::error!(%error, "model unloaded after an error");
                self.fail(&mut active, &error);
                break;
            }
        }
    }

    /// Copies rows that are due for the tiers: a whole chunk if no sequence is active, else a slice that hardly delays the next
    /// step.
    fn flush_some(&mut self, answering: bool) {
        let began = Instant::now();
        let max_bytes = if answering { slice_bytes(self.step_time, self.cache.flush_delay()) } else { usize::MAX };
        let flushed = self.cache.flush_some(self.backend.as_ref(), max_bytes);
        if answering && flushed {
            self.counters.count(|metrics| metrics.stalls.add(began.elapsed()));
        }
        self.has_changed |= flushed;
    }

    /// Executes all commands that have arrived. Waits for one if there is nothing else to do.
    fn receive(&mut self, active: &mut Vec<Sequence>) {
        let first = match self.idle_time(active) {
            Some(Duration::ZERO) => None,
            Some(time) => match self.commands.recv_timeout(time) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Command::Drain),
            },
            None => Some(self.commands.recv().unwrap_or(Command::Drain)),
        };
        let mut next = first.or_else(|| self.commands.try_recv().ok());
        while let Some(command) = next {
            match command {
                Command::Generate(job) => self.waiting.push_back(Waiting::New(job)),
                Command::Cache(command) => {
                    // A cancelled generation of the owner must not keep rows that are to be deleted.
                    self.close_cancelled(active);
                    self.run_cache_command(command);
                }
                Command::Wake => {}
                Command::Limit(limits) => self.drain_limits = limits,
                Command::Drain => self.phase = self.phase.max(Phase::Draining),
                Command::Shutdown => self.phase = Phase::ShuttingDown,
            }
            next = self.commands.try_recv().ok();
        }
    }

    /// Runs a cache command. Its sender may have given up; that is not an error.
    fn run_cache_command(&mut self, command: CacheCommand) {
        match command {
            CacheCommand::Clear(done) => {
                self.cache.clear();
                let _ = done.send(());
            }
            CacheCommand::ForgetOwner(owner, done) => {
                self.cache.forget_owner(&owner);
                let _ = done.send(());
            }
            CacheCommand::Lookup(tokens, scope, reply) => {
                let _ = reply.send(self.cache.find_prefix(&tokens, scope.as_deref()));
            }
        }
    }

    /// Time until the scheduler has something to do without a command; none if it never has.
    fn idle_time(&self, active: &[Sequence]) -> Option<Duration> {
        if self.has_changed {
            return Some(Duration::ZERO);
        }
        if !self.sequences(active).all(Sequence::wait_for_client) {
            return Some(Duration::ZERO);
        }
        let needs_pages = active.is_empty() && self.waiting.iter().any(|waiting| !waiting.is_blocked());
        let pages = self.short_of_pages_since.filter(|_| needs_pages);
        let pages = pages.map(|since| PAGE_TIMEOUT.saturating_sub(since.elapsed()));
        let restores =
            active.iter().filter_map(|sequence| Some(self.cache.restore_timeout(sequence.restore.as_ref()?)));
        restores.chain(pages).chain(self.cache.next_flush()).chain(self.drain_timeout(active)).min()
    }

    /// The active and the paused sequences.
    fn sequences<'a>(&'a self, active: &'a [Sequence]) -> impl Iterator<Item = &'a Sequence> {
        let paused = self.waiting.iter().filter_map(|waiting| match waiting {
            Waiting::New(_) => None,
            Waiting::Paused(sequence) => Some(&**sequence),
        });
        active.iter().chain(paused)
    }

    /// Admits waiting requests in their order while there is room. Requests whose client does not read do not hold up those
    /// behind them. Cancelled requests are dropped.
    fn admit(&mut self, active: &mut Vec<Sequence>) {
        let (before, new_before) = (self.waiting.len(), self.new_requests());
        self.waiting.retain(|waiting| !waiting.is_cancelled());
        self.queued.fetch_sub(new_before - self.new_requests(), Ordering::Relaxed);
        self.has_changed |= self.waiting.len() < before;
        if self.waiting.is_empty() && active.is_empty() {
            // The sequence that was short of pages was cancelled.
            self.short_of_pages_since = None;
        }
        while let Some(next) = self.waiting.iter().position(|waiting| !waiting.is_blocked())
            && self.has_room(active)
        {
            match self
                .waiting
                .remove(next)
                .expect("the position was just found, and paused sequences are added behind it")
            {
                Waiting::New(job) => {
                    self.queued.fetch_sub(1, Ordering::Relaxed);
                    active.extend(self.begin(*job));
                    self.has_changed = true;
                }
                Waiting::Paused(mut sequence) => {
                    let (seq, cached) = self.cache.open_scoped(sequence.history(), sequence.scope());
                    sequence.reopen(seq, cached);
                    self.begin_restore(&mut sequence);
                    active.push(*sequence);
                    // A sequence that waits for pages of other models is tried again after a command only.
                    self.has_changed |= self.short_of_pages_since.is_none();
                }
            }
        }
    }

    /// Whether one more sequence may be active. Pauses one whose client does not read, if that makes room.
    fn has_room(&mut self, active: &mut Vec<Sequence>) -> bool {
        if active.len() < self.parallel && (active.is_empty() || !self.is_crowded) {
            return true;
        }
        let Some(blocked) = active.iter().position(Sequence::is_blocked) else { return false };
        let sequence = active.remove(blocked);
        self.cache.close(sequence.seq);
        self.waiting.push_back(Waiting::Paused(Box::new(sequence)));
        true
    }

    fn new_requests(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting, Waiting::New(_))).count()
    }

    /// Opens a sequence for a request with the cached prefix of its prompt, or fails the request.
    fn begin(&mut self, mut job: Job) -> Option<Sequence> {
        let prompt = &job.request.prompt;
        let (prompt_tokens, context_tokens) = (prompt.len(), job.context_tokens);
        let error = if prompt.is_empty() {
            GenerateError::EmptyPrompt
        } else if prompt_tokens >= context_tokens {
            GenerateError::PromptTooLong { prompt_tokens, context_tokens }
        } else if let Some(&token) = prompt.iter().find(|&&token| token as usize >= self.vocabulary) {
            // A backend rejects the whole batch, and with it the answers of all other requests.
            GenerateError::UnknownToken { token, vocabulary: self.vocabulary }
        } else {
            let (seq, cached) = self.cache.open_scoped(prompt, &job.request.scope);
            self.counters.count(|metrics| metrics.add_lookup(prompt_tokens, cached));
            let mut sequence = Sequence::new(job, seq, cached, self.seeds.next(), Arc::clone(&self.tokenizer));
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

    /// Closes the sequences whose client has gone.
    fn close_cancelled(&mut self, active: &mut Vec<Sequence>) {
        for cancelled in active.extract_if(.., |sequence| sequence.is_cancelled()) {
            self.cache.close(cancelled.seq);
            self.is_crowded = false;
            self.has_changed = true;
        }
    }

    /// Computes one batch and sends its tokens.
    fn step(&mut self, active: &mut Vec<Sequence>, batch: &mut Batch, logits: &mut [f32]) -> Result<(), GenerateError> {
        self.close_cancelled(active);
        let parts = self.gather(active, batch);
        if parts.is_empty() {
            return Ok(());
        }
        self.has_changed = true;
        let began = Instant::now();
        self.short_of_pages_since = None;
        let run = self.backend.run(self.plan, batch);
        let took = began.elapsed();
        self.step_time = took;
        // A file that changed under the mapping makes any result worthless, so this check comes first.
        self.file.check().map_err(|error| GenerateError::ModelVanished(error.to_string()))?;
        run.map_err(|error| GenerateError::Backend(error.to_string()))?;

        if let [Part { index, tokens }] = parts[..] {
            let from = active[index].computed();
            self.cache.add_compute_time(from..from + tokens, took);
        }
        let mut finished = Vec::new();
        let mut logit_row = 0;
        for Part { index, tokens } in parts {
            let sequence = &mut active[index];
            self.cache.advance(sequence.seq, &sequence.pending()[..tokens]);
            sequence.advance(tokens);
            if sequence.pending().is_empty() {
                self.finish_prefill(sequence);
                self.backend.read(self.plan, self.logits, logit_row..logit_row + 1, logits);
                logit_row += 1;
                if sequence.extend(logits) {
                    finished.push(index);
                }
            }
        }
        finished.sort_unstable();
        self.is_crowded &= finished.is_empty();
        for index in finished.into_iter().rev() {
            self.cache.close(active.remove(index).seq);
        }
        Ok(())
    }

    /// Fills the batch. Sequences without a free page wait for a later step. If no sequence can continue, one is preempted.
    fn gather(&mut self, active: &mut Vec<Sequence>, batch: &mut Batch) -> Vec<Part> {
        loop {
            let mut parts = Vec::with_capacity(active.len());
            batch.rows.clear();
            let mut page_error = None;
            // Read before a reservation fails: another model may release its pages right after it.
            let others_have_pages = self.cache.others_have_pages();
            let is_ready = |sequence: &Sequence| !sequence.is_blocked() && !sequence.is_waiting();
            let decodes = active.iter().any(|sequence| sequence.pending().len() == 1 && is_ready(sequence));
            let mut prompt_rows = if decodes { SHARED_PROMPT_ROWS } else { BATCH_ROWS };
            let mut decoding_first: Vec<usize> = (0..active.len()).filter(|&index| is_ready(&active[index])).collect();
            decoding_first.sort_by_key(|&index| active[index].pending().len() > 1);
            for index in decoding_first {
                let sequence = &active[index];
                let pending = sequence.pending();
                let tokens = if pending.len() == 1 { 1 } else { pending.len().min(prompt_rows) };
                if tokens == 0 || batch.rows.len() + tokens > BATCH_ROWS {
                    continue;
                }
                if let Err(error) = self.cache.reserve(self.backend.as_mut(), sequence.seq, tokens) {
                    page_error = Some(error);
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
            let Some(error) = page_error.filter(|_| parts.is_empty()) else { return parts };
            if !self.preempt(active, &error, others_have_pages) {
                return parts;
            }
        }
    }

    /// Frees pages when no sequence can continue. Pauses a sequence whose client does not read, else the youngest; its rows may
    /// be evicted. Fails a sequence that is alone, once no other model will free pages. Returns whether a sequence is left.
    fn preempt(&mut self, active: &mut Vec<Sequence>, error: &cairn_kv::Error, others_have_pages: bool) -> bool {
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

    /// Fails all generations. Rows of the failed step are discarded.
    fn fail(&mut self, active: &mut Vec<Sequence>, error: &GenerateError) {
        // A client that sees its generation fail may send it again at once, and must then get a new load.
        self.alive.store(false, Ordering::Release);
        let new = self.commands.try_iter().filter_map(|command| match command {
            Command::Generate(job) => Some(Waiting::New(job)),
            _ => None,
        });
        for waiting in self.waiting.drain(..).chain(new) {
            match waiting {
                Waiting::New(mut job) => job.events.end(Event::Error(error.clone())),
                Waiting::Paused(mut sequence) => sequence.fail(error.clone()),
            }
        }
        for mut sequence in active.drain(..) {
            sequence.fail(error.clone());
            self.cache.discard(sequence.seq);
        }
    }
}

/// Bytes to copy for the tiers after a step that took so long, at about a nanosecond for each byte: 2% of its time, and 2% more
/// for each second that the oldest due chunk has been waiting, up to 20%. A crash loses what was not copied.
fn slice_bytes(step: Duration, waiting: Duration) -> usize {
    const MIN: u128 = 64 << 10;
    const MAX_OVERDUE: u128 = 64 << 20;
    let shares = 1 + u128::from(waiting.as_secs()).min(9);
    let max = if shares == 1 { cairn_kv::FLUSH_SLICE_BYTES as u128 } else { MAX_OVERDUE };
    (step.as_nanos() * shares / 50).clamp(MIN * shares, max) as usize
}

/// A request that is not active.
pub(crate) enum Waiting {
    /// The request has not begun.
    New(Box<Job>),
    /// The sequence has begun and was paused.
    Paused(Box<Sequence>),
}

impl Waiting {
    fn is_cancelled(&self) -> bool {
        match self {
            Self::New(job) => job.events.is_cancelled(),
            Self::Paused(sequence) => sequence.is_cancelled(),
        }
    }

    /// Whether its client does not read.
    fn is_blocked(&self) -> bool {
        match self {
            Self::New(_) => false,
            Self::Paused(sequence) => sequence.is_blocked(),
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

/// Clears a flag when the thread ends, also by a panic.
struct ClearOnDrop(Arc<AtomicBool>);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
