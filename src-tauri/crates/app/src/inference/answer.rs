//! An answer as it comes: the engine's text, thinking parted from it, and at the end what it cost.

use std::collections::VecDeque;
use std::time::Instant;

use cairn_prompt::{Delta, ThinkingSplitter};
use cairn_runtime::{self as runtime, Logprob};

use super::error::Error;
use super::overflow::{Overflowing, Truncated};

/// A piece of an answer.
#[derive(Debug)]
pub enum Event {
    /// Text of the answer.
    Text(Said),
    /// What the model thinks before it answers.
    Thinking(Said),
    /// The end; nothing follows.
    Done(Done),
    /// The answer stays incomplete; nothing follows.
    Failed(Error),
}

/// A piece of text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// The text.
    pub text: String,
    /// How likely the tokens were that have become text since the piece before, where that was asked for.
    pub logprobs: Vec<Logprob>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// Why.
    pub reason: Reason,
    /// What it cost.
    pub cost: Cost,
    /// Tokens of the prompt and of the answer, when they were asked for.
    pub context: Option<Vec<u32>>,
    /// Of the tokens that no piece of text came after.
    pub logprobs: Vec<Logprob>,
    /// What did not fit into the context, if anything.
    pub truncated: Option<Truncated>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The model was done, or a stop string came.
    Stop,
    /// The limit of tokens was reached.
    Length,
}

/// What an answer cost. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// From the request to the last token.
    pub total_ns: u64,
    /// Waiting for the model to be loaded.
    pub load_ns: u64,
    /// Tokens of the whole prompt.
    pub prompt_tokens: u64,
    /// Those of them that were found computed.
    pub cached_tokens: u64,
    /// Those of the cached that had left the pages in use, and came back from RAM, SSD and the remote tier.
    pub recalled_tokens: [u64; 3],
    /// Bringing them back.
    pub recall_ns: u64,
    /// What computing them would have taken, by what computing has taken lately.
    pub recompute_ns: u64,
    /// Computing the others.
    pub prompt_ns: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Computing them.
    pub answer_ns: u64,
}

/// An answer that is being computed. Dropping it stops the computation.
pub struct Answer {
    events: runtime::Generation,
    /// Keeps the model in memory until the answer is complete or dropped.
    lease: Option<runtime::Lease>,
    splitter: Option<ThinkingSplitter>,
    /// The prompt's tokens, where the last event is to carry them.
    context: Option<Vec<u32>>,
    overflow: Overflowing,
    load_ns: u64,
    started_at: Instant,
    ready: VecDeque<Event>,
    /// Of tokens whose text is held back, or is a tag.
    logprobs: Vec<Logprob>,
    /// What it has taken, since its first piece.
    usage: Option<runtime::Usage>,
    ended: bool,
}

impl Answer {
    pub(crate) fn new(
        lease: runtime::Lease,
        request: runtime::Request,
        splitter: Option<ThinkingSplitter>,
        wants_context: bool,
        overflow: Overflowing,
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
            overflow: Overflowing::default(),
            load_ns,
            started_at,
            ready,
            logprobs: Vec::new(),
            usage: None,
            ended: false,
        }
    }

    /// What it has cost so far, and what did not fit into the context: all that is known of an answer that is given up. None before
    /// its first piece.
    #[must_use]
    pub fn so_far(&self) -> Option<(Cost, Option<Truncated>)> {
        self.usage.map(|usage| (self.cost(usage), self.overflow.truncated))
    }

    /// The next piece; `None` after the last one.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.ended {
                return None;
            }
            match self.events.recv().await {
                Some(runtime::Event::Delta(said)) => self.push(said),
                Some(runtime::Event::ContextFull(full)) => self.overflow.make_room(full).await,
                Some(runtime::Event::Finish(finish)) => {
                    let rest = self.splitter.take().map(ThinkingSplitter::finish).unwrap_or_default();
                    self.tell(rest);
                    let done = Event::Done(self.done(finish));
                    self.end(done);
                }
                Some(runtime::Event::Error(error)) => self.end(Event::Failed(error.into())),
                None => self.end(Event::Failed(Error::EngineGone)),
            }
        }
    }

    fn push(&mut self, said: runtime::Delta) {
        self.usage = Some(said.usage);
        self.logprobs.extend(said.logprobs);
        let pieces = match &mut self.splitter {
            Some(splitter) => splitter.push(&said.text),
            None if said.text.is_empty() => Vec::new(),
            None => vec![Delta::Text(said.text)],
        };
        self.tell(pieces);
    }

    /// Makes events of pieces. What is known of the tokens goes with the first of them.
    fn tell(&mut self, pieces: Vec<Delta>) {
        for piece in pieces {
            let logprobs = std::mem::take(&mut self.logprobs);
            self.ready.push_back(match piece {
                Delta::Thinking(text) => Event::Thinking(Said { text, logprobs }),
                Delta::Text(text) => Event::Text(Said { text, logprobs }),
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
        self.overflow.forgot(finish.dropped_tokens);
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

    /// Feeds events to an answer and writes what comes out in one line.
    async fn heard(events: Vec<runtime::Event>, thinks: bool) -> String {
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
                Event::Text(said) => format!("{}{}", said.text, "*".repeat(said.logprobs.len())),
                Event::Thinking(said) => format!("({}{})", said.text, "*".repeat(said.logprobs.len())),
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

    /// A text of so many tokens.
    fn tokens(text: &str, count: usize) -> runtime::Event {
        let chosen = runtime::TokenLogprob { token: 0, bytes: Vec::new(), logprob: -1.0 };
        let logprobs = vec![Logprob { chosen, top: Vec::new() }; count];
        runtime::Event::Delta(runtime::Delta { text: text.to_owned(), logprobs, ..runtime::Delta::default() })
    }

    #[tokio::test]
    async fn every_token_is_told_once() {
        let said = vec![tokens("<think>", 1), tokens("hm", 2), tokens("</think>\n", 3), tokens("So", 1), finish()];
        assert_eq!(heard(said, true).await, "(hm***)|So****|Length [5, 6, 7, 8, 9]", "a tag's go with what follows");
        let said = vec![tokens("So", 1), tokens("", 2), finish()];
        assert_eq!(heard(said, false).await, "So*|Length [5, 6, 7, 8, 9]**", "those of no text come with the end");
    }

    #[tokio::test]
    async fn text_and_thinking() {
        let said = || vec![text("<think>hm"), text("</thi"), text("nk>\n\nSo"), text("."), finish()];
        let parted = heard(said(), true).await;
        assert_eq!(parted, "(hm)|So|.|Length [5, 6, 7, 8, 9]", "parted where the model thinks");
        let whole = heard(said(), false).await;
        assert_eq!(whole, "<think>hm|</thi|nk>\n\nSo|.|Length [5, 6, 7, 8, 9]", "left alone where it does not");
        assert_eq!(
            heard(vec![text("<thi"), finish()], true).await,
            "<thi|Length [5, 6, 7, 8, 9]",
            "what was held back"
        );
    }

    #[tokio::test]
    async fn what_it_has_cost_is_known_from_its_first_piece() {
        let (sender, receiver) = mpsc::channel(2);
        let mut answer = Answer::of(receiver.into(), None, None, 10, Instant::now());
        assert_eq!(answer.so_far(), None, "nothing is known of a prompt that is being read");
        let usage = runtime::Usage { prompt_tokens: 9, cached_tokens: 8, eval_tokens: 1, ..runtime::Usage::default() };
        let piece = runtime::Delta { text: "So".to_owned(), usage, ..runtime::Delta::default() };
        sender.send(runtime::Event::Delta(piece)).await.unwrap();
        answer.next().await.unwrap();
        let (cost, truncated) = answer.so_far().unwrap();
        assert_eq!((cost.prompt_tokens, cost.cached_tokens, cost.answer_tokens), (9, 8, 1), "{cost:?}");
        assert_eq!((cost.load_ns, truncated), (10, None), "{cost:?}");
    }

    #[tokio::test]
    async fn an_engine_that_goes_away_is_said() {
        let line = heard(vec![text("So")], false).await;
        assert_eq!(line, "So|! the engine stopped before the answer was complete", "no silent end");
    }
}
