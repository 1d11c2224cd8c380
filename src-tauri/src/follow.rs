//! Follows the daemon: keeps [`Seen`] as its events tell, and looks for it anew when the connection breaks.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use cairn_wire::app::{DesktopServer, Download, DownloadsResponse};
use cairn_wire::ollama::PsResponse;
use tokio::sync::watch;

use crate::client::Client;
use crate::news::{self, News};
use crate::seen::{Daemon, LoadedModel, Seen};
use crate::sidecar::{self, Asked};

/// Between two looks at the models in memory, which come and go without an event.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// After the connection broke, before the daemon is looked for. Whoever stopped it on purpose sees it end first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses; each is twice the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Follows the daemon for as long as somebody looks at what is seen. `first` is the `cairn` that was started already.
pub(crate) async fn follow(
    first: anyhow::Result<Asked>,
    seen: &watch::Sender<Seen>,
    heard: impl Fn(Vec<News>) + Send + Sync,
) {
    let mut first = Some(first);
    let mut pause = FIRST_PAUSE;
    while !seen.is_closed() {
        let began = Instant::now();
        let ended = match find(first.take()).await {
            Ok(server) => attend(server, seen, &heard).await.err(),
            Err(error) => Some(error),
        };
        let daemon = ended.map_or(Daemon::Starting, |error| Daemon::Gone(format!("{error:#}")));
        seen.send_modify(|seen| *seen = Seen { daemon, downloads: Vec::new(), models: Vec::new(), ..seen.clone() });
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
    seen.send_modify(|seen| seen.daemon = Daemon::Here(server));
    let mut known: Option<Vec<Download>> = None;
    let mut looks = tokio::time::interval(BETWEEN_LOOKS);
    loop {
        tokio::select! {
            list = lists.next::<DownloadsResponse>() => {
                let Some(DownloadsResponse { downloads, .. }) = list? else { return Ok(()) };
                if let Some(before) = known.replace(downloads.clone()) {
                    heard(news::between(&before, &downloads));
                }
                change(seen, |seen| seen.downloads = downloads);
            }
            _ = looks.tick() => {
                let loaded: PsResponse = client.get("/api/ps").await?;
                let models = loaded.models.into_iter();
                let models = models.map(|model| LoadedModel { name: model.name, size_bytes: model.size }).collect();
                change(seen, |seen| seen.models = models);
            }
        }
    }
}

/// Changes what is seen, and wakes those who look only if something is new.
pub(crate) fn change(seen: &watch::Sender<Seen>, change: impl FnOnce(&mut Seen)) {
    seen.send_if_modified(|seen| {
        let before = seen.clone();
        change(seen);
        *seen != before
    });
}
