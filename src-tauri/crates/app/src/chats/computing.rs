//! The computation of an answer, which continues without a client.
//!
//! An answer is one request to the model, and another one after each step with calls of tools. The progress is stored every
//! [`WRITE_INTERVAL`]. A killed daemon loses less than a second of it, and the next start marks the answer as interrupted.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn_chats::{ChatLine, ChatMessage, Chats, MessageState};
use cairn_hardware::Process;
use cairn_runtime::PromptProgress;
use tokio::time::{MissedTickBehavior, interval};

use super::answering::{AnswerStart, blocking};
use super::ask;
use super::error::Error;
use super::follow::Follower;
use super::handle::ChatSessions;
use super::ids::is_temporary;
use super::live::Live;
use super::offer::OfferedTools;
use super::reading::Progress;
use crate::inference::{self, Answer, Delta, Event, Reply, ToolCall};
use crate::panics::catch;
use crate::values::Usage;

/// Interval of writes. Less than a second, so that progress is stored within a second even on a slow disk.
const WRITE_INTERVAL: Duration = Duration::from_millis(700);
/// Interval at which the progress before an answer is looked at.
const READING_INTERVAL: Duration = Duration::from_millis(500);
/// Most steps of an answer.
const MAX_STEPS: usize = 16;
/// Most calls of a step.
const MAX_CALLS: usize = 16;

/// How the computation of an answer ended.
enum Outcome {
    Done,
    Stopped,
    Failed(Error),
}

impl ChatSessions {
    /// Computes an answer in a separate task.
    pub(super) fn run(&self, start: AnswerStart, held: impl Send + 'static) -> Follower {
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

    /// Computes an answer: requests the model, and again with the results of tools that it calls.
    async fn compute(&self, live: &Arc<Live>, chats: &Arc<Chats>) -> Outcome {
        let offered = self.offer_tools(live).await;
        match self.compute_steps(live, chats, &offered).await {
            // A remote reports only now that the model cannot call tools.
            Err(Error::Inference(error)) if offered.is_refused_by(&error, live) => {
                live.set_left_out(vec![OfferedTools::model_cannot_call()]);
                self.compute_steps(live, chats, &OfferedTools::default()).await
            }
            outcome => outcome,
        }
        .map_or_else(Outcome::Failed, |()| Outcome::Done)
    }

    async fn compute_steps(&self, live: &Arc<Live>, chats: &Arc<Chats>, offered: &OfferedTools) -> Result<(), Error> {
        let first_steps = live.first.steps.len();
        let mut usage = None;
        let mut images = ask::ResultImages::new();
        loop {
            let steps = live.progress().steps;
            let is_first = steps.len() == first_steps;
            let mut request = live.request.clone();
            request.explain_miss = is_first && self.may_miss(live);
            request.prefix = request.prefix.filter(|_| is_first);
            request.messages.extend(ask::step_messages(&steps, &images));
            request.tools.clone_from(&offered.definitions);
            let Reply::Answer(answer) = self.inference.chat(request).await? else {
                return Err(inference::Error::EngineGone.into());
            };
            let calls = self.record(*answer, live, chats, &mut usage, !offered.definitions.is_empty()).await?;
            // The step after the last one has only calls that fail. A model that calls again has no text to add.
            if calls.is_empty() || steps.len() > MAX_STEPS {
                return Ok(());
            }
            let refusal = match steps.len() {
                MAX_STEPS => Some(format!("An answer can have {MAX_STEPS} steps with calls. Answer without a call.")),
                _ => None,
            };
            let results = self.run_calls(live, chats, &offered.toolbox, calls, MAX_CALLS, refusal).await;
            for (number, result) in results.into_iter().enumerate().filter(|(_, images)| !images.is_empty()) {
                images.insert((steps.len(), number), result);
            }
        }
    }

    /// Whether earlier messages may be missing from the cache. Those of a chat in memory are always cached.
    fn may_miss(&self, live: &Live) -> bool {
        let was_answered = live.request.messages.iter().any(|message| message.role == "assistant");
        was_answered && !live.request.scope.incognito && !self.state.hot.lock().contains_key(&live.chat)
    }

    /// Receives text and calls of one request and stores the progress. Adds to the usage.
    async fn record(
        &self,
        mut answer: Answer,
        live: &Live,
        chats: &Arc<Chats>,
        usage: &mut Option<Usage>,
        has_tools: bool,
    ) -> Result<Vec<ToolCall>, Error> {
        let mut writes = interval(WRITE_INTERVAL);
        writes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut thinking_since: Option<Instant> = None;
        let earlier_thinking_ms = live.progress().thinking_ms.unwrap_or(0);
        let earlier = usage.take();
        let all = |usage: Usage| match earlier.clone() {
            Some(earlier) => earlier.followed_by(usage),
            None => usage,
        };
        let mut calls = Vec::new();
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
                    is_written = self.write_progress(live, chats).await;
                }
            };
            is_reading = false;
            let event = event.ok_or(inference::Error::EngineGone)?;
            let so_far = answer.so_far().map(all);
            match event {
                Event::Delta(Delta::ToolCall(call), _) if has_tools => {
                    calls.push(call);
                    if calls.len() > MAX_CALLS {
                        // Dropping the answer cancels the rest.
                        *usage = so_far;
                        return Ok(calls);
                    }
                }
                Event::Delta(delta, _) => {
                    is_written = false;
                    live.add(so_far, |progress| match delta {
                        Delta::Text(text) => progress.content += &text,
                        Delta::Thinking(text) => {
                            let since = *thinking_since.get_or_insert_with(Instant::now);
                            progress.thinking.get_or_insert_default().push_str(&text);
                            progress.thinking_ms = Some(earlier_thinking_ms + millis(since.elapsed()));
                        }
                        // Without tools, a call is a text like any other.
                        Delta::ToolCall(call) => progress.content += &call.to_string(),
                    });
                }
                Event::Finish(finish) => {
                    *usage = Some(all(finish.usage));
                    live.add(usage.clone(), |_| ());
                    return Ok(calls);
                }
                Event::Failed(error) => return Err(error.into()),
            }
        }
    }

    /// Stores the progress. Returns whether it was stored. A failed write does not affect followers: the next write, or the last one,
    /// stores everything.
    pub(super) async fn write_progress(&self, live: &Live, chats: &Arc<Chats>) -> bool {
        let (chats, progress, message) = (Arc::clone(chats), live.progress(), live.first.id.clone());
        let written = blocking(move || Ok(chats.write_progress(&message, &progress)?)).await;
        written.inspect_err(|error| tracing::warn!(%error, "cannot store the progress of an answer")).is_ok()
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
        let mut message = live.progress().in_answer(&live.first);
        message.interrupt_calls();
        ChatLine::Failed(Box::new(ChatMessage { state, error: Some((self.describe)(error)), ..message }))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
