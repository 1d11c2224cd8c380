//! A chat as Markdown: the selected branch, with files, passages of documents and names of called tools,
//! without images.

use cairn_chats::{AttachedFile, ChatMessage, MessageState, StoredChat};

use super::fence::fenced;
use super::sources;

/// Returns the text of a chat.
pub(super) fn of(chat: &StoredChat, path: &[ChatMessage]) -> String {
    let mut text = format!("# {}\n", chat.row.title.replace('\n', " "));
    if let Some(system) = &chat.system {
        text += &format!("\n## system\n\n{}\n", system.trim_end());
    }
    for message in path {
        let by = message.model.as_deref().map_or_else(String::new, |model| format!(", {model}"));
        let at = message.created_at;
        text += &format!("\n## {}{by} ({at})\n\n", message.role);
        text += &message.sources.as_deref().map(sources::text).unwrap_or_default();
        for AttachedFile { name, text: inside } in &message.files {
            text += &format!("{name}:\n\n{}\n\n", fenced(inside.trim_end()));
        }
        for step in &message.steps {
            if !step.content.trim().is_empty() {
                text += &format!("{}\n\n", step.content.trim_end());
            }
            for call in &step.calls {
                text += &format!("*(called {} of {})*\n\n", call.tool, call.origin);
            }
        }
        text += message.content.trim_end();
        text.push('\n');
        let word = match message.state {
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
