//! One request while it is being answered: its tokens, its sampler, and the text held back.
//!
//! A sequence has no prefill or decode phase of its own. It has a history (prompt, then generated tokens) of which a part
//! has been computed; each step computes some of the rest, and the step that reaches the end yields a token.

use std::sync::Arc;
use std::time::Instant;

use cairn_kv::SeqId;
use cairn_prompt::StopFilter;
use cairn_tokenizer::{Decoder, Tokenizer};
use tokio::sync::mpsc;

use crate::request::{Event, Finish, FinishReason, Request};
use crate::sampler::Sampler;

/// A request on its way to the scheduler.
pub(crate) struct Job {
    pub(crate) request: Request,
    /// Tokens that prompt and answer may have together.
    pub(crate) context_tokens: usize,
    pub(crate) events: mpsc::Sender<Event>,
}

/// A request that has a place in the cache.
pub(crate) struct Sequence {
    pub(crate) seq: SeqId,
    job: Job,
    /// Prompt and generated tokens.
    history: Vec<u32>,
    /// How many of them have been computed, or came from the cache.
    computed: usize,
    cached: usize,
    sampler: Sampler,
    decoder: Decoder<Arc<Tokenizer>>,
    stop: StopFilter,
    tokenizer: Arc<Tokenizer>,
    started: Instant,
    first_token: Option<Instant>,
}

impl Sequence {
    /// `cached` tokens of the prompt need no computing; it is less than the prompt's length.
    pub(crate) fn new(job: Job, seq: SeqId, cached: usize, seed: u64, tokenizer: Arc<Tokenizer>) -> Self {
        Self {
            seq,
            history: job.request.prompt.clone(),
            computed: cached,
            cached,
            sampler: Sampler::new(job.request.sampling.clone(), seed),
            decoder: Decoder::new(Arc::clone(&tokenizer)),
            stop: StopFilter::new(&job.request.stop),
            tokenizer,
            job,
            started: Instant::now(),
            first_token: None,
        }
    }

    /// Tokens that still have to be computed before the next one can be chosen; never empty.
    pub(crate) fn pending(&self) -> &[u32] {
        &self.history[self.computed..]
    }

    /// The slot of the first pending token.
    pub(crate) fn computed(&self) -> usize {
        self.computed
    }

    /// Whether nobody listens any more.
    pub(crate) fn cancelled(&self) -> bool {
        self.job.events.is_closed()
    }

    /// Whether the listener is so far behind that a further step could not be told: a text and the end must fit.
    pub(crate) fn stalled(&self) -> bool {
        self.job.events.capacity() < 2
    }

    /// Takes note that the first `tokens` pending ones were computed.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.computed += tokens;
    }

    /// Chooses the next token from the logits of the last one, and sends what text it completes. Returns whether the answer
    /// has ended.
    pub(crate) fn extend(&mut self, logits: &mut [f32]) -> bool {
        let token = self.sampler.sample(logits, &self.history);
        self.first_token.get_or_insert_with(Instant::now);
        self.history.push(token);
        if self.tokenizer.is_end(token) {
            return self.end(FinishReason::Stop);
        }
        let (text, stopped) = self.stop.push(&self.decoder.push(token));
        self.send_text(text);
        if stopped {
            return self.finish(FinishReason::Stop);
        }
        let limit = self.job.request.max_tokens.map_or(usize::MAX, |tokens| tokens as usize);
        if self.generated() >= limit || self.history.len() >= self.job.context_tokens {
            return self.end(FinishReason::Length);
        }
        false
    }

    /// Goes on in a new place in the cache, which has the first `cached` tokens.
    pub(crate) fn resume(&mut self, seq: SeqId, cached: usize) {
        self.seq = seq;
        self.computed = cached;
    }

    /// All tokens so far, for a place in the cache.
    pub(crate) fn history(&self) -> &[u32] {
        &self.history
    }

    /// Sends the last event.
    pub(crate) fn send(&self, event: Event) {
        // A closed channel means that the client has gone, and then nobody is left to be told.
        let _ = self.job.events.try_send(event);
    }

    fn generated(&self) -> usize {
        self.history.len() - self.job.request.prompt.len()
    }

    fn send_text(&self, text: String) {
        if !text.is_empty() {
            self.send(Event::Text(text));
        }
    }

    /// Ends without a stop text: what was held back belongs to the answer.
    fn end(&mut self, reason: FinishReason) -> bool {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::new(Arc::clone(&self.tokenizer)));
        let (mut text, stopped) = self.stop.push(&decoder.finish());
        if !stopped {
            text += &std::mem::replace(&mut self.stop, StopFilter::new([""; 0])).finish();
        }
        self.send_text(text);
        self.finish(reason)
    }

    fn finish(&mut self, reason: FinishReason) -> bool {
        let first_token = self.first_token.unwrap_or(self.started);
        self.send(Event::Done(Finish {
            reason,
            prompt_tokens: self.job.request.prompt.len(),
            cached_tokens: self.cached,
            prompt_ns: (first_token - self.started).as_nanos() as u64,
            eval_tokens: self.generated(),
            eval_ns: first_token.elapsed().as_nanos() as u64,
            tokens: self.history[self.job.request.prompt.len()..].to_vec(),
        }));
        true
    }
}
