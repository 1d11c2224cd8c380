//! Presets: what new chats begin with. They are kept beside the chats.

use cairn_chats::Preset;

use super::error::Error;
use super::handle::ChatSessions;

impl ChatSessions {
    /// All presets, by name. Blocks, as these all do.
    ///
    /// # Errors
    /// When the chats cannot be read.
    pub fn presets(&self) -> Result<Vec<Preset>, Error> {
        Ok(self.state.stored(self.now_ms())?.presets()?)
    }

    /// One preset.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn preset(&self, name: &str) -> Result<Preset, Error> {
        Ok(self.state.stored(self.now_ms())?.preset(name)?)
    }

    /// Keeps a preset, in place of another of its name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_preset(&self, preset: &Preset) -> Result<(), Error> {
        Ok(self.state.stored(self.now_ms())?.put_preset(preset)?)
    }

    /// Deletes a preset.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn delete_preset(&self, name: &str) -> Result<(), Error> {
        Ok(self.state.stored(self.now_ms())?.delete_preset(name)?)
    }
}
