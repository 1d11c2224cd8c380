//! The shell: the state that the window, the tray and the daemon share, and the actions of more than one of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cairn_wire::app::{DesktopPlaces, SettingsResponse};
use tauri::{AppHandle, Manager};
use tauri_plugin_autostart::ManagerExt;
use tauri_plugin_opener::OpenerExt;
use tokio::sync::watch;

use crate::choices::{CloseAction, SETTINGS, WindowSettings};
use crate::client::Client;
use crate::clipboard::Clipboard;
use crate::follow;
use crate::seen::{Daemon, ShellState};
use crate::words::Language;

/// Timeout for the daemon's response to the stop request.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout for reading the settings while a window closes.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(1);

/// State that the parts of the app share.
pub(crate) struct Shell {
    places: Option<DesktopPlaces>,
    pub(crate) state: Arc<watch::Sender<ShellState>>,
    pub(crate) clipboard: Clipboard,
}

impl Shell {
    pub(crate) fn new(places: Option<DesktopPlaces>) -> Self {
        let language = Language::of(&sys_locale::get_locale().unwrap_or_default());
        let state = Arc::new(watch::Sender::new(ShellState::new(language)));
        Self { places, state, clipboard: Clipboard::default() }
    }

    /// Returns the shell of the app.
    pub(crate) fn of(app: &AppHandle) -> tauri::State<'_, Self> {
        app.state()
    }

    pub(crate) fn state(&self) -> ShellState {
        self.state.borrow().clone()
    }

    /// Subscribes to changes of the state.
    pub(crate) fn subscribe(&self) -> watch::Receiver<ShellState> {
        self.state.subscribe()
    }

    pub(crate) fn set_language(&self, language: Language) {
        follow::update(&self.state, |state| state.language = language);
    }

    /// Reads the action for closing the window from the daemon's settings. Uses the last value if the daemon does not
    /// answer.
    pub(crate) async fn current_close_action(&self) -> CloseAction {
        let ShellState { settings, unsent, .. } = self.state();
        let Some(client) = self.client().filter(|_| unsent.is_none()) else { return settings.close_action };
        match tokio::time::timeout(SETTINGS_TIMEOUT, client.get::<SettingsResponse>(SETTINGS)).await {
            Ok(Ok(table)) => WindowSettings::of(&table).close_action,
            Ok(Err(_)) | Err(_) => settings.close_action,
        }
    }

    /// Sets the action for closing the window. It applies at once in the app, and is then stored in the daemon's
    /// settings.
    pub(crate) fn set_close_action(&self, close_action: CloseAction) {
        follow::update(&self.state, |state| {
            state.settings.close_action = close_action;
            state.unsent = Some(close_action);
        });
    }

    /// Returns a client of the daemon; `None` if the daemon does not run.
    pub(crate) fn client(&self) -> Option<Client> {
        match &self.state.borrow().daemon {
            Daemon::Running(server) => Client::new(server.clone()).ok(),
            Daemon::Starting | Daemon::Unavailable(_) => None,
        }
    }
}

/// Turns the start at login on or off.
///
/// # Errors
/// The system refuses the change.
pub(crate) fn set_autostart(app: &AppHandle, on: bool) -> anyhow::Result<()> {
    let autostart = app.autolaunch();
    if on { autostart.enable() } else { autostart.disable() }.context("cannot change the start at login")?;
    follow::update(&Shell::of(app).state, |state| state.autostart = on);
    Ok(())
}

/// Shows the folder with the daemon's log.
///
/// # Errors
/// The folder is unknown, or the system cannot show folders.
pub(crate) fn open_logs(app: &AppHandle) -> anyhow::Result<()> {
    let shell = Shell::of(app);
    let places = shell.places.as_ref().context("cannot find the log: cairn did not report its path")?;
    let folder = std::path::Path::new(&places.log_file).parent().context("the path of the log has no folder")?;
    Ok(app.opener().open_path(folder.display().to_string(), None::<&str>)?)
}

/// Stores an unsent choice, shuts the daemon down, and ends the app. Downloads resume at the daemon's next start.
pub(crate) fn quit(app: &AppHandle) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let shell = Shell::of(&app);
        if let Some(client) = shell.client() {
            let unsent = shell.state().unsent;
            let stop = async {
                if let Some(Err(error)) = follow::send_unsent(&client, unsent).await {
                    eprintln!("cannot store the action for closing the window: {error:#}");
                }
                client.post("/app/stop", &()).await
            };
            // A failure is ignored, because an idle daemon shuts down anyway.
            let _ = tokio::time::timeout(STOP_TIMEOUT, stop).await;
        }
        app.exit(0);
    });
}
