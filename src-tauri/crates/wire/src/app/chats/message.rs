//! Messages of a chat, requests for answers, and the lines of a streamed answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::sources::Sources;
use super::step::{StepLine, ToolStep, ToolsLeftOut};
use super::stored_error;
use crate::{ErrorBody, Think, Timestamp, Usage};

/// A message of a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Id of the message.
    pub id: String,
    /// The parent message; absent for a first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `user` or `assistant`; imported messages may have other roles.
    pub role: String,
    /// Text; Markdown if a model wrote it.
    pub content: String,
    /// Thinking before the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Duration of the thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_ms: Option<u64>,
    /// Attached images, in base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Attached text files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AttachedFile>,
    /// Passages of documents for a question; absent if its chat has no collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Box<Sources>>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// The model that wrote the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// State of the message.
    pub state: MessageState,
    /// Whether the user wrote this version of the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// Why the answer failed.
    #[serde(default, deserialize_with = "stored_error::read", skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Usage of the answer.
    #[serde(default, alias = "stats", skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Steps before the text: what the model wrote before it called tools, and the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ToolStep>,
    /// Why tools were left out of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_left_out: Vec<ToolsLeftOut>,
    /// Ids of all messages with the same parent, including this one, in the order of creation; absent in exports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
}

impl ChatMessage {
    /// Creates a complete message that is only text and has no id yet.
    #[must_use]
    pub fn new(role: impl Into<String>, content: impl Into<String>, created_at: Timestamp) -> Self {
        Self {
            id: String::new(),
            parent: None,
            role: role.into(),
            content: content.into(),
            thinking: None,
            thinking_ms: None,
            images: Vec::new(),
            files: Vec::new(),
            sources: None,
            created_at,
            model: None,
            state: MessageState::Complete,
            edited: false,
            error: None,
            usage: None,
            steps: Vec::new(),
            tools_left_out: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// Marks all calls of tools without a result as interrupted. Returns whether any was changed.
    pub fn interrupt_calls(&mut self) -> bool {
        self.steps.iter_mut().fold(false, |is_changed, step| step.interrupt() | is_changed)
    }
}

/// State of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageState {
    /// Complete.
    Complete,
    /// In progress.
    Answering,
    /// Stopped by the user.
    Stopped,
    /// The daemon stopped before the answer was complete.
    #[serde(alias = "cut")]
    Interrupted,
    /// The answer failed.
    Failed,
}

/// A text file of a message. It precedes the message's text in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// Name without folders.
    pub name: String,
    /// Contents.
    pub text: String,
}

/// `GET /app/chats/{id}/messages?leaf=&before=&limit=`: the last `limit` messages before `before`, on the path to
/// `leaf`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesResponse {
    /// Messages in order.
    pub messages: Vec<ChatMessage>,
    /// Number of messages on the path to `leaf`.
    pub total: u64,
    /// Number of messages before the first one of this response.
    pub before: u64,
}

/// `POST /app/chats/{id}/messages`: sends a message. The response is a stream of [`ChatLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a JSON object")]
pub struct SendRequest {
    /// The parent message; if absent, the chat's head; `null` for a new first message.
    #[serde(deserialize_with = "super::chat::given", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Option<String>>,
    /// Text of the message.
    pub content: String,
    /// Images, in base64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Text files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AttachedFile>,
    /// New model of the chat; if absent, the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the model thinks first, for this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Options for this answer, which override the chat's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    /// A second model, which answers after the first one, to compare both. It does not become the chat's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<String>,
    /// Whether tools are offered; on if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
}

/// `POST /app/chats/{id}/answer`: exactly one of `message` and `continue`. The response is a stream of [`ChatLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a JSON object")]
pub struct AnswerRequest {
    /// The user's message to answer again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answer to continue.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// New model of the chat; if absent, the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the model thinks first, for this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Options for this answer, which override the chat's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    /// Whether tools are offered; on if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
}

/// `PUT /app/chats/{id}/head`: selects a branch. The response is a [`super::Chat`], whose head is the last message of
/// this branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct HeadRequest {
    /// Any message of the branch.
    pub message: String,
}

/// `POST /app/chats/{id}/edit`: adds an edited version of an answer and shows it. The response is a [`super::Chat`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct EditRequest {
    /// The answer.
    pub message: String,
    /// Its new text.
    pub content: String,
}

/// `POST /app/chats/{id}/fork`: copies the messages up to one into a new chat. The response is a [`super::Chat`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct ForkRequest {
    /// The last message to copy.
    pub message: String,
    /// Title of the new chat; if absent, that of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Response of `DELETE /app/chats/{id}/messages/{message}`, which deletes a message and all that follow it. The same
/// value is the body of `POST /app/chats/{id}/messages/restore`, which adds them again with new ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct DeletedMessages {
    /// The deleted messages; a parent precedes its children.
    pub messages: Vec<ChatMessage>,
    /// The chat's head before the deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// Response of `POST /app/chats/{id}/stop`, sent after the answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedResponse {
    /// Whether an answer was in progress.
    pub stopped: bool,
}

/// Progress of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptReading {
    /// Tokens that are cached or read.
    pub tokens: u64,
    /// Tokens of the whole prompt.
    pub total_tokens: u64,
    /// Estimated time until the first token of the answer; absent before the first part is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}

/// Progress of the weights of a model that was loaded for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightsLoading {
    /// Bytes that are in memory.
    pub bytes: u64,
    /// Bytes of all weights.
    pub total_bytes: u64,
}

/// One line of a streamed answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatLine {
    /// The user's message, once; absent if the client attaches to an answer in progress.
    User(Box<ChatMessage>),
    /// The answer with its text so far, once.
    Answer(Box<ChatMessage>),
    /// The first step reads the weights from the disk; some lines before the first progress of the prompt.
    Loading(WeightsLoading),
    /// The prompt is being read; some lines before the first delta of a long prompt.
    Reading(PromptReading),
    /// A delta of the thinking.
    Thinking(String),
    /// A delta of the text.
    Text(String),
    /// A new step, which takes the texts of the answer so far, or a step that has changed.
    Step(Box<StepLine>),
    /// The final answer, complete or stopped; the last line.
    Done(Box<ChatMessage>),
    /// The incomplete answer with its error; the last line.
    Failed(Box<ChatMessage>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_one_key_for_its_kind() {
        let check = |line: ChatLine, json: &str| {
            assert_eq!(serde_json::to_string(&line).expect("the line serialises"), json, "{line:?}");
            assert_eq!(serde_json::from_str::<ChatLine>(json).expect("the line parses"), line, "{json}");
        };
        check(ChatLine::Text("a".to_owned()), r#"{"text":"a"}"#);
        check(ChatLine::Thinking("b".to_owned()), r#"{"thinking":"b"}"#);
        let reading = PromptReading { tokens: 1, total_tokens: 3, left_ms: None };
        check(ChatLine::Reading(reading), r#"{"reading":{"tokens":1,"total_tokens":3}}"#);
        let step = StepLine { index: 0, step: ToolStep { content: "a".to_owned(), ..ToolStep::default() } };
        check(ChatLine::Step(Box::new(step)), r#"{"step":{"index":0,"step":{"content":"a","calls":[]}}}"#);
    }

    #[test]
    fn null_parent_differs_from_an_absent_one() {
        let check = |json: &str, parent: Option<Option<&str>>| {
            let request: SendRequest = serde_json::from_str(json).expect("a request");
            assert_eq!(request.parent, parent.map(|parent| parent.map(str::to_owned)), "{json}");
        };
        check(r#"{"content":"a"}"#, None);
        check(r#"{"content":"a","parent":null}"#, Some(None));
        check(r#"{"content":"a","parent":"3"}"#, Some(Some("3")));
    }
}
