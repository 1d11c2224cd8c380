//! The inference request for the answer to a user's message.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cairn_chats::{AttachedFile, ChatMessage, MessageState, StoredChat};
use serde_json::{Map, Value};

use super::ids::{is_temporary, owner};
use crate::inference::Chat;
use crate::values::Think;
use cairn_prompt::{Image, Message};
use cairn_runtime::CacheScope;

/// Text that replaces an image that the model cannot see.
const UNSEEN: &str = "(An image was here, which this model cannot see.)";

/// Returns the request for the answer to the last of these messages.
pub(super) fn request(
    chat: &StoredChat,
    model: &str,
    path: &[ChatMessage],
    think: Option<Think>,
    options: Option<Map<String, Value>>,
) -> Chat {
    let system = chat.system.as_deref().filter(|system| !system.trim().is_empty());
    let system = system.map(|text| Message::new("system", text));
    let messages = path.iter().filter(|message| !is_empty_answer(message)).map(prompt_message);
    let mut all = chat.options.clone();
    all.extend(options.unwrap_or_default());
    Chat {
        model: model.to_owned(),
        messages: system.into_iter().chain(messages).collect(),
        options: Some(all),
        think: think.or(chat.think),
        unseen_images: Some(UNSEEN),
        scope: CacheScope {
            owner: Some(owner(&chat.row.id)),
            incognito: is_temporary(&chat.row.id),
            ..CacheScope::default()
        },
        ..Chat::default()
    }
}

/// Whether a message is an incomplete answer without text, which is not part of the prompt.
fn is_empty_answer(message: &ChatMessage) -> bool {
    message.role == "assistant" && message.content.is_empty() && message.state != MessageState::Complete
}

/// Returns a message of the prompt: first its files, each in a code fence longer than any in the file.
fn prompt_message(message: &ChatMessage) -> Message {
    let mut content = String::new();
    for AttachedFile { name, text } in &message.files {
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        content += &format!("{name}:\n{fence}\n{text}{end}{fence}\n\n");
    }
    content += &message.content;
    // An image that is not valid base64 has no bytes, and is refused with its number.
    let image = |text: &String| Image { bytes: BASE64_STANDARD.decode(text).unwrap_or_default() };
    let images = message.images.iter().map(image).collect();
    Message { thinking: message.thinking.clone(), images, ..Message::new(&message.role, content) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Timestamp;

    fn question(content: &str) -> ChatMessage {
        ChatMessage::new("user", content, Timestamp::from_unix_ms(1))
    }

    #[test]
    fn attached_files_precede_message_text_in_code_fences() {
        let check = |text: &str, expected: &str| {
            let files = vec![AttachedFile { name: "a.md".to_owned(), text: text.to_owned() }];
            let message = ChatMessage { files, ..question("What is it?") };
            assert_eq!(prompt_message(&message).content, expected, "{text:?}");
        };
        check("plain", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("plain\n", "a.md:\n```\nplain\n```\n\nWhat is it?");
        check("```\ncode\n```", "a.md:\n````\n```\ncode\n```\n````\n\nWhat is it?");
        check("`````", "a.md:\n``````\n`````\n``````\n\nWhat is it?");
    }

    #[test]
    fn images_are_decoded() {
        let message = ChatMessage { images: vec!["aGk=".to_owned(), "x".to_owned()], ..question("Look") };
        let Message { content, images, .. } = prompt_message(&message);
        let bytes: Vec<Vec<u8>> = images.into_iter().map(|image| image.bytes).collect();
        assert_eq!((content.as_str(), bytes), ("Look", vec![b"hi".to_vec(), vec![]]), "valid and invalid base64");
    }
}
