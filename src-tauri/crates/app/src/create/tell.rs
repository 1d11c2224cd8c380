//! Who made a model is told of it: every step, and now and then how far one has come.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::CreateEvent;
use crate::PullEvent;

/// Between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Tells of steps.
pub(super) struct Teller {
    sender: mpsc::Sender<CreateEvent>,
    reported: Option<Instant>,
}

impl Teller {
    pub(super) fn new(sender: mpsc::Sender<CreateEvent>) -> Self {
        Self { sender, reported: None }
    }

    /// Tells of a step.
    pub(super) fn status(&mut self, status: String) {
        self.event(CreateEvent::Status(status));
    }

    /// Tells how far a step has come; that it begins and that it ends, in any case. Says whether anybody listens.
    pub(super) fn progress(&mut self, status: &str, done_bytes: u64, total_bytes: u64) -> bool {
        let event = CreateEvent::Progress { status: status.to_owned(), done_bytes, total_bytes };
        if done_bytes == 0 || done_bytes >= total_bytes {
            self.event(event);
        } else if self.reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            self.reported = Some(Instant::now());
            // A reader that is behind gets the next report instead.
            let _ = self.sender.try_send(event);
        }
        !self.sender.is_closed()
    }

    /// Tells how far the model is that another one is made of.
    pub(super) fn pull(&mut self, event: PullEvent) {
        self.event(CreateEvent::Pull(event));
    }

    /// Nobody listens any more.
    pub(super) async fn left(&self) {
        self.sender.closed().await;
    }

    /// Tells something, whether or not somebody listens.
    pub(super) fn event(&mut self, event: CreateEvent) {
        let _ = self.sender.blocking_send(event);
    }
}
