//! Answers: requested by a client, computed to their end by the daemon.
//!
//! The message and an empty answer are stored before the computation. The progress is stored every [`WRITE_INTERVAL`].
//! A killed daemon loses less than a second of it, and the next start marks the answer as interrupted.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cairn_chats::{
    AnswerProgress, AnswerRequest, ChatChange, ChatLine, ChatMessage, Chats, MessageState, SendRequest, StoredChat,
    TitleSource,
};
use cairn_hardware::Process;
use cairn_runtime::PromptProgress;
use tokio::time::{MissedTickBehavior, interval};

use super::ask;
use super::error::Error;
use super::follow::Follower;
use super::handle::ChatSessions;
use super::ids::is_temporary;
use super::live::Live;
use super::reading::Progress;
use super::title;
use crate::inference::{self, Answer, AnswerPrefix, Delta, Event, Reply};
use crate::panics::catch;
use crate::values::Timestamp;

/// Interval of writes. Less than a second, so that progress is stored within a second even on a slow disk.
const WRITE_INTERVAL: Duration = Duration::from_millis(700);
/// Interval at which the progress before an answer is looked at.
const READING_INTERVAL: Duration = Duration::from_millis(500);

/// An answer that is stored but not computed yet.
struct AnswerStart {
    chats: Arc<Chats>,
    live: Arc<Live>,
    entry: LiveEntry,
    /// The user's message, if it is new.
    asked: Option<ChatMessage>,
    /// The answer of a second model, which starts after this one.
    comparison: Option<AnswerRequest>,
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

/// How the computation of an answer ended.
enum Outcome {
    Done,
    Stopped,
    Failed(Error),
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
        // The answer is computed even if the client leaves during the write.
        blocking(move || Ok(app.run(app.start_question(&id, ask)?, held))).await
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

    /// Follows the answer in progress.
    ///
    /// # Errors
    /// If no answer is in progress.
    pub fn follow_chat(&self, id: &str) -> Result<Follower, Error> {
        let live = self.state.live.lock().get(id).cloned().flatten();
        live.map(|live| Follower::new(&live, None)).ok_or_else(|| Error::Quiet)
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

    fn start_question(&self, id: &str, ask: SendRequest) -> Result<AnswerStart, Error> {
        let chats = self.chats_of(id)?;
        let chat = chats.chat(id)?;
        let parent = ask.parent.unwrap_or(chat.head);
        let now_ms = self.now_ms();
        let created_at = Timestamp::from_unix_ms(now_ms);
        let user =
            ChatMessage { files: ask.files, images: ask.images, ..ChatMessage::new("user", ask.content, created_at) };
        let title = match title::first_words(&user.content) {
            words if words.is_empty() => user.files.first().map(|file| file.name.clone()).unwrap_or_default(),
            words => words,
        };
        // A missing model is reported before anything is stored.
        ask.compare.as_deref().map(|model| self.inference.find(model)).transpose()?;
        let (think, options) = (ask.think, ask.options.clone());
        let mut start = self.start_answer(id, &chats, ask.model.into(), |model, chat| {
            let before = match &parent {
                Some(parent) => chats.path(id, Some(parent), None, usize::MAX)?.messages,
                None => Vec::new(),
            };
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
        let start = self.start_answer(id, &chats, model, |model, chat| {
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
    fn start_comparison(&self, id: &str, first: &ChatLine, request: AnswerRequest) -> Option<AnswerStart> {
        let is_stopped = matches!(first, ChatLine::Done(message) if message.state == MessageState::Stopped);
        let message = request.message.clone().filter(|_| !is_stopped)?;
        let model = ModelChoice::Once(request.model.clone()?);
        let start = self.start_regeneration(id, &message, model, request);
        start.inspect_err(|error| tracing::warn!(%error, "cannot start the answer of a second model")).ok()
    }

    fn start_continuation(&self, id: &str, answer: &str, again: AnswerRequest) -> Result<AnswerStart, Error> {
        let chats = self.chats_of(id)?;
        let start = self.start_answer(id, &chats, again.model.into(), |model, chat| {
            let mut path = chats.path(id, Some(answer), None, usize::MAX)?.messages;
            let last = path.pop().filter(|last| last.role == "assistant" && !path.is_empty());
            let Some(last) = last.filter(|_| !chats.has_reply(answer).unwrap_or(true)) else {
                return Err(Error::NoAnswer(answer.to_string()));
            };
            let mut request = ask::request(chat, model, &path, again.think, again.options);
            request.prefix = Some(AnswerPrefix { thinking: last.thinking, content: last.content });
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
        let live = Arc::new(Live::new(id, answer, request, found.key, found.is_built_in));
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
    fn notify_of(&self, id: &str, chats: &Chats) {
        match chats.chat(id) {
            Ok(chat) => drop(self.notify(chat.row)),
            Err(error) => tracing::debug!(%error, "cannot notify clients of a changed chat"),
        }
    }

    /// Computes an answer in a separate task.
    fn run(&self, start: AnswerStart, held: impl Send + 'static) -> Follower {
        let AnswerStart { chats, live, entry, asked, comparison } = start;
        let follower = Follower::new(&live, asked);
        let app = self.clone();
        tokio::spawn(async move {
            let held = held;
            app.forget_unloaded();
            let outcome = tokio::select! {
                outcome = catch(app.compute(&live, &chats)) => {
                    outcome.unwrap_or_else(|panicked| Outcome::Failed(inference::Error::from(panicked).into()))
                }
                () = live.stopped() => Outcome::Stopped,
            };
            let end = catch(app.finish(&live, &chats, outcome)).await.unwrap_or_else(|panicked| {
                app.unstored(&live, MessageState::Failed, &inference::Error::from(panicked).into())
            });
            // A client may send the next message as soon as it receives the end.
            drop(entry);
            // The second answer begins before, so that no message comes between.
            let next = match comparison {
                Some(request) => {
                    let (sessions, id, first) = (app.clone(), live.chat.clone(), end.clone());
                    blocking(move || Ok(sessions.start_comparison(&id, &first, request))).await.ok().flatten()
                }
                None => None,
            };
            let complete = matches!(&end, ChatLine::Done(message) if message.state == MessageState::Complete);
            live.end(end);
            let (sessions, stored, id) = (app.clone(), Arc::clone(&chats), live.chat.clone());
            // An error means that this task is aborted at shutdown.
            let _ = blocking(move || {
                sessions.notify_of(&id, &stored);
                Ok(())
            })
            .await;
            if let Some(next) = next {
                app.run(next, held);
                return;
            }
            drop(held);
            if complete {
                app.generate_title(live, chats).await;
            }
        });
        follower
    }

    async fn compute(&self, live: &Live, chats: &Arc<Chats>) -> Outcome {
        let request = inference::Chat { explain_miss: self.may_miss(live), ..live.request.clone() };
        match self.inference.chat(request).await {
            Ok(Reply::Answer(answer)) => self.record(*answer, live, chats).await,
            Ok(_) => Outcome::Failed(inference::Error::EngineGone.into()),
            Err(error) => Outcome::Failed(error.into()),
        }
    }

    /// Whether earlier messages may be missing from the cache. Those of a chat in memory are always cached.
    fn may_miss(&self, live: &Live) -> bool {
        let was_answered = live.request.messages.iter().any(|message| message.role == "assistant");
        was_answered && !live.request.scope.incognito && !self.state.hot.lock().contains_key(&live.chat)
    }

    /// Receives the answer and stores its progress, including the usage.
    async fn record(&self, mut answer: Answer, live: &Live, chats: &Arc<Chats>) -> Outcome {
        let mut writes = interval(WRITE_INTERVAL);
        writes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut thinking_since: Option<Instant> = None;
        let earlier_thinking_ms = live.first.thinking_ms.unwrap_or(0);
        let mut is_written = true;
        let mut is_reading = true;
        let prompt = answer.prompt_progress();
        let (began, mut progress) = (tokio::time::Instant::now(), Progress::new(answer.loaded_weights_bytes()));
        let mut looks = interval(READING_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = {
                // Context shifts must not restart, so the pending future is kept.
                let mut next = pin!(answer.next());
                loop {
                    tokio::select! {
                        event = &mut next => break event,
                        _ = writes.tick(), if !is_written => {}
                        _ = looks.tick(), if is_reading => {
                            let tokens = prompt.as_ref().map(PromptProgress::tokens).unwrap_or_default();
                            let mapped_bytes = || Process::probe().map(|process| process.mapped_bytes);
                            if let Some(line) = progress.update(tokens, began.elapsed(), mapped_bytes) {
                                live.set_before_answer(line);
                            }
                            continue;
                        }
                    }
                    let (chats, written_progress, message) =
                        (Arc::clone(chats), live.progress(), live.first.id.clone());
                    let written = blocking(move || Ok(chats.write_progress(&message, &written_progress)?)).await;
                    // A failed write does not affect followers: the next write, or the last one, stores everything.
                    is_written = written
                        .inspect_err(|error| tracing::warn!(%error, "cannot store the progress of an answer"))
                        .is_ok();
                }
            };
            is_reading = false;
            let Some(event) = event else { return Outcome::Failed(inference::Error::EngineGone.into()) };
            let usage = answer.so_far();
            match event {
                Event::Delta(delta, _) => {
                    is_written = false;
                    live.add(usage, |progress| match delta {
                        Delta::Text(text) => progress.content += &text,
                        Delta::Thinking(text) => {
                            let since = *thinking_since.get_or_insert_with(Instant::now);
                            progress.thinking.get_or_insert_default().push_str(&text);
                            progress.thinking_ms = Some(earlier_thinking_ms + millis(since.elapsed()));
                        }
                        // A chat offers no tools, so that a call is a text like any other.
                        Delta::ToolCall(call) => progress.content += &call.to_string(),
                    });
                }
                Event::Finish(finish) => {
                    live.add(Some(finish.usage), |_| ());
                    return Outcome::Done;
                }
                Event::Failed(error) => return Outcome::Failed(error.into()),
            }
        }
    }

    /// Stores the end of an answer. Returns the last line of its stream.
    async fn finish(&self, live: &Arc<Live>, chats: &Arc<Chats>, outcome: Outcome) -> ChatLine {
        let (state, error) = match outcome {
            Outcome::Done => (MessageState::Complete, None),
            Outcome::Stopped => (MessageState::Stopped, None),
            Outcome::Failed(error) => (MessageState::Failed, Some((self.describe)(&error))),
        };
        if state != MessageState::Failed && !is_temporary(&live.chat) {
            self.state.hot.lock().insert(live.chat.clone(), live.model_key.clone());
        }
        if !live.claim_end() {
            return self.unstored(live, MessageState::Interrupted, &Error::ShuttingDown);
        }
        let (chats, answer, now_ms) = (Arc::clone(chats), Arc::clone(live), self.now_ms());
        let written = blocking(move || {
            let end = (state, error.as_ref());
            Ok(chats.finish(&answer.chat, &answer.first.id, &answer.progress(), end, now_ms)?)
        });
        match written.await {
            Ok(message) if message.error.is_some() => ChatLine::Failed(Box::new(message)),
            Ok(message) => ChatLine::Done(Box::new(message)),
            Err(error) => {
                tracing::error!(%error, "cannot store an answer");
                self.unstored(live, MessageState::Failed, &error)
            }
        }
    }

    /// Returns the last line of an answer that has no stored end.
    fn unstored(&self, live: &Live, state: MessageState, error: &Error) -> ChatLine {
        let AnswerProgress { content, thinking, thinking_ms, usage } = live.progress();
        let error = Some((self.describe)(error));
        ChatLine::Failed(Box::new(ChatMessage {
            content,
            thinking,
            thinking_ms,
            usage,
            state,
            error,
            ..live.first.clone()
        }))
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Removes a chat from the live answers when dropped, also after a panic.
struct LiveEntry {
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
