//! Passages of documents for the questions of a chat with a collection.
//!
//! The daemon searches before it stores a question, and stores what it found with the question. Prompts of later questions begin
//! with the same passages, so that their cached prefix stays valid; an answer can be computed again without another search. The
//! numbers of passages continue along a branch, so that a number in an answer names one passage.

use cairn_chats::{ChatMessage, SendRequest, Sources};

use super::error::Error;
use super::fence::fenced;
use super::handle::ChatSessions;
use crate::inference::run_blocking;
use crate::values::{CollectionHit, PartPlace};

impl ChatSessions {
    /// Searches the collection of a chat for a question. `None` if the chat has no collection, or the question no text.
    ///
    /// # Errors
    /// If the chat cannot be read, or the question will be refused. An error of the search is part of the result.
    pub(super) async fn sources(&self, id: &str, ask: &SendRequest) -> Result<Option<Sources>, Error> {
        let (app, id) = (self.clone(), id.to_owned());
        let chat = run_blocking(move || Ok::<_, Error>(app.chats_of(&id)?.chat(&id)?)).await?;
        let Some(collection) = chat.collection.filter(|_| !ask.content.trim().is_empty()) else { return Ok(None) };
        // A search can take seconds, and these refusals need none.
        self.check_not_answering(&chat.row.id)?;
        if chat.row.deleted_at.is_some() {
            return Err(Error::Deleted);
        }
        let model = ask.model.as_ref().or(chat.row.model.as_ref()).ok_or(Error::NoModel)?.clone();
        let (inference, models) = (self.inference.clone(), [Some(model), ask.compare.clone()]);
        run_blocking(move || {
            Ok::<_, Error>(models.iter().flatten().try_for_each(|model| inference.find(model).map(drop))?)
        })
        .await?;
        Ok(Some(self.collections.sources(&collection, &ask.content).await))
    }
}

/// Returns the number of the first passage of a question behind these messages.
pub(super) fn next_number(before: &[ChatMessage]) -> u32 {
    let sources = before.iter().filter_map(|message| message.sources.as_deref());
    sources.map(|sources| sources.first.saturating_add(count(sources))).max().unwrap_or(1)
}

fn count(sources: &Sources) -> u32 {
    u32::try_from(sources.hits.len()).unwrap_or(u32::MAX)
}

/// Returns the passages as the model reads them, with their numbers. After a failed search it is empty: the model then answers as
/// in a chat without a collection.
pub(super) fn text(sources: &Sources) -> String {
    let Sources { name, first, hits, error, .. } = sources;
    if error.is_some() {
        return String::new();
    }
    if hits.is_empty() {
        return format!("(A search in the documents {} found no passage for this message.)\n\n", quoted(name));
    }
    let mut text = format!(
        "Passages from the documents {}, found for this message. Answer from them if they fit, and name the number of each \
         passage that you use, for example [{first}].\n\n",
        quoted(name)
    );
    for (number, CollectionHit { name, place, text: passage, .. }) in (u64::from(*first)..).zip(hits) {
        text += &format!("[{number}] {name}{}:\n{}\n\n", place_text(place), fenced(passage));
    }
    text
}

/// Returns the place of a passage behind the name of its document.
fn place_text(place: &PartPlace) -> String {
    match place {
        PartPlace::Whole => String::new(),
        PartPlace::Page { number } => format!(", page {number}"),
        PartPlace::Slide { number } => format!(", slide {number}"),
        PartPlace::Sheet { name } => format!(", sheet {}", quoted(name)),
        PartPlace::Heading { text } => format!(", section {}", quoted(text)),
    }
}

/// Returns a name in a line, in quotation marks.
fn quoted(name: &str) -> String {
    format!("“{}”", name.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(all(test, unix))]
mod tests;
