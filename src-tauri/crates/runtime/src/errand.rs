//! What people ask about the pages of loaded models, beside answers: what they hold of a prompt, and that it be forgotten.
//!
//! Only a model's own thread touches its cache, so each errand travels there and its outcome back. A thread without work looks
//! for errands five times a second, a busy one between two steps.

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use cairn_kv::Peek;
use cairn_tier::{Fingerprint, Owner, Trace};

use crate::engine::{Engine, Lease};
use crate::scheduler::{HAND_OVER, Scheduler};
use crate::sequence::Sequence;

/// How long a model may take for an errand.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something to do between two steps.
pub(crate) enum Errand {
    /// Forget all that no answer under way uses.
    Clear(mpsc::Sender<()>),
    /// Forget what only this owner has.
    Forget(Owner, mpsc::Sender<()>),
    /// Say what is in memory of these tokens in this space.
    Peek(Vec<u32>, Option<Arc<str>>, mpsc::Sender<Peek>),
}

/// What is kept of a prompt, in memory and in the tiers.
#[derive(Clone, Debug)]
pub struct Held {
    /// Tokens whose rows the loaded model has.
    pub memory_tokens: usize,
    /// The token that it has after them, where it has another than the prompt.
    pub memory_next: Option<u32>,
    /// What the tiers have, and why not more; none where this model's state is kept in none.
    pub tiers: Option<Trace>,
}

impl Scheduler {
    /// Does what was asked. Nobody minds when whoever asked has gone.
    pub(crate) fn run_errands(&mut self, active: &mut Vec<Sequence>) {
        while let Ok(errand) = self.errands.try_recv() {
            // Who stops an answer and has it forgotten means all of it.
            self.let_go(active);
            match errand {
                Errand::Clear(done) => {
                    self.cache.clear();
                    let _ = done.send(());
                }
                Errand::Forget(owner, done) => {
                    self.cache.forget_owner(&owner);
                    let _ = done.send(());
                }
                Errand::Peek(tokens, space, answer) => {
                    let _ = answer.send(self.cache.peek(&tokens, space.as_deref()));
                }
            }
        }
    }
}

impl Engine {
    /// Forgets what loaded models have in memory: all that is only this owner's, or everything. What answers under way use stays.
    /// Blocks until it is done, and until models that were unloaded a moment ago have handed over what they had.
    pub fn forget(&self, owner: Option<&Owner>) {
        let (done, all_done) = mpsc::channel();
        let until = Instant::now() + HAND_OVER;
        while self.handing_over().iter().any(|running| running.load(Ordering::Acquire)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        for model in self.models() {
            let done = done.clone();
            // A model whose thread has ended has nothing to forget.
            let _ = model.errands.send(match owner {
                Some(owner) => Errand::Forget(owner.clone(), done),
                None => Errand::Clear(done),
            });
        }
        drop(done);
        let until = Instant::now() + PATIENCE;
        while all_done.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
    }
}

impl Lease {
    /// What is kept of a prompt in a space, and why it is not more. Blocks.
    pub fn held(&self, tokens: &[u32], space: Option<Arc<str>>) -> Held {
        let keeping = self.model.keeping.as_ref().map(|keeping| keeping.within(space.as_deref()));
        let (sender, answer) = mpsc::channel();
        let _ = self.model.errands.send(Errand::Peek(tokens.to_vec(), space, sender));
        let peek = answer.recv_timeout(PATIENCE).unwrap_or(Peek { tokens: 0, next: None });
        let keys = tokens.iter().copied().map(cairn_tier::Key::token).collect();
        Held {
            memory_tokens: peek.tokens,
            memory_next: peek.next.and_then(cairn_tier::Key::as_token),
            tiers: keeping.map(|keeping| keeping.tiers.trace(&keeping.prefix(keys))),
        }
    }

    /// Under which fingerprint this model's state is kept; none where it is not kept.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.model.keeping.as_ref().map(|keeping| keeping.fingerprint)
    }
}
