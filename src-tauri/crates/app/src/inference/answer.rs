//! The stream of an answer: text and thinking as separate deltas, and usage at the end.

use std::collections::VecDeque;
use std::time::Instant;

use cairn_prompt::{Delta, ThinkingSplitter};
use cairn_runtime::{self as runtime, Logprob};

use super::error::Error;
use super::overflow::{OverflowState, Truncated};

/// Event of an answer.
#[derive(Debug)]
pub enum Event {
    /// Text of the answer.
    Text(AnswerDelta),
    /// Text of the thinking before the answer.
    Thinking(AnswerDelta),
    /// The answer is complete; the last event.
    Done(Done),
    /// The answer is incomplete; the last event.
    Failed(Error),
}

/// A delta of text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnswerDelta {
    /// The text.
    pub text: String,
    /// Log probabilities of the tokens since the delta before, if requested.
    pub logprobs: Vec<Logprob>,
}

/// End of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The finish reason.
    pub reason: Reason,
    /// The usage.
    pub cost: Cost,
    /// Token ids of the prompt and the answer, if requested.
    pub context: Option<Vec<u32>>,
    /// Log probabilities of the tokens after the last delta.
    pub logprobs: Vec<Logprob>,
    /// What was left out because the context was full.
    pub truncated: Option<Truncated>,
}

/// Finish reason of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The model generated an end token or a stop string.
    Stop,
    /// The token limit was reached.
    Length,
}

/// Usage of an answer. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// From the request to the last token.
    pub total_ns: u64,
    /// Time to load the model.
    pub load_ns: u64,
    /// Tokens of the whole prompt.
    pub prompt_tokens: u64,
    /// Prompt tokens that were found in the cache.
    pub cached_tokens: u64,
    /// Cached tokens that were restored from RAM, SSD and the remote tier.
    pub recalled_tokens: [u64; 3],
    /// Time of the restores.
    pub recall_ns: u64,
    /// Estimated time to compute the restored tokens, from recent speed.
    pub recompute_ns: u64,
    /// Time to compute the other prompt tokens.
    pub prompt_ns: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Time to compute the answer.
    pub answer_ns: u64,
}

/// An answer in progress. Dropping it cancels the computation.
pub struct Answer {
    events: runtime::Generation,
    /// Keeps the model loaded until the answer is complete or dropped.
    lease: Option<runtime::Lease>,
    splitter: Option<ThinkingSplitter>,
    /// The prompt's tokens, if the last event must have them.
    context: Option<Vec<u32>>,
    overflow: OverflowState,
    /// Why the cached prefix of the prompt ends, if it was looked up.
    cache_miss: Option<&'static str>,
    load_ns: u64,
    started_at: Instant,
    ready: VecDeque<Event>,
    /// Log probabilities of tokens whose text is buffered or part of a tag.
    logprobs: Vec<Logprob>,
    /// Usage since the first delta.
    usage: Option<runtime::Usage>,
    ended: bool,
}

impl Answer {
    pub(crate) fn new(
        lease: runtime::Lease,
        request: runtime::Request,
        splitter: Option<ThinkingSplitter>,
        wants_context: bool,
        overflow: OverflowState,
        started_at: Instant,
    ) -> Self {
        let context = wants_context.then(|| request.prompt.clone());
        let events = lease.generate(request);
        let load_ns = lease.load_ns();
        Self { lease: Some(lease), overflow, ..Self::of(events, splitter, context, load_ns, started_at) }
    }

    fn of(
        events: runtime::Generation,
        splitter: Option<ThinkingSplitter>,
        context: Option<Vec<u32>>,
        load_ns: u64,
        started_at: Instant,
    ) -> Self {
        let ready = VecDeque::new();
        Self {
            events,
            lease: None,
            splitter,
            context,
            overflow: OverflowState::default(),
            cache_miss: None,
            load_ns,
            started_at,
            ready,
            logprobs: Vec::new(),
            usage: None,
            ended: false,
        }
    }

    /// Usage so far, and what was left out: the only usage of a cancelled answer. `None` before the first delta.
    #[must_use]
    pub fn so_far(&self) -> Option<(Cost, Option<Truncated>)> {
        self.usage.map(|usage| (self.cost(usage), self.overflow.truncated))
    }

    pub(super) fn with_cache_miss(self, cache_miss: Option<&'static str>) -> Self {
        Self { cache_miss, ..self }
    }

    /// Why the cached prefix of the prompt ends: [`super::Traced::reason`]. `None` unless
    /// [`explain_miss`](super::Chat::explain_miss) is set.
    #[must_use]
    pub fn cache_miss(&self) -> Option<&'static str> {
        self.cache_miss
    }

    /// Returns the next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            match self.events.recv().await {
                Some(runtime::Event::Delta(delta)) => self.push(delta),
                Some(runtime::Event::ContextFull(full)) => self.overflow.make_room(full).await,
                Some(runtime::Event::Finish(finish)) => {
                    let rest = self.splitter.take().map(ThinkingSplitter::finish).unwrap_or_default();
                    self.push_events(rest);
                    let done = Event::Done(self.done(finish));
                    self.end(done);
                }
                Some(runtime::Event::Error(error)) => self.end(Event::Failed(error.into())),
                None => self.end(Event::Failed(Error::EngineGone)),
            }
        }
    }

    fn push(&mut self, delta: runtime::Delta) {
        self.usage = Some(delta.usage);
        self.logprobs.extend(delta.logprobs);
        let deltas = match &mut self.splitter {
            Some(splitter) => splitter.push(&delta.text),
            None if delta.text.is_empty() => Vec::new(),
            None => vec![Delta::Text(delta.text)],
        };
        self.push_events(deltas);
    }

    /// Queues deltas as events. The first one gets the log probabilities.
    fn push_events(&mut self, deltas: Vec<Delta>) {
        for delta in deltas {
            let logprobs = std::mem::take(&mut self.logprobs);
            self.ready.push_back(match delta {
                Delta::Thinking(text) => Event::Thinking(AnswerDelta { text, logprobs }),
                Delta::Text(text) => Event::Text(AnswerDelta { text, logprobs }),
            });
        }
    }

    fn end(&mut self, last: Event) {
        self.ready.push_back(last);
        self.ended = true;
        self.lease = None;
    }

    fn cost(&self, usage: runtime::Usage) -> Cost {
        let restored = usage.restored;
        Cost {
            total_ns: u64::try_from(self.started_at.elapsed().as_nanos()).unwrap_or(u64::MAX),
            load_ns: self.load_ns,
            prompt_tokens: usage.prompt_tokens as u64,
            cached_tokens: usage.cached_tokens as u64,
            recalled_tokens: [restored.ram_tokens, restored.ssd_tokens, restored.remote_tokens]
                .map(|tokens| tokens as u64),
            recall_ns: restored.wait_ns,
            recompute_ns: restored.recompute_ns,
            prompt_ns: usage.prompt_ns,
            answer_tokens: usage.eval_tokens as u64,
            answer_ns: usage.eval_ns,
        }
    }

    fn done(&mut self, finish: runtime::Finish) -> Done {
        let reason = match finish.reason {
            runtime::FinishReason::Stop => Reason::Stop,
            runtime::FinishReason::Length => Reason::Length,
        };
        let cost = self.cost(finish.usage);
        self.overflow.add_shift(finish.dropped_tokens);
        let context = self.context.take().map(|mut tokens| {
            tokens.extend(finish.tokens);
            tokens
        });
        Done { reason, cost, context, logprobs: std::mem::take(&mut self.logprobs), truncated: self.overflow.truncated }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn finish() -> runtime::Event {
        runtime::Event::Finish(runtime::Finish {
            reason: runtime::FinishReason::Length,
            usage: runtime::Usage {
                prompt_tokens: 3,
                cached_tokens: 1,
                prompt_ns: 20,
                eval_tokens: 2,
                eval_ns: 30,
                ..runtime::Usage::default()
            },
            tokens: vec![8, 9],
            dropped_tokens: 0,
        })
    }

    /// Feeds events to an answer and returns its events as one line.
    async fn collect(events: Vec<runtime::Event>, thinks: bool) -> String {
        let (sender, receiver) = mpsc::channel(32);
        for event in events {
            sender.send(event).await.unwrap();
        }
        drop(sender);
        let splitter = thinks.then(|| ThinkingSplitter::new("<think>", "</think>", false));
        let mut answer = Answer::of(receiver.into(), splitter, Some(vec![5, 6, 7]), 10, Instant::now());
        let mut line = Vec::new();
        while let Some(event) = answer.next().await {
            line.push(match event {
                Event::Text(delta) => format!("{}{}", delta.text, "*".repeat(delta.logprobs.len())),
                Event::Thinking(delta) => format!("({}{})", delta.text, "*".repeat(delta.logprobs.len())),
                Event::Done(done) => {
                    format!("{:?} {:?}{}", done.reason, done.context.unwrap(), "*".repeat(done.logprobs.len()))
                }
                Event::Failed(error) => format!("! {error}"),
            });
        }
        line.join("|")
    }

    fn text(text: &str) -> runtime::Event {
        runtime::Event::Delta(runtime::Delta { text: text.to_owned(), ..runtime::Delta::default() })
    }

    /// A delta of `count` tokens.
    fn tokens(text: &str, count: usize) -> runtime::Event {
        let chosen = runtime::TokenLogprob { token: 0, bytes: Vec::new(), logprob: -1.0 };
        let logprobs = vec![Logprob { chosen, top: Vec::new() }; count];
        runtime::Event::Delta(runtime::Delta { text: text.to_owned(), logprobs, ..runtime::Delta::default() })
    }

    #[tokio::test]
    async fn logprobs_of_every_token_are_sent_once() {
        let events = vec![tokens("<think>", 1), tokens("hm", 2), tokens("</think>\n", 3), tokens("So", 1), finish()];
        assert_eq!(
            collect(events, true).await,
            "(hm***)|So****|Length [5, 6, 7, 8, 9]",
            "those of a tag come with the next delta"
        );
        let events = vec![tokens("So", 1), tokens("", 2), finish()];
        assert_eq!(
            collect(events, false).await,
            "So*|Length [5, 6, 7, 8, 9]**",
            "those without text come with the end"
        );
    }

    #[tokio::test]
    async fn answer_separates_thinking_from_text() {
        let events = || vec![text("<think>hm"), text("</thi"), text("nk>\n\nSo"), text("."), finish()];
        let separated = collect(events(), true).await;
        assert_eq!(separated, "(hm)|So|.|Length [5, 6, 7, 8, 9]", "separated if the model thinks");
        let whole = collect(events(), false).await;
        assert_eq!(
            whole, "<think>hm|</thi|nk>\n\nSo|.|Length [5, 6, 7, 8, 9]",
            "unchanged if the model does not think"
        );
        assert_eq!(
            collect(vec![text("<thi"), finish()], true).await,
            "<thi|Length [5, 6, 7, 8, 9]",
            "the buffered text is sent at the end"
        );
    }

    #[tokio::test]
    async fn usage_is_available_from_the_first_delta() {
        let (sender, receiver) = mpsc::channel(2);
        let mut answer = Answer::of(receiver.into(), None, None, 10, Instant::now());
        assert_eq!(answer.so_far(), None, "no usage during prefill");
        let usage = runtime::Usage { prompt_tokens: 9, cached_tokens: 8, eval_tokens: 1, ..runtime::Usage::default() };
        let piece = runtime::Delta { text: "So".to_owned(), usage, ..runtime::Delta::default() };
        sender.send(runtime::Event::Delta(piece)).await.unwrap();
        answer.next().await.unwrap();
        let (cost, truncated) = answer.so_far().unwrap();
        assert_eq!((cost.prompt_tokens, cost.cached_tokens, cost.answer_tokens), (9, 8, 1), "{cost:?}");
        assert_eq!((cost.load_ns, truncated), (10, None), "{cost:?}");
    }

    #[tokio::test]
    async fn answer_fails_when_the_engine_stops() {
        let line = collect(vec![text("So")], false).await;
        assert_eq!(line, "So|! the engine stopped before the answer was complete", "the end is an error");
    }
}
