//! What is asked in a chat, and the request to a model that comes of it.

use cairn_chats::{Chat as Kept, File, Message as KeptMessage, MessageId, Said, State};
use cairn_wire::Think;
use serde_json::{Map, Value};

use super::{is_temporary, owner};
use crate::{Chat, Message, Whose};

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
    pub files: Vec<File>,
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
    let system = system.map(|text| Message { role: "system".to_owned(), content: text.to_owned(), thinking: None });
    let said = path.iter().map(|message| &message.said).filter(|said| !is_nothing(said)).map(read);
    let mut all = chat.options.clone();
    all.extend(options.unwrap_or_default());
    let kept_think = chat.think.clone().and_then(|think| serde_json::from_value(think).ok());
    Chat {
        model: model.to_owned(),
        messages: system.into_iter().chain(said).collect(),
        options: Some(all),
        think: think.or(kept_think),
        whose: Whose {
            owner: Some(owner(&chat.listed.id)),
            incognito: is_temporary(&chat.listed.id),
            ..Whose::default()
        },
        ..Chat::default()
    }
}

/// An answer that ended before it began says nothing to the model.
fn is_nothing(said: &Said) -> bool {
    said.role == "assistant" && said.content.is_empty() && said.state != State::Complete
}

/// A message as the model reads it: its files first, each in a fence that is longer than any in it.
fn read(said: &Said) -> Message {
    let mut content = String::new();
    for File { name, text } in &said.files {
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        content += &format!("{name}:\n{fence}\n{text}{end}{fence}\n\n");
    }
    content += &said.content;
    for _ in &said.images {
        content = format!("{content}\n{UNSEEN}");
    }
    Message { role: said.role.clone(), content, thinking: said.thinking.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_before_the_text_in_a_fence_of_their_own() {
        let check = |text: &str, expected: &str| {
            let files = vec![File { name: "a.md".to_owned(), text: text.to_owned() }];
            let said = Said { files, ..Said::new("user", "What is it?", 1) };
            assert_eq!(read(&said).content, expected, "{text:?}");
        };
        check("plain", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("plain\n", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("```\ncode\n```", "a.md:\n````\n```\ncode\n```\n````\n\nWhat is it?");
        check("`````", "a.md:\n``````\n`````\n``````\n\nWhat is it?");
    }

    #[test]
    fn images_that_came_from_elsewhere_are_named() {
        let said = Said { images: vec!["x".to_owned()], ..Said::new("user", "Look", 1) };
        assert_eq!(read(&said).content, format!("Look\n{UNSEEN}"), "the model is told that something is missing");
    }
}
