//! An answer in progress, and its state for followers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_chats::{AnswerProgress, Message, MessageId};
use tokio::sync::watch;

use super::error::Error;
use crate::inference::Chat;
use crate::values::Usage;

/// An answer in progress.
pub(super) struct Live {
    /// The chat's id.
    pub(super) chat: String,
    /// The answer's id.
    pub(super) message: MessageId,
    /// The answer at its start or continuation.
    pub(super) first: Message,
    /// The inference request.
    pub(super) request: Chat,
    /// The model's key in the engine.
    pub(super) model_key: String,
    /// Whether the model is the built-in one.
    pub(super) is_built_in: bool,
    state: watch::Sender<LiveState>,
    stop: watch::Sender<bool>,
    /// Whether a task has claimed to store the end.
    claimed: AtomicBool,
}

/// State of an answer in progress.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveState {
    /// The text so far. Its `stats` are unused.
    pub(super) progress: AnswerProgress,
    pub(super) usage: Option<Usage>,
    pub(super) end: Option<End>,
}

/// End of an answer.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// Complete or stopped.
    Done(Box<Message>),
    /// Failed or interrupted.
    Failed(Arc<Error>, Box<Message>),
}

impl Live {
    pub(super) fn new(chat: &str, first: Message, request: Chat, model_key: String, is_built_in: bool) -> Self {
        let progress = AnswerProgress {
            content: first.body.content.clone(),
            thinking: first.body.thinking.clone(),
            thinking_ms: first.body.thinking_ms,
            stats: None,
        };
        Self {
            chat: chat.to_owned(),
            message: first.id,
            first,
            request,
            model_key,
            is_built_in,
            state: watch::Sender::new(LiveState { progress, ..LiveState::default() }),
            stop: watch::Sender::new(false),
            claimed: AtomicBool::new(false),
        }
    }

    /// Changes the progress, and replaces the usage if it is given.
    pub(super) fn add(&self, usage: Option<Usage>, add: impl FnOnce(&mut AnswerProgress)) {
        self.state.send_modify(|state| {
            state.usage = usage.or(state.usage.take());
            add(&mut state.progress);
        });
    }

    pub(super) fn end(&self, end: End) {
        self.state.send_modify(|state| state.end = Some(end));
    }

    /// Returns the progress in its stored form.
    pub(super) fn progress(&self) -> AnswerProgress {
        let state = self.state.borrow();
        let stats = state.usage.as_ref().map(|usage| serde_json::to_value(usage).expect("numbers can be written"));
        AnswerProgress { stats, ..state.progress.clone() }
    }

    pub(super) fn watch(&self) -> watch::Receiver<LiveState> {
        self.state.subscribe()
    }

    /// Cancels the answer.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns when the answer is cancelled.
    pub(super) async fn stopped(&self) {
        let stopped = self.stop.subscribe().wait_for(|stopped| *stopped).await.is_ok();
        assert!(stopped, "the sender lives as long as this answer");
    }

    /// Claims to store the end. Returns true for the first caller only.
    pub(super) fn claim_end(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}
