//! Commands to a scheduler or embedder thread. One channel carries all of them, so an idle scheduler blocks on it and never polls.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cairn_kv::PrefixMatch;
use cairn_tier::{Key, Owner};

use crate::embedding::EmbedJob;
use crate::sequence::Job;
use crate::wake::SchedulerWaker;

/// A command to a scheduler or an embedder.
pub(crate) enum Command {
    /// Start a generation.
    Generate(Box<Job>),
    /// Compute the vectors of texts.
    Embed(Box<EmbedJob>),
    /// Read or change the cache.
    Cache(CacheCommand),
    /// Check again what sequences wait for: clients, shorter prompts, restored chunks and free pages. Cancels the sequences
    /// whose client has gone.
    Wake,
    /// Limit the time for which generations keep the model loaded; `None` removes the limit.
    Limit(Option<DrainLimits>),
    /// Complete all generations, flush the cache and end.
    Drain,
    /// Fail all generations, flush the cache and end.
    Shutdown,
}

/// Limits of the generations of a model that is drained to make room for another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainLimits {
    /// Longest time in which a client may read nothing.
    pub(crate) unread: Duration,
    /// Time at which all generations end.
    pub(crate) deadline: Instant,
}

/// A command to the cache of a model. The scheduler runs it between two steps.
pub(crate) enum CacheCommand {
    /// Drop all rows that no running sequence uses.
    Clear(mpsc::Sender<()>),
    /// Drop the rows that only this owner has.
    ForgetOwner(Owner, mpsc::Sender<()>),
    /// Find the cached prefix of these keys in this scope.
    Lookup(Vec<Key>, Option<Arc<str>>, mpsc::Sender<PrefixMatch>),
}

/// The sending end of a scheduler's command channel.
#[derive(Clone)]
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

    /// A callback that sends [`Command::Wake`].
    pub(crate) fn waker(&self) -> SchedulerWaker {
        let commands = self.clone();
        SchedulerWaker::new(move || commands.send(Command::Wake))
    }
}
