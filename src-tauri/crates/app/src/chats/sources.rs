//! Passages of documents for the questions of a chat with a collection.
//!
//! The daemon searches before it stores a question, and stores what it found with the question. Prompts of later questions begin
//! with the same passages, so that their cached prefix stays valid; an answer can be computed again without another search.

use cairn_chats::Sources;

use super::answering::blocking;
use super::ask::fenced;
use super::error::Error;
use super::handle::ChatSessions;
use crate::values::{CollectionHit, PartPlace};

impl ChatSessions {
    /// Searches the collection of a chat for a question. `None` if the chat has no collection, or the question no text.
    ///
    /// # Errors
    /// If the chat cannot be read. An error of the search is part of the result.
    pub(super) async fn sources(&self, id: &str, question: &str) -> Result<Option<Sources>, Error> {
        if question.trim().is_empty() {
            return Ok(None);
        }
        let (app, id) = (self.clone(), id.to_owned());
        let chat = blocking(move || Ok(app.chats_of(&id)?.chat(&id)?)).await?;
        let Some(collection) = chat.collection else { return Ok(None) };
        Ok(Some(self.collections.sources(&collection, question).await))
    }
}

/// Returns the passages as the model reads them, with their numbers. After a failed search it is empty: the model then answers as
/// in a chat without a collection.
pub(super) fn text(sources: &Sources) -> String {
    let Sources { name, hits, error, .. } = sources;
    if error.is_some() {
        return String::new();
    }
    if hits.is_empty() {
        return format!("(A search in the documents {name:?} found no passage for this message.)\n\n");
    }
    let mut text = format!(
        "Passages from the documents {name:?}, found for this message. Answer from them if they fit, and name the number of each \
         passage that you use, for example [1].\n\n"
    );
    for (number, CollectionHit { name, place, text: passage, .. }) in (1..).zip(hits) {
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
        PartPlace::Sheet { name } => format!(", sheet {name:?}"),
        PartPlace::Heading { text } => format!(", section {text:?}"),
    }
}

#[cfg(all(test, unix))]
mod tests;
