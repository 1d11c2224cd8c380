//! Actions of the tray menu: requests to the daemon, and actions on the window.

use std::time::Duration;

use cairn_wire::KeepAlive;
use cairn_wire::app::DownloadChoice;
use cairn_wire::ollama::GenerateRequest;
use tauri::AppHandle;

use super::menu::Action;
use crate::choices::CloseAction;
use crate::shell::{self, Shell};
use crate::window;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs an action. Errors are only logged; after a failure the tray shows the unchanged state.
pub(super) fn act(app: &AppHandle, action: Action) {
    match action {
        Action::Open(route) => window::show(app, route),
        Action::Pause(ids) => choose(app, "/app/downloads/pause", ids),
        Action::Resume(ids) => choose(app, "/app/downloads/resume", ids),
        Action::Unload(model) => keep(app, model, KeepAlive::ZERO),
        Action::KeepHour(model) => keep(app, model, KeepAlive::For(HOUR)),
        Action::Keep(model) => keep(app, model, KeepAlive::Forever),
        Action::Copy(text) => log_error(Shell::of(app).clipboard.copy(&text)),
        Action::Autostart => {
            let on = Shell::of(app).state().autostart;
            log_error(shell::set_autostart(app, !on));
        }
        Action::CloseToTray => {
            let quits = Shell::of(app).state().settings.close_action == CloseAction::Quit;
            Shell::of(app).set_close_action(if quits { CloseAction::Tray } else { CloseAction::Quit });
        }
        Action::Logs => log_error(shell::open_logs(app)),
        Action::Quit => shell::quit(app),
    }
}

fn choose(app: &AppHandle, path: &'static str, ids: Vec<u64>) {
    let client = Shell::of(app).client();
    tauri::async_runtime::spawn(async move {
        let Some(client) = client else { return };
        for id in ids {
            log_error(client.post(path, &DownloadChoice { download: id.to_string() }).await);
        }
    });
}

fn keep(app: &AppHandle, model: String, keep_alive: KeepAlive) {
    let client = Shell::of(app).client();
    tauri::async_runtime::spawn(async move {
        let Some(client) = client else { return };
        // A request without a prompt only sets the keep-alive.
        let request = GenerateRequest { model, keep_alive: Some(keep_alive), ..Default::default() };
        log_error(client.post("/api/generate", &request).await);
    });
}

fn log_error(result: anyhow::Result<()>) {
    if let Err(error) = result {
        eprintln!("{error:#}");
    }
}
