//! Signals that end the daemon. The first one shuts it down in order; the second one exits at once.

use cairn_http::Server;

/// Exit code that shells report for a program ended by Ctrl-C.
const EXIT_CODE: i32 = 130;

/// Watches for signals for as long as the daemon runs.
pub(super) fn watch(server: Server) {
    tokio::spawn(async move {
        let Ok(mut signals) = Signals::new() else {
            tracing::error!("cannot register signal handlers");
            return;
        };
        signals.next().await;
        server.stop();
        signals.next().await;
        std::process::exit(EXIT_CODE);
    });
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(windows)]
struct Signals {
    ctrl_c: tokio::signal::windows::CtrlC,
    close: tokio::signal::windows::CtrlClose,
}

#[cfg(windows)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { ctrl_c: tokio::signal::windows::ctrl_c()?, close: tokio::signal::windows::ctrl_close()? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.close.recv() => {}
        }
    }
}
