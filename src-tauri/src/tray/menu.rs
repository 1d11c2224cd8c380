//! What the tray shows, as a pure function of what is known. Drawing it is [`super`]'s.
//!
//! Text comes first: on Linux a tray icon hears no clicks and has no tooltip, so the menu says everything.

use cairn_wire::app::{Download, DownloadState, TierName};

use crate::choices::Closing;
use crate::seen::{Daemon, Seen};
use crate::words::{Words, fill};

/// All of the tray.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Face {
    pub(crate) icon: Icon,
    /// A few letters beside the icon, where the system has room for any.
    pub(crate) title: Option<String>,
    pub(crate) entries: Vec<Entry>,
}

/// The icon's shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Icon {
    Idle,
    /// Something is on its way.
    Active,
    /// Something needs its user.
    Attention,
}

/// A row of the menu.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// Only says something.
    Note(String),
    Item(String, Action),
    Check(String, Action, bool),
    Submenu(String, Vec<Entry>),
    Separator,
}

/// What a row does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Shows the window, at a screen where one is named.
    Open(Option<&'static str>),
    Pause(Vec<u64>),
    Resume(Vec<u64>),
    Unload(String),
    /// Keeps a model for an hour.
    KeepHour(String),
    /// Keeps a model until it is unloaded by its user.
    Keep(String),
    /// Puts a text on the clipboard.
    Copy(String),
    Autostart,
    CloseToTray,
    Logs,
    Quit,
}

/// The tray as it is to be now.
pub(crate) fn face(seen: &Seen) -> Face {
    let words = seen.language.words();
    let here = matches!(seen.daemon, Daemon::Here(_));
    let on_its_way: Vec<&Download> = seen.downloads.iter().filter(|download| is_open(download.state)).collect();
    let running = on_its_way.iter().any(|download| download.state == DownloadState::Running);
    let failed = on_its_way.iter().any(|download| download.state == DownloadState::Failed);
    let icon = match &seen.daemon {
        Daemon::Gone(_) => Icon::Attention,
        _ if failed => Icon::Attention,
        _ if running => Icon::Active,
        _ => Icon::Idle,
    };
    let mut entries = vec![
        Entry::Note(state(seen, words)),
        Entry::Separator,
        Entry::Item(words.open.into(), Action::Open(None)),
        Entry::Item(words.new_chat.into(), Action::Open(Some("chat"))),
        Entry::Separator,
    ];
    if here {
        entries.extend([downloads(&on_its_way, words), models(seen, words)]);
        entries.extend(server(seen, words));
        entries.extend([Entry::Item(cache(seen, words), Action::Open(Some("cache"))), Entry::Separator]);
    }
    let going_on =
        on_its_way.iter().filter(|row| matches!(row.state, DownloadState::Running | DownloadState::Queued)).count();
    let quit = match going_on {
        0 => words.quit.to_owned(),
        count => fill(words.quit_and_pause, &[("count", &count.to_string())]),
    };
    entries.extend([
        Entry::Check(words.autostart.into(), Action::Autostart, seen.autostart),
        Entry::Check(words.close_to_tray.into(), Action::CloseToTray, seen.choices.closing != Closing::Quit),
        Entry::Item(words.settings.into(), Action::Open(Some("settings"))),
        Entry::Item(words.logs.into(), Action::Logs),
        Entry::Separator,
        Entry::Item(quit, Action::Quit),
    ]);
    Face { icon, title: running.then(|| percent(&on_its_way)).flatten(), entries }
}

/// Whether a download's user may still want something of it.
fn is_open(state: DownloadState) -> bool {
    !matches!(state, DownloadState::Done | DownloadState::Stopped)
}

fn state(seen: &Seen, words: &Words) -> String {
    match (&seen.daemon, &*seen.models) {
        (Daemon::Starting, _) => words.starting.to_owned(),
        (Daemon::Gone(why), _) => fill(words.gone, &[("why", why.lines().next().unwrap_or_default())]),
        (Daemon::Here(_), []) => words.ready.to_owned(),
        (Daemon::Here(_), [model]) => {
            fill(words.ready_with_one, &[("model", &model.name), ("size", &bytes(model.size_bytes))])
        }
        (Daemon::Here(_), models) => {
            let size_bytes = models.iter().map(|model| model.size_bytes).sum();
            fill(words.ready_with_many, &[("count", &models.len().to_string()), ("size", &bytes(size_bytes))])
        }
    }
}

fn downloads(on_its_way: &[&Download], words: &Words) -> Entry {
    let list = Action::Open(Some("models/downloads"));
    if on_its_way.is_empty() {
        return Entry::Item(words.no_downloads.into(), list);
    }
    let bytes_per_second: u64 = on_its_way.iter().map(|download| download.bytes_per_second).sum();
    let eta_seconds = on_its_way.iter().filter_map(|download| download.eta_seconds).max();
    let count = Some(on_its_way.len().to_string());
    let parts = [count, percent(on_its_way), speed(bytes_per_second), eta_seconds.map(|eta| left(eta, words))];
    let ids = |wanted: &dyn Fn(DownloadState) -> bool| -> Vec<u64> {
        on_its_way.iter().filter(|download| wanted(download.state)).map(|download| download.id).collect()
    };
    let (going, resting) = (ids(&is_going), ids(&|state| !is_going(state)));
    let mut rows: Vec<Entry> = on_its_way.iter().map(|row| download(row, words)).collect();
    rows.push(Entry::Separator);
    if going.len() > 1 {
        rows.push(Entry::Item(words.pause_all.into(), Action::Pause(going)));
    }
    if resting.len() > 1 {
        rows.push(Entry::Item(words.resume_all.into(), Action::Resume(resting)));
    }
    rows.push(Entry::Item(words.open_list.into(), list));
    Entry::Submenu(fill(words.downloads, &[("parts", &joined(parts))]), rows)
}

fn is_going(state: DownloadState) -> bool {
    matches!(state, DownloadState::Queued | DownloadState::Running)
}

/// One download: how far it is, and what a click does.
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
    if is_going(row.state) {
        Entry::Item(fill(words.pause, &values), Action::Pause(vec![row.id]))
    } else {
        Entry::Item(fill(words.resume, &values), Action::Resume(vec![row.id]))
    }
}

fn models(seen: &Seen, words: &Words) -> Entry {
    if seen.models.is_empty() {
        return Entry::Note(words.no_models.into());
    }
    let row = |model: &crate::seen::LoadedModel| {
        let name = || model.name.clone();
        let wishes = vec![
            Entry::Item(words.unload.into(), Action::Unload(name())),
            Entry::Item(words.keep_hour.into(), Action::KeepHour(name())),
            Entry::Item(words.keep.into(), Action::Keep(name())),
        ];
        Entry::Submenu(format!("{} ({})", model.name, bytes(model.size_bytes)), wishes)
    };
    let count = seen.models.len().to_string();
    Entry::Submenu(fill(words.models, &[("count", &count)]), seen.models.iter().map(row).collect())
}

fn server(seen: &Seen, words: &Words) -> Option<Entry> {
    let Daemon::Here(server) = &seen.daemon else { return None };
    let address = server.address.trim_start_matches("http://");
    let rows = vec![
        Entry::Item(words.copy_address.into(), Action::Copy(server.address.clone())),
        Entry::Item(words.open_server.into(), Action::Open(Some("server"))),
    ];
    Some(Entry::Submenu(fill(words.server, &[("address", address)]), rows))
}

/// How much each tier holds; tiers that hold nothing are not worth a word.
fn cache(seen: &Seen, words: &Words) -> String {
    let name = |tier| match tier {
        TierName::Ram => words.ram,
        TierName::Ssd => words.ssd,
        TierName::Remote => words.remote,
    };
    let parts = seen.kept.iter().filter(|(_, used_bytes)| *used_bytes > 0);
    let parts: Vec<String> =
        parts.map(|(tier, used_bytes)| format!("{} {}", name(*tier), bytes(*used_bytes))).collect();
    if parts.is_empty() { words.cache.to_owned() } else { fill(words.cache_has, &[("parts", &parts.join(" · "))]) }
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// How much of them is here; `None` while no size is known. Whole per cents, and 100 only when nothing is missing.
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

/// Decimal units, as disks and networks are sold, with one digit behind the point below ten.
fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| count >= *size) else { return format!("{count} B") };
    let tenths = u128::from(count) * 10 / u128::from(size);
    if tenths < 100 { format!("{}.{} {unit}", tenths / 10, tenths % 10) } else { format!("{} {unit}", tenths / 10) }
}

#[cfg(test)]
pub(crate) mod tests;
