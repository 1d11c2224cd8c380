//! An answer in progress, and its state for followers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_chats::{AnswerProgress, CallDecision, ChatLine, ChatMessage, StepCall, ToolStep, ToolsLeftOut};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::inference::Chat;
use crate::tools::OfferedTool;
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
    /// Whether the answer may call tools.
    pub(super) tools: ToolOffer,
    state: watch::Sender<LiveState>,
    /// Calls that wait for the user, by id.
    waiting: Mutex<HashMap<String, WaitingCall>>,
    stop: watch::Sender<bool>,
    /// Whether a task has claimed to store the end.
    claimed: AtomicBool,
}

/// Whether an answer may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolOffer {
    /// Yes, all tools that are on.
    All,
    /// No, by the request.
    None,
    /// No, because two models are compared.
    Compared,
}

/// A call that waits for the user.
struct WaitingCall {
    offered: OfferedTool,
    decision: oneshot::Sender<CallDecision>,
}

/// State of an answer in progress.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveState {
    pub(super) progress: AnswerProgress,
    /// Number of changes of each step.
    pub(super) step_changes: Vec<u64>,
    /// Progress of the weights or the prompt, until the first delta.
    pub(super) before_answer: Option<ChatLine>,
    /// The last line.
    pub(super) end: Option<ChatLine>,
}

impl Live {
    pub(super) fn new(
        chat: &str,
        first: ChatMessage,
        request: Chat,
        model_key: String,
        is_built_in: bool,
        tools: ToolOffer,
    ) -> Self {
        let progress = AnswerProgress { usage: None, tools_left_out: Vec::new(), ..AnswerProgress::of(&first) };
        let step_changes = vec![0; progress.steps.len()];
        Self {
            chat: chat.to_owned(),
            first,
            request,
            model_key,
            is_built_in,
            tools,
            state: watch::Sender::new(LiveState { progress, step_changes, ..LiveState::default() }),
            waiting: Mutex::default(),
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

    pub(super) fn set_left_out(&self, left_out: Vec<ToolsLeftOut>) {
        self.state.send_modify(|state| state.progress.tools_left_out = left_out);
    }

    /// Adds a step with these calls, and moves the texts so far into it.
    pub(super) fn add_step(&self, calls: Vec<StepCall>) {
        self.state.send_modify(|state| {
            let progress = &mut state.progress;
            let (thinking, content) = (progress.thinking.take(), std::mem::take(&mut progress.content));
            progress.steps.push(ToolStep { thinking, content, calls });
            state.step_changes.push(0);
        });
    }

    /// Changes a call. `change` also gets the bytes of all results of the answer.
    pub(super) fn change_call(&self, step: usize, number: usize, change: impl FnOnce(&mut StepCall, usize)) {
        self.state.send_modify(|state| {
            let calls = state.progress.steps.iter().flat_map(|step| &step.calls);
            let result_bytes = calls.filter_map(|call| call.result.as_ref()).map(String::len).sum();
            change(&mut state.progress.steps[step].calls[number], result_bytes);
            state.step_changes[step] += 1;
        });
    }

    /// Registers a call that waits for the user. The receiver gets the decision.
    pub(super) fn wait_for_user(&self, call: &str, offered: OfferedTool) -> oneshot::Receiver<CallDecision> {
        let (decision, receiver) = oneshot::channel();
        self.waiting.lock().insert(call.to_owned(), WaitingCall { offered, decision });
        receiver
    }

    /// Returns the tool of a call that waits for the user.
    pub(super) fn waiting_tool(&self, call: &str) -> Option<OfferedTool> {
        self.waiting.lock().get(call).map(|waiting| waiting.offered.clone())
    }

    /// Decides on a call, and with `Always` and `Never` on all waiting calls of its tool. Returns whether the call was waiting.
    pub(super) fn decide(&self, call: &str, decision: CallDecision) -> bool {
        let mut waiting = self.waiting.lock();
        let Some(decided) = waiting.remove(call) else { return false };
        if matches!(decision, CallDecision::Always | CallDecision::Never) {
            for (_, other) in waiting.extract_if(|_, other| other.offered.function == decided.offered.function) {
                // The answer may have ended.
                let _ = other.decision.send(decision);
            }
        }
        decided.decision.send(decision).is_ok()
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
