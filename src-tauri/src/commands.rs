//! What a page may ask of the window: a dozen commands at most, and only for what a browser cannot do. All else is HTTP.
//!
//! A command needs its name in `build.rs` and its permission in `capabilities/main.json`; the test here looks at both.

use cairn_disk::{Disk, Mode, RealDisk};
use cairn_wire::app::DesktopServer;
use serde::{Deserialize, Serialize};
use tauri::ipc::Invoke;
use tauri::{AppHandle, Url, Wry};
use tauri_plugin_dialog::{DialogExt, FilePath};
use tauri_plugin_opener::OpenerExt;
use tokio::sync::oneshot;

use crate::seen::Daemon;
use crate::shell::{self, Shell};
use crate::update;
use crate::words::Language;

/// Addresses that may be opened outside.
const OUTSIDE: &[&str] = &["http", "https", "mailto"];

/// All of them.
pub(crate) fn handler() -> impl Fn(Invoke<Wry>) -> bool + Send + Sync + 'static {
    tauri::generate_handler![
        server,
        open_external,
        pick_folder,
        pick_files,
        save_text,
        open_logs,
        window_choices,
        set_window_choices,
        set_language,
        update
    ]
}

/// A failure, as the page hears it.
type Told<T> = Result<T, String>;

fn told(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}

/// Where the daemon is, once that is known.
#[tauri::command]
async fn server(app: AppHandle) -> Told<DesktopServer> {
    let mut seen = Shell::of(&app).look();
    let seen = seen.wait_for(|seen| seen.daemon != Daemon::Starting).await.map_err(told)?;
    match &seen.daemon {
        Daemon::Here(server) => Ok(server.clone()),
        Daemon::Gone(why) => Err(why.clone()),
        Daemon::Starting => Err("the daemon is being started".into()),
    }
}

/// Opens a page in the user's browser.
#[tauri::command]
fn open_external(app: AppHandle, url: &str) -> Told<()> {
    let parsed = Url::parse(url).map_err(told)?;
    if !OUTSIDE.contains(&parsed.scheme()) {
        return Err(format!("{}: is not opened from here", parsed.scheme()));
    }
    app.opener().open_url(parsed.as_str(), None::<&str>).map_err(told)
}

/// Lets the user choose a folder.
#[tauri::command]
async fn pick_folder(app: AppHandle, title: String) -> Told<Option<String>> {
    let (answer, chosen) = oneshot::channel();
    app.dialog().file().set_title(title).pick_folder(|folder| drop(answer.send(folder)));
    chosen.await.map_err(told)?.map(path).transpose()
}

/// Lets the user choose files whose names end so.
#[tauri::command]
async fn pick_files(app: AppHandle, title: String, extensions: Vec<String>) -> Told<Vec<String>> {
    let (answer, chosen) = oneshot::channel();
    let extensions: Vec<&str> = extensions.iter().map(String::as_str).collect();
    let dialog = app.dialog().file().add_filter(&title, &extensions).set_title(title);
    dialog.pick_files(|files| drop(answer.send(files)));
    chosen.await.map_err(told)?.unwrap_or_default().into_iter().map(path).collect()
}

/// Writes text to a file that the user names; not at all where they name none.
#[tauri::command]
async fn save_text(app: AppHandle, name: String, text: String) -> Told<()> {
    let (answer, chosen) = oneshot::channel();
    app.dialog().file().set_file_name(name).save_file(|file| drop(answer.send(file)));
    let Some(file) = chosen.await.map_err(told)? else { return Ok(()) };
    let file = file.into_path().map_err(told)?;
    RealDisk.write_atomic(&file, text.as_bytes(), Mode::Shared).map_err(told)
}

fn path(chosen: FilePath) -> Told<String> {
    let path = chosen.into_path().map_err(told)?;
    path.into_os_string().into_string().map_err(|name| format!("{} is not Unicode", name.display()))
}

/// Shows the folder with the daemon's log.
#[tauri::command]
fn open_logs(app: AppHandle) -> Told<()> {
    shell::open_logs(&app).map_err(told)
}

/// What is set about the window on this machine. What the daemon's settings say of it, the page hears from the daemon.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WindowChoices {
    /// The app starts with a login.
    autostart: bool,
}

/// What is to be changed of [`WindowChoices`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangedChoices {
    autostart: Option<bool>,
}

/// What is set about the window.
#[tauri::command]
fn window_choices(app: AppHandle) -> WindowChoices {
    WindowChoices { autostart: Shell::of(&app).seen().autostart }
}

/// Sets something about the window.
#[tauri::command]
fn set_window_choices(app: AppHandle, choices: ChangedChoices) -> Told<()> {
    choices.autostart.map_or(Ok(()), |on| shell::set_autostart(&app, on)).map_err(told)
}

/// Has the tray speak as the page does.
#[tauri::command]
fn set_language(app: AppHandle, language: &str) {
    Shell::of(&app).speak(Language::of(language));
}

/// Looks for a new version and installs it; returns its number.
#[tauri::command]
async fn update(app: AppHandle) -> Told<Option<String>> {
    update::update(&app).await.map_err(told)
}

#[cfg(test)]
mod tests {
    /// The words between quotes behind `start`, up to `end`.
    fn quoted<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
        let (_, list) = text.split_once(start).expect("the list is there");
        list.split_once(end).expect("the list ends").0.split('"').skip(1).step_by(2).collect()
    }

    #[test]
    fn commands_are_few_and_each_has_its_permission() {
        let source = include_str!("commands.rs");
        let commands = source.lines().filter(|line| line.trim() == "#[tauri::command]").count();
        assert!(commands <= 12, "{commands} commands: what a browser can do goes over HTTP");
        let declared = quoted(include_str!("../build.rs"), "COMMANDS: &[&str] = &[", "];");
        assert_eq!(declared.len(), commands, "build.rs names each command once: {declared:?}");
        let permissions = quoted(include_str!("../capabilities/main.json"), "\"permissions\": [", "]");
        let mut expected: Vec<String> =
            declared.iter().map(|command| format!("allow-{}", command.replace('_', "-"))).collect();
        expected.extend(["core:event:allow-listen".into(), "core:event:allow-unlisten".into()]);
        expected.sort();
        let mut permissions: Vec<String> = permissions.iter().map(ToString::to_string).collect();
        permissions.sort();
        assert_eq!(
            permissions, expected,
            "the page may ask for the commands and hear of dropped files, and for no more"
        );
    }
}
