//! `cairn desktop`: where things are and how the daemon is reached, for the desktop app, which starts this program.

use anyhow::Context;
use cairn_wire::app::{DesktopPlaces, DesktopServer};

use crate::{Setting, daemon, output};

pub(crate) async fn tell(setting: &Setting) -> anyhow::Result<()> {
    output::json(&DesktopPlaces {
        config_folder: setting.places.config.display().to_string(),
        log_file: setting.places.log_file().display().to_string(),
    })?;
    let client = daemon::reach(setting).await?;
    client.must_be_ours("the desktop app")?;
    let (address, token) = client.door();
    let token = token.context("our own daemon has a token")?;
    output::json(&DesktopServer { address: address.to_owned(), token: token.to_owned() })
}
