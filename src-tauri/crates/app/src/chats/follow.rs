//! Streams an answer to a client. A follower counts the bytes that it has sent, so it loses nothing and needs no queue:
//! a slow follower sends larger deltas.

use std::collections::VecDeque;
use std::sync::Arc;

use cairn_chats::Message;
use tokio::sync::watch;

use super::error::Error;
use super::live::{End, Live, LiveState};

/// Event of a follower.
#[derive(Debug, Clone)]
pub enum Line {
    /// The user's message.
    User(Box<Message>),
    /// The answer, with its text so far.
    Answer(Box<Message>),
    /// A delta of the thinking.
    Thinking(String),
    /// A delta of the text.
    Text(String),
    /// The final answer, complete or stopped.
    Done(Box<Message>),
    /// The failed answer, and the error.
    Failed(Arc<Error>, Box<Message>),
}

/// Follows an answer in progress. Dropping the follower does not stop the answer.
pub struct Follower {
    state: watch::Receiver<LiveState>,
    ready: VecDeque<Line>,
    /// Bytes of the thinking and the text that were sent.
    thinking_sent: usize,
    content_sent: usize,
    ended: bool,
}

impl Follower {
    /// Follows an answer. `asked` is the user's message, if it is new.
    pub(super) fn new(live: &Live, asked: Option<Message>) -> Self {
        let state = live.watch();
        let progress = state.borrow().progress.clone();
        let (thinking_sent, content_sent) = (progress.thinking.as_ref().map_or(0, String::len), progress.content.len());
        let mut answer = live.first.clone();
        answer.body.content = progress.content;
        answer.body.thinking = progress.thinking;
        answer.body.thinking_ms = progress.thinking_ms;
        let asked = asked.map(|asked| Line::User(Box::new(asked)));
        let ready = asked.into_iter().chain([Line::Answer(Box::new(answer))]).collect();
        Self { state, ready, thinking_sent, content_sent, ended: false }
    }

    /// Returns the next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Line> {
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
        let thinking = state.progress.thinking.as_deref().unwrap_or_default();
        self.ready.extend(more(thinking, &mut self.thinking_sent).map(Line::Thinking));
        self.ready.extend(more(&state.progress.content, &mut self.content_sent).map(Line::Text));
        if let Some(end) = state.end.clone() {
            self.ended = true;
            self.ready.push_back(match end {
                End::Done(message) => Line::Done(message),
                End::Failed(error, message) => Line::Failed(error, message),
            });
        }
    }
}
