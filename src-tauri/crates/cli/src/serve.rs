//! `cairn serve`: the daemon.
//!
//! It holds `run/daemon.lock` for as long as it lives and says in `run/daemon.json` how to reach it. It ends on a signal,
//! on `/app/stop`, and, when a client started it, after a while without clients or work: it stops accepting, ends what
//! runs, and is gone after [`FLUSH_WITHIN`] at the latest. A second signal ends it at once.

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
use cairn_app::settings::Origin;
use cairn_app::{App, VERSION};
use cairn_disk::{Disk, Lock, LockError, Mode, RealDisk};
use cairn_hardware::Machine;
use cairn_http::{Activity, Server, Token};
use cairn_wire::Timestamp;
use cairn_wire::app::DaemonFile;
use tokio::runtime::Runtime;

use crate::{Setting, args, log};

/// A daemon that a client started ends after this long without clients or work.
const IDLE_END: Duration = Duration::from_secs(600);
/// Between two looks whether anybody is there.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Looks at a lock that somebody holds, before that somebody is a daemon.
const LOCK_TRIES: u32 = 20;
/// Between two of them.
const LOCK_AGAIN: Duration = Duration::from_millis(10);
/// Answers that run have this long to end.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn serve(setting: Setting, runtime: &Runtime, args: &args::Serve) -> anyhow::Result<ExitCode> {
    if args.detached {
        leave_starter();
    }
    log::start(&setting, !args.detached);
    let served = runtime.block_on(run(setting, args.detached));
    if args.detached
        && let Err(error) = &served
    {
        // Whoever started it reads the log, and nobody reads its standard error.
        tracing::error!("{}", crate::one_line(error));
    }
    served.map(|()| ExitCode::SUCCESS)
}

async fn run(setting: Setting, detached: bool) -> anyhow::Result<()> {
    let Setting { clock, places, settings, host_name, home: _ } = setting;
    RealDisk.create_dir_all(&places.runtime).with_context(|| "the daemon needs this folder; CAIRN_HOME moves it")?;
    let _lock = take_lock(&places.daemon_lock()).await?;
    let chosen = settings.origin("OLLAMA_HOST") != Some(Origin::Default);
    let open_files = connections::raise_open_files();
    let (listener, moved) = listen::bind(&settings.server.address, chosen).await?;
    let address = listener.local_addr().context("the listener has no address")?;
    if moved {
        tracing::warn!("port {} is taken by another program", settings.server.address.port);
    }
    let token = random_hex()?;
    let pid = std::process::id();
    let seed = u64::from_str_radix(&random_hex()?[..16], 16).expect("sixteen hex digits are 64 bits");
    let app = App::start(settings, Machine::probe(), clock.clone(), seed)?;
    let activity = Activity::new(Instant::now());
    let server = Server::new(app.clone(), activity.clone(), vec![address], Token::new(&token), pid, host_name.clone());
    let file = DaemonFile {
        pid,
        started_at: Timestamp(clock.now()),
        addresses: vec![address.to_string()],
        version: VERSION.to_owned(),
        token,
    };
    let bytes = serde_json::to_vec_pretty(&file).expect("our own types have string keys");
    tell(&places.daemon_file(), &bytes)?;
    tracing::info!(version = VERSION, %address, log = %places.log_file().display(), "Cairn listens");

    signals::watch(server.clone());
    tokio::spawn(count_downloads(server.clone()));
    open_lan(&app, host_name.as_deref(), address).await;
    if detached {
        let server = server.clone();
        tokio::spawn(async move {
            idle(server.activity(), IDLE_END, LOOK_EVERY).await;
            tracing::info!("nobody has needed the daemon for {IDLE_END:?}");
            server.stop();
        });
    }
    let limits = connections::Limits::of(open_files, &app.settings().at_start().sharing.trusted_proxies);
    let asked = server.clone();
    let stopping = async move { asked.stopping().await };
    let serving = connections::serve(listener, cairn_http::router(server.clone()), limits, stopping);
    let deadline = async {
        server.stopping().await;
        tokio::time::sleep(FLUSH_WITHIN).await;
    };
    let serving = async {
        tokio::select! {
            () = serving => {}
            () = deadline => tracing::warn!("some answers did not end in time"),
        }
    };
    // However soon serving ends: where nobody is connected, that is at once.
    let ending = async {
        server.stopping().await;
        tracing::info!("Cairn ends");
        app.shutdown();
        // Tells those who wait for a model that the daemon ends, so that their answers do.
        rest(&app).await;
        app.transfers().close_lan().await;
    };
    tokio::join!(serving, ending);
    // Here, and on none of the threads that work is shared out to: all of those may be waiting.
    app.cache().close();
    // A file that stays as it is does no harm: the lock tells.
    if let Err(error) = write_over(&places.daemon_file(), |bytes| vec![b' '; bytes]) {
        tracing::debug!(%error, "daemon.json stays as it is");
    }
    Ok(())
}

/// Writes how to reach this daemon. On a full disk the file of the last one is written over in its place: without a daemon nothing could
/// be deleted.
fn tell(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let Err(error) = RealDisk.write_atomic(path, bytes, Mode::Private) else { return Ok(()) };
    if error.source.kind() != io::ErrorKind::StorageFull {
        return Err(error.into());
    }
    write_over(path, |_| bytes.to_vec()).map_err(|_| error).context("the daemon needs a few bytes of room")
}

/// Writes over a file in its place, with what becomes of its length. It keeps its room all the time, so that this works on a full disk:
/// for that, a daemon that ends leaves blanks where it said how to reach it.
fn write_over(path: &Path, contents: impl FnOnce(usize) -> Vec<u8>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let bytes = contents(usize::try_from(file.metadata()?.len()).unwrap_or_default());
    file.write_all(&bytes)?;
    file.set_len(bytes.len() as u64)
}

/// Watches the local network, if this machine's user shares models. The daemon does without where that does not work.
async fn open_lan(app: &App, host_name: Option<&str>, address: SocketAddr) {
    match app.transfers().open_lan(host_name.unwrap_or("a machine without a name"), &[address]).await {
        Ok(true) => tracing::info!("this machine is announced on the local network, and looks for others there"),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "other machines of the local network are not found"),
    }
}

/// The daemon's lock. A client that looks whether a daemon lives holds it for a moment, which is no daemon.
async fn take_lock(path: &Path) -> anyhow::Result<Lock> {
    for _ in 0..LOCK_TRIES {
        match Lock::try_acquire(path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held(_)) => tokio::time::sleep(LOCK_AGAIN).await,
            Err(error) => return Err(error).context("the daemon needs its lock; CAIRN_HOME moves it"),
        }
    }
    bail!("Cairn's daemon runs already; `cairn stop --daemon` ends it")
}

/// Returns when nobody has been there for `limit`.
async fn idle(activity: &Activity, limit: Duration, look_every: Duration) {
    while activity.idle(Instant::now()) < limit {
        tokio::time::sleep(look_every).await;
    }
}

/// Lets downloads put away what came, for the next daemon to go on with. What a slow disk does not take in time is fetched
/// again.
async fn rest(app: &App) {
    if tokio::time::timeout(FLUSH_WITHIN, app.transfers().close()).await.is_err() {
        tracing::warn!("some downloads did not end in time");
    }
}

/// A model that comes is work, whether or not a client waits for it.
async fn count_downloads(server: Server) {
    let mut working = server.app().transfers().working();
    // The sender lives as long as the server.
    while working.wait_for(|working| *working > 0).await.is_ok() {
        let busy = server.activity().begin();
        let _ = working.wait_for(|working| *working == 0).await;
        drop(busy);
    }
}

/// Leaves the terminal of the client that started this, so that its Ctrl-C and its end do not reach here, and its folder,
/// which must stay removable.
fn leave_starter() {
    if let Err(error) = std::env::set_current_dir(std::env::temp_dir()) {
        eprintln!("the daemon stays in its starter's folder: {error}");
    }
    #[cfg(unix)]
    if let Err(error) = rustix::process::setsid() {
        eprintln!("the daemon stays in its starter's session: {error}");
    }
}

/// 128 random bits.
fn random_hex() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn idle_is_when_nobody_has_been_there_for_a_while() {
        const LIMIT: Duration = Duration::from_millis(50);
        let activity = Activity::new(Instant::now());
        let somebody = activity.begin();
        let ends = |activity: Activity| async move { idle(&activity, LIMIT, LIMIT / 10).await };
        let early = tokio::time::timeout(LIMIT * 4, ends(activity.clone())).await;
        assert!(early.is_err(), "somebody is there");
        drop(somebody);
        let left = Instant::now();
        tokio::time::timeout(LIMIT * 100, ends(activity)).await.expect("nobody is there any more");
        assert!(left.elapsed() >= LIMIT, "the time counts from the end of the last request, not from the start");
    }

    #[tokio::test]
    async fn a_client_that_looks_at_the_lock_keeps_no_daemon_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        let looking = Lock::try_acquire(&path).unwrap();
        let (taken, ()) = tokio::join!(take_lock(&path), async {
            tokio::time::sleep(LOCK_AGAIN * 2).await;
            drop(looking);
        });
        let _daemon = taken.expect("the client was there for a moment only");
        let error = take_lock(&path).await.expect_err("a daemon stays").to_string();
        assert!(error.contains("runs already"), "{error}");
    }
}
