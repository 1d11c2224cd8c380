//! Computes masks beside the forward pass.
//!
//! After a token is chosen, the mask for the next one depends on the grammar only. A thread of the model computes it while the
//! compute threads compute the step, so that a step hardly ever waits for a mask.

use std::io;
use std::sync::mpsc;

use cairn_grammar::Matcher;

/// The thread that computes masks. It ends with its last handle.
#[derive(Clone, Debug)]
pub(crate) struct MaskWorker(mpsc::Sender<Job>);

struct Job {
    matcher: Box<Matcher>,
    reply: mpsc::SyncSender<Box<Matcher>>,
}

/// A matcher with its mask, or one that the thread still computes the mask of.
#[derive(Debug)]
pub(crate) enum Prepared {
    Ready(Box<Matcher>),
    Computing(mpsc::Receiver<Box<Matcher>>),
}

impl MaskWorker {
    /// Starts the thread. The caller must not be pinned to a core: the thread inherits that.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let run = move || {
            for Job { mut matcher, reply } in jobs {
                // The sequence asks again, and gets the same error.
                let _ = matcher.mask();
                // The generation may have been cancelled; that is not an error.
                let _ = reply.send(matcher);
            }
        };
        std::thread::Builder::new().name("cairn-masks".to_owned()).spawn(run)?;
        Ok(Self(sender))
    }

    /// Computes the matcher's mask in the background.
    pub(crate) fn prepare(&self, matcher: Box<Matcher>) -> Prepared {
        let (reply, receiver) = mpsc::sync_channel(1);
        match self.0.send(Job { matcher, reply }) {
            Ok(()) => Prepared::Computing(receiver),
            Err(mpsc::SendError(job)) => Prepared::Ready(job.matcher),
        }
    }
}

impl Prepared {
    /// Waits for the matcher. None if the thread failed.
    pub(crate) fn wait(self) -> Option<Box<Matcher>> {
        match self {
            Self::Ready(matcher) => Some(matcher),
            Self::Computing(receiver) => receiver.recv().ok(),
        }
    }
}
