//! The shell: what ties the window, the tray and the daemon together, and what they all ask of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cairn_disk::{Disk, RealDisk};
use cairn_wire::app::{DesktopPlaces, SettingsResponse};
use tauri::{AppHandle, Manager, RunEvent};
use tauri_plugin_autostart::{MacosLauncher, ManagerExt};
use tauri_plugin_deep_link::DeepLinkExt;
use tauri_plugin_notification::NotificationExt;
use tauri_plugin_opener::OpenerExt;
use tokio::sync::watch;

use crate::choices::{Choices, Closing, SETTINGS};
use crate::client::Client;
use crate::clipboard::Clipboard;
use crate::news::News;
use crate::seen::{Daemon, Seen};
use crate::sidecar::Asked;
use crate::words::{Language, fill};
use crate::{HIDDEN, again, commands, follow, link, tray, update, window};

/// How long the daemon may take to hear that it is to end.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// How long its settings may take while somebody waits for a window to close.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The plugin that finds an app that runs already.
const ONE_APP: &str = "single-instance";

/// What is known when the program starts.
pub(crate) struct Start {
    /// Only the tray is to be seen.
    pub(crate) hidden: bool,
    /// Where things are, if `cairn` could say so.
    pub(crate) places: Option<DesktopPlaces>,
    /// The `cairn` that finds the daemon or starts it.
    pub(crate) pending: anyhow::Result<Asked>,
}

/// What the parts share.
pub(crate) struct Shell {
    places: Option<DesktopPlaces>,
    seen: Arc<watch::Sender<Seen>>,
    pub(crate) clipboard: Clipboard,
}

impl Shell {
    fn new(places: Option<DesktopPlaces>) -> Self {
        let language = Language::of(&sys_locale::get_locale().unwrap_or_default());
        let seen = Arc::new(watch::Sender::new(Seen::at_start(language)));
        Self { places, seen, clipboard: Clipboard::default() }
    }

    /// The one of this app.
    pub(crate) fn of(app: &AppHandle) -> tauri::State<'_, Self> {
        app.state()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Sees what changes.
    pub(crate) fn look(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    pub(crate) fn speak(&self, language: Language) {
        follow::change(&self.seen, |seen| seen.language = language);
    }

    /// What closing the window does, as the daemon's settings have it at this moment; as they had it last where it does not answer.
    pub(crate) async fn closing(&self) -> Closing {
        let Seen { choices, unsent, .. } = self.seen();
        let Some(client) = self.client().filter(|_| unsent.is_none()) else { return choices.closing };
        match tokio::time::timeout(ANSWER_WITHIN, client.get::<SettingsResponse>(SETTINGS)).await {
            Ok(Ok(table)) => Choices::of(&table).closing,
            Ok(Err(_)) | Err(_) => choices.closing,
        }
    }

    /// Has closing the window do this: at once here, and for whoever reads the settings when the daemon has them.
    pub(crate) fn choose(&self, closing: Closing) {
        follow::change(&self.seen, |seen| {
            seen.choices.closing = closing;
            seen.unsent = Some(closing);
        });
    }

    /// A client of the daemon, while there is one.
    pub(crate) fn client(&self) -> Option<Client> {
        match &self.seen.borrow().daemon {
            Daemon::Here(server) => Client::new(server.clone()).ok(),
            Daemon::Starting | Daemon::Gone(_) => None,
        }
    }
}

/// Runs the app until its user quits.
///
/// # Errors
/// Why there can be no windows.
pub(crate) fn run(start: Start) -> anyhow::Result<()> {
    let Start { hidden, places, pending } = start;
    let app = match build(places) {
        // Another one was spoken to while it ended: it was killed, and is started again.
        Err(tauri::Error::PluginInitialization(name, why)) if name == ONE_APP => {
            // The `cairn` that was asked ends first.
            drop(pending.and_then(Asked::server));
            return Err(again::begin(&why));
        }
        built => built.context("the window system")?,
    };
    set_up(app.handle(), hidden, pending);
    app.run(|app, event| match event {
        // Without a window there is still the tray; only `quit` ends the app.
        RunEvent::ExitRequested { code: None, api, .. } => api.prevent_exit(),
        #[cfg(target_os = "macos")]
        RunEvent::Reopen { .. } => window::show(app, None),
        _ => {
            let _ = app;
        }
    });
    Ok(())
}

fn build(places: Option<DesktopPlaces>) -> tauri::Result<tauri::App> {
    let mut builder = tauri::Builder::default()
        // This one first: a second start hands its words over and ends here.
        .plugin(tauri_plugin_single_instance::init(|app, _, _| window::show(app, None)))
        .plugin(tauri_plugin_deep_link::init())
        .plugin(tauri_plugin_dialog::init())
        .plugin(tauri_plugin_notification::init())
        .plugin(tauri_plugin_opener::init())
        .plugin(tauri_plugin_autostart::init(MacosLauncher::LaunchAgent, Some(vec![HIDDEN])))
        .plugin(window_state(places.as_ref()));
    if update::signed().is_some() {
        builder = builder.plugin(tauri_plugin_updater::Builder::new().build());
    }
    builder
        .manage(Shell::new(places))
        .invoke_handler(commands::handler())
        .on_window_event(window::on_event)
        .build(tauri::generate_context!())
}

fn window_state(places: Option<&DesktopPlaces>) -> tauri::plugin::TauriPlugin<tauri::Wry> {
    let mut builder = tauri_plugin_window_state::Builder::default().with_state_flags(window::REMEMBERED);
    if let Some(places) = places {
        let folder = std::path::Path::new(&places.config_folder);
        if RealDisk.create_dir_all(folder).is_ok() {
            // An absolute path takes the place of the folder that the plugin would choose.
            builder = builder.with_filename(folder.join("window.json").display().to_string());
        }
    }
    builder.build()
}

fn set_up(app: &AppHandle, hidden: bool, pending: anyhow::Result<Asked>) {
    let shell = Shell::of(app);
    let autostart = app.autolaunch().is_enabled().unwrap_or(false);
    follow::change(&shell.seen, |seen| seen.autostart = autostart);
    let (seen, handle) = (shell.seen.clone(), app.clone());
    tauri::async_runtime::spawn(async move {
        follow::follow(pending, &seen, |news| tell(&handle, news)).await;
    });
    let has_tray = match tray::put_up(app, shell.look()) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("there is no tray icon: {error:#}");
            false
        }
    };
    let handle = app.clone();
    app.deep_link().on_open_url(move |event| {
        for url in event.urls() {
            if let Some(route) = link::route(url.as_str()) {
                window::show(&handle, Some(&route));
            }
        }
    });
    let links = app.deep_link().get_current().ok().flatten().unwrap_or_default();
    let route = links.iter().find_map(|url| link::route(url.as_str()));
    if !hidden || !has_tray {
        window::open_or_tell(app, route.as_deref());
    }
}

/// Tells news on a thread of its own: where nothing shows notifications, the system looks for something to show them for a while.
fn tell(app: &AppHandle, news: Vec<News>) {
    if !news.is_empty() {
        let app = app.clone();
        std::thread::spawn(move || notify(&app, news));
    }
}

fn notify(app: &AppHandle, news: Vec<News>) {
    let Seen { choices, language, .. } = Shell::of(app).seen();
    // Who looks at the window has seen it there.
    let looks = app.get_webview_window(window::LABEL).is_some_and(|window| window.is_focused().unwrap_or(false));
    if looks || !choices.notify {
        return;
    }
    let words = language.words();
    for news in news {
        let (title, body) = match news {
            News::Finished { model } => (fill(words.came, &[("model", &model)]), words.came_more.to_owned()),
            News::Failed { model, why } => (fill(words.trouble, &[("model", &model)]), why),
        };
        if let Err(error) = app.notification().builder().title(title).body(body).show() {
            eprintln!("a notification was not shown: {error}");
        }
    }
}

/// Has the app start with a login, or not.
///
/// # Errors
/// The system does not take it.
pub(crate) fn set_autostart(app: &AppHandle, on: bool) -> anyhow::Result<()> {
    let autostart = app.autolaunch();
    if on { autostart.enable() } else { autostart.disable() }.context("the system's list of programs that start")?;
    follow::change(&Shell::of(app).seen, |seen| seen.autostart = on);
    Ok(())
}

/// Shows the folder with the daemon's log.
///
/// # Errors
/// No folder is known, or nothing here shows folders.
pub(crate) fn open_logs(app: &AppHandle) -> anyhow::Result<()> {
    let shell = Shell::of(app);
    let places = shell.places.as_ref().context("where the log is was not said")?;
    let folder = std::path::Path::new(&places.log_file).parent().context("the log lies in a folder")?;
    Ok(app.opener().open_path(folder.display().to_string(), None::<&str>)?)
}

/// Ends the daemon, whose downloads go on at its next start, and then the app. What was chosen a moment ago is written down first.
pub(crate) fn quit(app: &AppHandle) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let shell = Shell::of(&app);
        if let Some(client) = shell.client() {
            let unsent = shell.seen().unsent;
            let told = async {
                if let Some(Err(error)) = follow::write(&client, unsent).await {
                    eprintln!("the choice is not remembered: {error:#}");
                }
                client.tell("/app/stop", &()).await
            };
            // A daemon that does not hear this ends by itself when nobody needs it.
            let _ = tokio::time::timeout(STOP_WITHIN, told).await;
        }
        app.exit(0);
    });
}
