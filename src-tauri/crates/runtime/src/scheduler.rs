//! The scheduler: one thread for each loaded model that computes batches.
//!
//! Every step gathers rows of active sequences into one batch, so that several answers grow at the same time: one row of each running
//! answer, and parts of longer prompts. Beside running answers, prompt parts take a limited time, and may go through the layers in
//! several steps (`prompt_slice`). A sequence whose last row was in the batch gets its next token after the step. Clients share the
//! time equally (`shares`).
//!
//! All that happens outside of the thread reaches it as a [`Command`]. A scheduler without work blocks until the next command
//! or deadline.
//!
//! **Invariant:** a row's logits do not depend on the rest of the batch. The order of rows changes latency, never an answer.

mod admission;
mod context_full;
mod drain;
mod encoder_part;
mod inputs;
mod pictures;
mod prompt_slice;
mod restore;
mod rows;
mod sampling;
mod shares;
mod slice_size;
mod step_cost;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cairn_kv::{Cache, Rotation, RotationError};
use cairn_models::{Adapter, ModelFile};
use cairn_tensor::{Backend, Batch, BufferId, PlanId, Team};
use cairn_tokenizer::Tokenizer;
use parking_lot::Mutex;

pub(crate) use self::admission::{Admission, Waiting};
pub(crate) use self::prompt_slice::PromptSlice;
pub(crate) use self::restore::FLUSH_TIMEOUT;
use self::rows::StepRows;
use self::sampling::{RowBuffers, choose_tokens};
pub(crate) use self::shares::{Served, Shares};
pub(crate) use self::step_cost::StepCost;
use crate::command::{CacheCommand, Command, DrainLimits};
use crate::encoder::PictureEncoder;
use crate::input_encoder::InputStage;
use crate::metrics::Counters;
use crate::random::Random;
use crate::request::{Event, GenerateError};
use crate::sequence::Sequence;

/// Maximum number of rows of a batch.
pub(crate) const BATCH_ROWS: usize = 512;
/// Timeout for pages that other models hold. An unloaded model takes up to [`FLUSH_TIMEOUT`] to free its pages, and longer on a
/// busy machine.
const PAGE_TIMEOUT: Duration = FLUSH_TIMEOUT.saturating_mul(5);

/// A model's scheduler.
pub(crate) struct Scheduler {
    pub(crate) file: Arc<ModelFile>,
    pub(crate) adapters: Vec<Adapter>,
    /// The compute threads. The scheduler's thread is the first of them.
    pub(crate) team: Arc<Team>,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) plan: PlanId,
    pub(crate) logits: BufferId,
    pub(crate) vocabulary: usize,
    /// Number of layers: see [`cairn_tensor::Plan::layers`].
    pub(crate) layers: usize,
    pub(crate) cache: Cache,
    /// Encoder of pictures, if the model has a vision tower.
    pub(crate) encoder: Option<PictureEncoder>,
    /// Encoder of inputs, if the model has one beside its decoder.
    pub(crate) input: Option<InputStage>,
    /// Why an encoded input got no pages in this round.
    pub(crate) input_page_error: Option<cairn_kv::Error>,
    /// Rotation of the model's keys, or the reason why it is impossible.
    pub(crate) rotation: Result<Rotation, RotationError>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// Maximum number of active sequences. Further requests wait.
    pub(crate) parallel: usize,
    /// Requests that are not active, in the order of their arrival.
    pub(crate) waiting: VecDeque<Waiting>,
    /// The state after the last admission.
    pub(crate) admission: Admission,
    /// Compute time of the clients that have requests.
    pub(crate) shares: Shares,
    /// Set when pages ran out. No sequence is admitted until one has finished or paused.
    pub(crate) is_crowded: bool,
    /// Time at which the only active sequence first found no free page; `None` if it is not short of pages.
    pub(crate) short_of_pages_since: Option<Instant>,
    /// Duration of the last step.
    pub(crate) step_time: Duration,
    /// Number of steps so far.
    pub(crate) steps: u64,
    /// Predicts the duration of a step.
    pub(crate) cost: StepCost,
    /// Prompts that have gone through some of the layers.
    pub(crate) slice: Option<PromptSlice>,
    /// Seeds for requests without one.
    pub(crate) seeds: Random,
    pub(crate) counters: Arc<Counters>,
    pub(crate) commands: Receiver<Command>,
    /// Number of received commands.
    pub(crate) received: u64,
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
        let mut buffers: Vec<Mutex<Vec<f32>>> = (0..self.team.threads()).map(|_| Mutex::default()).collect();
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
            let encoded = self.encode_pictures(&mut active).and_then(|()| self.read_inputs(&mut active));
            if let Err(error) = encoded.and_then(|()| self.step(&mut active, &mut batch, &mut buffers)) {
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
            self.received += 1;
            match command {
                Command::Generate(job) => self.waiting.push_back(Waiting::New(job)),
                Command::Cache(command) => {
                    // A cancelled generation of the owner must not keep rows that are to be deleted.
                    self.close_cancelled(active);
                    self.run_cache_command(command);
                }
                // Texts are sent to embedding models only. Others fail when their job is dropped.
                Command::Wake | Command::Embed(_) => {}
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
                self.forget_encoded();
                let _ = done.send(());
            }
            CacheCommand::ForgetOwner(owner, done) => {
                self.cache.forget_owner(&owner);
                // Several owners may have sent a picture, and none is recorded.
                self.forget_encoded();
                let _ = done.send(());
            }
            CacheCommand::Lookup(keys, scope, reply) => {
                let _ = reply.send(self.cache.find_prefix(&keys, scope.as_deref()));
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

    /// Closes the sequences whose client has gone.
    fn close_cancelled(&mut self, active: &mut Vec<Sequence>) {
        for cancelled in active.extract_if(.., |sequence| sequence.is_cancelled()) {
            self.cache.close(cancelled.seq);
            self.is_crowded = false;
            self.has_changed = true;
        }
    }

    /// Ends some of the sequences with an error that does not concern the others.
    fn fail_some(&mut self, active: &mut Vec<Sequence>, error: &GenerateError, is_failed: impl Fn(&Sequence) -> bool) {
        for mut failed in active.extract_if(.., |sequence| is_failed(sequence)) {
            failed.fail(error.clone());
            self.cache.close(failed.seq);
            self.is_crowded = false;
        }
    }

    /// Computes one batch and sends its tokens.
    fn step(
        &mut self,
        active: &mut Vec<Sequence>,
        batch: &mut Batch,
        buffers: &mut RowBuffers,
    ) -> Result<(), GenerateError> {
        self.close_cancelled(active);
        let mut rows = self.gather(active, batch);
        if rows.is_empty() {
            return Ok(());
        }
        self.has_changed = true;
        let began = Instant::now();
        self.short_of_pages_since = None;
        let run = self.backend.run(self.plan, batch);
        let took = began.elapsed();
        self.step_time = took;
        // A file that changed under the mapping makes any result worthless, so this check comes first.
        let mut files = std::iter::once(&*self.file).chain(self.adapters.iter().map(Adapter::file));
        files.try_for_each(ModelFile::check).map_err(|error| GenerateError::ModelVanished(error.to_string()))?;
        run.map_err(|error| GenerateError::Backend(error.to_string()))?;

        self.account(active, &rows, took);
        if let Some(slice) = self.slice.take().filter(|_| rows.layers.start == 0) {
            slice.abandon(active);
        }
        self.slice = PromptSlice::after(&rows, self.layers, active);
        if self.slice.is_some() {
            rows.prompts.clear();
        }
        let completed: Vec<(usize, usize)> = rows.sequences().collect();
        if let [(index, tokens)] = completed[..]
            && rows.layers == (0..self.layers)
        {
            let from = active[index].computed();
            self.cache.add_compute_time(from..from + tokens, took);
        }
        let mut computed = Vec::with_capacity(completed.len());
        for (index, tokens) in completed {
            let sequence = &mut active[index];
            self.cache.advance(sequence.seq, &sequence.pending_keys()[..tokens]);
            sequence.advance(tokens);
            if sequence.pending().is_empty() {
                self.finish_prefill(sequence);
                computed.push(index);
            }
        }
        let (backend, plan, logits, vocabulary) = (self.backend.as_ref(), self.plan, self.logits, self.vocabulary);
        choose_tokens(&self.team, active, &computed, buffers, |row, buffer| {
            buffer.resize(vocabulary, 0.0);
            backend.read(plan, logits, row..row + 1, buffer);
        });
        let mut finished = computed;
        finished.retain(|&index| active[index].extend());
        finished.sort_unstable();
        self.is_crowded &= finished.is_empty();
        for index in finished.into_iter().rev() {
            let sequence = active.remove(index);
            if sequence.has_invalid_rows {
                self.cache.discard(sequence.seq);
            } else {
                self.cache.close(sequence.seq);
            }
        }
        Ok(())
    }

    /// Records the duration of a step: for the prediction of the next ones, and as time that its clients have used.
    fn account(&mut self, active: &mut [Sequence], rows: &StepRows, took: Duration) {
        self.steps += 1;
        let decode_rows = rows.decodes.len();
        let layer_share = rows.layers.len() as f64 / self.layers as f64;
        let prompt_rows = rows.prompt_rows() as f64 * layer_share;
        // Few rows in the last layers only would make a prompt row seem dear.
        if decode_rows > 0 || layer_share == 1.0 {
            self.cost.add(decode_rows, prompt_rows, took);
            let speed = self.cost.speed();
            self.counters.count(|metrics| metrics.speed = speed);
        }
        let prompts = rows.prompts.iter().map(|part| (part.index, part.tokens as f64 * layer_share));
        let decodes = rows.decodes.iter().map(|index| (*index, 1.0));
        for (position, (index, own_rows)) in prompts.chain(decodes).enumerate() {
            let sequence = &mut active[index];
            sequence.served = (self.steps, position);
            self.shares.charge(sequence.client(), took.mul_f64(own_rows / (decode_rows as f64 + prompt_rows)));
        }
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

/// Clears a flag when the thread ends, also by a panic.
pub(crate) struct ClearOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
