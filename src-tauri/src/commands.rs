//! Commands that the page can call: at most twelve, and only for functions that a browser lacks. All else uses HTTP.
//!
//! A command needs its name in `build.rs` and its permission in `capabilities/main.json`; a test checks both.

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

/// URL schemes that may be opened in other programs.
const EXTERNAL_SCHEMES: &[&str] = &["http", "https", "mailto"];

/// Returns the handler of all commands.
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

/// Result of a command; the page gets the error as text.
type CommandResult<T> = Result<T, String>;

fn error_text(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}

/// Waits for the daemon's start and returns its address and token.
#[tauri::command]
async fn server(app: AppHandle) -> CommandResult<DesktopServer> {
    let mut state = Shell::of(&app).subscribe();
    let state = state.wait_for(|state| state.daemon != Daemon::Starting).await.map_err(error_text)?;
    match &state.daemon {
        Daemon::Running(server) => Ok(server.clone()),
        Daemon::Unavailable(reason) => Err(reason.clone()),
        Daemon::Starting => Err("the daemon is starting".into()),
    }
}

/// Opens a page in the user's browser.
#[tauri::command]
fn open_external(app: AppHandle, url: &str) -> CommandResult<()> {
    let parsed = Url::parse(url).map_err(error_text)?;
    if !EXTERNAL_SCHEMES.contains(&parsed.scheme()) {
        return Err(format!("cannot open {url:?}: scheme {:?} is not allowed", parsed.scheme()));
    }
    app.opener().open_url(parsed.as_str(), None::<&str>).map_err(error_text)
}

/// Lets the user choose a folder.
#[tauri::command]
async fn pick_folder(app: AppHandle, title: String) -> CommandResult<Option<String>> {
    let (answer, chosen) = oneshot::channel();
    app.dialog().file().set_title(title).pick_folder(|folder| drop(answer.send(folder)));
    chosen.await.map_err(error_text)?.map(path).transpose()
}

/// Lets the user choose files with these extensions.
#[tauri::command]
async fn pick_files(app: AppHandle, title: String, extensions: Vec<String>) -> CommandResult<Vec<String>> {
    let (answer, chosen) = oneshot::channel();
    let extensions: Vec<&str> = extensions.iter().map(String::as_str).collect();
    let dialog = app.dialog().file().add_filter(&title, &extensions).set_title(title);
    dialog.pick_files(|files| drop(answer.send(files)));
    chosen.await.map_err(error_text)?.unwrap_or_default().into_iter().map(path).collect()
}

/// Writes text to a file that the user chooses; does nothing if the user cancels.
#[tauri::command]
async fn save_text(app: AppHandle, name: String, text: String) -> CommandResult<()> {
    let (answer, chosen) = oneshot::channel();
    app.dialog().file().set_file_name(name).save_file(|file| drop(answer.send(file)));
    let Some(file) = chosen.await.map_err(error_text)? else { return Ok(()) };
    let file = file.into_path().map_err(error_text)?;
    // An exported chat is as private as the chat.
    RealDisk.write_atomic(&file, text.as_bytes(), Mode::Private).map_err(error_text)
}

fn path(chosen: FilePath) -> CommandResult<String> {
    let path = chosen.into_path().map_err(error_text)?;
    path.into_os_string().into_string().map_err(|name| format!("cannot use path {}: it is not Unicode", name.display()))
}

/// Shows the folder with the daemon's log.
#[tauri::command]
fn open_logs(app: AppHandle) -> CommandResult<()> {
    shell::open_logs(&app).map_err(error_text)
}

/// Options of the window that this program stores. The page reads the daemon's settings for the window from the daemon.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WindowChoices {
    /// Whether the app starts at login.
    autostart: bool,
}

/// Changes of [`WindowChoices`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChangedChoices {
    autostart: Option<bool>,
}

/// Returns the options of the window.
#[tauri::command]
fn window_choices(app: AppHandle) -> WindowChoices {
    WindowChoices { autostart: Shell::of(&app).state().autostart }
}

/// Changes options of the window.
#[tauri::command]
fn set_window_choices(app: AppHandle, choices: ChangedChoices) -> CommandResult<()> {
    choices.autostart.map_or(Ok(()), |on| shell::set_autostart(&app, on)).map_err(error_text)
}

/// Sets the language of the tray, the dialogs and the notifications to the page's language.
#[tauri::command]
fn set_language(app: AppHandle, language: &str) {
    Shell::of(&app).set_language(Language::of(language));
}

/// Checks for a new version and installs it; returns the version.
#[tauri::command]
async fn update(app: AppHandle) -> CommandResult<Option<String>> {
    update::update(&app).await.map_err(error_text)
}

#[cfg(test)]
mod tests {
    /// Returns the quoted strings between `start` and `end`.
    fn quoted<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
        let (_, list) = text.split_once(start).expect("the text has the list");
        list.split_once(end).expect("the list ends").0.split('"').skip(1).step_by(2).collect()
    }

    #[test]
    fn tauri_commands_are_at_most_twelve_and_each_has_permission() {
        let source = include_str!("commands.rs");
        let commands = source.lines().filter(|line| line.trim() == "#[tauri::command]").count();
        assert!(commands <= 12, "{commands} commands: functions of a browser use HTTP");
        let declared = quoted(include_str!("../build.rs"), "COMMANDS: &[&str] = &[", "];");
        assert_eq!(declared.len(), commands, "build.rs names each command once: {declared:?}");
        let permissions = quoted(include_str!("../capabilities/main.json"), "\"permissions\": [", "]");
        let mut expected: Vec<String> =
            declared.iter().map(|command| format!("allow-{}", command.replace('_', "-"))).collect();
        expected.extend(["core:event:allow-listen".into(), "core:event:allow-unlisten".into()]);
        expected.sort();
        let mut permissions: Vec<String> = permissions.iter().map(ToString::to_string).collect();
        permissions.sort();
        assert_eq!(permissions, expected, "the page may only call the commands and receive dropped files");
    }
}
