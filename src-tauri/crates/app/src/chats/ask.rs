//! A user's message, and the inference request for its answer.

use cairn_chats::{Attachment, Chat as Kept, Message as KeptMessage, MessageBody, MessageId, MessageState};
use serde_json::{Map, Value};

use super::ids::{is_temporary, owner};
use crate::inference::Chat;
use crate::values::Think;
use cairn_prompt::Message;
use cairn_runtime::CacheScope;

/// A user's message to answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ask {
    /// The parent message: the chat's head if `None`, no parent if `Some(None)`.
    pub parent: Option<Option<MessageId>>,
    /// Text of the message.
    pub content: String,
    /// Images, in base64.
    pub images: Vec<String>,
    /// Text files.
    pub files: Vec<Attachment>,
    /// New model of the chat.
    pub model: Option<String>,
    /// Whether to think, for this answer.
    pub think: Option<Think>,
    /// Options, for this answer.
    pub options: Option<Map<String, Value>>,
}

/// Text that replaces an image that the model cannot see.
const UNSEEN: &str = "(An image was here, which this model cannot see.)";

/// Returns the request for the answer to the last of these messages.
pub(super) fn request(
    chat: &Kept,
    model: &str,
    path: &[KeptMessage],
    think: Option<Think>,
    options: Option<Map<String, Value>>,
) -> Chat {
    let system = chat.system.as_deref().filter(|system| !system.trim().is_empty());
    let system = system.map(|text| Message::new("system", text));
    let body = path.iter().map(|message| &message.body).filter(|body| !is_empty_answer(body)).map(prompt_message);
    let mut all = chat.options.clone();
    all.extend(options.unwrap_or_default());
    let kept_think = chat.think.clone().and_then(|think| serde_json::from_value(think).ok());
    Chat {
        model: model.to_owned(),
        messages: system.into_iter().chain(body).collect(),
        options: Some(all),
        think: think.or(kept_think),
        scope: CacheScope {
            owner: Some(owner(&chat.row.id)),
            incognito: is_temporary(&chat.row.id),
            ..CacheScope::default()
        },
        ..Chat::default()
    }
}

/// Whether a message is an incomplete answer without text, which is not part of the prompt.
fn is_empty_answer(body: &MessageBody) -> bool {
    body.role == "assistant" && body.content.is_empty() && body.state != MessageState::Complete
}

/// Returns a message of the prompt: first its files, each in a code fence longer than any in the file.
fn prompt_message(body: &MessageBody) -> Message {
    let mut content = String::new();
    for Attachment { name, text } in &body.files {
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        content += &format!("{name}:\n{fence}\n{text}{end}{fence}\n\n");
    }
    content += &body.content;
    for _ in &body.images {
        content = format!("{content}\n{UNSEEN}");
    }
    Message { thinking: body.thinking.clone(), ..Message::new(&body.role, content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_files_precede_message_text_in_code_fences() {
        let check = |text: &str, expected: &str| {
            let files = vec![Attachment { name: "a.md".to_owned(), text: text.to_owned() }];
            let body = MessageBody { files, ..MessageBody::new("user", "What is it?", 1) };
            assert_eq!(prompt_message(&body).content, expected, "{text:?}");
        };
        check("plain", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("plain\n", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("```\ncode\n```", "a.md:\n````\n```\ncode\n```\n````\n\nWhat is it?");
        check("`````", "a.md:\n``````\n`````\n``````\n\nWhat is it?");
    }

    #[test]
    fn imported_images_become_a_note() {
        let body = MessageBody { images: vec!["x".to_owned()], ..MessageBody::new("user", "Look", 1) };
        assert_eq!(prompt_message(&body).content, format!("Look\n{UNSEEN}"), "the note replaces the image");
    }
}
