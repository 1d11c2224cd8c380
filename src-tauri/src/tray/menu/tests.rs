//! The tray for made-up states, written as its user would read it.

use cairn_wire::app::{DesktopServer, Download, DownloadState};

use super::*;
use crate::seen::LoadedModel;
use crate::words::Language;

/// A download of a model `m<id>` of 5 GB, so many per cent of which are here.
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
        trouble: None,
        error: (state == DownloadState::Failed).then(|| cairn_wire::ErrorBody::text("no space")),
        detached: true,
    }
}

fn here() -> Seen {
    let server = DesktopServer { address: "http://127.0.0.1:11434".into(), token: "t".into() };
    Seen { daemon: Daemon::Here(server), ..Seen::at_start(Language::English) }
}

/// A menu as text: a line each, what is in a submenu behind two blanks.
fn text(entries: &[Entry]) -> String {
    let mut lines = Vec::new();
    for entry in entries {
        match entry {
            Entry::Note(text) => lines.push(format!("({text})")),
            Entry::Item(text, _) => lines.push(text.clone()),
            Entry::Check(text, _, on) => lines.push(format!("[{}] {text}", if *on { "x" } else { " " })),
            Entry::Separator => lines.push("-".into()),
            Entry::Submenu(text_of_it, rows) => {
                lines.push(format!("{text_of_it} >"));
                lines.extend(text(rows).lines().map(|line| format!("  {line}")));
            }
        }
    }
    lines.join("\n")
}

fn check(what: &str, seen: &Seen, icon: Icon, title: Option<&str>, expected: &[&str]) {
    let face = face(seen);
    assert_eq!(face.icon, icon, "{what}: the icon's shape");
    assert_eq!(face.title.as_deref(), title, "{what}: the letters beside it");
    let menu = text(&face.entries);
    for part in expected {
        assert!(menu.contains(part), "{what}: {part:?} is not in\n{menu}");
    }
}

#[test]
fn a_daemon_with_nothing_to_do() {
    let face = face(&here());
    let expected = "(Ready)\n-\nOpen Cairn\nNew chat\n-\nNo downloads\n(No model is loaded)\nServer: 127.0.0.1:11434 >\n  Copy address\n  Show server\nCache tiers\n-\n\
                    [ ] Start at login\n[x] Closing the window keeps Cairn running\nSettings…\nShow logs\n-\nQuit (stops the server)";
    assert_eq!(text(&face.entries), expected, "the whole menu");
    assert_eq!((face.icon, face.title), (Icon::Idle, None), "nothing is going on");
}

#[test]
fn downloads_say_how_far_they_are() {
    use DownloadState::{Done, Failed, Paused, Queued, Running, Stopped};
    let with = |downloads: Vec<Download>| Seen { downloads, ..here() };
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
        "one waits, two rest, one has failed",
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
        "what has ended is no download any more",
        &with(vec![download(1, Done, 100), download(2, Stopped, 20)]),
        Icon::Idle,
        None,
        &["\nNo downloads\n", "Quit (stops the server)"],
    );
    let unknown = Download { total: 0, completed: 0, eta_seconds: None, ..download(1, Running, 0) };
    check("its size is not known yet", &with(vec![unknown]), Icon::Active, None, &["Downloads: 1 · 20 MB/s >"]);
}

#[test]
fn rows_do_what_they_say() {
    use DownloadState::{Paused, Running};
    let downloads = vec![download(1, Running, 0), download(2, Running, 0), download(3, Paused, 0)];
    let models = vec![LoadedModel { name: "m".into(), size_bytes: 1 }];
    let seen = Seen { downloads, models, ..here() };
    let mut actions = Vec::new();
    let mut open = face(&seen).entries;
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
fn models_and_states() {
    let model = |name: &str, size_bytes| LoadedModel { name: name.into(), size_bytes };
    let with = |models| Seen { models, ..here() };
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
    let starting = Seen::at_start(Language::English);
    check(
        "at the start",
        &starting,
        Icon::Idle,
        None,
        &["(Starting…)\n-\nOpen Cairn\nNew chat\n-\n[ ] Start at login"],
    );
    let gone = Seen { daemon: Daemon::Gone("port taken\nmore".into()), ..starting };
    check("no daemon", &gone, Icon::Attention, None, &["(Not running: port taken)\n", "Quit"]);
}

#[test]
fn the_cache_says_what_it_holds() {
    let kept = vec![(TierName::Ram, 7_800_000_000), (TierName::Ssd, 31_200_000_000), (TierName::Remote, 0)];
    let seen = Seen { kept, ..here() };
    check("two tiers", &seen, Icon::Idle, None, &["\nCache: RAM 7.8 GB · SSD 31 GB\n"]);
    let chinese = Seen { language: Language::Chinese, ..seen };
    check("in Chinese", &chinese, Icon::Idle, None, &["\n缓存：内存 7.8 GB · 固态硬盘 31 GB\n"]);
    let nothing = Seen { kept: vec![(TierName::Ram, 0)], ..here() };
    check("nothing is kept", &nothing, Icon::Idle, None, &["\nCache tiers\n"]);
}

#[test]
fn chinese() {
    let downloads = vec![download(1, DownloadState::Running, 62)];
    let seen = Seen { downloads, language: Language::Chinese, ..here() };
    check(
        "in Chinese",
        &seen,
        Icon::Active,
        Some("62 %"),
        &["(就绪)", "下载：1 · 62 % · 20 MB/s · 剩余 2 分钟 >", "暂停 m1"],
    );
}
