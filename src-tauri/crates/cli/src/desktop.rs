//! `cairn desktop`: prints the folders and the daemon's address for the desktop app, which starts this program.

use anyhow::Context;
use cairn_wire::app::{DesktopPlaces, DesktopServer};

use crate::{CliContext, daemon, output};

pub(crate) async fn print(cli: &CliContext) -> anyhow::Result<()> {
    output::json(&DesktopPlaces {
        config_folder: cli.places.config.display().to_string(),
        log_file: cli.places.log_file().display().to_string(),
    })?;
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("the desktop app")?;
    let (address, token) = client.credentials();
    let token = token.context("the daemon's token is missing")?;
    output::json(&DesktopServer { address: address.to_owned(), token: token.to_owned() })
}
