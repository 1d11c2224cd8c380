//! Conversions between the chat types of `cairn-app` and their wire types.

use std::time::{Duration, UNIX_EPOCH};

use cairn_app::chats::{Attachment, KeptChat, Line, Lists, Message, MessageBody, MessageState, Summary, Warmth};
use cairn_wire::app::chats as wire;
use cairn_wire::{Think, Timestamp};
use serde_json::Value;

use crate::error::chat_error;

pub(super) fn at(ms: i64) -> Timestamp {
    let since = Duration::from_millis(ms.unsigned_abs());
    Timestamp(if ms < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since })
}

pub(super) fn ms(at: Timestamp) -> i64 {
    let since = at.0.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn warmth(warmth: Warmth) -> wire::Warmth {
    match warmth {
        Warmth::Hot => wire::Warmth::Hot,
        Warmth::Warm => wire::Warmth::Warm,
        Warmth::Disk => wire::Warmth::Disk,
        Warmth::Cold => wire::Warmth::Cold,
    }
}

pub(super) fn summary(summary: Summary) -> wire::ChatSummary {
    let Summary { row, warmth: cached, answering, temporary } = summary;
    wire::ChatSummary {
        id: row.id,
        title: row.title,
        model: row.model,
        folder: row.folder,
        pinned: row.pinned,
        created_at: at(row.created_ms),
        updated_at: at(row.updated_ms),
        deleted_at: row.deleted_ms.map(at),
        messages: row.messages,
        warmth: warmth(cached),
        answering,
        temporary,
    }
}

pub(super) fn lists(lists: Lists) -> wire::ChatsResponse {
    let folder = |(name, chats)| wire::ChatFolder { name, chats };
    wire::ChatsResponse {
        pinned: lists.pinned.into_iter().map(summary).collect(),
        chats: lists.chats.into_iter().map(summary).collect(),
        next: lists.next,
        folders: lists.folders.into_iter().map(folder).collect(),
    }
}

pub(super) fn chat(chat: KeptChat, chat_summary: Summary) -> wire::Chat {
    wire::Chat {
        summary: summary(chat_summary),
        system: chat.system,
        options: chat.options,
        think: chat.think.and_then(think),
        preset: chat.preset,
        head: chat.head.map(|head| head.to_string()),
    }
}

/// Parses a stored value of `think`. Returns `None` if it is invalid.
pub(super) fn think(stored: Value) -> Option<Think> {
    serde_json::from_value(stored).ok()
}

pub(super) fn message(message: Message) -> wire::ChatMessage {
    let Message { id, parent, body, versions } = message;
    wire::ChatMessage {
        id: id.to_string(),
        parent: parent.map(|parent| parent.to_string()),
        role: body.role,
        content: body.content,
        thinking: body.thinking,
        thinking_ms: body.thinking_ms.map(i64::unsigned_abs),
        images: body.images,
        files: body.files.into_iter().map(file).collect(),
        created_at: at(body.created_ms),
        model: body.model,
        state: state(body.state),
        error: body.error,
        usage: body.stats.and_then(|stored| serde_json::from_value(stored).ok()),
        versions: versions.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn exported(message: Message) -> wire::ExportedMessage {
    let message = self::message(message);
    wire::ExportedMessage {
        id: message.id,
        parent: message.parent,
        role: message.role,
        content: message.content,
        thinking: message.thinking,
        thinking_ms: message.thinking_ms,
        images: message.images,
        files: message.files,
        created_at: message.created_at,
        model: message.model,
        state: message.state,
        error: message.error,
        usage: message.usage,
    }
}

/// Converts an exported message. An answer that was in progress during the export becomes interrupted.
pub(super) fn message_body(message: wire::ExportedMessage) -> MessageBody {
    MessageBody {
        role: message.role,
        content: message.content,
        thinking: message.thinking,
        thinking_ms: message.thinking_ms.and_then(|ms| i64::try_from(ms).ok()),
        images: message.images,
        files: message.files.into_iter().map(attachment).collect(),
        created_ms: ms(message.created_at),
        model: message.model,
        state: match message.state {
            wire::MessageState::Complete => MessageState::Complete,
            wire::MessageState::Stopped => MessageState::Stopped,
            wire::MessageState::Answering | wire::MessageState::Cut => MessageState::Interrupted,
            wire::MessageState::Failed => MessageState::Failed,
        },
        error: message.error,
        stats: message.usage.map(|usage| serde_json::to_value(usage).expect("numbers can be written")),
    }
}

fn file(file: Attachment) -> wire::AttachedFile {
    wire::AttachedFile { name: file.name, text: file.text }
}

pub(super) fn attachment(file: wire::AttachedFile) -> Attachment {
    Attachment { name: file.name, text: file.text }
}

fn state(state: MessageState) -> wire::MessageState {
    match state {
        MessageState::Complete => wire::MessageState::Complete,
        MessageState::Answering => wire::MessageState::Answering,
        MessageState::Stopped => wire::MessageState::Stopped,
        MessageState::Interrupted => wire::MessageState::Cut,
        MessageState::Failed => wire::MessageState::Failed,
    }
}

pub(super) fn line(line: Line) -> wire::ChatLine {
    let boxed = |boxed: Box<Message>| Box::new(message(*boxed));
    match line {
        Line::User(user) => wire::ChatLine::User(boxed(user)),
        Line::Answer(answer) => wire::ChatLine::Answer(boxed(answer)),
        Line::Thinking(text) => wire::ChatLine::Thinking(text),
        Line::Text(text) => wire::ChatLine::Text(text),
        Line::Done(answer) => wire::ChatLine::Done(boxed(answer)),
        Line::Failed(error, answer) => {
            wire::ChatLine::Failed(wire::FailedAnswer { error: chat_error(&error), message: boxed(answer) })
        }
    }
}
