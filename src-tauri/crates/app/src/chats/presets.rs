//! Presets: named parameters of new chats. They are stored with the chats.

use cairn_chats::Preset;

use super::error::Error;
use super::handle::ChatSessions;

impl ChatSessions {
    /// Returns all presets, by name. Blocks, as all these functions do.
    ///
    /// # Errors
    /// If the chats cannot be read.
    pub fn presets(&self) -> Result<Vec<Preset>, Error> {
        Ok(self.state.stored(self.now_ms())?.presets()?)
    }

    /// Returns one preset.
    ///
    /// # Errors
    /// If no preset has this name.
    pub fn preset(&self, name: &str) -> Result<Preset, Error> {
        Ok(self.state.stored(self.now_ms())?.preset(name)?)
    }

    /// Stores a preset, and replaces a preset of the same name.
    ///
    /// # Errors
    /// If the preset cannot be written.
    pub fn put_preset(&self, preset: &Preset) -> Result<(), Error> {
        Ok(self.state.stored(self.now_ms())?.put_preset(preset)?)
    }

    /// Deletes a preset.
    ///
    /// # Errors
    /// If no preset has this name.
    pub fn delete_preset(&self, name: &str) -> Result<(), Error> {
        Ok(self.state.stored(self.now_ms())?.delete_preset(name)?)
    }
}
