//! Chats that go out and come in: whole, with all their branches.

use std::path::PathBuf;

use cairn_chats::{Chat, ChatFilter, ImportReport, ImportedChat, Message, TrashPolicy, ollama};

use super::changes::Changed;
use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{is_id, new_id};
use super::{markdown, title};

/// How folders begin that hold copies of other programs' chats, while those are read.
const COPY: &str = "import-";
/// Chats that are read for an export at a time.
const AT_ONCE: usize = 500;

/// A chat with all its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// The chat.
    pub chat: Chat,
    /// Its messages, each after the one that it follows.
    pub messages: Vec<Message>,
}

/// Where chats come from.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportFrom {
    /// An export of ours. Ids of chats are those that they had.
    Export(Vec<ImportedChat>),
    /// The database of Ollama's app.
    Ollama(PathBuf),
}

impl ChatSessions {
    /// One chat, whole. Blocks, as these all do.
    ///
    /// # Errors
    /// When there is none.
    pub fn export_chat(&self, id: &str) -> Result<Exported, Error> {
        let chats = self.chats_of(id)?;
        Ok(Exported { chat: chats.chat(id)?, messages: chats.messages(id)? })
    }

    /// A chat's branch that is shown, as a text in Markdown.
    ///
    /// # Errors
    /// When there is none.
    pub fn chat_as_markdown(&self, id: &str) -> Result<String, Error> {
        let chats = self.chats_of(id)?;
        let (chat, path) = (chats.chat(id)?, chats.path(id, None, None, usize::MAX)?);
        Ok(markdown::of(&chat, &path.messages))
    }

    /// All chats, whole, but for temporary ones and what is in the trash: each is given to `each` as soon as it is read, which ends it
    /// by returning false.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn export_chats(&self, mut each: impl FnMut(Exported) -> bool) -> Result<(), Error> {
        let chats = self.state.stored(self.now_ms())?;
        for which in [ChatFilter::Pinned, ChatFilter::Unpinned] {
            let mut after = None;
            loop {
                let page = chats.list(&which, after.as_deref(), AT_ONCE)?;
                for row in page.chats {
                    let exported = Exported { chat: chats.chat(&row.id)?, messages: chats.messages(&row.id)? };
                    if !each(exported) {
                        return Ok(());
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The chats of Ollama's own app, if it is where it usually is.
    #[must_use]
    pub fn chats_of_ollama(&self) -> Option<PathBuf> {
        self.settings.ollama_chats.clone().filter(|path| path.is_file())
    }

    /// Brings chats from elsewhere, all of them at once; those that are here stay as they are, but an export brings back what is in
    /// the trash.
    ///
    /// # Errors
    /// When what they come from makes no sense, or they cannot be written.
    pub fn import_chats(&self, from: ImportFrom) -> Result<ImportReport, Error> {
        let (mut brought, trashed) = match from {
            ImportFrom::Export(mut brought) => {
                for chat in &mut brought {
                    let theirs = std::mem::take(&mut chat.chat.id);
                    // An id goes into paths and names, so only one of ours stays.
                    chat.chat.id = if is_id(&theirs) { theirs.clone() } else { new_id() };
                    // Chats without one are not all the same.
                    chat.origin = format!("cairn:{}", if theirs.is_empty() { &chat.chat.id } else { &theirs });
                }
                (brought, TrashPolicy::Restore)
            }
            ImportFrom::Ollama(path) => {
                if !path.is_absolute() {
                    return Err(Error::Relative(path.display().to_string()));
                }
                // One at a time: any copy that is there is then one that a daemon left which was killed.
                let _one = self.state.importing.lock();
                self.remove_dead_copies();
                let scratch = self.state.path.with_file_name(format!("{COPY}{}", new_id()));
                (ollama::read(&path, &scratch, new_id).map_err(Error::from)?, TrashPolicy::Keep)
            }
        };
        brought.iter_mut().filter_map(|chat| chat.chat.title.as_mut()).for_each(title::bound);
        let arrived = self.state.stored(self.now_ms())?.import(&brought, trashed)?;
        if !arrived.chats.is_empty() {
            let _ = self.state.changes.send(Changed::Several(arrived.chats.len() as u64));
        }
        Ok(arrived)
    }

    fn remove_dead_copies(&self) {
        let entries = self.state.path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
        let is_copy = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(COPY);
        for copy in entries.into_iter().flatten().flatten().filter(is_copy) {
            if let Err(error) = std::fs::remove_dir_all(copy.path()) {
                tracing::warn!(%error, path = %copy.path().display(), "a copy of another program's chats is left");
            }
        }
    }
}
