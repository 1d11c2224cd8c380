//! An answer of a local model: the engine's tokens become text, thinking and tool calls.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cairn_prompt::{AnswerParser, Delta};
use cairn_runtime::{self as runtime, Logprob};

use super::error::Error;
use super::event::{Event, Finish};
use super::overflow::OverflowState;
use super::tool_use::ToolUse;
use crate::values::Usage;

/// An answer of a local model in progress. Dropping it cancels the computation.
pub(crate) struct LocalAnswer {
    events: runtime::Generation,
    /// Keeps the model loaded until the answer is complete or dropped.
    lease: Option<runtime::Lease>,
    parser: Option<AnswerParser>,
    prompt_tokens: usize,
    /// The prompt's tokens, if the last event must have them.
    context: Option<Vec<u32>>,
    overflow: OverflowState,
    /// Why the cached prefix of the prompt ends, if it was looked up.
    cache_miss: Option<&'static str>,
    load: Duration,
    started_at: Instant,
    first_token: Option<Duration>,
    ready: VecDeque<Event>,
    /// Log probabilities of tokens whose text is buffered or part of a tag.
    logprobs: Vec<Logprob>,
    /// Usage since the first delta.
    usage: Option<runtime::Usage>,
    thinking_tokens: usize,
    /// Whether the answer ends after its first call.
    is_single_call: bool,
    ignored_options: Vec<String>,
    ended: bool,
}

impl LocalAnswer {
    pub(crate) fn new(
        lease: runtime::Lease,
        request: runtime::Request,
        parser: Option<AnswerParser>,
        wants_context: bool,
        overflow: OverflowState,
        started_at: Instant,
    ) -> Self {
        let prompt_tokens = request.prompt.len();
        // Clients send the context back without the pictures.
        let is_token = |number: &u32| *number < runtime::FIRST_PICTURE;
        let context = wants_context.then(|| request.prompt.iter().copied().filter(is_token).collect());
        let events = lease.generate(request);
        let load = Duration::from_nanos(lease.load_ns());
        Self { lease: Some(lease), prompt_tokens, overflow, ..Self::of(events, parser, context, load, started_at) }
    }

    fn of(
        events: runtime::Generation,
        parser: Option<AnswerParser>,
        context: Option<Vec<u32>>,
        load: Duration,
        started_at: Instant,
    ) -> Self {
        Self {
            events,
            prompt_tokens: 0,
            lease: None,
            parser,
            context,
            overflow: OverflowState::default(),
            cache_miss: None,
            load,
            started_at,
            first_token: None,
            ready: VecDeque::new(),
            logprobs: Vec::new(),
            usage: None,
            thinking_tokens: 0,
            is_single_call: false,
            ignored_options: Vec::new(),
            ended: false,
        }
    }

    /// Tokens of the prompt.
    pub(super) fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Size of the model's weights, if it was loaded for this answer.
    pub(super) fn loaded_weights_bytes(&self) -> Option<u64> {
        self.lease.as_ref().filter(|lease| lease.load_ns() > 0).map(runtime::Lease::weights_bytes)
    }

    /// Progress of the prompt.
    pub(super) fn prompt_progress(&self) -> runtime::PromptProgress {
        self.events.prompt_progress().clone()
    }

    /// Usage so far. `None` before the first delta.
    pub(super) fn so_far(&self) -> Option<Usage> {
        self.usage.map(|usage| self.usage_of(usage))
    }

    pub(super) fn with_ignored_options(self, ignored_options: Vec<String>) -> Self {
        Self { ignored_options, ..self }
    }

    pub(super) fn with_tool_use(self, tool_use: ToolUse) -> Self {
        Self { is_single_call: tool_use.is_single, ..self }
    }

    pub(super) fn with_cache_miss(self, cache_miss: Option<&'static str>) -> Self {
        Self { cache_miss, ..self }
    }

    /// Returns the next event; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Event> {
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
                    let rest = self.parser.take().map(AnswerParser::finish).unwrap_or_default();
                    self.push_events(rest);
                    // The rest may have been a call that ended the answer.
                    if !self.ended {
                        let last = Event::Finish(self.finish(finish));
                        self.end(last);
                    }
                }
                Some(runtime::Event::Error(error)) => self.end(Event::Failed(error.into())),
                None => self.end(Event::Failed(Error::EngineGone)),
            }
        }
    }

    fn push(&mut self, delta: runtime::Delta) {
        self.usage = Some(delta.usage);
        self.logprobs.extend(delta.logprobs);
        let deltas = match &mut self.parser {
            Some(parser) => parser.push(&delta.text),
            None if delta.text.is_empty() => Vec::new(),
            None => vec![Delta::Text(delta.text)],
        };
        if deltas.iter().any(|delta| matches!(delta, Delta::Thinking(_))) {
            self.thinking_tokens = delta.usage.eval_tokens;
        }
        self.push_events(deltas);
    }

    /// Queues deltas as events. The first one takes all pending log probabilities; without deltas they stay pending.
    fn push_events(&mut self, deltas: Vec<Delta>) {
        for mut delta in deltas {
            if let Delta::ToolCall(call) = &mut delta {
                call.id.get_or_insert_with(call_id);
            }
            let is_last = self.is_single_call && matches!(delta, Delta::ToolCall(_));
            self.first_token.get_or_insert_with(|| self.started_at.elapsed());
            self.ready.push_back(Event::Delta(delta, std::mem::take(&mut self.logprobs)));
            if is_last {
                self.cancel();
                return;
            }
        }
    }

    /// Ends the answer before the model does.
    fn cancel(&mut self) {
        // Dropping the receiver cancels the computation.
        self.events = tokio::sync::mpsc::channel(1).1.into();
        let finish = runtime::Finish {
            reason: runtime::FinishReason::Stop,
            usage: self.usage.unwrap_or_default(),
            tokens: Vec::new(),
            dropped_tokens: 0,
            stop: None,
        };
        let last = Event::Finish(self.finish(finish));
        self.end(last);
    }

    fn end(&mut self, last: Event) {
        self.ready.push_back(last);
        self.ended = true;
        self.lease = None;
    }

    fn usage_of(&self, usage: runtime::Usage) -> Usage {
        let runtime::Usage { prompt_tokens, cached_tokens, restored, prompt_ns, eval_tokens, eval_ns } = usage;
        // `whole` and `ends` are not misses: the prompt continues the cached prefix.
        let reason = self.cache_miss.filter(|reason| !matches!(*reason, "whole" | "ends"));
        let is_miss = cached_tokens < prompt_tokens / 2;
        Usage {
            prompt_tokens: prompt_tokens as u64,
            cached_tokens: cached_tokens as u64,
            ram_tokens: restored.ram_tokens as u64,
            ssd_tokens: restored.ssd_tokens as u64,
            remote_tokens: restored.remote_tokens as u64,
            restore: Duration::from_nanos(restored.wait_ns),
            recompute_estimate: Duration::from_nanos(restored.recompute_ns),
            recomputed: reason.filter(|_| is_miss).map(str::to_owned),
            load: self.load,
            prompt: Duration::from_nanos(prompt_ns),
            first_token: self.first_token.unwrap_or_default(),
            answer_tokens: eval_tokens as u64,
            answer: Duration::from_nanos(eval_ns),
            total: self.started_at.elapsed(),
            length_reached: false,
            truncated: self.overflow.truncated,
        }
    }

    /// Completes the finish of the generation.
    fn finish(&mut self, finish: runtime::Finish) -> Finish {
        self.overflow.add_shift(finish.dropped_tokens as u64);
        let length_reached = match finish.reason {
            runtime::FinishReason::Stop => false,
            runtime::FinishReason::Length => true,
        };
        let stop = finish.stop;
        let context = self.context.take().map(|mut tokens| {
            tokens.extend(finish.tokens);
            tokens
        });
        let usage = Usage { length_reached, ..self.usage_of(finish.usage) };
        let thinking_tokens = self.thinking_tokens as u64;
        let logprobs = std::mem::take(&mut self.logprobs);
        let ignored_options = std::mem::take(&mut self.ignored_options);
        Finish { usage, context, logprobs, stop, thinking_tokens, ignored_options }
    }
}

/// Returns an id for a tool call. It need only be unique in its conversation.
pub(super) fn call_id() -> String {
    let mut bytes = [0; 4];
    // Without random numbers the id is still valid.
    let _ = getrandom::fill(&mut bytes);
    format!("call_{}", hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use cairn_prompt::{AnswerFormat, ThinkingStart};
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
            stop: None,
        })
    }

    /// Feeds events to an answer and returns its events as one line.
    async fn collect(events: Vec<runtime::Event>, thinks: bool) -> String {
        let (sender, receiver) = mpsc::channel(32);
        for event in events {
            sender.send(event).await.unwrap();
        }
        drop(sender);
        let thinking = Some(("<think>".to_owned(), "</think>".to_owned()));
        let format = AnswerFormat { thinking, tool_calls: None };
        let parser = thinks.then(|| AnswerParser::new(&format, &[], ThinkingStart::AtTag));
        let mut answer = LocalAnswer::of(receiver.into(), parser, Some(vec![5, 6, 7]), Duration::ZERO, Instant::now());
        let mut line = Vec::new();
        while let Some(event) = answer.next().await {
            line.push(match event {
                Event::Delta(Delta::Text(text), logprobs) => format!("{text}{}", "*".repeat(logprobs.len())),
                Event::Delta(Delta::Thinking(text), logprobs) => format!("({text}{})", "*".repeat(logprobs.len())),
                Event::Delta(Delta::ToolCall(call), _) => format!("call of {}", call.name),
                Event::Finish(Finish { usage, context, logprobs, .. }) => {
                    let reason = if usage.length_reached { "Length" } else { "Stop" };
                    format!("{reason} {:?}{}", context.unwrap(), "*".repeat(logprobs.len()))
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
        let mut answer = LocalAnswer::of(receiver.into(), None, None, Duration::from_nanos(10), Instant::now());
        assert_eq!(answer.so_far(), None, "no usage during prefill");
        let usage = runtime::Usage { prompt_tokens: 9, cached_tokens: 8, eval_tokens: 1, ..runtime::Usage::default() };
        let piece = runtime::Delta { text: "So".to_owned(), usage, ..runtime::Delta::default() };
        sender.send(runtime::Event::Delta(piece)).await.unwrap();
        answer.next().await.unwrap();
        let usage = answer.so_far().unwrap();
        assert_eq!((usage.prompt_tokens, usage.cached_tokens, usage.answer_tokens), (9, 8, 1), "{usage:?}");
        assert_eq!((usage.load, usage.truncated), (Duration::from_nanos(10), None), "{usage:?}");
    }

    #[tokio::test]
    async fn answer_fails_when_the_engine_stops() {
        let line = collect(vec![text("So")], false).await;
        assert_eq!(line, "So|! the engine stopped before the answer was complete", "the end is an error");
    }
}
