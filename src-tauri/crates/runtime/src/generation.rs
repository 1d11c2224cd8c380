//! The channel between a scheduler and the client of a generation.
//!
//! The channel is bounded: a sequence pauses while its client is behind. A client that reads or leaves wakes the scheduler, so
//! the scheduler never polls the channel.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use crate::context_full::ContextFull;
use crate::prompt_progress::PromptProgress;
use crate::request::{Delta, Event, GenerateError};
use crate::wake::SchedulerWaker;

/// Events that a step can send: its text, the text that was held back, and the last event.
const EVENTS_PER_STEP: usize = 3;

/// A running generation, as its client sees it: a stream of events. Dropping it cancels the generation; computed rows stay cached.
#[derive(Debug)]
pub struct Generation {
    events: mpsc::Receiver<Event>,
    wake: Option<Wake>,
    progress: PromptProgress,
}

/// How a client wakes the scheduler.
#[derive(Clone, Debug)]
struct Wake {
    waker: SchedulerWaker,
    /// Whether the scheduler waits for the client to read.
    is_awaited: Arc<AtomicBool>,
}

impl Generation {
    /// The next event; none after the last one. Cancel safe.
    pub async fn recv(&mut self) -> Option<Event> {
        let event = self.events.recv().await;
        self.wake_if_awaited();
        event
    }

    /// The next event, if one is ready.
    ///
    /// # Errors
    /// When no event is ready, or none will come.
    pub fn try_recv(&mut self) -> Result<Event, TryRecvError> {
        let event = self.events.try_recv();
        self.wake_if_awaited();
        event
    }

    /// Progress of the prompt.
    pub fn prompt_progress(&self) -> &PromptProgress {
        &self.progress
    }

    /// Number of events that are ready.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether no event is ready.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether the generation has ended. Events may still be ready.
    pub fn is_closed(&self) -> bool {
        self.events.is_closed()
    }

    fn wake_if_awaited(&self) {
        let Some(wake) = &self.wake else { return };
        // Pairs with the fence in `wait_for_client`: either the scheduler sees the room, or this sees the flag.
        fence(Ordering::SeqCst);
        if wake.is_awaited.load(Ordering::Relaxed) && wake.is_awaited.swap(false, Ordering::Relaxed) {
            wake.waker.wake();
        }
    }
}

/// Events without a scheduler, for tests of code that reads them.
impl From<mpsc::Receiver<Event>> for Generation {
    fn from(events: mpsc::Receiver<Event>) -> Self {
        Self { events, wake: None, progress: PromptProgress::default() }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if !self.events.is_closed() {
            self.events.close();
            if let Some(wake) = &self.wake {
                wake.waker.wake();
            }
        }
    }
}

/// The scheduler's end of a [`Generation`].
///
/// **Invariant:** the last event is [`Event::Finish`] or [`Event::Error`]. A sender that is dropped earlier, because its thread
/// panicked or ended, sends [`GenerateError::Unloaded`].
#[derive(Debug)]
pub(crate) struct EventSender {
    events: mpsc::Sender<Event>,
    wake: Wake,
    progress: PromptProgress,
    has_ended: bool,
    /// Whether the client was behind at a check since the last [`EventSender::wait_for_client`]: the scheduler skipped the
    /// sequence.
    was_blocked: Cell<bool>,
}

impl EventSender {
    /// A channel for `capacity` events.
    pub(crate) fn channel(capacity: usize, waker: SchedulerWaker) -> (Self, Generation) {
        let (events, receiver) = mpsc::channel(capacity);
        let wake = Wake { waker, is_awaited: Arc::default() };
        let progress = PromptProgress::default();
        let generation = Generation { events: receiver, wake: Some(wake.clone()), progress: progress.clone() };
        (Self { events, wake, progress, has_ended: false, was_blocked: Cell::new(false) }, generation)
    }

    /// Whether the client has dropped its end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.events.is_closed()
    }

    /// Whether the event channel may be too full for the events of another step, because the client reads slowly.
    pub(crate) fn is_blocked(&self) -> bool {
        let is_blocked = self.events.capacity() < EVENTS_PER_STEP;
        self.was_blocked.set(self.was_blocked.get() || is_blocked);
        is_blocked
    }

    /// Whether the client has not read all events.
    pub(crate) fn has_unread(&self) -> bool {
        self.events.capacity() < self.events.max_capacity()
    }

    /// Asks a client that was behind to wake the scheduler when it reads. Returns whether the scheduler may sleep: false if
    /// the client has caught up since the scheduler skipped its sequence, because no wake-up will follow.
    pub(crate) fn wait_for_client(&self) -> bool {
        if !self.is_blocked() && !self.was_blocked.get() {
            return true;
        }
        self.wake.is_awaited.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.was_blocked.set(false);
        self.is_blocked() && !self.is_cancelled()
    }

    /// Publishes the progress of the prompt.
    pub(crate) fn set_prompt_progress(&self, ready: usize, total: usize) {
        self.progress.set(ready, total);
    }

    /// Sends a piece of the answer, unless it is empty.
    pub(crate) fn delta(&self, delta: Delta) {
        if !delta.text.is_empty() || !delta.logprobs.is_empty() {
            // The client may have gone; that is not an error.
            let _ = self.events.try_send(Event::Delta(delta));
        }
    }

    /// Requests a shorter prompt from the client, so that an answer of `answer_tokens` tokens can continue. Returns the
    /// receiver of the reply.
    pub(crate) fn request_prompt(&self, answer_tokens: usize) -> std::sync::mpsc::Receiver<Vec<u32>> {
        let (request, replies) = ContextFull::new(answer_tokens, self.wake.waker.clone());
        let _ = self.events.try_send(Event::ContextFull(request));
        replies
    }

    /// Sends the last event.
    pub(crate) fn end(&mut self, event: Event) {
        self.has_ended = true;
        let _ = self.events.try_send(event);
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(Event::Error(GenerateError::Unloaded));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn channel(capacity: usize) -> (EventSender, Generation, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        let waker = SchedulerWaker::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let (sender, generation) = EventSender::channel(capacity, waker);
        (sender, generation, wakes)
    }

    /// Number of wake-ups since the last call.
    fn take(wakes: &AtomicUsize) -> usize {
        wakes.swap(0, Ordering::Relaxed)
    }

    #[test]
    fn sender_dropped_before_last_event_sends_unloaded() {
        let (sender, mut generation, _wakes) = channel(1);
        drop(sender);
        let last = generation.try_recv();
        assert!(matches!(last, Ok(Event::Error(GenerateError::Unloaded))), "as when the thread panics: {last:?}");
        let (mut sender, mut generation, _wakes) = channel(1);
        sender.end(Event::Error(GenerateError::EmptyPrompt));
        drop(sender);
        let last = generation.try_recv();
        assert!(matches!(last, Ok(Event::Error(GenerateError::EmptyPrompt))), "the error is the last event: {last:?}");
        assert!(generation.try_recv().is_err(), "no event follows the last one");
    }

    #[test]
    fn dropped_generation_wakes_scheduler_once() {
        let (sender, generation, wakes) = channel(4);
        drop(generation);
        assert!(sender.is_cancelled(), "the generation is cancelled before the wake-up");
        assert_eq!(take(&wakes), 1, "the drop cancels");
        let (mut sender, generation, wakes) = channel(4);
        sender.end(Event::Error(GenerateError::EmptyPrompt));
        drop(sender);
        drop(generation);
        assert_eq!(take(&wakes), 0, "a generation that has ended has nothing to cancel");
    }

    #[test]
    fn client_wakes_scheduler_only_while_awaited() {
        let (sender, mut generation, wakes) = channel(4);
        let send = |count: usize| (0..count).for_each(|_| sender.delta(Delta { text: "x".into(), ..Delta::default() }));
        send(4);
        assert!(generation.try_recv().is_ok() && take(&wakes) == 0, "the scheduler does not wait");
        assert!(sender.wait_for_client(), "one of four places is free");
        assert!(generation.try_recv().is_ok(), "the second event");
        assert_eq!(take(&wakes), 1, "a place became free");
        assert!(generation.try_recv().is_ok() && take(&wakes) == 0, "one wake-up for each wait");
        assert!(!sender.wait_for_client(), "three places are free");
        assert!(sender.wait_for_client(), "the client was not behind since then");
    }

    #[test]
    fn client_that_catches_up_before_the_wait_prevents_sleep() {
        let (sender, mut generation, wakes) = channel(4);
        (0..4).for_each(|_| sender.delta(Delta { text: "x".into(), ..Delta::default() }));
        assert!(sender.is_blocked(), "the scheduler skips the sequence");
        while generation.try_recv().is_ok() {}
        assert_eq!(take(&wakes), 0, "the scheduler did not wait yet");
        assert!(!sender.wait_for_client(), "no wake-up will follow, so the scheduler must look again");
    }
}
