//! One request while it is being answered: its tokens, its sampler, and the text held back.
//!
//! A sequence has no prefill or decode phase of its own. It has a history (prompt, then generated tokens) of which a part
//! has been computed; each step computes some of the rest, and the step that reaches the end yields a token.

mod full;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_kv::{Recall, Recomputed, SeqId, Whose};
use cairn_prompt::StopFilter;
use cairn_tier::Place;
use cairn_tokenizer::{Decoder, Tokenizer};
use tokio::sync::mpsc;

use crate::full::{Filled, Full};
use crate::logprobs::Logprobs;
use crate::request::{Event, Finish, FinishReason, GenerateError, Logprob, Recalls, Request, Spent, Text};
use crate::sampler::Sampler;

/// The longest answer, in contexts, however often its context is filled: as with Ollama.
const MOST_CONTEXTS: usize = 10;

/// A request on its way to the scheduler.
pub(crate) struct Job {
    pub(crate) request: Request,
    /// Tokens that prompt and answer may have together.
    pub(crate) context_tokens: usize,
    pub(crate) listener: Listener,
}

/// Where a request's events go.
///
/// **Invariant:** the last event is an end. One that is dropped before, because its thread panicked or ended while the
/// request was on its way, tells that the model is gone.
pub(crate) struct Listener {
    events: mpsc::Sender<Event>,
    ended: bool,
}

impl Listener {
    /// A new listener's two sides; the receiver may fall behind by `capacity` events before its answer pauses.
    pub(crate) fn channel(capacity: usize) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(capacity);
        (Self { events, ended: false }, receiver)
    }

    /// Whether nobody listens any more.
    pub(crate) fn gone(&self) -> bool {
        self.events.is_closed()
    }

    /// Whether it is so far behind that a further step could not be told: the step's text, what was held back, and the end
    /// must fit.
    fn stalled(&self) -> bool {
        self.events.capacity() < 3
    }

    fn text(&mut self, text: String, logprobs: Vec<Logprob>, spent: Spent) {
        if !text.is_empty() || !logprobs.is_empty() {
            // A closed channel means that the client has gone, and then nobody is left to be told.
            let _ = self.events.try_send(Event::Text(Text { text, logprobs, spent }));
        }
    }

    fn ask(&self, full: Full) {
        let _ = self.events.try_send(Event::Full(full));
    }

    /// Sends the last event.
    pub(crate) fn end(&mut self, event: Event) {
        self.ended = true;
        let _ = self.events.try_send(event);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Event::Failed(GenerateError::Unloaded));
        }
    }
}

/// Tokens that a place far away was too slow to give, and that may have come nearer before they are computed.
pub(crate) struct Late {
    pub(crate) tokens: usize,
    /// What was computed when it was looked for them the last time.
    pub(crate) looked_at: usize,
}

/// A request that has a place in the cache.
pub(crate) struct Sequence {
    pub(crate) seq: SeqId,
    job: Job,
    /// Prompt and generated tokens, as far as they are in the context.
    history: Vec<u32>,
    /// All generated tokens.
    answer: Vec<u32>,
    /// How many of them have been computed, or came from the cache.
    computed: usize,
    cached: usize,
    /// What is coming from the tiers. Nothing is computed meanwhile.
    pub(crate) recall: Option<Recall>,
    /// What may still come while it computes.
    pub(crate) late: Option<Late>,
    recalled: Recalls,
    /// Set while the context is full. Nothing is computed meanwhile.
    pub(crate) full: Option<Filled>,
    /// Whether the history still begins with the request's prompt.
    whole: bool,
    forgotten_tokens: usize,
    /// Whether it gave up its place once: its prompt has been counted then.
    resumed: bool,
    sampler: Sampler,
    decoder: Decoder<Arc<Tokenizer>>,
    stop: StopFilter,
    /// None when nobody asked, and then they cost nothing.
    logprobs: Option<Logprobs>,
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
            answer: Vec::new(),
            computed: cached,
            cached,
            recall: None,
            late: None,
            recalled: Recalls::default(),
            full: None,
            whole: true,
            forgotten_tokens: 0,
            resumed: false,
            sampler: Sampler::new(job.request.sampling.clone(), seed),
            decoder: Decoder::new(Arc::clone(&tokenizer)),
            stop: StopFilter::new(&job.request.stop),
            logprobs: job.request.logprobs.map(Logprobs::new),
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
        self.job.listener.gone()
    }

    /// Whether the listener is too far behind for a further step.
    pub(crate) fn stalled(&self) -> bool {
        self.job.listener.stalled()
    }

    /// Takes note that the first `tokens` pending ones were computed.
    pub(crate) fn advance(&mut self, tokens: usize) {
        self.computed += tokens;
    }

    /// Chooses the next token from the logits of the last one, and sends what text it completes. Returns whether the answer
    /// has ended.
    pub(crate) fn extend(&mut self, logits: &mut [f32]) -> bool {
        if let Some(logprobs) = &mut self.logprobs {
            logprobs.see(logits);
        }
        let token = self.sampler.sample(logits, &self.history);
        self.first_token.get_or_insert_with(Instant::now);
        self.history.push(token);
        self.answer.push(token);
        if self.tokenizer.is_end(token) {
            return self.end(FinishReason::Stop);
        }
        let decoded = self.decoder.push(token);
        let (text, stopped) = self.stop.push(&decoded);
        let told = self.logprobs.as_mut().map(|logprobs| {
            logprobs.take(token, &self.tokenizer, decoded.len());
            logprobs.shown(text.len(), stopped)
        });
        let spent = self.spent();
        self.job.listener.text(text, told.unwrap_or_default(), spent);
        if stopped {
            return self.finish(FinishReason::Stop);
        }
        let limit = self.job.request.max_tokens.map_or(usize::MAX, |tokens| tokens as usize);
        if self.generated() >= limit.min(MOST_CONTEXTS * self.job.context_tokens) {
            return self.end(FinishReason::Length);
        }
        self.history.len() >= self.job.context_tokens && !self.fill() && self.end(FinishReason::Length)
    }

    /// Ends an answer that may have no tokens at all. Returns whether it was such a one.
    pub(crate) fn wants_nothing(&mut self) -> bool {
        self.job.request.max_tokens == Some(0) && self.end(FinishReason::Length)
    }

    /// Whether rows are coming that need not be computed.
    pub(crate) fn recalling(&self) -> bool {
        self.recall.is_some()
    }

    /// Whether nothing of it is to be computed before something has come.
    pub(crate) fn waits(&self) -> bool {
        self.recalling() || self.full.is_some()
    }

    /// Takes note that this many of the pending tokens came from a tier. Returns how many of them are news: tokens of the prompt that
    /// had not been counted.
    pub(crate) fn recalled(&mut self, tokens: usize, place: Place) -> usize {
        // A sequence that gave up its place and came back has had its prompt counted already, and one that something came for late had
        // computed a part of it.
        let counted = self.cached.max(self.computed);
        self.computed += tokens;
        let prompt_tokens = if self.whole { self.job.request.prompt.len() } else { 0 };
        let news = self.computed.min(prompt_tokens).saturating_sub(counted);
        self.cached += news;
        *match place {
            Place::Ram => &mut self.recalled.ram_tokens,
            Place::Ssd => &mut self.recalled.ssd_tokens,
            Place::Remote => &mut self.recalled.remote_tokens,
        } += news;
        if news > 0 {
            self.recalled.ns = self.started.elapsed().as_nanos() as u64;
        }
        news
    }

    /// Takes note of what computing the recalled tokens would have taken.
    pub(crate) fn spared(&mut self, recompute: Duration) {
        if !self.resumed {
            self.recalled.recompute_ns += recompute.as_nanos() as u64;
        }
    }

    /// Takes note of tokens that are computed although they were looked for. Returns whether they count: those of a sequence that gave
    /// up its place had been computed before.
    pub(crate) fn recomputed(&mut self, tokens: Recomputed) -> bool {
        if !self.resumed {
            self.recalled.recomputed += tokens;
        }
        !self.resumed
    }

    /// Goes on in a new place in the cache, after it had given up its own.
    pub(crate) fn reopen(&mut self, seq: SeqId, cached: usize) {
        self.resumed = true;
        self.resume(seq, cached);
    }

    /// Goes on in this place in the cache, which has the first `cached` tokens.
    pub(crate) fn resume(&mut self, seq: SeqId, cached: usize) {
        self.seq = seq;
        self.computed = cached;
    }

    /// Whose it is.
    pub(crate) fn whose(&self) -> &Whose {
        &self.job.request.whose
    }

    /// All tokens so far, for a place in the cache.
    pub(crate) fn history(&self) -> &[u32] {
        &self.history
    }

    /// Ends with an error.
    pub(crate) fn fail(&mut self, error: GenerateError) {
        self.job.listener.end(Event::Failed(error));
    }

    fn generated(&self) -> usize {
        self.answer.len()
    }

    /// Ends without a stop text: what was held back belongs to the answer.
    fn end(&mut self, reason: FinishReason) -> bool {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::new(Arc::clone(&self.tokenizer)));
        let (mut text, stopped) = self.stop.push(&decoder.finish());
        if !stopped {
            text += &std::mem::replace(&mut self.stop, StopFilter::new([""; 0])).finish();
        }
        let told = self.logprobs.as_mut().map(|logprobs| match stopped {
            true => logprobs.shown(text.len(), true),
            false => logprobs.rest(),
        });
        let spent = self.spent();
        self.job.listener.text(text, told.unwrap_or_default(), spent);
        self.finish(reason)
    }

    fn spent(&self) -> Spent {
        let first_token = self.first_token.unwrap_or(self.started);
        Spent {
            prompt_tokens: self.job.request.prompt.len(),
            cached_tokens: self.cached,
            recalled: self.recalled,
            prompt_ns: ((first_token - self.started).as_nanos() as u64).saturating_sub(self.recalled.ns),
            eval_tokens: self.generated(),
            eval_ns: first_token.elapsed().as_nanos() as u64,
        }
    }

    fn finish(&mut self, reason: FinishReason) -> bool {
        let finish = Finish {
            reason,
            spent: self.spent(),
            tokens: std::mem::take(&mut self.answer),
            forgotten_tokens: self.forgotten_tokens,
        };
        self.job.listener.end(Event::Done(finish));
        true
    }
}

#[cfg(test)]
mod tests {
    use cairn_gguf::DType;
    use cairn_gguf::Gguf;
    use cairn_kv::{Budget, Cache};
    use cairn_tensor::PageLayout;
    use cairn_tokenizer::Special;

    use super::*;

    /// Lets a sequence with a channel of this capacity, and this stop text, choose the token `in`, which is its last.
    fn last_step(capacity: usize, stop: &str) -> (bool, mpsc::Receiver<Event>) {
        let file = cairn_testkit::write(&cairn_testkit::tiny_llama());
        let gguf = Gguf::parse(&file).expect("the kit writes whole files");
        let tokenizer = Arc::new(Tokenizer::from_metadata(gguf.metadata()).expect("its vocabulary is sound"));
        let [token] = tokenizer.encode("in", Special::default())[..] else { panic!("`in` is one token") };
        let (listener, events) = Listener::channel(capacity);
        let request =
            Request { prompt: vec![1], max_tokens: Some(1), stop: vec![stop.to_owned()], ..Request::default() };
        let job = Job { request, context_tokens: 10, listener };
        let (seq, cached) = Cache::new(PageLayout::new(&[], DType::F16), Arc::new(Budget::new(0))).open(&[1]);
        let mut sequence = Sequence::new(job, seq, cached, 0, Arc::clone(&tokenizer));
        let stalled = sequence.stalled();
        let mut logits = vec![f32::NEG_INFINITY; tokenizer.vocab_size()];
        logits[token as usize] = 0.0;
        assert!(sequence.extend(&mut logits), "one token was asked for");
        (stalled, events)
    }

    #[test]
    fn a_step_is_not_taken_unless_all_that_it_may_say_can_be_told() {
        let (stalled, mut events) = last_step(3, "n!");
        assert!(!stalled, "three events fit");
        let mut told = std::iter::from_fn(|| events.try_recv().ok());
        assert!(matches!(told.next(), Some(Event::Text(said)) if said.text == "i"), "what cannot begin the stop text");
        let held_back = told.next();
        assert!(matches!(&held_back, Some(Event::Text(said)) if said.text == "n"), "what was held back: {held_back:?}");
        let Some(Event::Text(Text { spent, .. })) = held_back else { unreachable!("it was looked at") };
        assert_eq!((spent.prompt_tokens, spent.eval_tokens), (1, 1), "each piece tells what was spent up to it");
        assert!(matches!(told.next(), Some(Event::Done(_))), "the end");
        assert!(last_step(2, "n!").0, "with less room the step must wait");
    }

    #[test]
    fn a_listener_that_is_dropped_before_its_end_tells_so() {
        let (listener, mut events) = Listener::channel(1);
        drop(listener);
        let last = events.try_recv();
        assert!(matches!(last, Ok(Event::Failed(GenerateError::Unloaded))), "as when the thread panics: {last:?}");
        let (mut listener, mut events) = Listener::channel(1);
        listener.end(Event::Failed(GenerateError::EmptyPrompt));
        drop(listener);
        let last = events.try_recv();
        assert!(matches!(last, Ok(Event::Failed(GenerateError::EmptyPrompt))), "an end is the last event: {last:?}");
        assert!(events.try_recv().is_err(), "nothing follows an end");
    }
}
