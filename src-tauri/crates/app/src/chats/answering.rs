//! Answers: begun by a client, run to their end by the daemon.
//!
//! The message and an empty answer are kept before anything is computed. What has been computed is written down every
//! [`BETWEEN_WRITES`], so a daemon that is killed loses less than a second of it, and marks the rest when it next opens the chats.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cairn_chats::{Chats, Message, MessageBody, MessageId, MessageState};
use cairn_wire::Think;
use serde_json::{Map, Value};
use tokio::time::{MissedTickBehavior, interval};

use super::ask::{self, Ask};
use super::error::Error;
use super::follow::Follower;
use super::handle::ChatSessions;
use super::ids::is_temporary;
use super::live::{End, Live};
use super::stats::{Missing, Stats};
use super::title;
use crate::inference::{self, Answer, Begun, Cost, Event, Reason, Reply, TracePrompt};
use crate::library::pebble;

/// Less than a second, so that a second is kept with the time that a slow disk takes.
const BETWEEN_WRITES: Duration = Duration::from_millis(700);

/// A second answer to a message, or more of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Again {
    /// The user's message that is to be answered anew.
    pub message: Option<MessageId>,
    /// The answer that is to go on.
    pub go_on: Option<MessageId>,
    /// The model that is to answer from now on.
    pub model: Option<String>,
    /// Whether it is to think, this time.
    pub think: Option<Think>,
    /// Options, this time.
    pub options: Option<Map<String, Value>>,
}

/// What an answer is begun with.
struct Beginning {
    chats: Arc<Chats>,
    live: Arc<Live>,
    /// What was asked, where that is new.
    asked: Option<Message>,
}

/// How the computation of an answer ended.
enum Outcome {
    Done,
    Stopped,
    Failed(Error),
}

impl ChatSessions {
    /// Keeps a message and begins its answer, which goes on when the follower is dropped. `held` is dropped with its end.
    ///
    /// # Errors
    /// When there is no such chat, message or model, an answer is being computed there, or it cannot be written.
    pub async fn ask_in_chat(&self, id: &str, ask: Ask, held: impl Send + 'static) -> Result<Follower, Error> {
        if !ask.images.is_empty() {
            return Err(inference::Error::Unsupported("reading images").into());
        }
        if ask.content.trim().is_empty() && ask.files.is_empty() {
            return Err(Error::Empty);
        }
        let (app, id) = (self.clone(), id.to_owned());
        let beginning = blocking(move || app.begin_to_ask(&id, ask)).await?;
        Ok(self.run(beginning, held))
    }

    /// Begins another answer to a message, or goes on with one.
    ///
    /// # Errors
    /// As [`App::ask_in_chat`].
    pub async fn answer_again(&self, id: &str, again: Again, held: impl Send + 'static) -> Result<Follower, Error> {
        let (app, id) = (self.clone(), id.to_owned());
        let beginning = blocking(move || match (again.message, again.go_on) {
            (Some(message), None) => app.begin_again(&id, message, again),
            (None, Some(answer)) => app.begin_to_go_on(&id, answer, again),
            _ => Err(Error::Unclear),
        });
        let beginning = beginning.await?;
        Ok(self.run(beginning, held))
    }

    /// Follows the answer that is being computed in a chat.
    ///
    /// # Errors
    /// When there is none.
    pub fn follow_chat(&self, id: &str) -> Result<Follower, Error> {
        let live = self.state.live.lock().get(id).cloned();
        live.map(|live| Follower::new(&live, None)).ok_or_else(|| Error::Quiet)
    }

    /// Stops the answer that is being computed in a chat, and returns when it has ended. Says whether there was one.
    pub async fn stop_chat(&self, id: &str) -> bool {
        let Some(live) = self.state.live.lock().get(id).cloned() else { return false };
        let mut so_far = live.watch();
        live.stop();
        // What fails here has ended too.
        let _ = so_far.wait_for(|so_far| so_far.end.is_some()).await;
        true
    }

    /// Writes down what all answers have, because the daemon ends.
    pub(crate) fn interrupt_answers(&self) {
        self.state.ending.store(true, Ordering::Release);
        let live: Vec<Arc<Live>> = self.state.live.lock().values().cloned().collect();
        for live in live.iter().filter(|live| live.claim_end()) {
            let cut = self.chats_of(&live.chat).and_then(|chats| {
                Ok(chats.finish(
                    &live.chat,
                    live.message,
                    &live.progress(),
                    (MessageState::Interrupted, None),
                    self.now_ms(),
                )?)
            });
            if let Err(error) = cut {
                tracing::warn!(%error, "an answer's last words are not kept");
            }
            live.stop();
        }
    }

    pub(super) fn not_answering(&self, id: &str) -> Result<(), Error> {
        match self.state.live.lock().contains_key(id) {
            true => Err(Error::Answering),
            false => Ok(()),
        }
    }

    fn begin_to_ask(&self, id: &str, ask: Ask) -> Result<Beginning, Error> {
        let chats = self.chats_of(id)?;
        let chat = chats.chat(id)?;
        let parent = ask.parent.unwrap_or(chat.head);
        let now_ms = self.now_ms();
        let user = MessageBody { files: ask.files, ..MessageBody::new("user", ask.content, now_ms) };
        let title = match title::first_words(&user.content) {
            words if words.is_empty() => user.files.first().map(|file| file.name.clone()).unwrap_or_default(),
            words => words,
        };
        let beginning = self.begin(id, &chats, ask.model, |model, chat| {
            let before = match parent {
                Some(parent) => chats.path(id, Some(parent), None, usize::MAX)?.messages,
                None => Vec::new(),
            };
            let bodies = [user, answering(model, now_ms)];
            let mut added = chats.add(id, parent, &bodies, now_ms)?.into_iter();
            let (Some(asked), Some(answer)) = (added.next(), added.next()) else {
                return Err(inference::Error::EngineGone.into());
            };
            let path: Vec<Message> = before.into_iter().chain([asked.clone()]).collect();
            let request = ask::request(chat, model, &path, ask.think, ask.options);
            Ok((request, answer, Some(asked)))
        })?;
        chats.set_title(id, &title, super::TitleSource::FirstWords)?;
        self.notify(chats.chat(id)?.row);
        Ok(beginning)
    }

    fn begin_again(&self, id: &str, message: MessageId, again: Again) -> Result<Beginning, Error> {
        let chats = self.chats_of(id)?;
        let now_ms = self.now_ms();
        let beginning = self.begin(id, &chats, again.model, |model, chat| {
            let path = chats.path(id, Some(message), None, usize::MAX)?.messages;
            if path.last().is_none_or(|last| last.body.role != "user") {
                return Err(Error::NoQuestion(message.to_string()));
            }
            let request = ask::request(chat, model, &path, again.think, again.options);
            let answer = chats.add(id, Some(message), &[answering(model, now_ms)], now_ms)?.pop();
            Ok((request, answer.ok_or(inference::Error::EngineGone)?, None))
        })?;
        self.notify(chats.chat(id)?.row);
        Ok(beginning)
    }

    fn begin_to_go_on(&self, id: &str, answer: MessageId, again: Again) -> Result<Beginning, Error> {
        let chats = self.chats_of(id)?;
        let beginning = self.begin(id, &chats, again.model, |model, chat| {
            let mut path = chats.path(id, Some(answer), None, usize::MAX)?.messages;
            let last = path.pop().filter(|last| last.body.role == "assistant" && !path.is_empty());
            let Some(last) = last.filter(|_| !chats.has_reply(answer).unwrap_or(true)) else {
                return Err(Error::NoAnswer(answer.to_string()));
            };
            let mut request = ask::request(chat, model, &path, again.think, again.options);
            request.begun = Some(Begun { thinking: last.body.thinking, content: last.body.content });
            Ok((request, chats.resume_answer(id, answer)?, None))
        })?;
        self.notify(chats.chat(id)?.row);
        Ok(beginning)
    }

    /// Begins an answer where none is being computed: `keep` writes it down and says what the model is asked.
    fn begin(
        &self,
        id: &str,
        chats: &Arc<Chats>,
        model: Option<String>,
        keep: impl FnOnce(&str, &super::KeptChat) -> Result<(crate::inference::Chat, Message, Option<Message>), Error>,
    ) -> Result<Beginning, Error> {
        let chat = chats.chat(id)?;
        if chat.row.deleted_ms.is_some() {
            return Err(Error::Deleted);
        }
        let name = model.clone().or_else(|| chat.row.model.clone()).ok_or(Error::NoModel)?;
        let found = self.inference.find(&name)?;
        // Held while the message is written, so that of two that come at once one is refused.
        let mut under_way = self.state.live.lock();
        if under_way.contains_key(id) || self.state.ending.load(Ordering::Acquire) {
            return Err(Error::Answering);
        }
        let (request, answer, asked) = keep(&name, &chat)?;
        if chat.row.model.as_ref() != Some(&name) {
            chats.update(id, &super::ChatUpdate { model: Some(Some(name)), ..super::ChatUpdate::default() })?;
        }
        let is_built_in = found.summary.name == pebble::NAME;
        let live = Arc::new(Live::new(id, answer, request, found.key, is_built_in));
        under_way.insert(id.to_owned(), Arc::clone(&live));
        Ok(Beginning { chats: Arc::clone(chats), live, asked })
    }

    /// Computes an answer in a task of its own.
    fn run(&self, beginning: Beginning, held: impl Send + 'static) -> Follower {
        let Beginning { chats, live, asked } = beginning;
        let follower = Follower::new(&live, asked);
        let app = self.clone();
        tokio::spawn(async move {
            let held = held;
            let under_way = UnderWay { app: app.clone(), chat: live.chat.clone() };
            app.cool();
            let outcome = tokio::select! {
                outcome = app.compute(&live, &chats) => outcome,
                () = live.stopped() => Outcome::Stopped,
            };
            let end = app.ended(&live, &chats, outcome).await;
            // Whoever hears of the end may ask the next thing at once.
            drop(under_way);
            let complete = matches!(&end, End::Done(message) if message.body.state == MessageState::Complete);
            live.end(end);
            let (teller, kept, id) = (app.clone(), Arc::clone(&chats), live.chat.clone());
            let told = blocking(move || Ok(teller.notify(kept.chat(&id)?.row))).await;
            if let Err(error) = told {
                tracing::debug!(%error, "nobody is told of an answer's end");
            }
            drop(held);
            if complete {
                app.entitle(live, chats).await;
            }
        });
        follower
    }

    async fn compute(&self, live: &Live, chats: &Arc<Chats>) -> Outcome {
        let started = Instant::now();
        let missing = self.missing(live).await;
        match self.inference.chat(live.request.clone()).await {
            Ok(Reply::Answer(answer)) => self.write_down(*answer, live, chats, (started, missing)).await,
            Ok(_) => Outcome::Failed(inference::Error::EngineGone.into()),
            Err(error) => Outcome::Failed(error.into()),
        }
    }

    /// Why what was said before is not found computed, where it should be. Nobody asks while it is in memory: then it is.
    async fn missing(&self, live: &Live) -> Option<Missing> {
        let asked = &live.request;
        let was_answered = asked.messages.iter().any(|message| message.role == "assistant");
        if !was_answered || asked.whose.incognito || self.state.hot.lock().contains_key(&live.chat) {
            return None;
        }
        let (started, was_loaded) =
            (Instant::now(), self.inference.loaded().iter().any(|loaded| loaded.id == live.model_key));
        let trace = TracePrompt {
            model: asked.model.clone(),
            messages: asked.messages.clone(),
            options: asked.options.clone(),
            think: asked.think,
            raw: false,
        };
        let traced = self.inference.trace(trace).await.ok()?;
        // Looking loads the model, which the answer then need not wait for.
        let load_ms = if was_loaded { 0 } else { millis(started.elapsed()) };
        Some(Missing { reason: traced.reason, load_ms })
    }

    /// What it has cost is written down with it: whoever stops it, or kills the daemon, has it up to there.
    async fn write_down(
        &self,
        mut answer: Answer,
        live: &Live,
        chats: &Arc<Chats>,
        (started, missing): (Instant, Option<Missing>),
    ) -> Outcome {
        let mut writes = interval(BETWEEN_WRITES);
        writes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut first_token_ms = None;
        let mut thinks_since: Option<Instant> = None;
        let thought_ms = live.first.body.thinking_ms.unwrap_or(0);
        let mut is_written = true;
        loop {
            let event = {
                // Making room in a full context is not to be begun anew, so what waits for the next piece goes on waiting.
                let mut next = pin!(answer.next());
                loop {
                    tokio::select! {
                        event = &mut next => break event,
                        _ = writes.tick(), if !is_written => {}
                    }
                    let (chats, progress, message) = (Arc::clone(chats), live.progress(), live.message);
                    let written = blocking(move || Ok(chats.write_progress(message, &progress)?)).await;
                    // A disk that is full for a while takes nothing from who watches: all of it is written with the next, or at the end.
                    is_written =
                        written.inspect_err(|error| tracing::warn!(%error, "an answer's progress is not kept")).is_ok();
                }
            };
            let Some(event) = event else { return Outcome::Failed(inference::Error::EngineGone.into()) };
            if matches!(event, Event::Text(_) | Event::Thinking(_)) {
                first_token_ms.get_or_insert_with(|| millis(started.elapsed()));
                is_written = false;
            }
            let stats_of =
                |cost: &Cost, truncated| Stats::of(cost, truncated, first_token_ms.unwrap_or(0)).explained(missing);
            let stats = answer.so_far().map(|(cost, truncated)| stats_of(&cost, truncated));
            match event {
                Event::Thinking(said) => {
                    let since = *thinks_since.get_or_insert_with(Instant::now);
                    live.add(stats, |progress| {
                        progress.thinking.get_or_insert_default().push_str(&said.text);
                        progress.thinking_ms = Some(thought_ms + millis(since.elapsed()).cast_signed());
                    });
                }
                Event::Text(said) => live.add(stats, |progress| progress.content += &said.text),
                Event::Done(done) => {
                    let stats =
                        Stats { length_reached: done.reason == Reason::Length, ..stats_of(&done.cost, done.truncated) };
                    live.add(Some(stats), |_| ());
                    return Outcome::Done;
                }
                Event::Failed(error) => return Outcome::Failed(error.into()),
            }
        }
    }

    /// Writes down how an answer ended.
    async fn ended(&self, live: &Arc<Live>, chats: &Arc<Chats>, outcome: Outcome) -> End {
        let (state, error) = match outcome {
            Outcome::Done => (MessageState::Complete, None),
            Outcome::Stopped => (MessageState::Stopped, None),
            Outcome::Failed(error) => (MessageState::Failed, Some(Arc::new(error))),
        };
        let text = error.as_ref().map(ToString::to_string);
        if state != MessageState::Failed && !is_temporary(&live.chat) {
            self.state.hot.lock().insert(live.chat.clone(), live.model_key.clone());
        }
        let unwritten = |state, error: Option<String>| {
            let mut message = live.first.clone();
            let progress = live.progress();
            (message.body.content, message.body.thinking) = (progress.content, progress.thinking);
            message.body.stats = progress.stats;
            (message.body.state, message.body.error) = (state, error);
            Box::new(message)
        };
        if !live.claim_end() {
            return End::Failed(Arc::new(Error::ShuttingDown), unwritten(MessageState::Interrupted, None));
        }
        let (chats, kept, now_ms) = (Arc::clone(chats), Arc::clone(live), self.now_ms());
        let written = blocking(move || {
            Ok(chats.finish(&kept.chat, kept.message, &kept.progress(), (state, text.as_deref()), now_ms)?)
        });
        match (written.await, error) {
            (Ok(message), None) => End::Done(Box::new(message)),
            (Ok(message), Some(error)) => End::Failed(error, Box::new(message)),
            (Err(error), _) => {
                tracing::error!(%error, "an answer could not be stored");
                let text = error.to_string();
                End::Failed(Arc::new(error), unwritten(MessageState::Failed, Some(text)))
            }
        }
    }
}

/// An answer that is not there yet.
fn answering(model: &str, now_ms: i64) -> MessageBody {
    MessageBody {
        model: Some(model.to_owned()),
        state: MessageState::Answering,
        ..MessageBody::new("assistant", "", now_ms)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Keeps a chat's place among those that are being answered, also when the task panics.
struct UnderWay {
    app: ChatSessions,
    chat: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.app.state.live.lock().remove(&self.chat);
    }
}

/// Does what waits for disks, away from the threads that serve clients.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    inference::prepared(work).await
}
