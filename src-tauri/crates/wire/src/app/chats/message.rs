//! Messages of a chat, what sends one, and the lines of an answer that streams.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::TierTokens;
use crate::ollama::Truncated;
use crate::{ErrorBody, Think, Timestamp};

/// A message of a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Names it.
    pub id: String,
    /// The message before it; absent for a first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `user` or `assistant`; what was brought in may have others.
    pub role: String,
    /// Its text, in Markdown where a model wrote it.
    pub content: String,
    /// What the model thought before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// For how long it thought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_ms: Option<u64>,
    /// Images that came with it, in base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Text files that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AttachedFile>,
    /// When it was written.
    pub created_at: Timestamp,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it is all there.
    pub state: MessageState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it cost, once it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<MessageStats>,
    /// The messages after the same one, in the order of their making, itself among them.
    pub versions: Vec<String>,
}

/// Whether a message is all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageState {
    /// It is.
    Complete,
    /// It is being computed.
    Answering,
    /// Its user stopped it.
    Stopped,
    /// The daemon ended in the middle of it.
    Cut,
    /// Something went wrong in the middle of it.
    Failed,
}

/// A text file that came with a message. The model reads it before the message's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    /// Its name, without folders.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What an answer cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessageStats {
    /// Tokens of the whole prompt.
    pub prompt_tokens: u64,
    /// Of these, tokens that were found computed.
    pub cached_tokens: u64,
    /// Of these, tokens that came back from a tier, nearest first; the others were in the pages of the loaded model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierTokens>,
    /// What bringing them back took.
    pub restore_ms: u64,
    /// What computing them would have taken, by what computing has taken lately.
    pub instead_of_ms: u64,
    /// Why what came before in this chat was not found computed: a reason as `POST /app/cache/trace` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recomputed: Option<String>,
    /// Loading the model.
    pub load_ms: u64,
    /// From the request to the first piece of the answer.
    pub first_token_ms: u64,
    /// Tokens of the answer, thinking among them.
    pub answer_tokens: u64,
    /// How fast they came.
    pub tokens_per_second: f64,
    /// Whether the answer ended because a limit of tokens was reached.
    pub length_reached: bool,
    /// What did not fit into the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
}

/// `GET /app/chats/{id}/messages?leaf=&before=&limit=`: the last `limit` messages before `before`, of those that lead to `leaf`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesResponse {
    /// From the first to the last.
    pub messages: Vec<ChatMessage>,
    /// All messages that lead to `leaf`.
    pub total: u64,
    /// How many of them come before the first one here.
    pub before: u64,
}

/// `POST /app/chats/{id}/messages`: asks. Answered by [`ChatLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SendRequest {
    /// The message before it: the chat's head when absent, and `null` for another beginning.
    #[serde(deserialize_with = "super::given", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Option<String>>,
    /// What is said.
    pub content: String,
    /// Images, in base64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Text files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AttachedFile>,
    /// The model that is to answer, from now on; the chat's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it is to think first, this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Options, this time; they go before the chat's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
}

/// `POST /app/chats/{id}/answer`: one of `message` and `continue`. Answered by [`ChatLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerRequest {
    /// The user's message that is to get another answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answer that is to go on from where it ends.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub go_on: Option<String>,
    /// The model that is to answer, from now on; the chat's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it is to think first, this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Options, this time; they go before the chat's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
}

/// `PUT /app/chats/{id}/head`: the version that is shown from now on. Answered by a [`super::Chat`], whose head is the last
/// message of that branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadRequest {
    /// Any message of the branch.
    pub message: String,
}

/// `POST /app/chats/{id}/stop`, when the answer has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedResponse {
    /// Whether there was one.
    pub stopped: bool,
}

/// One line of an answer that streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatLine {
    /// The message that was asked, once; not where an answer is attached to.
    User(Box<ChatMessage>),
    /// The answer, once, with what it has so far.
    Answer(Box<ChatMessage>),
    /// More of what the model thinks.
    Thinking(String),
    /// More of what it says.
    Text(String),
    /// The answer, which is complete or was stopped; nothing follows.
    Done(Box<ChatMessage>),
    /// The answer, which stays as it is; nothing follows.
    Failed(FailedAnswer),
}

/// An answer that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedAnswer {
    /// Why.
    pub error: ErrorBody,
    /// As far as it came.
    pub message: Box<ChatMessage>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_they_are_by_one_key() {
        let check = |line: ChatLine, json: &str| {
            assert_eq!(serde_json::to_string(&line).expect("it can be written"), json, "{line:?}");
            assert_eq!(serde_json::from_str::<ChatLine>(json).expect("it can be read"), line, "{json}");
        };
        check(ChatLine::Text("a".to_owned()), r#"{"text":"a"}"#);
        check(ChatLine::Thinking("b".to_owned()), r#"{"thinking":"b"}"#);
    }

    #[test]
    fn another_beginning_is_not_the_head() {
        let check = |json: &str, parent: Option<Option<&str>>| {
            let request: SendRequest = serde_json::from_str(json).expect("a request");
            assert_eq!(request.parent, parent.map(|parent| parent.map(str::to_owned)), "{json}");
        };
        check(r#"{"content":"a"}"#, None);
        check(r#"{"content":"a","parent":null}"#, Some(None));
        check(r#"{"content":"a","parent":"3"}"#, Some(Some("3")));
    }
}
