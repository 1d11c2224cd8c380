//! An answer under way: what it has so far, for anybody who wants to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_chats::{AnswerProgress, Message, MessageId};
use tokio::sync::watch;

use super::error::Error;
use super::stats::Stats;
use crate::inference::Chat;

/// See the module.
pub(super) struct Live {
    /// The chat's id.
    pub(super) chat: String,
    /// The answer's.
    pub(super) message: MessageId,
    /// The answer when it began, or began to go on.
    pub(super) first: Message,
    /// What the model was asked.
    pub(super) request: Chat,
    /// The model's key in the engine.
    pub(super) model_key: String,
    /// Whether the model is the one that is part of this program.
    pub(super) is_built_in: bool,
    so_far: watch::Sender<SoFar>,
    stop: watch::Sender<bool>,
    /// Somebody writes down its end.
    claimed: AtomicBool,
}

/// What an answer has.
#[derive(Debug, Clone, Default)]
pub(super) struct SoFar {
    /// Without its cost, which is below.
    pub(super) progress: AnswerProgress,
    pub(super) stats: Option<Stats>,
    pub(super) end: Option<End>,
}

/// How an answer ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// It is complete, or was stopped.
    Done(Box<Message>),
    /// It stays as it is.
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
            so_far: watch::Sender::new(SoFar { progress, ..SoFar::default() }),
            stop: watch::Sender::new(false),
            claimed: AtomicBool::new(false),
        }
    }

    /// Adds to what it has, and says what that has cost, where it is known.
    pub(super) fn add(&self, stats: Option<Stats>, add: impl FnOnce(&mut AnswerProgress)) {
        self.so_far.send_modify(|so_far| {
            so_far.stats = stats.or(so_far.stats.take());
            add(&mut so_far.progress);
        });
    }

    pub(super) fn end(&self, end: End) {
        self.so_far.send_modify(|so_far| so_far.end = Some(end));
    }

    /// What it has, as it is written down.
    pub(super) fn progress(&self) -> AnswerProgress {
        let so_far = self.so_far.borrow();
        AnswerProgress { stats: so_far.stats.as_ref().map(Stats::to_json), ..so_far.progress.clone() }
    }

    pub(super) fn watch(&self) -> watch::Receiver<SoFar> {
        self.so_far.subscribe()
    }

    /// Asks it to end.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns once it was asked to end.
    pub(super) async fn stopped(&self) {
        let asked = self.stop.subscribe().wait_for(|asked| *asked).await.is_ok();
        assert!(asked, "the sender lives as long as this answer");
    }

    /// Whether the caller is the first who wants to write down the end, and so the one who does.
    pub(super) fn claim_end(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }
}
