//! Finding the daemon of this user, and starting it when there is none.
//!
//! `run/daemon.lock` tells whether a daemon lives, `run/daemon.json` how to reach it. `OLLAMA_HOST` comes first: whatever
//! server it names is used, and a daemon that has to be started listens there.

mod start;

use std::time::Duration;

use anyhow::{Context, bail};
use cairn_app::VERSION;
use cairn_app::settings::Address;
use cairn_app::settings::Origin;
use cairn_disk::{Lock, LockError};
use cairn_wire::app::{DaemonFile, StatusResponse};

use crate::client::Client;
use crate::{Setting, output};

/// How long a daemon that holds the lock may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Between two looks whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// A server to talk to; the daemon is started when there is none.
pub(crate) async fn reach(setting: &Setting) -> anyhow::Result<Client> {
    if let Some(client) = find(setting).await? {
        return Ok(client);
    }
    let named = named(setting);
    if let Some(address) = named.as_ref().filter(|address| !address.is_loopback()) {
        bail!("could not connect to a server at {address}, which OLLAMA_HOST names");
    }
    let client = start::start(setting).await?;
    if named.is_none() && client.1.port != Address::default().port {
        let (taken, port) = (Address::default().port, client.1.port);
        output::note(&format!("Port {taken} is taken by another program; Cairn listens on {port}."));
    }
    Ok(client.0)
}

/// A server that runs already.
pub(crate) async fn find(setting: &Setting) -> anyhow::Result<Option<Client>> {
    if let Some(address) = named(setting) {
        let ours = match address.is_loopback() {
            true => living(setting).await?.filter(|file| is_ours(&address, file)),
            false => None,
        };
        let client = Client::new(&address, ours.map(|file| file.token))?;
        return Ok(client.answers().await.then_some(client));
    }
    let Some((client, _)) = own(setting).await? else { return Ok(None) };
    match client.get::<StatusResponse>("/app/status").await {
        Ok(status) if status.version != VERSION && status.active_requests == 0 => {
            // Another version of this program started it, and nobody needs it.
            client.tell("/app/stop", &()).await?;
            wait_for_end(setting).await?;
            Ok(None)
        }
        Ok(_) => Ok(Some(client)),
        Err(error) => Err(error.context("the daemon runs, and does not let this client in")),
    }
}

/// Does the address lead to the daemon that wrote the file? Clients of this machine reach it; another machine, whatever
/// its port, must never see the token.
fn is_ours(address: &Address, file: &DaemonFile) -> bool {
    address.is_loopback() && addresses(file).any(|own| own.port == address.port)
}

/// The server that `OLLAMA_HOST` names.
fn named(setting: &Setting) -> Option<Address> {
    let set = matches!(setting.settings.origin("OLLAMA_HOST"), Some(Origin::Environment(_)));
    set.then(|| setting.settings.server.address.for_client())
}

/// The daemon of this user, once it answers; `None` when there is none.
async fn own(setting: &Setting) -> anyhow::Result<Option<(Client, Address)>> {
    let mut waited = Duration::ZERO;
    while is_alive(setting)? {
        // Between taking the lock and writing the file, a daemon is alive and cannot be reached yet.
        if let Some(file) = read(setting)
            && let Some(address) = addresses(&file).next()
        {
            let client = Client::new(&address, Some(file.token.clone()))?;
            if client.answers().await {
                return Ok(Some((client, address)));
            }
        }
        if waited >= READY_WITHIN {
            bail!("the daemon runs and does not answer; its log is {}", setting.places.log_file().display());
        }
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
    Ok(None)
}

/// Waits until the daemon, which was asked to end, is gone.
pub(crate) async fn wait_for_end(setting: &Setting) -> anyhow::Result<()> {
    let mut waited = Duration::ZERO;
    while is_alive(setting)? {
        if waited >= READY_WITHIN {
            bail!("the daemon did not end within {READY_WITHIN:?}; its log is {}", setting.places.log_file().display());
        }
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
    Ok(())
}

/// Does somebody hold the daemon's lock?
fn is_alive(setting: &Setting) -> anyhow::Result<bool> {
    let path = setting.places.daemon_lock();
    if !path.exists() {
        return Ok(false);
    }
    match Lock::try_acquire(&path) {
        Ok(_) => Ok(false),
        Err(LockError::Held(_)) => Ok(true),
        Err(error) => Err(error).context("could not look for the daemon"),
    }
}

/// What the daemon wrote, when one lives. One that was just started listens a moment before it has written that.
async fn living(setting: &Setting) -> anyhow::Result<Option<DaemonFile>> {
    let mut waited = Duration::ZERO;
    while is_alive(setting)? {
        let file = read(setting);
        if file.is_some() || waited >= READY_WITHIN {
            return Ok(file);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
    Ok(None)
}

fn read(setting: &Setting) -> Option<DaemonFile> {
    serde_json::from_slice(&std::fs::read(setting.places.daemon_file()).ok()?).ok()
}

fn addresses(file: &DaemonFile) -> impl Iterator<Item = Address> {
    file.addresses.iter().filter_map(|text| Address::parse(text)).map(|address| address.for_client())
}

#[cfg(test)]
mod tests;
