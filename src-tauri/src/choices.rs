//! What the user chose about the window, kept in `desktop.json` of the configuration's folder:
//! `{"close": "keep"}`. A file that cannot be read counts as none.

use std::path::PathBuf;

use cairn_disk::{Disk, Mode, RealDisk};
use serde::{Deserialize, Serialize};

/// All of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choices {
    /// What closing the window does; absent until it was closed once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) close: Option<Closing>,
}

/// What closing the window does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Closing {
    /// The app stays in the tray.
    Keep,
    /// It quits, and the daemon with it.
    Quit,
}

/// Where they are kept.
#[derive(Debug, Clone)]
pub(crate) struct ChoicesFile {
    /// Absent where no folder is known; then nothing is kept.
    path: Option<PathBuf>,
}

impl ChoicesFile {
    pub(crate) fn below(folder: Option<&str>) -> Self {
        Self { path: folder.map(|folder| PathBuf::from(folder).join("desktop.json")) }
    }

    pub(crate) fn read(&self) -> Choices {
        let bytes = self.path.as_deref().and_then(|path| RealDisk.read(path).ok());
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// # Errors
    /// The folder cannot be written; the choice then holds until the app ends.
    pub(crate) fn write(&self, choices: Choices) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            RealDisk.create_dir_all(folder)?;
        }
        let bytes = serde_json::to_vec(&choices).expect("our own types have string keys");
        Ok(RealDisk.write_atomic(path, &bytes, Mode::Private)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_kept_and_a_torn_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("new").display().to_string();
        let file = ChoicesFile::below(Some(&below));
        assert_eq!(file.read(), Choices::default(), "nobody has chosen yet");
        let chosen = Choices { close: Some(Closing::Quit) };
        file.write(chosen).unwrap();
        assert_eq!(file.read(), chosen, "in a folder that was made for it");
        std::fs::write(folder.path().join("new/desktop.json"), b"{\"close\":").unwrap();
        assert_eq!(file.read(), Choices::default(), "a torn file asks again");
    }
}
