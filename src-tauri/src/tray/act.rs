//! What the rows of the tray's menu do: each is a request to the daemon, as the page and `cairn` make it, or something about the
//! window.

use std::time::Duration;

use cairn_wire::KeepAlive;
use cairn_wire::app::DownloadChoice;
use cairn_wire::ollama::GenerateRequest;
use tauri::AppHandle;

use super::menu::Action;
use crate::choices::Closing;
use crate::shell::{self, Shell};
use crate::window;

const HOUR: Duration = Duration::from_secs(3600);

/// Does it. What fails is told by the state that stays as it was, and in the daemon's log.
pub(super) fn act(app: &AppHandle, action: Action) {
    match action {
        Action::Open(route) => window::show(app, route),
        Action::Pause(ids) => choose(app, "/app/downloads/pause", ids),
        Action::Resume(ids) => choose(app, "/app/downloads/resume", ids),
        Action::Unload(model) => keep(app, model, KeepAlive::ZERO),
        Action::KeepHour(model) => keep(app, model, KeepAlive::For(HOUR)),
        Action::Keep(model) => keep(app, model, KeepAlive::Forever),
        Action::Copy(text) => told(Shell::of(app).clipboard.copy(&text)),
        Action::Autostart => {
            let on = Shell::of(app).seen().autostart;
            told(shell::set_autostart(app, !on));
        }
        Action::CloseToTray => {
            let quits = Shell::of(app).seen().choices.closing == Closing::Quit;
            Shell::of(app).choose(if quits { Closing::Tray } else { Closing::Quit });
        }
        Action::Logs => told(shell::open_logs(app)),
        Action::Quit => shell::quit(app),
    }
}

fn choose(app: &AppHandle, path: &'static str, ids: Vec<u64>) {
    let client = Shell::of(app).client();
    tauri::async_runtime::spawn(async move {
        let Some(client) = client else { return };
        for id in ids {
            told(client.tell(path, &DownloadChoice { download: id.to_string() }).await);
        }
    });
}

fn keep(app: &AppHandle, model: String, keep_alive: KeepAlive) {
    let client = Shell::of(app).client();
    tauri::async_runtime::spawn(async move {
        let Some(client) = client else { return };
        // A request without a prompt only says how long the model stays.
        let request = GenerateRequest { model, keep_alive: Some(keep_alive), ..Default::default() };
        told(client.tell("/api/generate", &request).await);
    });
}

fn told(done: anyhow::Result<()>) {
    if let Err(error) = done {
        eprintln!("{error:#}");
    }
}
