//! Several answers to one prompt, the `n` of a request. They are computed at the same time.

use cairn_app::inference::{Answer, Error, Event};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::error::ApiError;
use crate::streaming::Events;

/// Most answers to one prompt.
const MAX_CHOICES: u32 = 16;
/// Capacity of the channel of several answers in events.
const QUEUED_EVENTS: usize = 16;

/// Returns the number of answers that a request wants.
pub(super) fn count(n: Option<u32>) -> Result<u32, ApiError> {
    match n.unwrap_or(1) {
        n @ 1..=MAX_CHOICES => Ok(n),
        n => Err(ApiError::bad_request(format!("n is {n}; it must be between 1 and {MAX_CHOICES}"))),
    }
}

/// Returns the options of one of several answers: with the same seed, they would be the same.
pub(super) fn with_seed(options: Option<Map<String, Value>>, index: u32) -> Option<Map<String, Value>> {
    let mut options = options?;
    if let Some(seed) = options.get("seed").and_then(Value::as_i64) {
        options.insert("seed".to_owned(), seed.wrapping_add(i64::from(index)).into());
    }
    Some(options)
}

/// The events of answers, each with the index of its answer.
pub(super) enum Choices {
    One(Box<Answer>),
    Many(mpsc::Receiver<(u32, Event)>),
}

impl Choices {
    /// Merges answers. Dropping the result cancels all of them.
    pub(super) fn of(mut answers: Vec<Answer>) -> Self {
        if answers.len() == 1
            && let Some(answer) = answers.pop()
        {
            return Self::One(Box::new(answer));
        }
        let (sender, receiver) = mpsc::channel(QUEUED_EVENTS);
        for (index, mut answer) in (0..).zip(answers) {
            let sender = sender.clone();
            tokio::spawn(async move {
                loop {
                    let event = tokio::select! {
                        event = answer.next() => event,
                        () = sender.closed() => return,
                    };
                    let Some(event) = event else { return };
                    if sender.send((index, event)).await.is_err() {
                        return;
                    }
                }
            });
        }
        Self::Many(receiver)
    }

    /// Collects the events of all answers.
    pub(super) async fn collect(mut self) -> Result<Vec<(u32, Event)>, Error> {
        let mut events = Vec::new();
        while let Some((index, event)) = self.next().await {
            match event {
                Event::Failed(error) => return Err(error),
                event => events.push((index, event)),
            }
        }
        Ok(events)
    }
}

impl Events for Choices {
    type Event = (u32, Event);

    async fn next(&mut self) -> Option<(u32, Event)> {
        match self {
            Self::One(answer) => answer.next().await.map(|event| (0, event)),
            Self::Many(events) => events.recv().await,
        }
    }
}
