//! Cairn homes for the tests.

use crate::cairn::Home;

/// Returns a home before its first run. Closing the window keeps the app in the tray.
pub(crate) fn new_home() -> Home {
    home_with("close = \"tray\"")
}

/// Returns a home after its first run.
pub(crate) fn home() -> Home {
    home_with("close = \"tray\"\nwelcomed = true")
}

/// Returns a home with these lines in the `[ui]` table of its settings.
pub(crate) fn home_with(ui: &str) -> Home {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    std::fs::write(home.folder.path().join("config.toml"), format!("[ui]\n{ui}\n")).expect("the home is writable");
    home
}
