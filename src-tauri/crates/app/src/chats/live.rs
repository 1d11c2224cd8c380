//! An answer in progress, and its state for followers.

use std::sync::atomic::{AtomicBool, Ordering};

use cairn_chats::{AnswerProgress, ChatLine, ChatMessage};
use tokio::sync::watch;

use crate::inference::Chat;
use crate::values::Usage;

/// An answer in progress.
pub(super) struct Live {
    /// The chat's id.
    pub(super) chat: String,
    /// The answer at its start or continuation.
    pub(super) first: ChatMessage,
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
    pub(super) progress: AnswerProgress,
    /// Progress of the weights or the prompt, until the first delta.
    pub(super) before_answer: Option<ChatLine>,
    /// The last line.
    pub(super) end: Option<ChatLine>,
}

impl Live {
    pub(super) fn new(chat: &str, first: ChatMessage, request: Chat, model_key: String, is_built_in: bool) -> Self {
        let progress = AnswerProgress {
            content: first.content.clone(),
            thinking: first.thinking.clone(),
            thinking_ms: first.thinking_ms,
            usage: None,
        };
        Self {
            chat: chat.to_owned(),
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
            let progress = &mut state.progress;
            progress.usage = usage.or(progress.usage.take());
            add(progress);
            state.before_answer = None;
        });
    }

    /// Sets the progress of the weights or the prompt.
    pub(super) fn set_before_answer(&self, line: ChatLine) {
        self.state.send_modify(|state| state.before_answer = Some(line));
    }

    pub(super) fn end(&self, end: ChatLine) {
        self.state.send_modify(|state| state.end = Some(end));
    }

    pub(super) fn progress(&self) -> AnswerProgress {
        self.state.borrow().progress.clone()
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
