//! Homes of Cairn as a journey finds them.

use crate::cairn::Home;

/// One that nobody has been welcomed to. Its window stays in the tray when it is closed, as if its user had said so.
pub(crate) fn new_home() -> Home {
    home_with("close = \"tray\"")
}

/// One whose first run is over.
pub(crate) fn home() -> Home {
    home_with("close = \"tray\"\nwelcomed = true")
}

/// One where this is set about the window.
pub(crate) fn home_with(ui: &str) -> Home {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    std::fs::write(home.folder.path().join("config.toml"), format!("[ui]\n{ui}\n")).expect("the home is writable");
    home
}
