//! Start of the app: connects the window, the tray, the commands and the daemon.

use anyhow::Context;
use cairn_disk::{Disk, RealDisk};
use cairn_wire::app::DesktopPlaces;
use tauri::{AppHandle, Manager, RunEvent};
use tauri_plugin_autostart::{MacosLauncher, ManagerExt};
use tauri_plugin_deep_link::DeepLinkExt;
use tauri_plugin_notification::NotificationExt;

use crate::news::DownloadOutcome;
use crate::seen::ShellState;
use crate::shell::Shell;
use crate::sidecar::CairnProcess;
use crate::words::fill;
use crate::{HIDDEN, again, commands, follow, link, tray, update, window};

/// Name of the plugin that detects a running app.
const SINGLE_INSTANCE: &str = "single-instance";

/// Parameters of the app's start.
pub(crate) struct Start {
    /// Show only the tray icon.
    pub(crate) hidden: bool,
    /// The daemon's folders; `None` if `cairn` failed.
    pub(crate) places: Option<DesktopPlaces>,
    /// The `cairn` process that connects to the daemon or starts it.
    pub(crate) pending: anyhow::Result<CairnProcess>,
}

/// Runs the app until the user quits.
///
/// # Errors
/// The window system cannot be used.
pub(crate) fn run(start: Start) -> anyhow::Result<()> {
    let Start { hidden, places, pending } = start;
    let app = match build(places) {
        // The running app was killed while this one sent it a message. Restart, now without a running app.
        Err(tauri::Error::PluginInitialization(name, reason)) if name == SINGLE_INSTANCE => {
            // Wait for the `cairn` process to end first.
            drop(pending.and_then(CairnProcess::server));
            return Err(again::restart(&reason));
        }
        built => built.context("cannot use the window system")?,
    };
    set_up(app.handle(), hidden, pending);
    app.run(|app, event| match event {
        // Without a window the tray icon stays; only `quit` ends the app.
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
        // Must be the first plugin: a second start sends its arguments to the running app and ends here.
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
            // An absolute path overrides the plugin's own folder.
            builder = builder.with_filename(folder.join("window.json").display().to_string());
        }
    }
    builder.build()
}

fn set_up(app: &AppHandle, hidden: bool, pending: anyhow::Result<CairnProcess>) {
    let shell = Shell::of(app);
    let autostart = app.autolaunch().is_enabled().unwrap_or(false);
    follow::update(&shell.state, |state| state.autostart = autostart);
    let (state, handle) = (shell.state.clone(), app.clone());
    tauri::async_runtime::spawn(async move {
        follow::follow(pending, &state, |outcomes| notify_in_background(&handle, outcomes)).await;
    });
    let has_tray = match tray::create(app, shell.subscribe()) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("cannot create the tray icon: {error:#}");
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
        window::open_or_report(app, route.as_deref());
    }
}

/// Shows notifications from their own thread, because without a notification service the call blocks for a while.
fn notify_in_background(app: &AppHandle, outcomes: Vec<DownloadOutcome>) {
    if !outcomes.is_empty() {
        let app = app.clone();
        std::thread::spawn(move || notify(&app, outcomes));
    }
}

fn notify(app: &AppHandle, outcomes: Vec<DownloadOutcome>) {
    let ShellState { settings, language, .. } = Shell::of(app).state();
    // A focused window already shows the outcome.
    let is_focused = app.get_webview_window(window::LABEL).is_some_and(|window| window.is_focused().unwrap_or(false));
    if is_focused || !settings.notify {
        return;
    }
    let words = language.words();
    for outcome in outcomes {
        let (title, body) = match outcome {
            DownloadOutcome::Finished { model } => {
                (fill(words.downloaded, &[("model", &model)]), words.downloaded_text.to_owned())
            }
            DownloadOutcome::Failed { model, reason } => (fill(words.download_failed, &[("model", &model)]), reason),
        };
        if let Err(error) = app.notification().builder().title(title).body(body).show() {
            eprintln!("cannot show a notification: {error}");
        }
    }
}
