//! The tools that an answer may call, and why others are left out.

use cairn_chats::{LeftOutCause, ToolsLeftOut};
use serde_json::Value;

use super::handle::ChatSessions;
use super::live::{Live, ToolOffer};
use crate::inference::{CallError, Error, Failure, run_blocking};
use crate::tools::Toolbox;
use crate::values::beginning;

/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 300;

/// The tools that an answer may call.
#[derive(Default)]
pub(super) struct OfferedTools {
    pub(super) toolbox: Toolbox,
    /// The tools in the format of the prompt.
    pub(super) definitions: Vec<Value>,
    /// Whether it is not certain that the model can call tools.
    is_trial: bool,
}

impl OfferedTools {
    /// The reason if the model cannot call tools.
    pub(super) fn model_cannot_call() -> ToolsLeftOut {
        all_left_out(LeftOutCause::Model, "the model cannot call tools")
    }

    /// Whether the first request failed because the model cannot call tools. A remote refuses such requests as invalid.
    pub(super) fn is_refused_by(&self, error: &Error, live: &Live) -> bool {
        let is_refusal = matches!(
            error,
            Error::Remote(CallError::Failed { failure: Failure::Status { status: 400 | 422, .. }, .. })
                | Error::Remote(CallError::Translation { .. })
        );
        let is_first = live.progress().steps.len() == live.first.steps.len();
        is_refusal && is_first && self.is_trial && !self.definitions.is_empty()
    }
}

impl ChatSessions {
    /// Returns the tools that an answer may call. Starts their servers.
    pub(super) async fn offer_tools(&self, live: &Live) -> OfferedTools {
        if live.tools == ToolOffer::None || !self.tools.is_any_enabled() {
            return OfferedTools::default();
        }
        if live.tools == ToolOffer::Compared {
            let reason = "tools are not offered while two models are compared";
            live.set_left_out(vec![all_left_out(LeftOutCause::Comparison, reason)]);
            return OfferedTools::default();
        }
        let (inference, model) = (self.inference.clone(), live.request.model.clone());
        let can_call = run_blocking(move || Ok::<_, Error>(inference.can_call_tools(&model))).await;
        let can_call = can_call.unwrap_or(Some(false));
        if can_call == Some(false) {
            live.set_left_out(vec![OfferedTools::model_cannot_call()]);
            return OfferedTools::default();
        }
        match self.tools.toolbox().await {
            Ok(toolbox) => {
                live.set_left_out(left_out(&toolbox));
                OfferedTools { definitions: toolbox.definitions(), toolbox, is_trial: can_call.is_none() }
            }
            Err(error) => {
                live.set_left_out(vec![all_left_out(LeftOutCause::Failure, &error.to_string())]);
                OfferedTools::default()
            }
        }
    }
}

/// Returns what a toolbox lacks.
fn left_out(toolbox: &Toolbox) -> Vec<ToolsLeftOut> {
    let failed = toolbox.failed.iter().map(|failed| ToolsLeftOut {
        origin: Some(failed.origin.clone()),
        ..all_left_out(LeftOutCause::Failure, &failed.error.to_string())
    });
    let omitted = (toolbox.omitted_count > 0).then(|| ToolsLeftOut {
        count: Some(toolbox.omitted_count as u64),
        ..all_left_out(LeftOutCause::Limit, "tools exceed a limit")
    });
    failed.chain(omitted).collect()
}

fn all_left_out(cause: LeftOutCause, reason: &str) -> ToolsLeftOut {
    ToolsLeftOut { cause, origin: None, count: None, reason: one_line(reason) }
}

/// Returns the beginning of a text on one line. Errors have the last lines of a server's output.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    beginning(&words.collect::<Vec<_>>().join(" "), MAX_REASON_CHARS).into_owned()
}
