//! Streams an answer to a client. A follower counts the bytes that it has sent, so it loses nothing and needs no queue:
//! a slow follower sends larger deltas.

use std::collections::VecDeque;

use cairn_chats::{ChatLine, ChatMessage, StepLine};
use tokio::sync::watch;

use super::live::{Live, LiveState};

/// Follows an answer in progress. Dropping the follower does not stop the answer.
pub struct Follower {
    state: watch::Receiver<LiveState>,
    ready: VecDeque<ChatLine>,
    /// Bytes of the thinking and the text that were sent.
    thinking_sent: usize,
    content_sent: usize,
    /// Changes of each step that were sent.
    steps_sent: Vec<u64>,
    before_answer_sent: Option<ChatLine>,
    ended: bool,
}

impl Follower {
    /// Follows an answer. `asked` is the user's message, if it is new.
    pub(super) fn new(live: &Live, asked: Option<ChatMessage>) -> Self {
        let state = live.watch();
        let (progress, steps_sent) = {
            let state = state.borrow();
            (state.progress.clone(), state.step_changes.clone())
        };
        let (thinking_sent, content_sent) = (progress.thinking.as_ref().map_or(0, String::len), progress.content.len());
        let answer = ChatMessage { usage: None, ..progress.in_answer(&live.first) };
        let asked = asked.map(|asked| ChatLine::User(Box::new(asked)));
        let ready = asked.into_iter().chain([ChatLine::Answer(Box::new(answer))]).collect();
        Self { state, ready, thinking_sent, content_sent, steps_sent, before_answer_sent: None, ended: false }
    }

    /// Returns the next event; `None` after the last.
    pub async fn next(&mut self) -> Option<ChatLine> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.collect();
            // An error means that the task of the answer panicked.
            if self.ready.is_empty() && !self.ended && self.state.changed().await.is_err() {
                self.ended = true;
            }
        }
    }

    fn collect(&mut self) {
        let state = self.state.borrow_and_update();
        let more = |all: &str, sent: &mut usize| {
            let more = all.get(*sent..).filter(|more| !more.is_empty()).map(str::to_owned);
            *sent = all.len().max(*sent);
            more
        };
        if state.before_answer != self.before_answer_sent {
            self.before_answer_sent.clone_from(&state.before_answer);
            self.ready.extend(state.before_answer.clone());
        }
        for (index, changes) in state.step_changes.iter().enumerate() {
            if self.steps_sent.get(index) == Some(changes) {
                continue;
            }
            let line = StepLine { index: index as u64, step: state.progress.steps[index].clone() };
            self.ready.push_back(ChatLine::Step(Box::new(line)));
            match self.steps_sent.get_mut(index) {
                Some(sent) => *sent = *changes,
                None => {
                    self.steps_sent.push(*changes);
                    // The step has the texts so far.
                    (self.thinking_sent, self.content_sent) = (0, 0);
                }
            }
        }
        let thinking = state.progress.thinking.as_deref().unwrap_or_default();
        self.ready.extend(more(thinking, &mut self.thinking_sent).map(ChatLine::Thinking));
        self.ready.extend(more(&state.progress.content, &mut self.content_sent).map(ChatLine::Text));
        if let Some(end) = state.end.clone() {
            self.ended = true;
            self.ready.push_back(end);
        }
    }
}
