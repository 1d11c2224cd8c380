//! An answer of a remote as the same events as that of a local model.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cairn_prompt::Delta;
use cairn_upstream::{Call, Piece};

use super::event::{Event, Finish};
use super::local_answer::call_id;
use super::tool_use::ToolUse;
use crate::values::Usage;

/// An answer of a remote in progress. Dropping it closes the connection to the server.
pub(crate) struct RemoteAnswer {
    call: Call,
    ready: VecDeque<Event>,
    clock: AnswerClock,
    deltas: u64,
    /// Deltas up to the end of the thinking.
    thinking_deltas: u64,
    /// Whether the answer ends after its first call.
    is_single_call: bool,
    has_ended: bool,
}

impl RemoteAnswer {
    pub(super) fn new(call: Call, started_at: Instant) -> Self {
        Self {
            call,
            ready: VecDeque::new(),
            clock: AnswerClock::new(started_at),
            deltas: 0,
            thinking_deltas: 0,
            is_single_call: false,
            has_ended: false,
        }
    }

    pub(super) fn with_tool_use(self, tool_use: ToolUse) -> Self {
        Self { is_single_call: tool_use.is_single, ..self }
    }

    /// Usage so far. Servers report token counts only at the end, so each delta counts as a token.
    pub(super) fn so_far(&self) -> Option<Usage> {
        (self.deltas > 0).then(|| self.clock.complete(Usage { answer_tokens: self.deltas, ..Usage::default() }))
    }

    /// Returns the next event; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            match self.call.next().await {
                Some(Ok(frame)) => frame.pieces.into_iter().for_each(|piece| self.push(piece)),
                Some(Err(error)) => self.end(Event::Failed(error.into())),
                None => self.end(Event::Failed(cairn_upstream::CallError::Aborted.into())),
            }
        }
    }

    fn push(&mut self, piece: Piece) {
        match piece {
            _ if self.has_ended => {}
            Piece::Delta(mut delta) => {
                if let Delta::ToolCall(call) = &mut delta {
                    call.id.get_or_insert_with(call_id);
                }
                self.clock.record_first_token();
                self.deltas += 1;
                if matches!(delta, Delta::Thinking(_)) {
                    self.thinking_deltas = self.deltas;
                }
                let is_last = self.is_single_call && matches!(delta, Delta::ToolCall(_));
                self.ready.push_back(Event::Delta(delta, Vec::new()));
                if is_last {
                    self.finish(Usage { answer_tokens: self.deltas, ..Usage::default() });
                }
            }
            Piece::CallFragment => {
                self.clock.record_first_token();
                self.deltas += 1;
            }
            Piece::End(usage) => self.finish(*usage),
        }
    }

    fn finish(&mut self, usage: Usage) {
        let usage = self.clock.complete(usage);
        let thinking_tokens = self.thinking_deltas.min(usage.answer_tokens);
        self.end(Event::Finish(Finish { usage, thinking_tokens, ..Finish::default() }));
    }

    fn end(&mut self, last: Event) {
        self.ready.push_back(last);
        self.has_ended = true;
    }
}

/// Times of an answer of a remote, as this daemon sees them.
pub(super) struct AnswerClock {
    started_at: Instant,
    first_token: Option<Duration>,
}

impl AnswerClock {
    pub(super) fn new(started_at: Instant) -> Self {
        Self { started_at, first_token: None }
    }

    pub(super) fn record_first_token(&mut self) {
        self.first_token.get_or_insert_with(|| self.started_at.elapsed());
    }

    /// Adds the times that the server did not report.
    pub(super) fn complete(&self, usage: Usage) -> Usage {
        let total = self.started_at.elapsed();
        let first_token = self.first_token.unwrap_or(total);
        let or = |reported: Duration, seen: Duration| if reported.is_zero() { seen } else { reported };
        Usage {
            prompt: or(usage.prompt, first_token.saturating_sub(usage.load)),
            answer: or(usage.answer, total.saturating_sub(first_token)),
            first_token,
            total,
            ..usage
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_the_server_does_not_report_are_measured() {
        let mut clock = AnswerClock::new(Instant::now());
        std::thread::sleep(Duration::from_millis(5));
        clock.record_first_token();
        let usage = clock.complete(Usage { answer: Duration::from_secs(9), ..Usage::default() });
        assert!(usage.prompt >= Duration::from_millis(5) && usage.total >= usage.first_token, "{usage:?}");
        assert_eq!(usage.answer, Duration::from_secs(9), "reported");
    }
}
