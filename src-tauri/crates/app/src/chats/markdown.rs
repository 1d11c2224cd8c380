//! A chat as Markdown: the selected branch, with files and without images.

use std::time::{Duration, UNIX_EPOCH};

use cairn_chats::{Attachment, Chat, Message, MessageState};

use crate::values::Timestamp;

/// Returns the text of a chat.
pub(super) fn of(chat: &Chat, path: &[Message]) -> String {
    let mut text = format!("# {}\n", chat.row.title.replace('\n', " "));
    if let Some(system) = &chat.system {
        text += &format!("\n## system\n\n{}\n", system.trim_end());
    }
    for message in path {
        let body = &message.body;
        let by = body.model.as_deref().map_or_else(String::new, |model| format!(", {model}"));
        let at = Timestamp(UNIX_EPOCH + Duration::from_millis(body.created_ms.unsigned_abs()));
        text += &format!("\n## {}{by} ({at})\n\n", body.role);
        for Attachment { name, text: inside } in &body.files {
            let longest = inside.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(longest.max(2) + 1);
            text += &format!("{name}:\n\n{fence}\n{}\n{fence}\n\n", inside.trim_end());
        }
        text += body.content.trim_end();
        text.push('\n');
        let word = match body.state {
            MessageState::Complete => continue,
            MessageState::Answering => "in progress",
            MessageState::Stopped => "stopped",
            MessageState::Interrupted => "interrupted: Cairn stopped",
            MessageState::Failed => "failed",
        };
        text += &format!("\n*({word})*\n");
    }
    text
}
