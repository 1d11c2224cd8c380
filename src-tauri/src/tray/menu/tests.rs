//! The tray for example states, as text.

use cairn_wire::app::{DesktopServer, Download, DownloadState};

use super::*;
use crate::seen::LoadedModel;
use crate::words::Language;

/// A download of a model `m<id>` of 5 GB, with this progress in per cent.
pub(crate) fn download(id: u64, state: DownloadState, percent: u64) -> Download {
    let running = state == DownloadState::Running;
    Download {
        id,
        model: format!("m{id}"),
        state,
        total: 5_000_000_000,
        completed: 50_000_000 * percent,
        bytes_per_second: if running { 20_500_000 } else { 0 },
        eta_seconds: running.then_some(60 * id + 1),
        held_bytes: 0,
        source: None,
        problem: None,
        error: (state == DownloadState::Failed).then(|| cairn_wire::ErrorBody::text("no space")),
        detached: true,
    }
}

fn running() -> ShellState {
    let server = DesktopServer { address: "http://127.0.0.1:11434".into(), token: "t".into() };
    ShellState { daemon: Daemon::Running(server), ..ShellState::new(Language::English) }
}

/// Formats a menu as text, one line per row, with submenus indented by two blanks.
fn text(entries: &[Entry]) -> String {
    let mut lines = Vec::new();
    for entry in entries {
        match entry {
            Entry::Note(text) => lines.push(format!("({text})")),
            Entry::Item(text, _) => lines.push(text.clone()),
            Entry::Check(text, _, on) => lines.push(format!("[{}] {text}", if *on { "x" } else { " " })),
            Entry::Separator => lines.push("-".into()),
            Entry::Submenu(title, rows) => {
                lines.push(format!("{title} >"));
                lines.extend(text(rows).lines().map(|line| format!("  {line}")));
            }
        }
    }
    lines.join("\n")
}

fn check(case: &str, state: &ShellState, icon: Icon, title: Option<&str>, expected: &[&str]) {
    let view = view(state);
    assert_eq!(view.icon, icon, "{case}: the icon's shape");
    assert_eq!(view.title.as_deref(), title, "{case}: the title");
    let menu = text(&view.entries);
    for part in expected {
        assert!(menu.contains(part), "{case}: {part:?} is not in\n{menu}");
    }
}

#[test]
fn idle_daemon_has_full_menu_without_title() {
    let view = view(&running());
    let expected = "(Ready)\n-\nOpen Cairn\nNew chat\n-\nNo downloads\n(No model is loaded)\nServer: 127.0.0.1:11434 >\n  Copy address\n  Show server\nCache tiers\n-\n\
                    [ ] Start at login\n[x] Closing the window keeps Cairn running\nSettings…\nShow logs\n-\nQuit (stops the server)";
    assert_eq!(text(&view.entries), expected, "the whole menu");
    assert_eq!((view.icon, view.title), (Icon::Idle, None), "the icon is idle");
}

#[test]
fn downloads_menu_shows_progress() {
    use DownloadState::{Done, Failed, Paused, Queued, Running, Stopped};
    let with = |downloads: Vec<Download>| ShellState { downloads, ..running() };
    check(
        "one runs",
        &with(vec![download(1, Running, 62)]),
        Icon::Active,
        Some("62 %"),
        &[
            "Downloads: 1 · 62 % · 20 MB/s · 2 min left >\n  Pause m1 – 62 % · 20 MB/s · 2 min left\n  -\n  Show downloads\n",
            "Quit (stops the server and 1 downloads; they resume)",
        ],
    );
    check(
        "two run",
        &with(vec![download(1, Running, 50), download(2, Running, 0)]),
        Icon::Active,
        Some("25 %"),
        &["Downloads: 2 · 25 % · 41 MB/s · 3 min left >", "\n  Pause all\n  Show downloads"],
    );
    check(
        "one is queued, two are paused, one has failed",
        &with(vec![download(1, Queued, 0), download(2, Paused, 41), download(3, Paused, 0), download(4, Failed, 7)]),
        Icon::Attention,
        None,
        &[
            "Pause m1 – waiting\n  Resume m2 – paused at 41 %\n  Resume m3 – paused at 0 %\n  Resume m4 – failed at 7 %\n",
            "-\n  Resume all\n  Show downloads",
            "and 1 downloads; they resume)",
        ],
    );
    check(
        "completed and stopped downloads are not shown",
        &with(vec![download(1, Done, 100), download(2, Stopped, 20)]),
        Icon::Idle,
        None,
        &["\nNo downloads\n", "Quit (stops the server)"],
    );
    let unknown = Download { total: 0, completed: 0, eta_seconds: None, ..download(1, Running, 0) };
    check("the size is not known yet", &with(vec![unknown]), Icon::Active, None, &["Downloads: 1 · 20 MB/s >"]);
}

#[test]
fn menu_rows_have_matching_actions() {
    use DownloadState::{Paused, Running};
    let downloads = vec![download(1, Running, 0), download(2, Running, 0), download(3, Paused, 0)];
    let models = vec![LoadedModel { name: "m".into(), size_bytes: 1 }];
    let state = ShellState { downloads, models, ..running() };
    let mut actions = Vec::new();
    let mut open = view(&state).entries;
    open.reverse();
    while let Some(entry) = open.pop() {
        match entry {
            Entry::Item(_, action) | Entry::Check(_, action, _) => actions.push(action),
            Entry::Submenu(_, rows) => open.extend(rows.into_iter().rev()),
            Entry::Note(_) | Entry::Separator => {}
        }
    }
    let expected = [
        Action::Open(None),
        Action::Open(Some("chat")),
        Action::Pause(vec![1]),
        Action::Pause(vec![2]),
        Action::Resume(vec![3]),
        Action::Pause(vec![1, 2]),
        Action::Open(Some("models/downloads")),
        Action::Unload("m".into()),
        Action::KeepHour("m".into()),
        Action::Keep("m".into()),
        Action::Copy("http://127.0.0.1:11434".into()),
        Action::Open(Some("server")),
        Action::Open(Some("cache")),
        Action::Autostart,
        Action::CloseToTray,
        Action::Open(Some("settings")),
        Action::Logs,
        Action::Quit,
    ];
    assert_eq!(actions, expected, "from top to bottom");
}

#[test]
fn menu_shows_models_and_daemon_states() {
    let model = |name: &str, size_bytes| LoadedModel { name: name.into(), size_bytes };
    let with = |models| ShellState { models, ..running() };
    let one = with(vec![model("qwen3.5:9b", 6_140_000_000)]);
    check(
        "one model",
        &one,
        Icon::Idle,
        None,
        &["(Ready – qwen3.5:9b (6.1 GB))", "Loaded models: 1 >\n  qwen3.5:9b (6.1 GB) >\n    Unload"],
    );
    let two = with(vec![model("a", 999), model("b", 12_345_678)]);
    check("two models", &two, Icon::Idle, None, &["(Ready – 2 models (12 MB))", "  a (999 B) >", "  b (12 MB) >"]);
    let starting = ShellState::new(Language::English);
    check(
        "at the start",
        &starting,
        Icon::Idle,
        None,
        &["(Starting…)\n-\nOpen Cairn\nNew chat\n-\n[ ] Start at login"],
    );
    let unavailable = ShellState { daemon: Daemon::Unavailable("port taken\nmore".into()), ..starting };
    check("no daemon", &unavailable, Icon::Attention, None, &["(Not running: port taken)\n", "Quit"]);
}

#[test]
fn cache_row_shows_used_bytes() {
    let cache_bytes = vec![(TierName::Ram, 7_800_000_000), (TierName::Ssd, 31_200_000_000), (TierName::Remote, 0)];
    let state = ShellState { cache_bytes, ..running() };
    check("two tiers", &state, Icon::Idle, None, &["\nCache: RAM 7.8 GB · SSD 31 GB\n"]);
    let chinese = ShellState { language: Language::Chinese, ..state };
    check("in Chinese", &chinese, Icon::Idle, None, &["\n缓存：内存 7.8 GB · 固态硬盘 31 GB\n"]);
    let nothing = ShellState { cache_bytes: vec![(TierName::Ram, 0)], ..running() };
    check("empty tiers", &nothing, Icon::Idle, None, &["\nCache tiers\n"]);
}

#[test]
fn menu_is_translated_to_chinese() {
    let downloads = vec![download(1, DownloadState::Running, 62)];
    let state = ShellState { downloads, language: Language::Chinese, ..running() };
    check(
        "in Chinese",
        &state,
        Icon::Active,
        Some("62 %"),
        &["(就绪)", "下载：1 · 62 % · 20 MB/s · 剩余 2 分钟 >", "暂停 m1"],
    );
}
