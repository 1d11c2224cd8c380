//! Chats: conversations that the daemon keeps, with answers that it computes whether or not anybody watches.
//!
//! `cairn-chats` keeps them; here they meet the models. `answering` runs an answer to its end and writes it down as it comes,
//! `follow` tells a client of it from wherever it is, `summary` says how soon a chat could go on, and the rest is what one does
//! with chats. What is computed for a chat belongs to the owner `chat:` and its id, so that opening it can bring that near and
//! deleting it can delete that.
//!
//! **Invariants:** in a chat one answer is computed at a time. What a client was told is on the disk within a second, and all of it
//! when the client is told of the end. A temporary chat is never on a disk, nor is anything that was computed for it.

mod answering;
mod ask;
mod error;
mod exchange;
mod follow;
mod live;
mod markdown;
mod presets;
mod stats;
mod summary;
mod title;
mod trash;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use cairn_chats::{Change, Chat, Chats, Listed, MessageId, NewChat, Path};
use tokio::sync::broadcast;

use crate::{App, Error, Owner};
pub use answering::Again;
pub use ask::Ask;
pub use cairn_chats::{
    Arrived, Brought, BroughtMessage, ChatsError, File, Hit, Message, Preset, Said, Snippet, State, Titled, Which,
};
pub use cairn_chats::{Change as ChatChange, Chat as KeptChat, MessageId as ChatMessageId, NewChat as ChatToMake};
pub use error::ChatError;
pub(crate) use error::kind;
pub use exchange::{Exported, ImportFrom};
pub use follow::{Follower, Line};
pub use stats::{KeptTruncated, Stats};
pub use summary::{Changed, Changes, Lists, Summary, Warmth};

use live::Live;

/// Changes that a slow listener may be behind before some are left out.
const CHANGES: usize = 256;
/// How ids of temporary chats begin.
const TEMPORARY: &str = "t-";
/// Random bytes of an id.
const ID_BYTES: usize = 12;
/// The most messages that a page has, whatever is asked for.
const MAX_PAGE: usize = 1000;

/// Where chats are kept, and answers under way.
pub(crate) struct Notebook {
    path: PathBuf,
    /// Opened when somebody first asks, so that who only uses `/api` has no such file.
    kept: Mutex<Option<Arc<Chats>>>,
    temporary: Mutex<Option<Arc<Chats>>>,
    live: Mutex<HashMap<String, Arc<Live>>>,
    /// With which model each chat was last answered, by the engine's key, while that model is in memory.
    hot: Mutex<HashMap<String, String>>,
    changes: broadcast::Sender<Changed>,
    /// Held while another program's chats are read.
    importing: Mutex<()>,
    /// When the trash was last gone through.
    purged_ms: Mutex<Option<i64>>,
    /// The daemon ends, and what is being computed with it.
    ending: AtomicBool,
}

impl Notebook {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            kept: Mutex::default(),
            temporary: Mutex::default(),
            live: Mutex::default(),
            hot: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES),
            importing: Mutex::default(),
            purged_ms: Mutex::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// The user's chats.
    fn kept(&self, now_ms: i64) -> Result<Arc<Chats>, Error> {
        let mut kept = lock(&self.kept);
        if let Some(chats) = &*kept {
            return Ok(Arc::clone(chats));
        }
        let chats = Arc::new(Chats::open(&self.path, now_ms)?);
        if chats.cut() > 0 {
            tracing::info!(
                answers = chats.cut(),
                "answers were being computed when the daemon last ended, and are cut there"
            );
        }
        *kept = Some(Arc::clone(&chats));
        Ok(chats)
    }

    /// The chats that are only in memory.
    fn temporary(&self) -> Result<Arc<Chats>, Error> {
        let mut temporary = lock(&self.temporary);
        if let Some(chats) = &*temporary {
            return Ok(Arc::clone(chats));
        }
        let chats = Arc::new(Chats::in_memory()?);
        *temporary = Some(Arc::clone(&chats));
        Ok(chats)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each of them is whole at any time, so who panicked has left nothing half-done.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_temporary(id: &str) -> bool {
    id.starts_with(TEMPORARY)
}

/// Whether it is an id as chats on the disk are made with.
fn is_id(text: &str) -> bool {
    text.len() == 2 * ID_BYTES && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// How owners begin that are chats.
const OWNER: &str = "chat:";

/// Whose is what was computed for a chat.
pub(crate) fn owner(id: &str) -> Owner {
    Owner::new(&format!("{OWNER}{id}")).expect("ids that chats are made with are short")
}

fn new_id() -> String {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).expect("the system gave random numbers before");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn ms(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What of a chat's path is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPart {
    /// To which message it leads; to the chat's head when none.
    pub leaf: Option<MessageId>,
    /// Only what comes before this message.
    pub before: Option<MessageId>,
    /// How many messages at most, the last of them.
    pub limit: usize,
}

impl App {
    /// Where a chat is.
    fn chats_of(&self, id: &str) -> Result<Arc<Chats>, Error> {
        if is_temporary(id) { self.notebook.temporary() } else { self.notebook.kept(self.now_ms()) }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        ms(self.clock.now())
    }

    /// Makes a chat. Its id is made here; what a preset says holds where `new` says nothing. Blocks, as all of these do.
    ///
    /// # Errors
    /// When there is no such preset, or it cannot be written.
    pub fn create_chat(&self, mut new: NewChat, temporary: bool) -> Result<(Chat, Summary), Error> {
        if let Some(name) = &new.preset {
            let preset = self.notebook.kept(self.now_ms())?.preset(name)?;
            new.model = new.model.or(preset.model);
            new.system = new.system.or(preset.system);
            new.think = new.think.or(preset.think);
            let own = std::mem::replace(&mut new.options, preset.options);
            new.options.extend(own);
        }
        new.id = if temporary { format!("{TEMPORARY}{}", new_id()) } else { new_id() };
        let chat = self.chats_of(&new.id)?.create(&new, self.now_ms())?;
        Ok((chat.clone(), self.told(chat.listed)))
    }

    /// One chat.
    ///
    /// # Errors
    /// When there is none.
    pub fn kept_chat(&self, id: &str) -> Result<(Chat, Summary), Error> {
        let chat = self.chats_of(id)?.chat(id)?;
        Ok((chat.clone(), self.summary(chat.listed)))
    }

    /// Changes a chat.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub fn change_chat(&self, id: &str, mut change: Change) -> Result<(Chat, Summary), Error> {
        let chats = self.chats_of(id)?;
        // An empty title is a wish for another one.
        if change.title.as_ref().is_some_and(|(title, _)| title.trim().is_empty()) {
            let first = chats.path(id, None, None, usize::MAX)?.messages.into_iter().next();
            let title = first.map(|first| title::first_words(&first.said.content)).unwrap_or_default();
            change.title = Some((title, Titled::FirstWords));
        }
        let chat = chats.change(id, &change)?;
        Ok((chat.clone(), self.told(chat.listed)))
    }

    /// Some of the messages that lead to one, the chat's head unless another is asked for.
    ///
    /// # Errors
    /// When there is no such chat or message.
    pub fn chat_path(&self, id: &str, part: PathPart) -> Result<Path, Error> {
        let PathPart { leaf, before, limit } = part;
        let is_quiet = || !lock(&self.notebook.live).contains_key(id);
        let was_quiet = is_quiet();
        let mut path = self.chats_of(id)?.path(id, leaf, before, limit.min(MAX_PAGE))?;
        // The end of an answer that could not be written, on a full disk for instance, is not waited for.
        if was_quiet && is_quiet() {
            let open = path.messages.iter_mut().filter(|message| message.said.state == State::Answering);
            open.for_each(|message| message.said.state = State::Cut);
        }
        Ok(path)
    }

    /// Shows the branch of a message from now on, as far as it goes.
    ///
    /// # Errors
    /// When there is no such chat or message, or it cannot be written.
    pub fn show_branch(&self, id: &str, message: MessageId) -> Result<(Chat, Summary), Error> {
        let chats = self.chats_of(id)?;
        self.not_answering(id)?;
        chats.show(id, message)?;
        self.kept_chat(id)
    }

    /// Titles and messages that have all the words of a search.
    ///
    /// # Errors
    /// When the chats cannot be read.
    pub fn search_chats(&self, search: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        Ok(self.notebook.kept(self.now_ms())?.search(search, limit.min(MAX_PAGE))?)
    }

    /// Brings what was computed for a chat near, since it was opened. Returns how near it was, and how many prefixes come.
    ///
    /// # Errors
    /// When there is no such chat.
    pub fn prefetch_chat(&self, id: &str) -> Result<(Warmth, usize), Error> {
        let (_, summary) = self.kept_chat(id)?;
        let contexts = match summary.warmth {
            Warmth::Disk => self.prefetch_owner(&owner(id)).unwrap_or(0),
            Warmth::Hot | Warmth::Warm | Warmth::Cold => 0,
        };
        Ok((summary.warmth, contexts))
    }

    /// What lists say of a chat that has changed, after everybody who listens was told.
    fn told(&self, listed: Listed) -> Summary {
        let summary = self.summary(listed);
        // Nobody may be listening.
        let _ = self.notebook.changes.send(Changed::Chat(Box::new(summary.clone())));
        summary
    }
}
