//! Requests for answers: the message and an empty answer are stored before the computation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cairn_chats::{
    AnswerRequest, ChatChange, ChatLine, ChatMessage, Chats, MessageState, SendRequest, Sources, StoredChat,
    TitleSource,
};

use super::ask;
use super::error::Error;
use super::follow::Follower;
use super::handle::ChatSessions;
use super::live::{Live, ToolOffer};
use super::sources;
use super::title;
use crate::inference::{self, AnswerPrefix};
use crate::values::Timestamp;

/// An answer that is stored but not computed yet.
pub(super) struct AnswerStart {
    pub(super) chats: Arc<Chats>,
    pub(super) live: Arc<Live>,
    pub(super) entry: LiveEntry,
    /// The user's message, if it is new.
    pub(super) asked: Option<ChatMessage>,
    /// The answer of a second model, which starts after this one.
    pub(super) comparison: Option<AnswerRequest>,
}

/// Choice of the model of an answer.
enum ModelChoice {
    /// The chat's model.
    Current,
    /// A model that becomes that of the chat.
    New(String),
    /// A model for this answer only.
    Once(String),
}

impl From<Option<String>> for ModelChoice {
    fn from(name: Option<String>) -> Self {
        name.map_or(Self::Current, Self::New)
    }
}

impl ChatSessions {
    /// Stores a message and starts its answer, which continues when the follower is dropped. `held` is dropped at its
    /// end.
    ///
    /// # Errors
    /// If the chat, message or model does not exist, an answer is in progress, or the chat cannot be written.
    pub async fn ask_in_chat(&self, id: &str, ask: SendRequest, held: impl Send + 'static) -> Result<Follower, Error> {
        if ask.content.trim().is_empty() && ask.files.is_empty() && ask.images.is_empty() {
            return Err(Error::Empty);
        }
        let (app, id) = (self.clone(), id.to_owned());
        // The answer is computed even if the client leaves during the search or the write.
        inference::run_to_end(async move {
            let sources = app.sources(&id, &ask).await?;
            blocking(move || Ok(app.run(app.start_question(&id, ask, sources)?, held))).await
        })
        .await
    }

    /// Starts another answer to a message, or continues an answer.
    ///
    /// # Errors
    /// As [`ChatSessions::ask_in_chat`].
    pub async fn answer_again(
        &self,
        id: &str,
        again: AnswerRequest,
        held: impl Send + 'static,
    ) -> Result<Follower, Error> {
        let (app, id) = (self.clone(), id.to_owned());
        let start = move || {
            let start = match (again.message.clone(), again.resume.clone()) {
                (Some(message), None) => {
                    let model = again.model.clone().into();
                    app.start_regeneration(&id, &message, model, again)
                }
                (None, Some(answer)) => app.start_continuation(&id, &answer, again),
                _ => Err(Error::Unclear),
            };
            Ok(app.run(start?, held))
        };
        blocking(start).await
    }

    /// Follows the answer in progress; `None` if none is.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub async fn follow_chat(&self, id: &str) -> Result<Option<Follower>, Error> {
        let live = self.state.live.lock().get(id).cloned().flatten();
        if let Some(live) = live {
            return Ok(Some(Follower::new(&live, None)));
        }
        let (app, id) = (self.clone(), id.to_owned());
        blocking(move || Ok(app.chats_of(&id)?.chat(&id).map(|_| None)?)).await
    }

    /// Stops the answer in progress and waits for its end. Returns whether there was one.
    pub async fn stop_chat(&self, id: &str) -> bool {
        let Some(live) = self.state.live.lock().get(id).cloned().flatten() else { return false };
        let mut state = live.watch();
        live.stop();
        // This reference would keep the state open, so the wait would not end if the computation panics.
        drop(live);
        // An error means that the answer has ended.
        let _ = state.wait_for(|state| state.end.is_some()).await;
        true
    }

    /// Stores the progress of all answers at shutdown.
    pub(crate) fn interrupt_answers(&self) {
        self.state.ending.store(true, Ordering::Release);
        let live: Vec<Arc<Live>> = self.state.live.lock().values().flatten().cloned().collect();
        for live in live.iter().filter(|live| live.claim_end()) {
            let stored = self.chats_of(&live.chat).and_then(|chats| {
                Ok(chats.finish(
                    &live.chat,
                    &live.first.id,
                    &live.progress(),
                    (MessageState::Interrupted, None),
                    self.now_ms(),
                )?)
            });
            if let Err(error) = stored {
                tracing::warn!(%error, "cannot store the end of an interrupted answer");
            }
            live.stop();
        }
    }

    pub(super) fn check_not_answering(&self, id: &str) -> Result<(), Error> {
        match self.state.live.lock().contains_key(id) {
            true => Err(Error::Answering),
            false => Ok(()),
        }
    }

    fn start_question(&self, id: &str, ask: SendRequest, sources: Option<Sources>) -> Result<AnswerStart, Error> {
        let chats = self.chats_of(id)?;
        let chat = chats.chat(id)?;
        let parent = ask.parent.unwrap_or(chat.head);
        let now_ms = self.now_ms();
        let created_at = Timestamp::from_unix_ms(now_ms);
        let mut user = ChatMessage {
            files: ask.files,
            images: ask.images,
            sources: sources.map(Box::new),
            ..ChatMessage::new("user", ask.content, created_at)
        };
        let title = match title::first_words(&user.content) {
            words if words.is_empty() => user.files.first().map(|file| file.name.clone()).unwrap_or_default(),
            words => words,
        };
        // A missing model is reported before anything is stored.
        ask.compare.as_deref().map(|model| self.inference.find(model)).transpose()?;
        let (think, options) = (ask.think, ask.options.clone());
        let tools = match (ask.tools, &ask.compare) {
            (Some(false), _) => ToolOffer::None,
            (_, Some(_)) => ToolOffer::Compared,
            (_, None) => ToolOffer::All,
        };
        let mut start = self.start_answer(id, &chats, ask.model.into(), tools, |model, chat| {
            let before = match &parent {
                Some(parent) => chats.path(id, Some(parent), None, usize::MAX)?.messages,
                None => Vec::new(),
            };
            if let Some(sources) = &mut user.sources {
                sources.first = sources::next_number(&before);
            }
            let messages = [user, answering(model, now_ms)];
            let mut added = chats.add(id, parent.as_deref(), &messages, now_ms)?.into_iter();
            let (Some(asked), Some(answer)) = (added.next(), added.next()) else {
                return Err(inference::Error::EngineGone.into());
            };
            let path: Vec<ChatMessage> = before.into_iter().chain([asked.clone()]).collect();
            let request = ask::request(chat, model, &path, ask.think, ask.options);
            Ok((request, answer, Some(asked)))
        })?;
        let asked = start.asked.as_ref().map(|asked| asked.id.clone());
        start.comparison = ask.compare.map(|model| AnswerRequest {
            message: asked,
            model: Some(model),
            think,
            options,
            tools: ask.tools,
            ..AnswerRequest::default()
        });
        if let Err(error) = chats.set_title(id, &title, TitleSource::FirstWords) {
            tracing::warn!(%error, "cannot store the title of a chat");
        }
        self.notify_of(id, &chats);
        Ok(start)
    }

    fn start_regeneration(
        &self,
        id: &str,
        message: &str,
        model: ModelChoice,
        again: AnswerRequest,
    ) -> Result<AnswerStart, Error> {
        let chats = self.chats_of(id)?;
        let now_ms = self.now_ms();
        let tools = match (again.tools, &model) {
            (Some(false), _) => ToolOffer::None,
            (_, ModelChoice::Once(_)) => ToolOffer::Compared,
            _ => ToolOffer::All,
        };
        let start = self.start_answer(id, &chats, model, tools, |model, chat| {
            let path = chats.path(id, Some(message), None, usize::MAX)?.messages;
            if path.last().is_none_or(|last| last.role != "user") {
                return Err(Error::NoQuestion(message.to_string()));
            }
            let request = ask::request(chat, model, &path, again.think, again.options);
            let answer = chats.add(id, Some(message), &[answering(model, now_ms)], now_ms)?.pop();
            Ok((request, answer.ok_or(inference::Error::EngineGone)?, None))
        })?;
        self.notify_of(id, &chats);
        Ok(start)
    }

    /// Starts the answer of a second model, unless the user stopped the first one. The chat keeps its model.
    pub(super) fn start_comparison(&self, id: &str, first: &ChatLine, request: AnswerRequest) -> Option<AnswerStart> {
        let is_stopped = matches!(first, ChatLine::Done(message) if message.state == MessageState::Stopped);
        let message = request.message.clone().filter(|_| !is_stopped)?;
        let model = ModelChoice::Once(request.model.clone()?);
        let start = self.start_regeneration(id, &message, model, request);
        start.inspect_err(|error| tracing::warn!(%error, "cannot start the answer of a second model")).ok()
    }

    fn start_continuation(&self, id: &str, answer: &str, again: AnswerRequest) -> Result<AnswerStart, Error> {
        let chats = self.chats_of(id)?;
        let tools = if again.tools == Some(false) { ToolOffer::None } else { ToolOffer::All };
        let start = self.start_answer(id, &chats, again.model.into(), tools, |model, chat| {
            let mut path = chats.path(id, Some(answer), None, usize::MAX)?.messages;
            let last = path.pop().filter(|last| last.role == "assistant" && !path.is_empty());
            let Some(last) = last.filter(|_| !chats.has_reply(answer).unwrap_or(true)) else {
                return Err(Error::NoAnswer(answer.to_string()));
            };
            let mut request = ask::request(chat, model, &path, again.think, again.options);
            // After calls of tools without a text, the model begins a text.
            let is_begun = last.steps.is_empty() || !last.content.is_empty() || last.thinking.is_some();
            request.prefix = is_begun.then_some(AnswerPrefix { thinking: last.thinking, content: last.content });
            Ok((request, chats.resume_answer(id, answer)?, None))
        })?;
        self.notify_of(id, &chats);
        Ok(start)
    }

    /// Starts an answer to a chat, if none is in progress. `store` adds the new user message, if any, and the answer to
    /// the chat, or selects an answer to resume. It returns the inference request, the answer, and the new user
    /// message.
    fn start_answer(
        &self,
        id: &str,
        chats: &Arc<Chats>,
        model: ModelChoice,
        tools: ToolOffer,
        store: impl FnOnce(&str, &StoredChat) -> Result<(inference::Chat, ChatMessage, Option<ChatMessage>), Error>,
    ) -> Result<AnswerStart, Error> {
        let chat = chats.chat(id)?;
        if chat.row.deleted_at.is_some() {
            return Err(Error::Deleted);
        }
        let is_of_chat = !matches!(model, ModelChoice::Once(_));
        let name = match model {
            ModelChoice::Current => chat.row.model.clone().ok_or(Error::NoModel)?,
            ModelChoice::New(name) | ModelChoice::Once(name) => name,
        };
        let found = self.inference.find(&name)?;
        let entry = self.reserve(id)?;
        if is_of_chat && chat.row.model.as_ref() != Some(&name) {
            let change = ChatChange { model: Some(Some(name.clone())), ..ChatChange::default() };
            chats.update(id, &change, TitleSource::User)?;
        }
        // Nothing after this write may fail: a stored answer must be computed.
        let (request, answer, asked) = store(&name, &chat)?;
        let live = Arc::new(Live::new(id, answer, request, found.key, found.is_built_in, tools));
        self.state.live.lock().insert(id.to_owned(), Some(Arc::clone(&live)));
        Ok(AnswerStart { chats: Arc::clone(chats), live, entry, asked, comparison: None })
    }

    /// Reserves the chat for one answer, so that one of two concurrent requests is refused. The lock is not held during
    /// the following writes, which may take seconds.
    fn reserve(&self, id: &str) -> Result<LiveEntry, Error> {
        let mut live = self.state.live.lock();
        if live.contains_key(id) || self.state.ending.load(Ordering::Acquire) {
            return Err(Error::Answering);
        }
        live.insert(id.to_owned(), None);
        Ok(LiveEntry { app: self.clone(), chat: id.to_owned() })
    }

    /// Notifies clients of a changed chat, if it can be read.
    pub(super) fn notify_of(&self, id: &str, chats: &Chats) {
        match chats.chat(id) {
            Ok(chat) => drop(self.notify(chat.row)),
            Err(error) => tracing::debug!(%error, "cannot notify clients of a changed chat"),
        }
    }
}

/// Returns an empty answer.
fn answering(model: &str, now_ms: i64) -> ChatMessage {
    ChatMessage {
        model: Some(model.to_owned()),
        state: MessageState::Answering,
        ..ChatMessage::new("assistant", "", Timestamp::from_unix_ms(now_ms))
    }
}

/// Removes a chat from the live answers when dropped, also after a panic.
pub(super) struct LiveEntry {
    app: ChatSessions,
    chat: String,
}

impl Drop for LiveEntry {
    fn drop(&mut self) {
        self.app.state.live.lock().remove(&self.chat);
    }
}

/// Runs blocking work on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    inference::run_blocking(work).await
}

#[cfg(test)]
mod tests;
