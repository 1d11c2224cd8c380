//! Generated titles: first the beginning of the first message, later a name from the model.

use std::sync::Arc;
use std::time::Duration;

use cairn_chats::{Chats, MessageState, TitleSource};
use serde_json::{Map, json};

use super::handle::ChatSessions;
use super::ids::{is_temporary, owner};
use super::live::Live;
use crate::inference::{Delta, Event, Reply};
use crate::values::Think;
use cairn_prompt::Message;
use cairn_runtime::{CacheScope, Client, Priority};

/// Most characters of a generated title.
const MAX_TITLE_CHARS: usize = 60;
/// Most characters of an imported title. Every list of chats has whole titles.
const MAX_IMPORTED_CHARS: usize = 1000;
/// Pause between two checks that the engine is idle.
const IDLE: Duration = Duration::from_secs(2);
/// Most checks before the title is generated anyway.
const IDLE_CHECKS: usize = 30;
/// Most tokens of a title.
const TOKENS: u32 = 32;
const REQUEST: &str =
    "Name this conversation in at most six words, in its own language. Answer with the name and nothing else.";

/// Returns the beginning of a message as a title.
pub(super) fn first_words(text: &str) -> String {
    let line = text.lines().map(plain).find(|line| !line.is_empty()).unwrap_or_default();
    shortened(&line)
}

/// Shortens an imported title.
pub(super) fn bound(title: &mut String) {
    if let Some((end, _)) = title.char_indices().nth(MAX_IMPORTED_CHARS) {
        title.truncate(end);
    }
}

/// Returns a line without Markdown marks at its ends.
fn plain(line: &str) -> String {
    let marks = |c: char| matches!(c, '#' | '*' | '_' | '`' | '"' | '>' | '“' | '”' | '«' | '»') || c.is_whitespace();
    line.trim_matches(marks).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Shortens a line to the length of a title, at a space if possible.
fn shortened(line: &str) -> String {
    let Some((end, _)) = line.char_indices().nth(MAX_TITLE_CHARS) else { return line.to_owned() };
    let cut = &line[..end];
    let at_word = cut.rfind(' ').filter(|at| *at > end / 2);
    format!("{}…", cut[..at_word.unwrap_or(end)].trim_end())
}

impl ChatSessions {
    /// Generates a title with the model after the first answer, when the engine is idle.
    pub(super) async fn generate_title(self, live: Arc<Live>, chats: Arc<Chats>) {
        let id = live.chat.clone();
        let wanted = self.settings.chats.titles && !is_temporary(&id) && !live.is_built_in;
        let is_untitled = |chats: &Chats| {
            chats.title_source(&id).is_ok_and(|source| source <= TitleSource::FirstWords)
                && chats.chat(&id).is_ok_and(|chat| chat.row.message_count == 2)
        };
        if !wanted || !is_untitled(&chats) {
            return;
        }
        for _ in 0..IDLE_CHECKS {
            tokio::time::sleep(IDLE).await;
            if self.state.live.lock().is_empty() && self.inference.loaded().iter().all(|loaded| loaded.leases == 0) {
                break;
            }
        }
        if !is_untitled(&chats) {
            return;
        }
        let Ok(path) = chats.path(&id, None, None, usize::MAX) else { return };
        if path.messages.last().is_none_or(|last| last.state != MessageState::Complete) {
            return;
        }
        let mut chat = live.request.clone();
        chat.messages.extend(
            path.messages
                .last()
                .map(|last| Message { thinking: last.thinking.clone(), ..Message::new(&last.role, &last.content) }),
        );
        chat.messages.push(Message::new("user", REQUEST));
        let mut options = chat.options.take().unwrap_or_default();
        options
            .extend(Map::from_iter([("num_predict".to_owned(), json!(TOKENS)), ("temperature".to_owned(), json!(0))]));
        chat.options = Some(options);
        chat.think = chat.think.map(|_| Think::Switch(false));
        chat.prefix = None;
        chat.scope = CacheScope { owner: Some(owner(&id)), ..CacheScope::default() };
        let inference = self.inference.for_client(Client { priority: Priority::Batch, ..Client::default() });
        let Ok(Reply::Answer(mut answer)) = inference.chat(chat).await else { return };
        let mut title = String::new();
        while let Some(event) = answer.next().await {
            match event {
                Event::Delta(Delta::Text(text), _) => title += &text,
                Event::Failed(_) => return,
                Event::Delta(Delta::Thinking(_) | Delta::ToolCall(_), _) | Event::Finish(_) => {}
            }
        }
        let title = first_words(&title);
        if title.is_empty() {
            return;
        }
        if let Ok(Some(chat)) = chats.set_title(&id, &title, TitleSource::Model) {
            self.notify(chat.row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_one_short_line() {
        let check = |text: &str, expected: &str| assert_eq!(first_words(text), expected, "{text:?}");
        check("How do I bake bread?", "How do I bake bread?");
        check("\n\n## **Bread**\nmore", "Bread");
        check("\"Baking   bread\"", "Baking bread");
        check("", "");
        check(&"word ".repeat(30), "word word word word word word word word word word word word…");
        check(&"字".repeat(70), &format!("{}…", "字".repeat(60)));
    }
}
