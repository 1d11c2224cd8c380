//! `cairn serve`: the daemon.
//!
//! The daemon holds `run/daemon.lock` while it runs, and writes its address and token to `run/daemon.json`. It shuts
//! down on a signal and on `/app/stop`. A daemon that a client started also shuts down after [`IDLE_TIMEOUT`].
//!
//! Shutdown stops accepting connections, cancels all work, and takes at most [`SHUTDOWN_TIMEOUT`]. A second signal ends
//! the process at once.

mod connections;
mod listen;
mod signals;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cairn_app::documents::Extractor;
use cairn_app::secret::{SecretDigest, random_hex};
use cairn_app::settings::Origin;
use cairn_app::{App, Describe, VERSION};
use cairn_disk::{Disk, Lock, LockError, Mode, RealDisk};
use cairn_hardware::Machine;
use cairn_http::{Activity, Server};
use cairn_wire::Timestamp;
use cairn_wire::app::DaemonFile;
use tokio::runtime::Runtime;

use crate::{CliContext, args, log};

/// Random bytes of the daemon token.
const TOKEN_BYTES: usize = 16;
/// Time without clients or work after which a daemon that a client started shuts down.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Time between two checks for activity.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which free memory is returned to the system.
const RELEASE_INTERVAL: Duration = Duration::from_secs(20);
/// Attempts to take the lock before another daemon is assumed to hold it.
const LOCK_TRIES: u32 = 20;
/// Time between two attempts.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Time for running answers and downloads to end during shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn serve(cli: CliContext, runtime: &Runtime, args: &args::Serve) -> anyhow::Result<ExitCode> {
    cairn_hardware::limit_free_memory();
    if args.detached {
        detach_from_client();
    }
    log::start(&cli, !args.detached);
    let served = runtime.block_on(run(cli, args.detached));
    if args.detached
        && let Err(error) = &served
    {
        // The client shows the end of the log. Standard error is not read.
        tracing::error!("{}", crate::one_line(error));
    }
    served.map(|()| ExitCode::SUCCESS)
}

async fn run(cli: CliContext, detached: bool) -> anyhow::Result<()> {
    let CliContext { clock, places, settings, host_name, home: _ } = cli;
    RealDisk
        .create_dir_all(&places.runtime)
        .with_context(|| "the daemon needs this folder; set CAIRN_HOME to a writable folder")?;
    let _lock = take_lock(&places.daemon_lock()).await?;
    let is_configured = settings.origin("OLLAMA_HOST") != Some(Origin::Default);
    let open_files = connections::raise_open_files();
    let (listener, moved) = listen::bind(&settings.server.address, is_configured).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    if moved {
        tracing::warn!("port {} is taken by another program", settings.server.address.port);
    }
    let token = random_hex::<TOKEN_BYTES>()?;
    let pid = std::process::id();
    let seed = u64::from_str_radix(&random_hex::<8>()?, 16).expect("sixteen hex digits are 64 bits");
    let extractor = Extractor::of_cairn(std::env::current_exe().context("cannot get the path of this program")?);
    let describe = Describe { chats: cairn_http::chat_error, collections: cairn_http::collection_error };
    let app = App::start(settings, Machine::probe(), clock.clone(), seed, describe, extractor)?;
    let activity = Activity::new(Instant::now());
    let server =
        Server::new(app.clone(), activity.clone(), vec![address], SecretDigest::of(&token), pid, host_name.clone());
    let file = DaemonFile {
        pid,
        started_at: Timestamp(clock.now()),
        addresses: vec![address.to_string()],
        version: VERSION.to_owned(),
        token,
    };
    let bytes = serde_json::to_vec_pretty(&file).expect("our own types have string keys");
    write_daemon_file(&places.daemon_file(), &bytes)?;
    tracing::info!(version = VERSION, %address, log = %places.log_file().display(), "Cairn listens");

    signals::watch(server.clone());
    tokio::spawn(count_downloads(server.clone()));
    tokio::spawn(release_free_memory());
    open_lan(&app, host_name.as_deref(), address).await;
    if detached {
        let server = server.clone();
        tokio::spawn(async move {
            wait_until_idle(server.activity(), IDLE_TIMEOUT, IDLE_CHECK_INTERVAL).await;
            tracing::info!("shutting down after {IDLE_TIMEOUT:?} without clients or work");
            server.stop();
        });
    }
    let limits = connections::Limits::of(open_files, &app.settings().at_start().sharing.trusted_proxies);
    let stopper = server.clone();
    let stopping = async move { stopper.stopping().await };
    let serving = connections::serve(listener, cairn_http::router(server.clone()), limits, stopping);
    let deadline = async {
        server.stopping().await;
        tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
    };
    let serving = async {
        tokio::select! {
            () = serving => {}
            () = deadline => tracing::warn!("some answers did not end within {SHUTDOWN_TIMEOUT:?}"),
        }
    };
    // Runs to its end even if `serving` ends at once, which it does without connections.
    let ending = async {
        server.stopping().await;
        tracing::info!("Cairn is shutting down");
        app.shutdown();
        // Requests that wait for a pull end with it.
        close_transfers(&app).await;
        app.transfers().close_lan().await;
    };
    tokio::join!(serving, ending);
    // Blocks this thread on purpose: all worker threads may be busy.
    app.cache().close();
    app.chats().close();
    app.collections().close();
    app.keys().save_uses();
    // A stale file is harmless, because clients check the lock.
    if let Err(error) = overwrite(&places.daemon_file(), |bytes| vec![b' '; bytes]) {
        tracing::debug!(%error, "cannot clear daemon.json");
    }
    Ok(())
}

/// Returns memory that large requests and unloaded models have freed to the system, now and then.
async fn release_free_memory() {
    loop {
        tokio::time::sleep(RELEASE_INTERVAL).await;
        if let Err(error) = tokio::task::spawn_blocking(cairn_hardware::release_free_memory).await {
            tracing::debug!(%error, "free memory was not released");
        }
    }
}

/// Writes the address and token of this daemon. On a full disk, overwrites the previous daemon's file in place, because
/// the user needs a daemon to delete models.
fn write_daemon_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let Err(error) = RealDisk.write_atomic(path, bytes, Mode::Private) else { return Ok(()) };
    if error.source.kind() != io::ErrorKind::StorageFull {
        return Err(error.into());
    }
    overwrite(path, |_| bytes.to_vec()).map_err(|_| error).context("the daemon needs a few bytes of disk space")
}

/// Overwrites a file in place with `contents`, which gets the file's length in bytes.
///
/// The file keeps its disk space, so this works on a full disk. For that reason a daemon fills its file with blanks
/// when it ends, instead of removing it.
fn overwrite(path: &Path, contents: impl FnOnce(usize) -> Vec<u8>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let bytes = contents(usize::try_from(file.metadata()?.len()).unwrap_or_default());
    file.write_all(&bytes)?;
    file.set_len(bytes.len() as u64)
}

/// Announces this machine and discovers peers on the local network, if sharing is on. A failure is only logged.
async fn open_lan(app: &App, host_name: Option<&str>, address: SocketAddr) {
    match app.transfers().open_lan(host_name.unwrap_or("unnamed machine"), &[address]).await {
        Ok(true) => tracing::info!("peer discovery is on: this machine is announced on the local network"),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "cannot discover peers on the local network"),
    }
}

/// Takes the daemon's lock. Retries, because a client that checks for a daemon holds the lock for a moment.
async fn take_lock(path: &Path) -> anyhow::Result<Lock> {
    for _ in 0..LOCK_TRIES {
        match Lock::try_acquire(path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held(_)) => tokio::time::sleep(LOCK_RETRY_INTERVAL).await,
            Err(error) => return Err(error).context("cannot take the daemon's lock; CAIRN_HOME sets its folder"),
        }
    }
    bail!("Cairn's daemon runs already; `cairn stop --daemon` stops it")
}

/// Returns when there were no clients and no work for `limit`.
async fn wait_until_idle(activity: &Activity, limit: Duration, check_interval: Duration) {
    while activity.idle(Instant::now()) < limit {
        tokio::time::sleep(check_interval).await;
    }
}

/// Stops downloads and flushes their data, so that the next daemon can resume them. Data that a slow disk does not take
/// within [`SHUTDOWN_TIMEOUT`] is downloaded again.
async fn close_transfers(app: &App) {
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, app.transfers().close()).await.is_err() {
        tracing::warn!("some downloads did not end within {SHUTDOWN_TIMEOUT:?}");
    }
}

/// Counts running downloads as activity, with or without a waiting client.
async fn count_downloads(server: Server) {
    let mut working = server.app().transfers().working();
    // The sender lives as long as the server.
    while working.wait_for(|working| *working > 0).await.is_ok() {
        let busy = server.activity().begin();
        let _ = working.wait_for(|working| *working == 0).await;
        drop(busy);
    }
}

/// Detaches from the client that started this daemon: from its terminal session, whose signals must not reach the
/// daemon, and from its working folder, which must stay removable.
fn detach_from_client() {
    if let Err(error) = std::env::set_current_dir(std::env::temp_dir()) {
        eprintln!("cannot leave the working folder of the client: {error}");
    }
    #[cfg(unix)]
    if let Err(error) = rustix::process::setsid() {
        eprintln!("cannot leave the terminal session of the client: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn idle_time_counts_from_end_of_last_request() {
        const LIMIT: Duration = Duration::from_millis(50);
        let activity = Activity::new(Instant::now());
        let request = activity.begin();
        let idle = |activity: Activity| async move { wait_until_idle(&activity, LIMIT, LIMIT / 10).await };
        let early = tokio::time::timeout(LIMIT * 4, idle(activity.clone())).await;
        assert!(early.is_err(), "a request is active");
        drop(request);
        let left = Instant::now();
        tokio::time::timeout(LIMIT * 100, idle(activity)).await.expect("no request is active");
        assert!(left.elapsed() >= LIMIT, "the time counts from the end of the last request, not from the start");
    }

    #[tokio::test]
    async fn daemon_takes_lock_after_client_check() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        let client = Lock::try_acquire(&path).unwrap();
        let (taken, ()) = tokio::join!(take_lock(&path), async {
            tokio::time::sleep(LOCK_RETRY_INTERVAL * 2).await;
            drop(client);
        });
        let _daemon = taken.expect("the client releases the lock");
        let error = take_lock(&path).await.expect_err("the daemon holds the lock").to_string();
        assert!(error.contains("runs already"), "{error}");
    }
}
