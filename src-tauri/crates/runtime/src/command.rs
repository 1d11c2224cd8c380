//! Commands to a scheduler thread. One channel carries all of them, so an idle scheduler blocks on it and never polls.

use std::sync::mpsc;

use crate::cache_command::CacheCommand;
use crate::sequence::Job;

/// A command to a scheduler.
pub(crate) enum Command {
    /// Start a generation.
    Generate(Box<Job>),
    /// Read or change the cache.
    Cache(CacheCommand),
    /// Check again what sequences wait for: clients, shorter prompts, restored chunks and free pages. Cancels the sequences
    /// whose client has gone.
    Wake,
    /// Complete all generations, flush the cache and end.
    Drain,
    /// Fail all generations, flush the cache and end.
    Shutdown,
}

/// The sending end of a scheduler's command channel.
#[derive(Clone, Debug)]
pub(crate) struct CommandSender(mpsc::Sender<Command>);

impl CommandSender {
    /// A sender and the receiver of its commands.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Command>) {
        let (sender, receiver) = mpsc::channel();
        (Self(sender), receiver)
    }

    /// Sends a command. It is dropped if the scheduler has ended.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.0.send(command);
    }
}

/// Sends [`Command::Wake`] when it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct WakeOnDrop(pub(crate) CommandSender);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.send(Command::Wake);
    }
}
