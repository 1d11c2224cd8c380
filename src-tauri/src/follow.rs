//! Follows the daemon: updates [`ShellState`] from its events, and reconnects when the connection breaks.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use cairn_wire::app::{CacheResponse, DesktopServer, Download, DownloadsResponse, SettingsResponse};
use cairn_wire::ollama::PsResponse;
use tokio::sync::watch;

use crate::choices::{CloseAction, SETTINGS, WindowSettings};
use crate::client::Client;
use crate::news::{self, DownloadOutcome};
use crate::seen::{Daemon, LoadedModel, ShellState};
use crate::sidecar::{self, CairnProcess};

/// Time between two requests for state without events: loaded models, cache and settings.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Backoff after the first broken connection. It gives a stopped daemon time to end before it is started again.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest backoff; each one is twice the previous one.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Follows the daemon until the app ends. Works before the window and the tray subscribe to `state`. `first` is the
/// `cairn` process of the app's start. Calls `on_outcomes` with completed and failed downloads.
pub(crate) async fn follow(
    first: anyhow::Result<CairnProcess>,
    state: &watch::Sender<ShellState>,
    on_outcomes: impl Fn(Vec<DownloadOutcome>) + Send + Sync,
) {
    let mut first = Some(first);
    let mut backoff = FIRST_BACKOFF;
    loop {
        let started = Instant::now();
        let failure = match find(first.take()).await {
            Ok(server) => follow_server(server, state, &on_outcomes).await.err(),
            Err(error) => Some(error),
        };
        let daemon = failure.map_or(Daemon::Starting, |error| Daemon::Unavailable(format!("{error:#}")));
        state.send_modify(|state| {
            *state = ShellState {
                daemon,
                downloads: Vec::new(),
                models: Vec::new(),
                cache_bytes: Vec::new(),
                ..state.clone()
            }
        });
        if started.elapsed() > MAX_BACKOFF {
            backoff = FIRST_BACKOFF;
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

/// Connects to the daemon or starts it. Waits for `cairn` on a thread for blocking work.
async fn find(first: Option<anyhow::Result<CairnProcess>>) -> anyhow::Result<DesktopServer> {
    let wait = move || match first {
        Some(process) => process?.server(),
        None => sidecar::program().and_then(|program: PathBuf| CairnProcess::start(&program))?.server(),
    };
    tokio::task::spawn_blocking(wait).await.context("cannot wait for cairn")?
}

/// Updates the state until the daemon ends.
async fn follow_server(
    server: DesktopServer,
    state: &watch::Sender<ShellState>,
    on_outcomes: &(impl Fn(Vec<DownloadOutcome>) + Send + Sync),
) -> anyhow::Result<()> {
    let client = Client::new(server.clone())?;
    let mut lists = client.lines("/app/downloads/events").await?;
    // Before the state is `Running`: a window that closes at once must use the stored action.
    sync_settings(&client, state).await?;
    state.send_modify(|state| state.daemon = Daemon::Running(server));
    let mut last: Option<Vec<Download>> = None;
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    let mut states = state.subscribe();
    loop {
        tokio::select! {
            list = lists.next::<DownloadsResponse>() => {
                let Some(DownloadsResponse { downloads, .. }) = list? else { return Ok(()) };
                let outcomes = last.replace(downloads.clone()).map(|last| news::outcomes_between(&last, &downloads));
                if let Some(outcomes) = outcomes.filter(|outcomes| !outcomes.is_empty()) {
                    // The setting for notifications may have changed since the last poll.
                    sync_settings(&client, state).await?;
                    on_outcomes(outcomes);
                }
                update(state, |state| state.downloads = downloads);
            }
            _ = ticks.tick() => {
                let loaded: PsResponse = client.get("/api/ps").await?;
                let models = loaded.models.into_iter();
                let models = models.map(|model| LoadedModel { name: model.name, size_bytes: model.size }).collect();
                let cache: CacheResponse = client.get("/app/cache").await?;
                let cache_bytes = cache.tiers.iter().map(|tier| (tier.tier, tier.used_bytes)).collect();
                update(state, |state| (state.models, state.cache_bytes) = (models, cache_bytes));
                sync_settings(&client, state).await?;
            }
            // The result of `wait_for` is dropped at once, because it locks the state.
            () = async { drop(states.wait_for(|state| state.unsent.is_some()).await) } => {
                sync_settings(&client, state).await?;
            }
        }
    }
}

/// Sends an unsent choice to the daemon, then reads the daemon's settings. A choice that the daemon refuses is dropped.
async fn sync_settings(client: &Client, state: &watch::Sender<ShellState>) -> anyhow::Result<()> {
    let unsent = state.borrow().unsent;
    let sent = send_unsent(client, unsent).await;
    // If the daemon has ended, this fails and the choice stays unsent until the daemon runs again.
    let table: SettingsResponse = client.get(SETTINGS).await?;
    if let Some(Err(error)) = sent {
        eprintln!("cannot store the action for closing the window: {error:#}");
    }
    update(state, |state| {
        let settings = WindowSettings::of(&table);
        // A choice that was made during the requests is newer than the table.
        let is_sent = state.unsent == unsent;
        let close_action = if is_sent { settings.close_action } else { state.settings.close_action };
        state.settings = WindowSettings { close_action, ..settings };
        state.unsent = state.unsent.filter(|_| !is_sent);
    });
    Ok(())
}

/// Stores the unsent choice in the daemon's settings; `None` if there is none.
pub(crate) async fn send_unsent(client: &Client, unsent: Option<CloseAction>) -> Option<anyhow::Result<()>> {
    Some(client.patch(SETTINGS, &unsent?.change()).await)
}

/// Changes the state, and notifies its subscribers only if it differs.
pub(crate) fn update(state: &watch::Sender<ShellState>, change: impl FnOnce(&mut ShellState)) {
    state.send_if_modified(|state| {
        let before = state.clone();
        change(state);
        *state != before
    });
}

#[cfg(test)]
mod tests;
