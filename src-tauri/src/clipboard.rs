//! The system's clipboard, for text. On X11 the program that copied something is asked for it at each paste, so that what was copied
//! is held for as long as the app runs.

use std::sync::{Mutex, PoisonError};

use anyhow::Context;

/// It, once something was copied.
#[derive(Default)]
pub(crate) struct Clipboard(Mutex<Option<arboard::Clipboard>>);

impl Clipboard {
    /// Puts a text there.
    ///
    /// # Errors
    /// This system has none, or does not give it away.
    pub(crate) fn copy(&self, text: &str) -> anyhow::Result<()> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let clipboard = match &mut *held {
            Some(clipboard) => clipboard,
            none => none.insert(arboard::Clipboard::new().context("there is no clipboard")?),
        };
        clipboard.set_text(text).context("the clipboard takes no text")
    }
}
