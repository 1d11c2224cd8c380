//! Connecting to the daemon of this user, and starting it if it does not run.
//!
//! `run/daemon.lock` shows whether a daemon runs; `run/daemon.json` has its address and token. `OLLAMA_HOST` takes
//! precedence: the server at that address is used, and a daemon that has to be started listens there. A daemon is
//! started only for `http` and a loopback address.

mod start;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use cairn_app::VERSION;
use cairn_app::settings::Address;
use cairn_app::settings::Origin;
use cairn_disk::{Lock, LockError};
use cairn_wire::app::{DaemonFile, StatusResponse};

use crate::client::Client;
use crate::{CliContext, output};

/// Timeout for a daemon that holds the lock to answer requests, or to end.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between two checks of the daemon's state.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Connects to the server, and starts the daemon if none runs.
pub(crate) async fn connect_or_start(cli: &CliContext) -> anyhow::Result<Client> {
    if let Some(client) = connect(cli).await? {
        return Ok(client);
    }
    let client = start::start(cli).await?;
    if configured_address(cli).is_none() && client.1.port != Address::default().port {
        let (taken, port) = (Address::default().port, client.1.port);
        output::note(&format!("Port {taken} is taken by another program; Cairn listens on {port}."));
    }
    Ok(client.0)
}

/// Connects to a running server; `None` if no server runs and a daemon can be started.
pub(crate) async fn connect(cli: &CliContext) -> anyhow::Result<Option<Client>> {
    if let Some(address) = configured_address(cli) {
        let ours = match address.is_loopback() {
            true => wait_for_daemon_file(cli).await?.filter(|file| is_own_address(&address, file)),
            false => None,
        };
        let client = Client::new(&address, ours.map(|file| file.token), ca_file(cli))?;
        let client = client.with_api_key(cli.settings.environment.api_key.clone())?;
        return match client.check().await {
            Ok(()) => Ok(Some(client)),
            Err(_) if address.is_loopback() && address.scheme == "http" => Ok(None),
            Err(error) => Err(error.context(format!("cannot connect to {address} (OLLAMA_HOST)"))),
        };
    }
    let Some((client, _)) = connect_own(cli).await? else { return Ok(None) };
    match client.get::<StatusResponse>("/app/status").await {
        Ok(status) if status.version != VERSION && status.active_requests == 0 => {
            // An idle daemon of another version is replaced.
            client.post_without_response("/app/stop", &()).await?;
            wait_for_end(cli).await?;
            Ok(None)
        }
        Ok(_) => Ok(Some(client)),
        Err(error) => Err(error.context("cannot use the running daemon")),
    }
}

/// Whether the address belongs to the daemon that wrote the file. Only a loopback address does: another machine must
/// never get the token.
fn is_own_address(address: &Address, file: &DaemonFile) -> bool {
    address.is_loopback() && addresses(file).any(|own| own.port == address.port)
}

/// Returns the server address of `OLLAMA_HOST`, if set.
pub(crate) fn configured_address(cli: &CliContext) -> Option<Address> {
    let set = matches!(cli.settings.origin("OLLAMA_HOST"), Some(Origin::Environment(_)));
    set.then(|| cli.settings.server.address.for_client())
}

/// The file of certificates to trust besides the system's.
fn ca_file(cli: &CliContext) -> Option<&Path> {
    cli.settings.network.ca_file.as_deref()
}

/// Waits until the daemon of this user answers; `None` if no daemon runs.
async fn connect_own(cli: &CliContext) -> anyhow::Result<Option<(Client, Address)>> {
    let mut waited = Duration::ZERO;
    while is_alive(cli)? {
        // The daemon takes the lock before it writes the file. Until then it runs but cannot be reached.
        if let Some(file) = read(cli)
            && let Some(address) = addresses(&file).next()
        {
            let client = Client::new(&address, Some(file.token.clone()), None)?;
            if client.check().await.is_ok() {
                return Ok(Some((client, address)));
            }
        }
        if waited >= READY_TIMEOUT {
            bail!("the daemon runs but does not answer; see its log: {}", cli.places.log_file().display());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        waited += POLL_INTERVAL;
    }
    Ok(None)
}

/// Waits until the daemon has shut down.
pub(crate) async fn wait_for_end(cli: &CliContext) -> anyhow::Result<()> {
    let mut waited = Duration::ZERO;
    while is_alive(cli)? {
        if waited >= READY_TIMEOUT {
            bail!("the daemon did not end within {READY_TIMEOUT:?}; see its log: {}", cli.places.log_file().display());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        waited += POLL_INTERVAL;
    }
    Ok(())
}

/// Whether another process holds the daemon's lock.
fn is_alive(cli: &CliContext) -> anyhow::Result<bool> {
    let path = cli.places.daemon_lock();
    if !path.exists() {
        return Ok(false);
    }
    match Lock::try_acquire(&path) {
        Ok(_) => Ok(false),
        Err(LockError::Held(_)) => Ok(true),
        Err(error) => Err(error).context("cannot check whether the daemon runs"),
    }
}

/// Waits for the daemon's file; `None` if no daemon runs. A daemon takes its lock a moment before it writes the file.
async fn wait_for_daemon_file(cli: &CliContext) -> anyhow::Result<Option<DaemonFile>> {
    let mut waited = Duration::ZERO;
    while is_alive(cli)? {
        let file = read(cli);
        if file.is_some() || waited >= READY_TIMEOUT {
            return Ok(file);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        waited += POLL_INTERVAL;
    }
    Ok(None)
}

fn read(cli: &CliContext) -> Option<DaemonFile> {
    serde_json::from_slice(&std::fs::read(cli.places.daemon_file()).ok()?).ok()
}

fn addresses(file: &DaemonFile) -> impl Iterator<Item = Address> {
    file.addresses.iter().filter_map(|text| Address::parse(text)).map(|address| address.for_client())
}

#[cfg(test)]
mod tests;
