//! Settings of a daemon that runs.

use std::time::{Duration, SystemTime};

use cairn_hardware::Machine;

use super::*;
use cairn_tier::TierKind;

use crate::App;
use crate::clock::Clock;
use crate::settings::Applies;
use crate::settings::env::Env;
use crate::settings::places::{Places, System};

struct Desk {
    folder: tempfile::TempDir,
    app: App,
}

impl Desk {
    fn start(variables: &[(&str, &str)], file: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.toml"), file).expect("the folder is writable");
        let home = [("CAIRN_HOME", folder.path().to_str().expect("a plain path")), ("CAIRN_KERNEL", "scalar")];
        let env = Env::of(home.iter().chain(variables).copied());
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("there is a home"));
        let clock = Clock::standing(SystemTime::UNIX_EPOCH);
        let app = App::start(settings, Machine::probe(), clock, 1).expect("the daemon starts");
        Self { folder, app }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("config.toml")).expect("it is there")
    }

    fn change(&self, changes: &[(&str, Option<Value>)]) -> Result<SettingTable, SettingsError> {
        self.app.settings().change(&changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
    }

    fn row(&self, key: &str) -> SettingRow {
        let rows = self.app.settings().table().rows;
        rows.into_iter().find(|row| row.row.key == Some(key)).expect("there is such a setting")
    }
}

fn number(number: u64) -> Option<Value> {
    Some(Value::Number(number))
}

fn words(words: &str) -> Option<Value> {
    Some(Value::Text(words.to_owned()))
}

#[tokio::test]
async fn what_can_hold_at_once_does() {
    let desk = Desk::start(&[], "[cache]\nram = 100_000_000\nfolder_size = 100000000 # here\nreserve = '1M'\n");
    let changes = [
        ("cache.ram", number(200_000_000)),
        ("cache.folder_size", number(300_000_000)),
        ("downloads.limit", words("2M")),
        ("engine.keep_alive", words("-1")),
        ("engine.context", number(8192)),
        ("ui.theme", words("dark")),
    ];
    let table = desk.change(&changes).expect("all of it can be");
    assert!(table.rows.iter().all(|row| !row.restart), "{table:?}");
    let places = desk.app.cache().status().expect("prefixes are kept").tiers.tiers;
    let budget = |place| places.iter().find(|status| status.kind == place).map(|status| status.budget_bytes);
    assert_eq!(budget(TierKind::Ram), Some(200_000_000), "RAM");
    assert_eq!(budget(TierKind::Ssd), Some(300_000_000), "the folder");
    assert_eq!(desk.app.transfers().speed_limit(), Some(2_000_000), "downloads");
    assert_eq!(desk.app.settings().live.keep_alive(), KeepAlive::Forever, "models that are asked from now on");
    assert_eq!(desk.app.settings().live.context_tokens(), Some(8192), "and loaded from now on");
    assert!(desk.text().contains("folder_size = 300000000 # here\n"), "{}", desk.text());
    assert_eq!((desk.row("ui.theme").value, desk.row("ui.theme").origin), (words("dark"), Origin::File), "for clients");

    desk.change(&[("engine.keep_alive", None), ("downloads.limit", None)]).expect("defaults can be");
    assert_eq!(desk.app.settings().live.keep_alive(), KeepAlive::For(Duration::from_secs(300)), "the default");
    assert_eq!(desk.app.transfers().speed_limit(), None, "the default");
    assert_eq!(desk.row("engine.keep_alive").origin, Origin::Default, "and nobody's");
}

#[tokio::test]
async fn what_cannot_hold_at_once_says_so() {
    let desk = Desk::start(&[], "");
    desk.change(&[("engine.parallel", number(3)), ("cache.weigh", Some(Value::Bool(false)))]).expect("both can be");
    for key in ["engine.parallel", "cache.weigh"] {
        let row = desk.row(key);
        assert!(row.restart && row.origin == Origin::File, "{row:?}");
    }
    desk.change(&[("engine.parallel", None)]).expect("back");
    assert!(!desk.row("engine.parallel").restart, "as it holds");
}

#[tokio::test]
async fn all_of_it_or_nothing() {
    let before = "# mine\n[engine]\nparallel = 2\n";
    let desk = Desk::start(&[("OLLAMA_MAX_QUEUE", "9")], before);
    let check = |key: &str, value: Option<Value>, part: &str| {
        let changes = [("ui.theme", words("dark")), (key, value)];
        let error = desk.change(&changes).expect_err("it must be refused");
        let SettingsError::Wrong(wrong) = &error else { panic!("{error:?}") };
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].key == key && wrong[0].reason.contains(part), "{wrong:?} has no {part:?}");
        assert_eq!(desk.text(), before, "{key}: nothing was written");
    };
    check("engine.paralel", number(1), "no such setting");
    check("engine.max_queue", number(1), "OLLAMA_MAX_QUEUE");
    check("engine.kernel", words("scalar"), "CAIRN_KERNEL");
    check("engine.keep_alive", words("soon"), "cannot be read");
    check("engine.parallel", words("many"), "whole number");
    check("engine.kv_type", words("q9"), "f16, bf16");
    check("cache.ram", number(5), "16777216");
    check("cache.ram", number(u64::MAX / 4), "cannot be read");
    check("cache.folder", words("/"), "root");
    check("cache.remote", words("ftp://x/y"), "cannot be read");
    check("network.ca_file", words("/nowhere/x.pem"), "no such file");
    check("downloads.limit", words("fast"), "cannot be read");
    check("ui.language", words("xx"), "zh-CN");
    check("engine.parallel", number(u64::MAX), "at most");
    check("engine.parallel", number(1 << 40), "at most");
    check("models.folder", words("/a\0b"), "one line");
    check("models.folder", words("/a\nb"), "one line");
    check("server.origins", words(&format!("http://{}", "a".repeat(1 << 20))), "longer");
}

#[tokio::test]
async fn an_address_at_which_nobody_could_listen_is_refused() {
    let desk = Desk::start(&[], "");
    for wrong in ["203.0.113.7:11434", "no-such-host.invalid", "127.0.0.1:99999", "127.0.0.1:22x", "[::1", "*"] {
        let refused = desk.change(&[("server.host", words(wrong))]);
        assert!(matches!(refused, Err(SettingsError::Wrong(_))), "{wrong}: {refused:?}");
    }
    assert_eq!(desk.text(), "", "nothing was written");
    for right in ["0.0.0.0", "127.0.0.1:11999", "localhost:11999", ":11999", "http://127.0.0.1:11999", "127.0.0.1:0"] {
        let kept = desk.change(&[("server.host", words(right))]);
        assert!(kept.is_ok(), "{right}: {kept:?}");
    }
    desk.change(&[("server.host", None)]).expect("the default can be");
}

#[tokio::test]
async fn what_is_no_group_is_not_written_over() {
    for before in ["ui = 5 # mine\n", "[[ui]]\ntheme = 'dark'\n[[ui]]\n"] {
        let desk = Desk::start(&[], before);
        let refused = desk.change(&[("ui.theme", words("dark"))]);
        assert!(matches!(refused, Err(SettingsError::Wrong(_))), "{before}: {refused:?}");
        assert_eq!(desk.text(), before, "somebody wrote that");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_left_alone() {
    let desk = Desk::start(&[], "[engine\n");
    assert!(desk.app.settings().table().trouble.is_some(), "it is told");
    let error = desk.change(&[("ui.theme", words("dark"))]).expect_err("it must be refused").to_string();
    assert!(error.contains("nothing was changed"), "{error}");
    assert_eq!(desk.text(), "[engine\n", "and nothing was");
}

#[test]
fn what_says_that_it_holds_at_once_is_what_is_applied() {
    let said: Vec<_> = TABLE.iter().filter(|row| row.applies != Applies::Restart && row.variable.is_some()).collect();
    let keys: Vec<_> = said.iter().filter_map(|row| row.key).collect();
    let expected = ["engine.keep_alive", "engine.context", "cache.ram", "cache.folder_size", "downloads.limit"];
    assert_eq!(keys, expected, "each of them has an arm in `App::apply`, and its line in a test above");
}
