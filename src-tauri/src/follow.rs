//! Follows the daemon: keeps [`Seen`] as its events tell, and looks for it anew when the connection breaks.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use cairn_wire::app::{CacheResponse, DesktopServer, Download, DownloadsResponse, SettingsResponse};
use cairn_wire::ollama::PsResponse;
use tokio::sync::watch;

use crate::choices::{Choices, Closing, SETTINGS};
use crate::client::Client;
use crate::news::{self, News};
use crate::seen::{Daemon, LoadedModel, Seen};
use crate::sidecar::{self, Asked};

/// Between two looks at what changes without an event: the models in memory, the cache and the settings.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// After the connection broke, before the daemon is looked for. Whoever stopped it on purpose sees it end first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses; each is twice the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Follows the daemon until the app ends, whether or not somebody looks yet at what is seen: the window and the tray come when they
/// come. `first` is the `cairn` that was started already.
pub(crate) async fn follow(
    first: anyhow::Result<Asked>,
    seen: &watch::Sender<Seen>,
    heard: impl Fn(Vec<News>) + Send + Sync,
) {
    let mut first = Some(first);
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let ended = match find(first.take()).await {
            Ok(server) => attend(server, seen, &heard).await.err(),
            Err(error) => Some(error),
        };
        let daemon = ended.map_or(Daemon::Starting, |error| Daemon::Gone(format!("{error:#}")));
        seen.send_modify(|seen| {
            *seen = Seen { daemon, downloads: Vec::new(), models: Vec::new(), kept: Vec::new(), ..seen.clone() }
        });
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Finds the daemon or starts it. `cairn` is waited for on a thread where waiting does no harm.
async fn find(first: Option<anyhow::Result<Asked>>) -> anyhow::Result<DesktopServer> {
    let ask = move || match first {
        Some(asked) => asked?.server(),
        None => sidecar::program().and_then(|program: PathBuf| Asked::of(&program))?.server(),
    };
    tokio::task::spawn_blocking(ask).await.context("asking cairn does not panic")?
}

/// Keeps what is seen up to date until the daemon ends.
async fn attend(
    server: DesktopServer,
    seen: &watch::Sender<Seen>,
    heard: &(impl Fn(Vec<News>) + Send + Sync),
) -> anyhow::Result<()> {
    let client = Client::new(server.clone())?;
    let mut lists = client.lines("/app/downloads/events").await?;
    // Before anybody hears of the daemon: a window that is closed at once asks nobody who has chosen already.
    settle(&client, seen).await?;
    seen.send_modify(|seen| seen.daemon = Daemon::Here(server));
    let mut known: Option<Vec<Download>> = None;
    let mut looks = tokio::time::interval(BETWEEN_LOOKS);
    let mut wishes = seen.subscribe();
    loop {
        tokio::select! {
            list = lists.next::<DownloadsResponse>() => {
                let Some(DownloadsResponse { downloads, .. }) = list? else { return Ok(()) };
                let news = known.replace(downloads.clone()).map(|before| news::between(&before, &downloads));
                if let Some(news) = news.filter(|news| !news.is_empty()) {
                    // Whether they are told may have been changed a moment ago.
                    settle(&client, seen).await?;
                    heard(news);
                }
                change(seen, |seen| seen.downloads = downloads);
            }
            _ = looks.tick() => {
                let loaded: PsResponse = client.get("/api/ps").await?;
                let models = loaded.models.into_iter();
                let models = models.map(|model| LoadedModel { name: model.name, size_bytes: model.size }).collect();
                let cache: CacheResponse = client.get("/app/cache").await?;
                let kept = cache.tiers.iter().map(|tier| (tier.tier, tier.used_bytes)).collect();
                change(seen, |seen| (seen.models, seen.kept) = (models, kept));
                settle(&client, seen).await?;
            }
            // What it waited for is let go at once: it locks what is seen.
            () = async { drop(wishes.wait_for(|seen| seen.unsent.is_some()).await) } => settle(&client, seen).await?,
        }
    }
}

/// Takes over what the daemon's settings say, once it has heard of what was chosen here. What it refuses does not hold.
async fn settle(client: &Client, seen: &watch::Sender<Seen>) -> anyhow::Result<()> {
    let unsent = seen.borrow().unsent;
    let written = write(client, unsent).await;
    // A daemon that went away hears of it when it is back.
    let table: SettingsResponse = client.get(SETTINGS).await?;
    if let Some(Err(error)) = written {
        eprintln!("the choice is not remembered: {error:#}");
    }
    change(seen, |seen| {
        let told = Choices::of(&table);
        // What was chosen meanwhile is newer than the table.
        let is_heard = seen.unsent == unsent;
        let closing = if is_heard { told.closing } else { seen.choices.closing };
        seen.choices = Choices { closing, ..told };
        seen.unsent = seen.unsent.filter(|_| !is_heard);
    });
    Ok(())
}

/// Has the daemon write down what was chosen; `None` where nothing was.
pub(crate) async fn write(client: &Client, unsent: Option<Closing>) -> Option<anyhow::Result<()>> {
    Some(client.change(SETTINGS, &unsent?.change()).await)
}

/// Changes what is seen, and wakes those who look only if something is new.
pub(crate) fn change(seen: &watch::Sender<Seen>, change: impl FnOnce(&mut Seen)) {
    seen.send_if_modified(|seen| {
        let before = seen.clone();
        change(seen);
        *seen != before
    });
}

#[cfg(test)]
mod tests;
