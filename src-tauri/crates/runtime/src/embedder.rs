//! The embedder: one thread for each loaded embedding model that computes batches of texts.
//!
//! A batch packs whole texts of several requests without padding, each as a sequence of its own. Clients share the rows
//! equally, and the requests of a client take turns, so that a request with many texts does not delay a short one. The
//! time of a batch is limited, because the compute threads are those of other models, too. The keys and values of a text
//! live in scratch pages for one batch, and nothing is cached.
//!
//! **Invariant:** a text's vector does not depend on the rest of its batch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use cairn_models::{EmbeddingOutput, ModelFile};
use cairn_tensor::{Backend, BackendError, Batch, BufferId, PAGE_TOKENS, PageId, Plan, PlanId, Row, Team};

use crate::client::Priority;
use crate::command::{Command, DrainLimits};
use crate::embedding::{EmbedJob, EmbedText, pool, wants_row};
use crate::request::{Displaced, GenerateError};
use crate::scheduler::{BATCH_ROWS, ClearOnDrop, Phase, Shares, StepCost};

/// Pages for batches of short texts, each of which has a page.
const MIN_PAGES: usize = 64;
/// Predicted time of a batch, unless one text takes longer. New requests and other models wait for its end.
const MAX_BATCH_TIME: Duration = Duration::from_millis(100);
/// Number of batches after which requests with batch priority get one in any case.
const BATCH_TURN: u32 = 16;

/// A model's embedder.
pub(crate) struct Embedder {
    pub(crate) file: Arc<ModelFile>,
    /// The compute threads. The embedder's thread is the first of them.
    pub(crate) team: Arc<Team>,
    pub(crate) device: EmbeddingDevice,
    pub(crate) vocabulary: usize,
    /// Maximum number of active requests. Further requests wait, except for the first one of each client.
    pub(crate) parallel: usize,
    /// Rows of the clients that have active requests.
    pub(crate) shares: Shares,
    /// Predicts the duration of a batch.
    pub(crate) cost: StepCost,
    /// Number of texts so far.
    pub(crate) served: u64,
    /// Number of successive batches for which requests with batch priority have waited.
    pub(crate) deferred: u32,
    pub(crate) commands: Receiver<Command>,
    /// Cleared when the embedder accepts no more requests.
    pub(crate) alive: Arc<AtomicBool>,
}

/// A backend with the plan of an embedding model.
pub(crate) struct EmbeddingDevice {
    backend: Box<dyn Backend>,
    plan: PlanId,
    output: EmbeddingOutput,
    /// Holds the rows that are pooled.
    rows: BufferId,
    width: usize,
    pages: usize,
}

impl EmbeddingDevice {
    /// Prepares the plan for batches of `max_rows` rows.
    pub(crate) fn prepare(
        mut backend: Box<dyn Backend>,
        plan: Plan,
        output: EmbeddingOutput,
        max_rows: usize,
    ) -> Result<Self, BackendError> {
        let rows = plan.logits.expect("every plan has an output");
        let width = plan.buffers[rows.0 as usize].width;
        let limits = cairn_tensor::Limits { rows: max_rows, logit_rows: max_rows };
        let plan = backend.prepare(plan, limits)?;
        let pages = max_rows.div_ceil(PAGE_TOKENS).max(MIN_PAGES);
        backend.grow_pages(pages)?;
        Ok(Self { backend, plan, output, rows, width, pages })
    }

    /// Adds a text to a batch of at most `max_rows` rows, unless it has no room for it. An empty batch has room for any text.
    fn add(&self, batch: &mut Batch, text: &EmbedText, max_rows: usize) -> bool {
        let (tokens, used) = (text.tokens.len(), batch.tables.iter().map(Vec::len).sum::<usize>());
        let pages = used..used + tokens.div_ceil(PAGE_TOKENS);
        let is_full = batch.rows.len() + tokens > max_rows || pages.end > self.pages;
        if is_full && !batch.rows.is_empty() {
            return false;
        }
        let seq = batch.tables.len() as u32;
        for (slot, &token) in text.tokens.iter().enumerate() {
            let segment = u32::from(text.second_text.is_some_and(|second| slot >= second));
            let row = Row::encoder(seq, token, slot as u32, segment, tokens as u32);
            let until = if self.output.is_causal { row.slot + 1 } else { row.until };
            let want_logits = wants_row(self.output.pooling, slot, tokens);
            batch.rows.push(Row { until, want_logits, ..row });
        }
        batch.tables.push(pages.map(|page| PageId(page as u32)).collect());
        true
    }

    /// Returns the vector of a text of the last batch. `first` is its first row in the output.
    fn vector(&self, first: usize, rows: usize) -> Vec<f32> {
        let mut values = vec![0.0; rows * self.width];
        self.backend.read(self.plan, self.rows, first..first + rows, &mut values);
        pool(self.output.pooling, &values, self.width)
    }
}

/// A request in progress.
struct Active {
    job: EmbedJob,
    /// Vectors of the first texts.
    vectors: Vec<Vec<f32>>,
    /// Texts in batches: those with vectors, and those of the current batch.
    taken: usize,
    /// Value of [`Embedder::served`] after the last of them, or when the request became active.
    served: u64,
}

/// Compute time of a text for the shares of clients. Rows take about the same time, so their number is used for it.
fn share(text: &EmbedText) -> Duration {
    Duration::from_nanos(text.tokens.len() as u64)
}

impl Embedder {
    /// Serves requests until the model is unloaded, or its file fails.
    pub(crate) fn run(mut self) {
        // Two threads of a team on one core would wait for each other at every barrier.
        self.team.pin_caller();
        let mut waiting = VecDeque::new();
        let mut active = Vec::new();
        let (mut phase, mut drain_limits) = (Phase::default(), None);
        // Declared last, so dropped first: the client of a failed request may load the model again at once.
        let _alive = ClearOnDrop(Arc::clone(&self.alive));
        loop {
            let mut next = match waiting.is_empty() && active.is_empty() {
                true if phase == Phase::Running => Some(self.commands.recv().unwrap_or(Command::Drain)),
                true => break,
                false => self.commands.try_recv().ok(),
            };
            while let Some(command) = next {
                match command {
                    Command::Embed(job) => waiting.push_back(*job),
                    Command::Limit(limits) => drain_limits = limits,
                    Command::Drain => phase = phase.max(Phase::Draining),
                    Command::Shutdown => phase = Phase::ShuttingDown,
                    // Nothing is cached. A generation fails when its job is dropped.
                    Command::Cache(_) | Command::Generate(_) | Command::Wake => {}
                }
                next = self.commands.try_recv().ok();
            }
            let late = drain_limits.filter(|limits: &DrainLimits| Instant::now() >= limits.deadline);
            if phase == Phase::ShuttingDown {
                self.fail(&mut waiting, &mut active, &GenerateError::Unloaded);
            } else if late.is_some() {
                self.fail(&mut waiting, &mut active, &GenerateError::Displaced(Displaced::Late));
            }
            self.admit(&mut waiting, &mut active);
            if let Err(error) = self.step(&mut active) {
                tracing::error!(%error, "model unloaded after an error");
                self.alive.store(false, Ordering::Release);
                self.fail(&mut waiting, &mut active, &error);
                break;
            }
        }
    }

    /// Admits waiting requests in their order. Drops those of clients that have gone.
    fn admit(&mut self, waiting: &mut VecDeque<EmbedJob>, active: &mut Vec<Active>) {
        active.retain(|request| !request.job.reply.is_closed());
        // Otherwise they would keep their places in the queue.
        waiting.retain(|job| !job.reply.is_closed());
        let mut at = 0;
        while let Some(job) = waiting.get(at) {
            if active.len() >= self.parallel && active.iter().any(|request| request.job.client == job.client) {
                at += 1;
                continue;
            }
            let job = waiting.remove(at).expect("there is a job at this index");
            match job.check(self.vocabulary) {
                // The client may have gone; that is not an error.
                Err(error) => drop(job.reply.send(Err(error))),
                Ok(()) if job.texts.is_empty() => drop(job.reply.send(Ok(Vec::new()))),
                Ok(()) => active.push(Active {
                    vectors: Vec::with_capacity(job.texts.len()),
                    taken: 0,
                    served: self.served,
                    job,
                }),
            }
        }
        self.shares.set_present(active.iter().map(|request| &request.job.client));
    }

    /// Computes one batch, and replies to the requests that it completes.
    fn step(&mut self, active: &mut Vec<Active>) -> Result<(), GenerateError> {
        let (batch, parts) = self.gather(active);
        if parts.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let run = self.device.backend.run(self.device.plan, &batch);
        // A file that changed under the mapping makes any result worthless, so this check comes first.
        self.file.check().map_err(|error| GenerateError::ModelVanished(error.to_string()))?;
        run.map_err(|error| GenerateError::Backend(error.to_string()))?;
        self.cost.add(0, batch.rows.len() as f64, started.elapsed());
        let mut first = 0;
        for (seq, index) in (0..).zip(parts) {
            let rows = batch.rows.iter().filter(|row| row.seq == seq && row.want_logits).count();
            active[index].vectors.push(self.device.vector(first, rows));
            first += rows;
        }
        for Active { job, vectors, .. } in
            active.extract_if(.., |request| request.vectors.len() == request.job.texts.len())
        {
            let _ = job.reply.send(Ok(vectors));
        }
        Ok(())
    }

    /// Fills a batch with the next texts of the requests: of the client with the fewest rows so far, and of its requests in
    /// turn. Returns the batch and the request of each text.
    fn gather(&mut self, active: &mut [Active]) -> (Batch, Vec<usize>) {
        let (mut batch, mut parts) = (Batch::default(), Vec::new());
        let max_rows = self.cost.prompt_rows_within(MAX_BATCH_TIME).min(BATCH_ROWS);
        let priority = self.priority(active);
        let has_priority = |request: &Active| Some(request.job.client.priority) == priority;
        let mut open: Vec<usize> = (0..active.len()).filter(|&index| has_priority(&active[index])).collect();
        let turn = |shares: &Shares, request: &Active| (shares.used(&request.job.client), request.served);
        while let Some(at) = (0..open.len()).min_by_key(|&at| turn(&self.shares, &active[open[at]])) {
            let index = open[at];
            let request = &mut active[index];
            match request.job.texts.get(request.taken) {
                Some(text) if self.device.add(&mut batch, text, max_rows) => {
                    self.served += 1;
                    self.shares.charge(&request.job.client, share(text));
                    request.served = self.served;
                    request.taken += 1;
                    parts.push(index);
                }
                // The batch may have room for a shorter text of another request.
                _ => {
                    open.remove(at);
                }
            }
        }
        (batch, parts)
    }

    /// Chooses the priority of the requests of the next batch; `None` without requests.
    fn priority(&mut self, active: &[Active]) -> Option<Priority> {
        let priorities = || active.iter().map(|request| request.job.client.priority);
        let (most, least) = (priorities().min()?, priorities().max()?);
        let defers = most != least && self.deferred < BATCH_TURN;
        self.deferred = if defers { self.deferred + 1 } else { 0 };
        Some(if defers { most } else { least })
    }

    /// Fails all requests.
    fn fail(&self, waiting: &mut VecDeque<EmbedJob>, active: &mut Vec<Active>, error: &GenerateError) {
        for job in waiting.drain(..).chain(active.drain(..).map(|request| request.job)) {
            let _ = job.reply.send(Err(error.clone()));
        }
    }
}
