//! Content of the tray, as a pure function of the state. [`super`] draws it.
//!
//! On Linux a tray icon has no click events and no tooltip, so the menu shows everything as text.

use cairn_wire::app::{Download, DownloadState, TierName};

use crate::choices::CloseAction;
use crate::seen::{Daemon, ShellState};
use crate::words::{Words, fill};

/// Content of the tray.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrayView {
    pub(crate) icon: Icon,
    /// Short text next to the icon, on systems that show one.
    pub(crate) title: Option<String>,
    pub(crate) entries: Vec<Entry>,
}

/// The icon's shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Icon {
    Idle,
    /// A download is running.
    Active,
    /// A download has failed, or the daemon does not run.
    Attention,
}

/// A row of the menu.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// Text without an action.
    Note(String),
    Item(String, Action),
    Check(String, Action, bool),
    Submenu(String, Vec<Entry>),
    Separator,
}

/// Action of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Shows the window, at a screen of the page if given.
    Open(Option<&'static str>),
    Pause(Vec<u64>),
    Resume(Vec<u64>),
    Unload(String),
    /// Keeps a model loaded for one hour.
    KeepHour(String),
    /// Keeps a model loaded until the user unloads it.
    Keep(String),
    /// Copies a text to the clipboard.
    Copy(String),
    Autostart,
    CloseToTray,
    Logs,
    Quit,
}

/// Computes the content of the tray.
pub(crate) fn view(state: &ShellState) -> TrayView {
    let words = state.language.words();
    let is_daemon_running = matches!(state.daemon, Daemon::Running(_));
    let open_downloads: Vec<&Download> = state.downloads.iter().filter(|download| is_open(download.state)).collect();
    let running = open_downloads.iter().any(|download| download.state == DownloadState::Running);
    let failed = open_downloads.iter().any(|download| download.state == DownloadState::Failed);
    let icon = match &state.daemon {
        Daemon::Unavailable(_) => Icon::Attention,
        _ if failed => Icon::Attention,
        _ if running => Icon::Active,
        _ => Icon::Idle,
    };
    let mut entries = vec![
        Entry::Note(status_text(state, words)),
        Entry::Separator,
        Entry::Item(words.open.into(), Action::Open(None)),
        Entry::Item(words.new_chat.into(), Action::Open(Some("chat"))),
        Entry::Separator,
    ];
    if is_daemon_running {
        entries.extend([downloads(&open_downloads, words), models(state, words)]);
        entries.extend(server(state, words));
        entries.extend([Entry::Item(cache(state, words), Action::Open(Some("cache"))), Entry::Separator]);
    }
    let pausable =
        open_downloads.iter().filter(|row| matches!(row.state, DownloadState::Running | DownloadState::Queued)).count();
    let quit = match pausable {
        0 => words.quit.to_owned(),
        count => fill(words.quit_and_pause, &[("count", &count.to_string())]),
    };
    entries.extend([
        Entry::Check(words.autostart.into(), Action::Autostart, state.autostart),
        Entry::Check(words.close_to_tray.into(), Action::CloseToTray, state.settings.close_action != CloseAction::Quit),
        Entry::Item(words.settings.into(), Action::Open(Some("settings"))),
        Entry::Item(words.logs.into(), Action::Logs),
        Entry::Separator,
        Entry::Item(quit, Action::Quit),
    ]);
    TrayView { icon, title: running.then(|| percent(&open_downloads)).flatten(), entries }
}

/// Whether a download still has actions: it is neither complete nor stopped.
fn is_open(state: DownloadState) -> bool {
    !matches!(state, DownloadState::Done | DownloadState::Stopped)
}

fn status_text(state: &ShellState, words: &Words) -> String {
    match (&state.daemon, &*state.models) {
        (Daemon::Starting, _) => words.starting.to_owned(),
        (Daemon::Unavailable(reason), _) => {
            fill(words.unavailable, &[("reason", reason.lines().next().unwrap_or_default())])
        }
        (Daemon::Running(_), []) => words.ready.to_owned(),
        (Daemon::Running(_), [model]) => {
            fill(words.ready_with_one, &[("model", &model.name), ("size", &bytes(model.size_bytes))])
        }
        (Daemon::Running(_), models) => {
            let size_bytes = models.iter().map(|model| model.size_bytes).sum();
            fill(words.ready_with_many, &[("count", &models.len().to_string()), ("size", &bytes(size_bytes))])
        }
    }
}

fn downloads(open_downloads: &[&Download], words: &Words) -> Entry {
    let list = Action::Open(Some("models/downloads"));
    if open_downloads.is_empty() {
        return Entry::Item(words.no_downloads.into(), list);
    }
    let bytes_per_second: u64 = open_downloads.iter().map(|download| download.bytes_per_second).sum();
    let eta_seconds = open_downloads.iter().filter_map(|download| download.eta_seconds).max();
    let count = Some(open_downloads.len().to_string());
    let parts = [count, percent(open_downloads), speed(bytes_per_second), eta_seconds.map(|eta| left(eta, words))];
    let ids = |is_selected: &dyn Fn(DownloadState) -> bool| -> Vec<u64> {
        open_downloads.iter().filter(|download| is_selected(download.state)).map(|download| download.id).collect()
    };
    let (pausable, resumable) = (ids(&is_pausable), ids(&|state| !is_pausable(state)));
    let mut rows: Vec<Entry> = open_downloads.iter().map(|row| download(row, words)).collect();
    rows.push(Entry::Separator);
    if pausable.len() > 1 {
        rows.push(Entry::Item(words.pause_all.into(), Action::Pause(pausable)));
    }
    if resumable.len() > 1 {
        rows.push(Entry::Item(words.resume_all.into(), Action::Resume(resumable)));
    }
    rows.push(Entry::Item(words.open_list.into(), list));
    Entry::Submenu(fill(words.downloads, &[("parts", &joined(parts))]), rows)
}

fn is_pausable(state: DownloadState) -> bool {
    matches!(state, DownloadState::Queued | DownloadState::Running)
}

/// Row of one download: its progress, and the action to pause or resume it.
fn download(row: &Download, words: &Words) -> Entry {
    let far = percent(&[row]).unwrap_or_else(|| "0 %".into());
    let parts = match row.state {
        DownloadState::Queued => words.waiting.to_owned(),
        DownloadState::Failed => fill(words.failed, &[("percent", &far)]),
        DownloadState::Paused | DownloadState::Stopped => fill(words.paused, &[("percent", &far)]),
        DownloadState::Running | DownloadState::Done => {
            let left = row.eta_seconds.map(|eta| left(eta, words));
            joined([Some(far), speed(row.bytes_per_second), left])
        }
    };
    let values = [("model", &*row.model), ("parts", &*parts)];
    if is_pausable(row.state) {
        Entry::Item(fill(words.pause, &values), Action::Pause(vec![row.id]))
    } else {
        Entry::Item(fill(words.resume, &values), Action::Resume(vec![row.id]))
    }
}

fn models(state: &ShellState, words: &Words) -> Entry {
    if state.models.is_empty() {
        return Entry::Note(words.no_models.into());
    }
    let row = |model: &crate::seen::LoadedModel| {
        let name = || model.name.clone();
        let actions = vec![
            Entry::Item(words.unload.into(), Action::Unload(name())),
            Entry::Item(words.keep_hour.into(), Action::KeepHour(name())),
            Entry::Item(words.keep.into(), Action::Keep(name())),
        ];
        Entry::Submenu(format!("{} ({})", model.name, bytes(model.size_bytes)), actions)
    };
    let count = state.models.len().to_string();
    Entry::Submenu(fill(words.models, &[("count", &count)]), state.models.iter().map(row).collect())
}

fn server(state: &ShellState, words: &Words) -> Option<Entry> {
    let Daemon::Running(server) = &state.daemon else { return None };
    let address = server.address.trim_start_matches("http://");
    let rows = vec![
        Entry::Item(words.copy_address.into(), Action::Copy(server.address.clone())),
        Entry::Item(words.open_server.into(), Action::Open(Some("server"))),
    ];
    Some(Entry::Submenu(fill(words.server, &[("address", address)]), rows))
}

/// Formats the used bytes of the tiers. Empty tiers are omitted.
fn cache(state: &ShellState, words: &Words) -> String {
    let name = |tier| match tier {
        TierName::Ram => words.ram,
        TierName::Ssd => words.ssd,
        TierName::Remote => words.remote,
    };
    let parts = state.cache_bytes.iter().filter(|(_, used_bytes)| *used_bytes > 0);
    let parts: Vec<String> =
        parts.map(|(tier, used_bytes)| format!("{} {}", name(*tier), bytes(*used_bytes))).collect();
    if parts.is_empty() { words.cache.to_owned() } else { fill(words.cache_has, &[("parts", &parts.join(" · "))]) }
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Formats the progress of all downloads in whole per cent, rounded down; `None` while no size is known.
fn percent(downloads: &[&Download]) -> Option<String> {
    let total: u128 = downloads.iter().map(|download| u128::from(download.total)).sum();
    let completed: u128 = downloads.iter().map(|download| u128::from(download.completed.min(download.total))).sum();
    (total > 0).then(|| format!("{} %", completed * 100 / total))
}

fn speed(bytes_per_second: u64) -> Option<String> {
    (bytes_per_second > 0).then(|| format!("{}/s", bytes(bytes_per_second)))
}

fn left(eta_seconds: u64, words: &Words) -> String {
    let (text, count) = match eta_seconds {
        0..60 => (words.seconds, eta_seconds),
        60..3600 => (words.minutes, eta_seconds.div_ceil(60)),
        _ => (words.hours, eta_seconds.div_ceil(3600)),
    };
    fill(words.time_left, &[("time", &fill(text, &[("count", &count.to_string())]))])
}

/// Formats bytes in decimal units, with one decimal place below ten.
fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| count >= *size) else { return format!("{count} B") };
    let tenths = u128::from(count) * 10 / u128::from(size);
    if tenths < 100 { format!("{}.{} {unit}", tenths / 10, tenths % 10) } else { format!("{} {unit}", tenths / 10) }
}

#[cfg(test)]
pub(crate) mod tests;
