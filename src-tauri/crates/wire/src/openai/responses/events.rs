//! Events of a streamed response.

use serde::{Deserialize, Serialize};

use super::{OutputItem, OutputPart, ResponseObject};
use crate::openai::TokenLogprob;

/// An event with its number in the stream, from 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SequencedEvent {
    /// The event.
    #[serde(flatten)]
    pub event: ResponseEvent,
    /// Its number.
    pub sequence_number: u64,
}

/// An event. Its name is its `type`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub enum ResponseEvent {
    /// The response begins.
    #[serde(rename = "response.created")]
    Created { response: ResponseObject },
    /// The prompt is being computed.
    #[serde(rename = "response.in_progress")]
    InProgress { response: ResponseObject },
    /// An item begins.
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: u64, item: OutputItem },
    /// An item is complete.
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: u64, item: OutputItem },
    /// A part of an item begins.
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        #[serde(flatten)]
        place: PartPlace,
        part: OutputPart,
    },
    /// A part of an item is complete.
    #[serde(rename = "response.content_part.done")]
    PartDone {
        #[serde(flatten)]
        place: PartPlace,
        part: OutputPart,
    },
    /// New text.
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        #[serde(flatten)]
        place: PartPlace,
        delta: String,
        logprobs: Vec<TokenLogprob>,
    },
    /// The whole text.
    #[serde(rename = "response.output_text.done")]
    TextDone {
        #[serde(flatten)]
        place: PartPlace,
        text: String,
        logprobs: Vec<TokenLogprob>,
    },
    /// New reasoning.
    #[serde(rename = "response.reasoning_text.delta")]
    ReasoningDelta {
        #[serde(flatten)]
        place: PartPlace,
        delta: String,
    },
    /// The whole reasoning.
    #[serde(rename = "response.reasoning_text.done")]
    ReasoningDone {
        #[serde(flatten)]
        place: PartPlace,
        text: String,
    },
    /// New arguments of a call.
    #[serde(rename = "response.function_call_arguments.delta")]
    ArgumentsDelta {
        #[serde(flatten)]
        place: ItemPlace,
        delta: String,
    },
    /// All arguments of a call.
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone {
        #[serde(flatten)]
        place: ItemPlace,
        name: String,
        arguments: String,
    },
    /// The response is complete.
    #[serde(rename = "response.completed")]
    Completed { response: ResponseObject },
    /// The response ended at a limit.
    #[serde(rename = "response.incomplete")]
    Incomplete { response: ResponseObject },
    /// The response failed.
    #[serde(rename = "response.failed")]
    Failed { response: ResponseObject },
    /// The stream failed.
    #[serde(rename = "error")]
    Error { code: Option<crate::ErrorCode>, message: String, param: Option<String> },
}

/// Which item an event belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemPlace {
    /// Id of the item.
    pub item_id: String,
    /// Place of the item in the output.
    pub output_index: u64,
}

/// Which part of an item an event belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartPlace {
    /// The item.
    #[serde(flatten)]
    pub item: ItemPlace,
    /// Place of the part in the item; always 0.
    pub content_index: u64,
}

impl ResponseEvent {
    /// Returns the name of the event.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "response.created",
            Self::InProgress { .. } => "response.in_progress",
            Self::ItemAdded { .. } => "response.output_item.added",
            Self::ItemDone { .. } => "response.output_item.done",
            Self::PartAdded { .. } => "response.content_part.added",
            Self::PartDone { .. } => "response.content_part.done",
            Self::TextDelta { .. } => "response.output_text.delta",
            Self::TextDone { .. } => "response.output_text.done",
            Self::ReasoningDelta { .. } => "response.reasoning_text.delta",
            Self::ReasoningDone { .. } => "response.reasoning_text.done",
            Self::ArgumentsDelta { .. } => "response.function_call_arguments.delta",
            Self::ArgumentsDone { .. } => "response.function_call_arguments.done",
            Self::Completed { .. } => "response.completed",
            Self::Incomplete { .. } => "response.incomplete",
            Self::Failed { .. } => "response.failed",
            Self::Error { .. } => "error",
        }
    }
}
