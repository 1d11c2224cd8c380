//! Follows an answer from wherever it is. Nothing is lost on the way and nothing piles up: a follower remembers how much it has told, and
//! one that is slow tells more at once.

use std::collections::VecDeque;
use std::sync::Arc;

use cairn_chats::Message;
use tokio::sync::watch;

use super::error::Error;
use super::live::{End, Live, SoFar};

/// What a follower tells.
#[derive(Debug, Clone)]
pub enum Line {
    /// What was asked.
    User(Box<Message>),
    /// The answer, with what it has so far.
    Answer(Box<Message>),
    /// More of what the model thinks.
    Thinking(String),
    /// More of what it says.
    Text(String),
    /// The answer, which is complete or was stopped.
    Done(Box<Message>),
    /// The answer, which stays as it is, and why.
    Failed(Arc<Error>, Box<Message>),
}

/// See the module. Dropping it does not stop the answer.
pub struct Follower {
    so_far: watch::Receiver<SoFar>,
    ready: VecDeque<Line>,
    /// Bytes that were told.
    thinking_told: usize,
    content_told: usize,
    ended: bool,
}

impl Follower {
    /// Follows an answer, after telling what was asked where that is new.
    pub(super) fn new(live: &Live, asked: Option<Message>) -> Self {
        let so_far = live.watch();
        let progress = so_far.borrow().progress.clone();
        let (thinking_told, content_told) = (progress.thinking.as_ref().map_or(0, String::len), progress.content.len());
        let mut answer = live.first.clone();
        answer.body.content = progress.content;
        answer.body.thinking = progress.thinking;
        answer.body.thinking_ms = progress.thinking_ms;
        let asked = asked.map(|asked| Line::User(Box::new(asked)));
        let ready = asked.into_iter().chain([Line::Answer(Box::new(answer))]).collect();
        Self { so_far, ready, thinking_told, content_told, ended: false }
    }

    /// The next line; none after the last.
    pub async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.look();
            // Whoever computed it is gone without a word when this fails.
            if self.ready.is_empty() && !self.ended && self.so_far.changed().await.is_err() {
                self.ended = true;
            }
        }
    }

    fn look(&mut self) {
        let so_far = self.so_far.borrow_and_update();
        let more = |all: &str, told: &mut usize| {
            let more = all.get(*told..).filter(|more| !more.is_empty()).map(str::to_owned);
            *told = all.len().max(*told);
            more
        };
        let thinking = so_far.progress.thinking.as_deref().unwrap_or_default();
        self.ready.extend(more(thinking, &mut self.thinking_told).map(Line::Thinking));
        self.ready.extend(more(&so_far.progress.content, &mut self.content_told).map(Line::Text));
        if let Some(end) = so_far.end.clone() {
            self.ended = true;
            self.ready.push_back(match end {
                End::Done(message) => Line::Done(message),
                End::Failed(error, message) => Line::Failed(error, message),
            });
        }
    }
}
