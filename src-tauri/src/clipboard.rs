//! The system's clipboard, for text.

use anyhow::Context;
use parking_lot::Mutex;

/// Clipboard that is opened at the first copy. It stays open while the app runs, because on X11 the program that
/// copied a text must provide it at each paste.
#[derive(Default)]
pub(crate) struct Clipboard(Mutex<Option<arboard::Clipboard>>);

impl Clipboard {
    /// Copies a text.
    ///
    /// # Errors
    /// The system has no clipboard or refuses access.
    pub(crate) fn copy(&self, text: &str) -> anyhow::Result<()> {
        let mut slot = self.0.lock();
        let clipboard = match &mut *slot {
            Some(clipboard) => clipboard,
            none => none.insert(arboard::Clipboard::new().context("cannot open the clipboard")?),
        };
        clipboard.set_text(text).context("cannot copy to the clipboard")
    }
}
