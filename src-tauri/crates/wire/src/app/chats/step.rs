//! Steps of an answer: the calls of tools, and what the model wrote before them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A step of an answer: texts that the model wrote before it called tools, and the calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolStep {
    /// Thinking before the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Text before the calls; Markdown.
    pub content: String,
    /// The calls.
    pub calls: Vec<StepCall>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCall {
    /// Id of the call, unique in its answer.
    pub id: String,
    /// Name of the function that the model called.
    pub function: String,
    /// Name of the server, or of a tool of this program: `web` or `files-of-folder`. Empty if no tool has the name.
    pub origin: String,
    /// Name of the tool at its origin.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// State of the call.
    pub state: StepCallState,
    /// Text of the result, or of the error. It is the text of another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether the result was shortened.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Number of images of the result. They are not stored.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub images: u32,
    /// Duration of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// State of a call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepCallState {
    /// The user is asked.
    Waiting,
    /// In progress.
    Running,
    /// Complete.
    Done,
    /// The tool or its server reports an error.
    Failed,
    /// The user refused it.
    Refused,
    /// The answer was stopped, or the daemon ended.
    Interrupted,
}

/// Why tools were left out of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsLeftOut {
    /// The cause, for translations.
    pub cause: LeftOutCause,
    /// Their origin; absent if tools of several origins were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Number of the tools, if they exceed a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The reason, on one line.
    pub reason: String,
}

/// The cause why tools were left out of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutCause {
    /// The model cannot call tools.
    Model,
    /// Two models are compared.
    Comparison,
    /// The tools exceed a limit.
    Limit,
    /// A server or the network failed; the reason has the details.
    Failure,
}

/// A step that is new or has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// Index of the step. If it is the number of steps so far, the step is new, and has the texts of all deltas so far.
    pub index: u64,
    /// The whole step.
    pub step: ToolStep,
}

/// `POST /app/chats/{id}/calls/{call}`: decides on a call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct DecideCallRequest {
    /// The decision.
    pub decision: CallDecision,
}

/// The user's decision on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallDecision {
    /// Run this call.
    Once,
    /// Run this call and all later calls of the tool.
    Always,
    /// Do not run this call.
    Refuse,
    /// Never run the tool.
    Never,
}

impl StepCall {
    /// Marks a call that has no result as interrupted. Returns whether it was changed.
    pub fn interrupt(&mut self) -> bool {
        let is_open = matches!(self.state, StepCallState::Waiting | StepCallState::Running);
        if is_open {
            self.state = StepCallState::Interrupted;
        }
        is_open
    }
}

impl ToolStep {
    /// Marks all calls without a result as interrupted. Returns whether any was changed.
    pub fn interrupt(&mut self) -> bool {
        self.calls.iter_mut().fold(false, |is_changed, call| call.interrupt() | is_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_without_a_result_has_few_keys() {
        let json = r#"{"id":"1","function":"a__b","origin":"a","tool":"b","arguments":{},"state":"waiting"}"#;
        let mut call: StepCall = serde_json::from_str(json).expect("the call parses");
        assert_eq!(serde_json::to_string(&call).expect("the call serialises"), json);
        assert!(call.interrupt() && !call.interrupt(), "only once");
        assert_eq!(call.state, StepCallState::Interrupted);
        let mut step = ToolStep { calls: vec![call], ..ToolStep::default() };
        assert!(!step.interrupt(), "nothing is open");
    }
}
