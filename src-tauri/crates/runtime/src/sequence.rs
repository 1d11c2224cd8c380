//! One running generation: its tokens, its sampler, and the text that is held back.
//!
//! A sequence has no separate prefill and decode phases. It has a history (prompt, then generated tokens) of which a part has
//! been computed. Each step computes some of the rest, and the step that reaches the end yields a token.

mod context_full;
mod input;
mod pictures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_kv::{CacheScope, RecomputedTokens, Restore, SeqId};
use cairn_prompt::StopFilter;
use cairn_tensor::AdapterUse;
use cairn_tier::{Key, TierKind};
use cairn_tokenizer::{Decoder, Tokenizer};

use crate::client::Client;
use crate::constraint::ActiveConstraint;
use crate::context_full::ContextRoom;
use crate::generation::EventSender;
use crate::input::SequenceInput;
use crate::logprobs::Logprobs;
use crate::model_use::ModelUse;
use crate::not_finite;
use crate::picture::{PromptPicture, SequencePicture, TowerIdentity};
use crate::queue::QueuePlace;
use crate::request::{
    Delta, Event, Finish, FinishReason, GenerateError, MAX_ANSWER_CONTEXTS, Request, RestoreUsage, Usage,
};
use crate::sampler::Sampler;
use crate::scheduler::Served;

/// A request that was sent to a scheduler.
pub(crate) struct Job {
    /// Without its constraint.
    pub(crate) request: Request,
    pub(crate) constraint: Option<ActiveConstraint>,
    /// Tokens that prompt and answer may have together.
    pub(crate) context_tokens: usize,
    pub(crate) events: EventSender,
    pub(crate) client: Client,
    pub(crate) place: Option<QueuePlace>,
    /// Ends with the generation, also if its client never reads the last event.
    pub(crate) _model_use: ModelUse,
}

/// Tokens that the remote tier did not deliver in time. They may reach a faster tier before they are computed.
pub(crate) struct LateTokens {
    pub(crate) tokens: usize,
    /// Number of computed tokens at the last lookup, before a late restore replaces those after its first whole page.
    pub(crate) checked_at: usize,
}

/// A generation that has begun.
pub(crate) struct Sequence {
    pub(crate) seq: SeqId,
    job: Job,
    /// Prompt and generated tokens that are in the context.
    history: Vec<u32>,
    /// Cache keys of the history.
    keys: Vec<Key>,
    /// Pictures of the history, in order.
    pictures: Vec<SequencePicture>,
    /// The beginning of the history, if the model has an encoder.
    input: Option<SequenceInput>,
    /// The model's tower, if it has one.
    tower: Option<TowerIdentity>,
    /// All generated tokens.
    answer: Vec<u32>,
    /// Tokens of the history whose rows are in the cache.
    computed: usize,
    /// Prompt tokens that were not computed.
    cached: usize,
    /// The restore in progress. Nothing is computed meanwhile.
    pub(crate) restore: Option<Restore>,
    /// Tokens that may still be restored while others are computed.
    pub(crate) late: Option<LateTokens>,
    restored: RestoreUsage,
    /// How a full context gets room. Nothing is computed meanwhile.
    pub(crate) context_room: Option<ContextRoom>,
    /// Whether the history still begins with the request's prompt.
    has_full_prompt: bool,
    dropped_tokens: usize,
    /// Whether it was paused before, so that its prompt has been counted.
    was_paused: bool,
    sampler: Sampler,
    /// The token that was chosen in this step, until it is added.
    chosen: Option<Result<u32, GenerateError>>,
    /// Only if requested.
    constraint: Option<ActiveConstraint>,
    decoder: Decoder<Arc<Tokenizer>>,
    stop: StopFilter,
    /// Only if requested.
    logprobs: Option<Logprobs>,
    tokenizer: Arc<Tokenizer>,
    started: Instant,
    first_token: Option<Instant>,
    /// Start of the time without reads, if it is watched and the client is behind.
    unread_since: Option<Instant>,
    /// The last step that had rows of it.
    pub(crate) served: Served,
    /// Whether a slice of it was abandoned since its last computed token.
    pub(crate) lost_slice: bool,
    /// Whether numbers that were computed from its rows are not finite, so that its rows that are not cached yet stay so.
    pub(crate) has_invalid_rows: bool,
}

impl Sequence {
    /// A sequence whose first `cached` tokens need no computing. `cached` is less than the prompt's length.
    pub(crate) fn new(mut job: Job, seq: SeqId, cached: usize, seed: u64, tokenizer: Arc<Tokenizer>) -> Self {
        let mut sequence = Self {
            seq,
            history: job.request.prompt.clone(),
            keys: Vec::new(),
            pictures: Vec::new(),
            input: None,
            tower: None,
            answer: Vec::new(),
            computed: cached,
            cached,
            restore: None,
            late: None,
            restored: RestoreUsage::default(),
            context_room: None,
            has_full_prompt: true,
            dropped_tokens: 0,
            was_paused: false,
            sampler: Sampler::new(job.request.sampling.clone(), seed),
            chosen: None,
            constraint: job.constraint.take(),
            decoder: Decoder::new(Arc::clone(&tokenizer)).with_visible(job.request.visible_tokens.clone()),
            stop: StopFilter::new(&job.request.stop),
            logprobs: job.request.logprobs.map(Logprobs::new),
            tokenizer,
            job,
            started: Instant::now(),
            first_token: None,
            unread_since: None,
            served: (0, 0),
            lost_slice: false,
            has_invalid_rows: false,
        };
        sequence.read_history();
        sequence.publish_progress();
        sequence
    }

    /// Sets the tower that its pictures are encoded with, and the keys that follow from it.
    pub(crate) fn with_keys(self, keys: Vec<Key>, tower: Option<TowerIdentity>) -> Self {
        Self { keys, tower, ..self }
    }

    /// Tokens to compute before the next one can be chosen. Never empty.
    pub(crate) fn pending(&self) -> &[u32] {
        &self.history[self.computed..]
    }

    /// Cache keys of the pending tokens.
    pub(crate) fn pending_keys(&self) -> &[Key] {
        &self.keys[self.computed..]
    }

    /// The slot of the first pending token.
    pub(crate) fn computed(&self) -> usize {
        self.computed
    }

    /// The client of the request.
    pub(crate) fn client(&self) -> &Client {
        &self.job.client
    }

    /// Frees its place in the queue.
    pub(crate) fn leave_queue(&mut self) {
        self.job.place = None;
    }

    /// Whether the client has gone.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.job.events.is_cancelled()
    }

    /// Whether the client is too far behind for another step.
    pub(crate) fn is_blocked(&self) -> bool {
        self.job.events.is_blocked()
    }

    /// Asks a client that was behind to wake the scheduler when it reads. Returns whether the scheduler may sleep.
    pub(crate) fn wait_for_client(&self) -> bool {
        self.job.events.wait_for_client()
    }

    /// Returns the start of the time without reads, while this sequence waits for its client to read events; otherwise none.
    pub(crate) fn unread_since(&mut self, now: Instant) -> Option<Instant> {
        let awaits_prompt = matches!(self.context_room, Some(ContextRoom::ShorterPrompt(_)));
        let is_behind = self.is_blocked() || (awaits_prompt && self.job.events.has_unread());
        self.unread_since = is_behind.then(|| self.unread_since.unwrap_or(now));
        self.unread_since
    }

    /// The result of the last [`Sequence::unread_since`].
    pub(crate) fn watched_unread_since(&self) -> Option<Instant> {
        self.unread_since
    }

    /// Records that the first `tokens` pending ones were computed.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.computed += tokens;
        self.publish_progress();
        self.lost_slice = false;
        self.drop_picture_rows();
        self.drop_input_rows();
    }

    /// Publishes how much of the request's prompt is ready.
    fn publish_progress(&self) {
        if self.first_token.is_none() {
            self.job.events.set_prompt_progress(self.computed, self.job.request.prompt.len());
        }
    }

    /// Waits for the mask of the next token, so that [`Sequence::choose`] does not wait.
    pub(crate) fn wait_for_mask(&mut self) {
        if let Some(constraint) = &mut self.constraint {
            constraint.wait_for_mask();
        }
    }

    /// Chooses the next token from the last token's logits. This depends on nothing else but the sequence.
    pub(crate) fn choose(&mut self, logits: &mut [f32]) {
        if let Err(error) = not_finite::check_logits(logits, !self.adapters().is_empty()) {
            self.has_invalid_rows = true;
            self.chosen = Some(Err(error));
            return;
        }
        if let Some(logprobs) = &mut self.logprobs {
            logprobs.copy_logits(logits);
        }
        let chosen = self.sample(logits);
        if let (Some(logprobs), Ok(token)) = (&mut self.logprobs, &chosen)
            && !self.tokenizer.is_end(*token)
        {
            logprobs.compute(*token, &self.tokenizer);
        }
        self.chosen = Some(chosen);
    }

    /// Adds the chosen token, and sends the text that it completes. Returns whether the generation has finished or failed.
    pub(crate) fn extend(&mut self) -> bool {
        self.try_extend().unwrap_or_else(|error| {
            self.fail(error);
            true
        })
    }

    fn try_extend(&mut self) -> Result<bool, GenerateError> {
        let token = self.chosen.take().expect("a token is chosen before the sequence is extended")?;
        self.first_token.get_or_insert_with(Instant::now);
        // A step needs room for its events, so the client has read.
        self.unread_since = None;
        self.history.push(token);
        self.keys.push(Key::token(token));
        self.answer.push(token);
        if self.tokenizer.is_end(token) {
            return Ok(self.end(FinishReason::Stop));
        }
        let is_complete = match &mut self.constraint {
            Some(constraint) => constraint.accept(token, &self.tokenizer).map_err(GenerateError::Constraint)?,
            None => false,
        };
        let decoded = self.decoder.push(token);
        let (text, stopped) = self.stop.push(&decoded);
        let logprobs = self.logprobs.as_mut().map(|logprobs| {
            logprobs.add(&self.tokenizer, decoded.len());
            logprobs.take_for_text(text.len(), stopped)
        });
        let usage = self.usage();
        self.job.events.delta(Delta { text, logprobs: logprobs.unwrap_or_default(), usage });
        if stopped {
            return Ok(self.finish(FinishReason::Stop));
        }
        if is_complete {
            return Ok(self.end(FinishReason::Stop));
        }
        let limit = self.job.request.max_tokens.map_or(usize::MAX, |tokens| tokens as usize);
        if self.generated() >= limit.min(MAX_ANSWER_CONTEXTS * self.job.context_tokens) {
            return Ok(self.end(FinishReason::Length));
        }
        let is_full = self.history.len() >= self.job.context_tokens;
        Ok(is_full && !self.make_context_room() && self.end(FinishReason::Length))
    }

    /// Samples a token that the constraint allows.
    fn sample(&mut self, logits: &mut [f32]) -> Result<u32, GenerateError> {
        // An input is no part of the answer, so penalties do not apply to its tokens.
        let penalised = &self.history[self.input.as_ref().map_or(0, |input| input.tokens)..];
        let Some(constraint) = &mut self.constraint else { return Ok(self.sampler.sample(logits, penalised)) };
        self.sampler.penalise(logits, penalised);
        if !constraint.restrict(logits, &self.tokenizer).map_err(GenerateError::Constraint)? {
            return Ok(self.sampler.choose(logits));
        }
        let none = || GenerateError::Constraint("the model gives no allowed token a finite logit".to_owned());
        self.sampler.choose_allowed(logits).ok_or_else(none)
    }

    /// Finishes a generation of at most zero tokens. Returns whether it is one.
    pub(crate) fn finish_if_empty(&mut self) -> bool {
        self.job.request.max_tokens == Some(0) && self.end(FinishReason::Length)
    }

    /// Whether rows are being restored.
    pub(crate) fn is_restoring(&self) -> bool {
        self.restore.is_some()
    }

    /// Whether it must wait before anything is computed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_restoring() || self.context_room.is_some()
    }

    /// Records that this many pending tokens were restored from a tier. Returns how many are prompt tokens that had not been
    /// counted.
    pub(crate) fn add_restored(&mut self, tokens: usize, tier: TierKind) -> usize {
        // The prompt of a sequence that was paused has been counted, and so has the part computed before a late restore,
        // which begins at a whole page.
        let counted = self.cached.max(self.computed).max(self.late.as_ref().map_or(0, |late| late.checked_at));
        self.computed += tokens;
        self.publish_progress();
        let prompt_tokens = if self.has_full_prompt { self.job.request.prompt.len() } else { 0 };
        let new_tokens = self.computed.min(prompt_tokens).saturating_sub(counted);
        self.cached += new_tokens;
        *match tier {
            TierKind::Ram => &mut self.restored.ram_tokens,
            TierKind::Ssd => &mut self.restored.ssd_tokens,
            TierKind::Remote => &mut self.restored.remote_tokens,
        } += new_tokens;
        if new_tokens > 0 {
            self.restored.wait_ns = self.started.elapsed().as_nanos() as u64;
        }
        new_tokens
    }

    /// Records the estimated time to compute the restored tokens.
    pub(crate) fn add_recompute_time(&mut self, time: Duration) {
        if !self.was_paused {
            self.restored.recompute_ns += time.as_nanos() as u64;
        }
    }

    /// Records tokens that are computed although they were looked up. Returns whether they count: those of a sequence that was
    /// paused had been computed before.
    pub(crate) fn add_recomputed(&mut self, tokens: RecomputedTokens) -> bool {
        if !self.was_paused {
            self.restored.recomputed += tokens;
        }
        !self.was_paused
    }

    /// Continues in a new cache sequence after a pause.
    pub(crate) fn reopen(&mut self, seq: SeqId, cached: usize) {
        self.was_paused = true;
        self.resume(seq, cached);
    }

    /// Continues in this cache sequence, which has the first `cached` tokens.
    pub(crate) fn resume(&mut self, seq: SeqId, cached: usize) {
        self.seq = seq;
        self.computed = cached;
        self.publish_progress();
    }

    /// The request's cache scope.
    pub(crate) fn scope(&self) -> &CacheScope {
        &self.job.request.scope
    }

    /// The adapters that the request uses.
    pub(crate) fn adapters(&self) -> &[AdapterUse] {
        self.job.request.adapters.as_deref().unwrap_or_default()
    }

    /// All tokens in the context so far.
    #[cfg(test)]
    pub(crate) fn history(&self) -> &[u32] {
        &self.history
    }

    /// Cache keys of all tokens in the context so far.
    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether the context has pictures.
    pub(crate) fn has_pictures(&self) -> bool {
        !self.pictures.is_empty()
    }

    /// The pictures of the request.
    pub(crate) fn request_pictures(&self) -> &[PromptPicture] {
        &self.job.request.pictures
    }

    /// Ends with an error.
    pub(crate) fn fail(&mut self, error: GenerateError) {
        self.job.events.end(Event::Error(error));
    }

    fn generated(&self) -> usize {
        self.answer.len()
    }

    /// Finishes without a stop text, so the text that was held back is part of the answer.
    fn end(&mut self, reason: FinishReason) -> bool {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::new(Arc::clone(&self.tokenizer)));
        let (mut text, stopped) = self.stop.push(&decoder.finish());
        if !stopped {
            text += &std::mem::replace(&mut self.stop, StopFilter::new([""; 0])).finish();
        }
        let logprobs = self.logprobs.as_mut().map(|logprobs| match stopped {
            true => logprobs.take_for_text(text.len(), true),
            false => logprobs.take_all(),
        });
        let usage = self.usage();
        self.job.events.delta(Delta { text, logprobs: logprobs.unwrap_or_default(), usage });
        self.finish(reason)
    }

    fn usage(&self) -> Usage {
        let first_token = self.first_token.unwrap_or(self.started);
        Usage {
            prompt_tokens: self.job.request.prompt.len(),
            cached_tokens: self.cached,
            restored: self.restored,
            prompt_ns: ((first_token - self.started).as_nanos() as u64).saturating_sub(self.restored.wait_ns),
            eval_tokens: self.generated(),
            eval_ns: first_token.elapsed().as_nanos() as u64,
        }
    }

    fn finish(&mut self, reason: FinishReason) -> bool {
        let finish = Finish {
            reason,
            usage: self.usage(),
            tokens: std::mem::take(&mut self.answer),
            dropped_tokens: self.dropped_tokens,
            stop: self.stop.found().map(str::to_owned),
        };
        self.job.events.end(Event::Finish(finish));
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use cairn_gguf::DType;
    use cairn_gguf::Gguf;
    use cairn_grammar::{Constraint, Matcher, Vocabulary};
    use cairn_kv::{Budget, Cache};
    use cairn_tensor::PageLayout;
    use cairn_tokenizer::EncodeOptions;

    use super::*;
    use crate::constraint::Constrained;
    use crate::generation::Generation;
    use crate::masks::MaskWorker;
    use crate::model_use::ModelUses;
    use crate::request::Sampling;
    use crate::wake::SchedulerWaker;

    pub(crate) fn tokenizer() -> Arc<Tokenizer> {
        let file = cairn_testkit::write(&cairn_testkit::tiny_llama());
        let gguf = Gguf::parse(&file).expect("testkit writes complete files");
        Arc::new(Tokenizer::from_metadata(gguf.metadata()).expect("the vocabulary is valid"))
    }

    /// A sequence with a prompt of one token, and its events. The channel has room for `capacity` events.
    pub(crate) fn sequence(
        request: Request,
        constraint: Option<ActiveConstraint>,
        tokenizer: &Arc<Tokenizer>,
        capacity: usize,
    ) -> (Sequence, Generation) {
        let (events, generation) = EventSender::channel(capacity, SchedulerWaker::new(|| ()));
        let job = Job {
            request: Request { prompt: vec![1], ..request },
            constraint,
            context_tokens: 100,
            events,
            client: Client::default(),
            place: None,
            _model_use: ModelUses::default().begin(),
        };
        let (seq, cached) = Cache::new(PageLayout::new(&[], DType::F16), Arc::new(Budget::new(0))).open(&[1]);
        (Sequence::new(job, seq, cached, 0, Arc::clone(tokenizer)), generation)
    }

    /// Has a sequence with this channel capacity and stop text choose its last token, `in`. Returns whether it was blocked
    /// before, and its events.
    fn last_step(capacity: usize, stop: &str) -> (bool, Generation) {
        let tokenizer = tokenizer();
        let [token] = tokenizer.encode("in", EncodeOptions::default())[..] else { panic!("`in` is one token") };
        let request = Request { max_tokens: Some(1), stop: vec![stop.to_owned()], ..Request::default() };
        let (mut sequence, generation) = sequence(request, None, &tokenizer, capacity);
        let blocked = sequence.is_blocked();
        let mut logits = vec![f32::NEG_INFINITY; tokenizer.vocab_size()];
        logits[token as usize] = 0.0;
        sequence.choose(&mut logits);
        assert!(sequence.extend(), "the limit is one token");
        (blocked, generation)
    }

    /// The last event of a sequence under the constraint `ab`, if all logits but that of a token with another text have this value.
    fn last_event(logit: f32, other: f32, temperature: f32) -> Option<Event> {
        let tokenizer = tokenizer();
        let pieces = (0..tokenizer.vocab_size() as u32).map(|id| tokenizer.piece(id));
        let vocabulary = Vocabulary::new(pieces, tokenizer.end_ids()).expect("the vocabulary is valid");
        let matcher = Matcher::new(&vocabulary, &Constraint::Regex("ab".to_owned())).expect("it compiles");
        let constraint = ActiveConstraint::new(Constrained { matcher, thinking: None }, MaskWorker::start().ok());
        let sampling = Sampling { temperature, ..Sampling::default() };
        let request = Request { sampling, ..Request::default() };
        let (mut sequence, mut generation) = sequence(request, Some(constraint), &tokenizer, 9);
        let [disallowed] = tokenizer.encode("in", EncodeOptions::default())[..] else { panic!("`in` is one token") };
        let mut steps = 0;
        let mut extend = || {
            let mut logits = vec![logit; tokenizer.vocab_size()];
            logits[disallowed as usize] = other;
            sequence.choose(&mut logits);
            sequence.extend()
        };
        while !extend() {
            steps += 1;
            assert!(steps < 3, "at most two tokens");
        }
        std::iter::from_fn(|| generation.try_recv().ok()).last()
    }

    #[test]
    fn constrained_sequence_without_finite_logits_fails() {
        for temperature in [0.0, 1.0] {
            let finished = last_event(0.5, 0.5, temperature);
            assert!(matches!(finished, Some(Event::Finish(Finish { reason: FinishReason::Stop, .. }))), "{finished:?}");
            for logit in [f32::NAN, f32::NEG_INFINITY] {
                let failed = last_event(logit, 0.5, temperature);
                assert!(matches!(failed, Some(Event::Error(GenerateError::Constraint(_)))), "{logit}: {failed:?}");
                let failed = last_event(logit, logit, temperature);
                assert!(matches!(failed, Some(Event::Error(GenerateError::NotFinite(_)))), "{logit}: {failed:?}");
            }
        }
    }

    #[test]
    fn step_needs_room_for_all_its_events() {
        let (blocked, mut events) = last_step(3, "n!");
        assert!(!blocked, "three events fit");
        let mut events = std::iter::from_fn(|| events.try_recv().ok());
        let first = events.next();
        assert!(
            matches!(first, Some(Event::Delta(delta)) if delta.text == "i"),
            "text that cannot begin the stop text"
        );
        let held_back = events.next();
        let Some(Event::Delta(Delta { text, usage, .. })) = &held_back else {
            panic!("no second delta: {held_back:?}")
        };
        assert_eq!(text, "n", "text that was held back");
        assert_eq!((usage.prompt_tokens, usage.eval_tokens), (1, 1), "each delta has the usage up to it");
        assert!(matches!(events.next(), Some(Event::Finish(_))), "the last event");
        assert!(last_step(2, "n!").0, "with less room the step must wait");
    }
}
