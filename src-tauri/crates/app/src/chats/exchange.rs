//! Export and import of chats, with all branches.

use std::path::PathBuf;

use cairn_chats::{ChatEvent, ChatFilter, Chats, ChatsImported, ExportedChat, ImportedChat, TrashPolicy, ollama};

use super::error::Error;
use super::handle::ChatSessions;
use super::ids::{is_id, new_id};
use super::{markdown, title};

/// Name prefix of folders with temporary copies of other programs' databases.
const COPY_PREFIX: &str = "import-";
/// Chats per page of an export.
const EXPORT_PAGE: usize = 500;

/// Source of an import.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportFrom {
    /// An export of Cairn. Chats keep their ids.
    Export(Vec<ExportedChat>),
    /// The database of Ollama's app.
    Ollama(PathBuf),
}

impl ChatSessions {
    /// Returns one chat with all messages. Blocks, as all these functions do.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn export_chat(&self, id: &str) -> Result<ExportedChat, Error> {
        exported(&*self.chats_of(id)?, id)
    }

    /// Returns the selected branch of a chat as Markdown.
    ///
    /// # Errors
    /// If the chat does not exist.
    pub fn chat_as_markdown(&self, id: &str) -> Result<String, Error> {
        let chats = self.chats_of(id)?;
        let (chat, path) = (chats.chat(id)?, chats.path(id, None, None, usize::MAX)?);
        Ok(markdown::of(&chat, &path.messages))
    }

    /// Passes all chats with all messages to `each`, except temporary chats and those in the trash. `each` returns
    /// whether to continue.
    ///
    /// # Errors
    /// If the chats cannot be read.
    pub fn export_chats(&self, mut each: impl FnMut(ExportedChat) -> bool) -> Result<(), Error> {
        let chats = self.state.stored(self.now_ms())?;
        for which in [ChatFilter::Pinned, ChatFilter::Unpinned] {
            let mut after = None;
            loop {
                let page = chats.list(&which, after.as_deref(), EXPORT_PAGE)?;
                for row in page.chats {
                    if !each(exported(&chats, &row.id)?) {
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

    /// Returns the database of Ollama's app, if it is at its usual path.
    #[must_use]
    pub fn chats_of_ollama(&self) -> Option<PathBuf> {
        self.settings.ollama_chats.clone().filter(|path| path.is_file())
    }

    /// Imports chats in one transaction. Existing chats stay unchanged, except that an export restores them from the
    /// trash.
    ///
    /// # Errors
    /// If the source is invalid, or the chats cannot be written.
    pub fn import_chats(&self, from: ImportFrom) -> Result<ChatsImported, Error> {
        let (mut imported, trashed): (Vec<_>, _) = match from {
            ImportFrom::Export(chats) => {
                let imported = chats.into_iter().map(|mut export| {
                    let id = &mut export.chat.row.id;
                    let old_id = id.clone();
                    // Ids are used in paths and names, so only valid ids are kept.
                    if !is_id(id) {
                        *id = new_id();
                    }
                    // Chats without an id must not have the same origin.
                    let origin = format!("cairn:{}", if old_id.is_empty() { id } else { &old_id });
                    ImportedChat { origin, export }
                });
                (imported.collect(), TrashPolicy::Restore)
            }
            ImportFrom::Ollama(path) => {
                if !path.is_absolute() {
                    return Err(Error::Relative(path.display().to_string()));
                }
                // With one import at a time, any existing copy is a leftover of a killed daemon.
                let _one = self.state.importing.lock();
                self.remove_dead_copies();
                let scratch = self.state.path.with_file_name(format!("{COPY_PREFIX}{}", new_id()));
                (ollama::read(&path, &scratch, new_id).map_err(Error::from)?, TrashPolicy::Keep)
            }
        };
        imported.iter_mut().for_each(|imported| title::bound(&mut imported.export.chat.row.title));
        let report = self.state.stored(self.now_ms())?.import(&imported, trashed)?;
        if report.chats > 0 {
            let _ = self.state.changes.send(ChatEvent::Missed(report.chats));
        }
        Ok(report)
    }

    fn remove_dead_copies(&self) {
        let entries = self.state.path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
        let is_copy = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(COPY_PREFIX);
        for copy in entries.into_iter().flatten().flatten().filter(is_copy) {
            if let Err(error) = std::fs::remove_dir_all(copy.path()) {
                tracing::warn!(%error, path = %copy.path().display(), "cannot remove a temporary copy of another program's chats");
            }
        }
    }
}

fn exported(chats: &Chats, id: &str) -> Result<ExportedChat, Error> {
    Ok(ExportedChat { chat: chats.chat(id)?, messages: chats.messages(id)? })
}
