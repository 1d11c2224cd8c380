//! What is asked in a chat, and the request to a model that comes of it.

use cairn_chats::{Attachment, Chat as Kept, Message as KeptMessage, MessageBody, MessageId, MessageState};
use cairn_wire::Think;
use serde_json::{Map, Value};

use super::ids::{is_temporary, owner};
use crate::inference::Chat;
use cairn_prompt::Message;
use cairn_runtime::CacheScope;

/// A message that is to be answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ask {
    /// After which message it comes; after the chat's head when none, and `Some(None)` for another beginning.
    pub parent: Option<Option<MessageId>>,
    /// What is said.
    pub content: String,
    /// Images, in base64.
    pub images: Vec<String>,
    /// Text files.
    pub files: Vec<Attachment>,
    /// The model that is to answer from now on.
    pub model: Option<String>,
    /// Whether it is to think, this time.
    pub think: Option<Think>,
    /// Options, this time.
    pub options: Option<Map<String, Value>>,
}

/// What the model says in place of an image that it cannot see.
const UNSEEN: &str = "(An image was here, which this model cannot see.)";

/// The request for the answer to the last of these messages.
pub(super) fn request(
    chat: &Kept,
    model: &str,
    path: &[KeptMessage],
    think: Option<Think>,
    options: Option<Map<String, Value>>,
) -> Chat {
    let system = chat.system.as_deref().filter(|system| !system.trim().is_empty());
    let system = system.map(|text| Message::new("system", text));
    let body = path.iter().map(|message| &message.body).filter(|body| !is_nothing(body)).map(read);
    let mut all = chat.options.clone();
    all.extend(options.unwrap_or_default());
    let kept_think = chat.think.clone().and_then(|think| serde_json::from_value(think).ok());
    Chat {
        model: model.to_owned(),
        messages: system.into_iter().chain(body).collect(),
        options: Some(all),
        think: think.or(kept_think),
        whose: CacheScope {
            owner: Some(owner(&chat.row.id)),
            incognito: is_temporary(&chat.row.id),
            ..CacheScope::default()
        },
        ..Chat::default()
    }
}

/// An answer that ended before it began says nothing to the model.
fn is_nothing(body: &MessageBody) -> bool {
    body.role == "assistant" && body.content.is_empty() && body.state != MessageState::Complete
}

/// A message as the model reads it: its files first, each in a fence that is longer than any in it.
fn read(body: &MessageBody) -> Message {
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
    fn files_come_before_the_text_in_a_fence_of_their_own() {
        let check = |text: &str, expected: &str| {
            let files = vec![Attachment { name: "a.md".to_owned(), text: text.to_owned() }];
            let body = MessageBody { files, ..MessageBody::new("user", "What is it?", 1) };
            assert_eq!(read(&body).content, expected, "{text:?}");
        };
        check("plain", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("plain\n", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("```\ncode\n```", "a.md:\n````\n```\ncode\n```\n````\n\nWhat is it?");
        check("`````", "a.md:\n``````\n`````\n``````\n\nWhat is it?");
    }

    #[test]
    fn images_that_came_from_elsewhere_are_named() {
        let body = MessageBody { images: vec!["x".to_owned()], ..MessageBody::new("user", "Look", 1) };
        assert_eq!(read(&body).content, format!("Look\n{UNSEEN}"), "the model is told that something is missing");
    }
}
