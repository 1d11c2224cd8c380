//! Settings: one table that help, documents and the program itself read.
//!
//! A value comes from the environment or is the default. One that cannot be read is not fatal: the default holds, and
//! [`Settings::warnings`] says so, because a daemon that does not start over a typo helps nobody.

mod address;
mod downloads;
mod mirror;
mod tiers;

use std::path::PathBuf;

use cairn_wire::KeepAlive;

use crate::{Env, Places};
pub use address::Address;
pub use downloads::{DownloadSettings, bytes};
pub use mirror::{MirrorSettings, MirroredOrigin};
pub use tiers::{Compress, RemotePlace, TierSettings};

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The environment variable.
    pub name: &'static str,
    /// Another variable that is read when the first is not set.
    pub also: Option<&'static str>,
    /// What holds when neither is set, in words or as a value.
    pub default: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
}

const fn row(name: &'static str, default: &'static str, about: &'static str) -> Row {
    Row { name, also: None, default, about }
}

/// Every setting.
pub const TABLE: &[Row] = &[
    row("OLLAMA_HOST", "127.0.0.1:11434", "Where the daemon listens, and where commands look for it"),
    row("OLLAMA_MODELS", "Cairn's own library, then ~/.ollama/models", "The library of models, in Ollama's layout"),
    row("CAIRN_LIBRARIES", "none", "Further libraries that are only read, as a list of folders such as PATH is one"),
    row(
        "CAIRN_SHARE",
        "false",
        "Lets other machines that reach OLLAMA_HOST pull models from /v2 here, and finds those that do so (mDNS)",
    ),
    row(
        "CAIRN_MIRROR",
        "false",
        "Fetches models that clients of /v2 ask for and this machine lacks, once for all of them",
    ),
    row(
        "CAIRN_MIRROR_ORIGINS",
        "registry.ollama.ai/library",
        "What CAIRN_MIRROR fetches: registries, each with a namespace or all",
    ),
    row(
        "CAIRN_TRUSTED_PROXIES",
        "none",
        "Addresses of reverse proxies in front of /v2 whose X-Forwarded-For, -Proto and -Host are believed",
    ),
    row("OLLAMA_KEEP_ALIVE", "5m", "How long a model stays loaded after its last request; negative: for ever"),
    row("OLLAMA_CONTEXT_LENGTH", "4096", "Tokens of context of a model, unless a request says otherwise"),
    row("OLLAMA_NUM_PARALLEL", "8", "Requests that one model answers at the same time"),
    row("OLLAMA_MAX_LOADED_MODELS", "3", "Models that are loaded at the same time"),
    row("OLLAMA_MAX_QUEUE", "512", "Requests that wait before more are refused"),
    row("OLLAMA_ORIGINS", "this machine", "Web origins besides local ones that may use /api, comma-separated"),
    row(
        "OLLAMA_GO_TEMPLATE",
        "the better of a model's two",
        "Whether a library's template goes before that of the model's own file, where there are both",
    ),
    Row {
        name: "CAIRN_KERNEL",
        also: Some("OLLAMA_LLM_LIBRARY"),
        default: "the best that the processor has",
        about: "The variant of the compute kernels, avx2-fma-f16c for instance",
    },
    row(
        "OLLAMA_KV_CACHE_TYPE",
        "f16",
        "Type of the attention cache, f16, bf16, q8_0 or q4_0, unless a request or its model says otherwise",
    ),
    row("CAIRN_KV_BUDGET", "a quarter of the memory", "Bytes for the attention caches of all models together"),
    row(
        "CAIRN_CONTEXT_SHIFT",
        "turns",
        "What goes when an answer fills its context: a chat's oldest turns, or tokens without reading anew (rope)",
    ),
    row(
        "CAIRN_KV_RAM",
        "an eighth of the memory, 4G at most",
        "Bytes for computed prefixes whose model has left memory, so that they need not be computed again; 0: none",
    ),
    row(
        "OLLAMA_KV_TIERING",
        "true",
        "Whether computed prefixes are kept on the disk and in a remote place too, where they outlive a restart",
    ),
    row("OLLAMA_KV_TIER_LOCAL", "a folder among Cairn's caches", "The folder for them on this machine"),
    row("OLLAMA_KV_TIER_LOCAL_GB", "a tenth of what is free, 20 at most", "GiB that the folder may hold; 0: no folder"),
    row(
        "OLLAMA_KV_TIER_REMOTE",
        "none",
        "A further place for them: a mounted share, or s3://, gs:// or az:// with credentials from the usual variables",
    ),
    row("OLLAMA_KV_TIER_REMOTE_GB", "100", "GiB that the remote place may hold"),
    row(
        "OLLAMA_KV_TIER_COMPRESS",
        "off in the folder, on in the remote place",
        "Whether they are stored smaller: off, on (without loss), or compact (rounded to 8 bits)",
    ),
    row("CAIRN_KV_TTL", "30d", "How long prefixes are kept that nobody uses; never: as long as there is room"),
    row("CAIRN_KV_ENCRYPT", "remote", "Which of their files are encrypted: on (all), remote, or off"),
    row(
        "CAIRN_KV_KEYCHAIN",
        "true, unless CAIRN_HOME is set",
        "Whether the key for that is kept in the system's keychain, else in a file that only this user can read",
    ),
    row("CAIRN_KV_WEIGH", "true", "Keeps and brings back prefixes only where that is quicker than computing them"),
    row(
        "CAIRN_KV_RESERVE",
        "11G, or a twentieth of the disk where that is more",
        "Bytes of the disk that the folder for prefixes leaves free",
    ),
    row("CAIRN_KV_DAILY_WRITE", "54G", "Bytes that are written to the folder on one day, to spare the disk; or none"),
    row("CAIRN_DOWNLOAD_LIMIT", "none", "Bytes per second of all downloads together, 20M for instance"),
    row("CAIRN_DISK_RESERVE", "512M", "Bytes of the disk that downloads leave free"),
    row("CAIRN_MIRRORS", "none", "Mirrors to ask before a registry, as registry.ollama.ai=http://nas:11434,hf.co=..."),
    Row {
        name: "CAIRN_HUB",
        also: Some("HF_ENDPOINT"),
        default: "https://huggingface.co",
        about: "Where `cairn search` looks besides its own catalogue; set to nothing, it asks nobody",
    },
    row(
        "CAIRN_PROXY",
        "HTTP_PROXY and HTTPS_PROXY",
        "The proxy that leads to registries: http, https, socks5 or socks5h",
    ),
    Row {
        name: "HTTP_PROXY",
        also: Some("http_proxy"),
        default: "ALL_PROXY",
        about: "The proxy to registries of plain http, unless CAIRN_PROXY is set",
    },
    Row {
        name: "HTTPS_PROXY",
        also: Some("https_proxy"),
        default: "ALL_PROXY",
        about: "The proxy to registries of https, unless CAIRN_PROXY is set",
    },
    Row {
        name: "ALL_PROXY",
        also: Some("all_proxy"),
        default: "none",
        about: "The proxy where neither of the two before is set",
    },
    Row {
        name: "NO_PROXY",
        also: Some("no_proxy"),
        default: "this machine",
        about: "Hosts, domains and networks that are reached without a proxy, comma-separated",
    },
    row("CAIRN_CA_FILE", "the system's certificates", "A PEM file of certificates to trust besides"),
    row(
        "CAIRN_KEY",
        "a key of Cairn's own",
        "The ed25519 key that signs in to registries, ~/.ollama/id_ed25519 for instance",
    ),
    row(
        "CAIRN_AUTH_FILE",
        "those of cairn login",
        "Further names and passwords for registries, in a file such as ~/.docker/config.json",
    ),
    row("CAIRN_STALL", "30s", "How long nothing may come of a download before it is asked for anew; waits go with it"),
    row(
        "OLLAMA_NOPRUNE",
        "false",
        "Keeps what no model needs: of a pulled model's older version, and what the start would clear away",
    ),
    row("CAIRN_HOME", "the system's usual folders", "One folder for everything that Cairn keeps"),
    row(
        "CAIRN_CHAT_TITLES",
        "true",
        "Whether a chat's model names it, after the first answer and when nothing else is computed",
    ),
    row("CAIRN_HIDE_PEBBLE", "false", "Leaves the built-in model out of lists"),
    row("NO_COLOR", "unset", "Set to anything, commands print no colours (https://no-color.org)"),
    row("CAIRN_LOG", "info", "What is logged: error, warn, info, debug, trace, or a filter such as cairn_http=debug"),
];

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The variable of this name.
    Environment(&'static str),
}

/// The settings that hold.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `OLLAMA_HOST`.
    pub address: Address,
    /// The library of models that is written: `OLLAMA_MODELS`, else our own.
    pub library: PathBuf,
    /// Libraries that are only read: `CAIRN_LIBRARIES`.
    pub linked_libraries: Vec<PathBuf>,
    /// Where Ollama keeps its models, which are read if they are there; `None` when `OLLAMA_MODELS` says where models are.
    pub ollama_library: Option<PathBuf>,
    /// Where other apps keep their models: looked through when asked for, and only then.
    pub other_apps: Vec<crate::Kept>,
    /// `CAIRN_SHARE`.
    pub share: bool,
    /// What is fetched for those with whom models are shared.
    pub mirror: MirrorSettings,
    /// `OLLAMA_KEEP_ALIVE`.
    pub keep_alive: KeepAlive,
    /// `OLLAMA_CONTEXT_LENGTH`.
    pub context_tokens: Option<u32>,
    /// `OLLAMA_NUM_PARALLEL`.
    pub parallel: Option<usize>,
    /// `OLLAMA_MAX_LOADED_MODELS`.
    pub max_loaded: Option<usize>,
    /// `OLLAMA_MAX_QUEUE`.
    pub max_queue: usize,
    /// `OLLAMA_ORIGINS`.
    pub origins: Vec<String>,
    /// `OLLAMA_GO_TEMPLATE`; unset leaves it to what the templates can do.
    pub go_template: Option<bool>,
    /// `CAIRN_KERNEL`.
    pub kernel: Option<String>,
    /// `OLLAMA_KV_CACHE_TYPE`.
    pub kv_cache_type: Option<String>,
    /// `CAIRN_CONTEXT_SHIFT`.
    pub context_shift: Option<crate::ContextShift>,
    /// `CAIRN_KV_BUDGET`, in bytes.
    pub kv_budget_bytes: Option<u64>,
    /// Where computed prefixes are kept.
    pub tiers: TierSettings,
    /// How models are fetched.
    pub downloads: DownloadSettings,
    /// Where chats are kept.
    pub chats_file: PathBuf,
    /// `CAIRN_CHAT_TITLES`.
    pub chat_titles: bool,
    /// `CAIRN_HIDE_PEBBLE`.
    pub hide_pebble: bool,
    /// `NO_COLOR`.
    pub no_color: bool,
    /// `CAIRN_LOG`.
    pub log: String,
    /// Values that could not be read.
    pub warnings: Vec<String>,
    origins_of_values: Vec<(&'static str, Origin)>,
}

impl Settings {
    /// Reads the table's variables.
    #[must_use]
    pub fn load(env: &Env, places: &Places) -> Self {
        let mut read = Reader { env, warnings: Vec::new() };
        let count = |text: &str| text.parse::<usize>().ok();
        // Zero says "automatic", as in Ollama.
        let some = |count: Option<usize>| count.filter(|count| *count > 0);
        let (library, ollama_library) = match env.full_path("OLLAMA_MODELS") {
            Some(path) => (path, None),
            None => (places.models(), places.ollama_models.clone()),
        };
        let mut settings = Self {
            address: read.parsed("OLLAMA_HOST", Address::parse).unwrap_or_default(),
            library,
            linked_libraries: env.full_paths("CAIRN_LIBRARIES"),
            ollama_library,
            other_apps: crate::scan::places::folders(env, crate::System::this()),
            keep_alive: read
                .parsed("OLLAMA_KEEP_ALIVE", |text| KeepAlive::parse_setting(text).ok())
                .unwrap_or(KeepAlive::For(std::time::Duration::from_secs(300))),
            context_tokens: read.parsed("OLLAMA_CONTEXT_LENGTH", |text| text.parse().ok()).filter(|tokens| *tokens > 0),
            parallel: some(read.parsed("OLLAMA_NUM_PARALLEL", count)),
            max_loaded: some(read.parsed("OLLAMA_MAX_LOADED_MODELS", count)),
            max_queue: read.parsed("OLLAMA_MAX_QUEUE", count).unwrap_or(512),
            origins: read
                .text("OLLAMA_ORIGINS")
                .map(|text| text.split(',').map(|origin| origin.trim().to_owned()).filter(|o| !o.is_empty()).collect())
                .unwrap_or_default(),
            go_template: read.text("OLLAMA_GO_TEMPLATE").map(is_true),
            kernel: read.text("CAIRN_KERNEL").map(str::to_owned),
            kv_cache_type: read.text("OLLAMA_KV_CACHE_TYPE").map(str::to_owned),
            context_shift: read.parsed("CAIRN_CONTEXT_SHIFT", |text| crate::ContextShift::parse(text).ok()),
            kv_budget_bytes: read.parsed("CAIRN_KV_BUDGET", |text| text.parse().ok()),
            share: read.text("CAIRN_SHARE").is_some_and(is_true),
            mirror: MirrorSettings::load(&mut read, places),
            tiers: TierSettings::load(&mut read, env, places),
            downloads: DownloadSettings::load(&mut read, env, places),
            chats_file: places.data.join("chats").join("chats.sqlite"),
            chat_titles: read.text("CAIRN_CHAT_TITLES").is_none_or(is_true),
            hide_pebble: read.text("CAIRN_HIDE_PEBBLE").is_some_and(is_true),
            // Whatever it says, `0` and `false` too.
            no_color: read.text("NO_COLOR").is_some(),
            log: read.text("CAIRN_LOG").unwrap_or("info").to_owned(),
            warnings: Vec::new(),
            origins_of_values: TABLE.iter().map(|row| (row.name, origin(env, row))).collect(),
        };
        // Whoever reaches this machine's models may have others fetched.
        settings.downloads.for_others |= !settings.address.is_loopback() || !settings.mirror.trusted_proxies.is_empty();
        settings.warnings = read.warnings;
        settings
    }

    /// Where a setting's value comes from; `None` for a name that the table does not have.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<Origin> {
        self.origins_of_values.iter().find(|(row, _)| *row == name).map(|(_, origin)| *origin)
    }
}

/// The table as text, for `--help`.
#[must_use]
pub fn help() -> String {
    use std::fmt::Write;
    let width = TABLE.iter().map(|row| row.name.len()).max().unwrap_or(0);
    TABLE.iter().fold("Environment:\n".to_owned(), |mut text, row| {
        writeln!(text, "  {:width$}  {} [default: {}]", row.name, row.about, row.default)
            .expect("writing into a string does not fail");
        text
    })
}

struct Reader<'a> {
    env: &'a Env,
    warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    fn text(&self, name: &'static str) -> Option<&'a str> {
        let row = TABLE.iter().find(|row| row.name == name).expect("every setting that is read has a row");
        self.env.text(name).or_else(|| row.also.and_then(|also| self.env.text(also)))
    }

    fn parsed<T>(&mut self, name: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(text);
        if value.is_none() {
            self.warnings.push(format!("{name}={text:?} cannot be read; the default holds"));
        }
        value
    }
}

fn origin(env: &Env, row: &Row) -> Origin {
    let names = std::iter::once(row.name).chain(row.also);
    names.into_iter().find(|name| env.path(name).is_some()).map_or(Origin::Default, Origin::Environment)
}

/// What Ollama takes for true: all but the words for false.
fn is_true(text: &str) -> bool {
    !matches!(text.to_ascii_lowercase().as_str(), "0" | "f" | "false")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::System;

    fn load<const N: usize>(variables: [(&str, &str); N]) -> Settings {
        let places = Places::of(&Env::of([("HOME", "/h")]), System::Xdg).unwrap();
        Settings::load(&Env::of(variables), &places)
    }

    #[test]
    fn defaults() {
        let settings = load([]);
        assert_eq!(settings.address.to_string(), "http://127.0.0.1:11434", "where Ollama is");
        assert_eq!(settings.keep_alive, KeepAlive::For(std::time::Duration::from_secs(300)), "five minutes");
        assert_eq!(settings.library, PathBuf::from("/h/.local/share/cairn/models"), "our library");
        assert_eq!(settings.ollama_library, Some(PathBuf::from("/h/.ollama/models")), "then Ollama's");
        assert!(settings.linked_libraries.is_empty(), "{:?}", settings.linked_libraries);
        assert_eq!(settings.origin("OLLAMA_HOST"), Some(Origin::Default), "nobody set it");
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    }

    #[test]
    fn whom_others_reach_fetches_for_them() {
        let check = |name: &str, value: &str, expected: bool| {
            assert_eq!(load([(name, value)]).downloads.for_others, expected, "{name}={value}");
        };
        check("OLLAMA_HOST", "0.0.0.0", true);
        check("OLLAMA_HOST", "nas:11434", true);
        check("OLLAMA_HOST", "[::]:1", true);
        check("OLLAMA_HOST", "localhost:1", false);
        check("OLLAMA_HOST", "[::1]", false);
        check("OLLAMA_HOST", ":1", false);
        check("CAIRN_TRUSTED_PROXIES", "127.0.0.1", true);
    }

    #[test]
    fn the_environment_wins() {
        let settings = load([
            ("OLLAMA_MODELS", "/m"),
            ("OLLAMA_KEEP_ALIVE", "-1"),
            ("OLLAMA_ORIGINS", "http://a, http://b"),
            ("OLLAMA_LLM_LIBRARY", "scalar"),
            ("CAIRN_HIDE_PEBBLE", "yes"),
            ("OLLAMA_GO_TEMPLATE", "false"),
            ("CAIRN_CONTEXT_SHIFT", "Rope"),
            ("OLLAMA_CONTEXT_LENGTH", " '8192' "),
        ]);
        assert_eq!((&settings.library, &settings.ollama_library), (&PathBuf::from("/m"), &None), "it and no other");
        let further = std::env::join_paths(["/a", "", "/b c", "here"]).unwrap();
        let linked = load([("CAIRN_LIBRARIES", further.to_str().unwrap())]).linked_libraries;
        let here = std::path::absolute("here").unwrap();
        assert_eq!(linked, [PathBuf::from("/a"), PathBuf::from("/b c"), here], "a list of folders");
        assert_eq!(settings.keep_alive, KeepAlive::Forever, "a negative number");
        assert_eq!(settings.origins, ["http://a", "http://b"], "a list");
        assert_eq!(settings.kernel.as_deref(), Some("scalar"), "the other name");
        assert_eq!(settings.origin("CAIRN_KERNEL"), Some(Origin::Environment("OLLAMA_LLM_LIBRARY")), "and it says so");
        assert!(settings.hide_pebble, "any word but false");
        assert_eq!((settings.go_template, load([]).go_template), (Some(false), None), "unset is neither");
        assert_eq!(settings.context_shift, Some(crate::ContextShift::Rope), "in any letters");
        assert_eq!(settings.context_tokens, Some(8192), "blanks and quotes are no part of a value");
    }

    #[test]
    fn any_text_takes_colours_away() {
        assert!(!load([]).no_color && !load([("NO_COLOR", "")]).no_color, "unset or empty");
        assert!(load([("NO_COLOR", "0")]).no_color, "what it says does not matter");
    }

    #[test]
    fn a_typo_is_said_and_does_not_hold() {
        let settings = load([("OLLAMA_MAX_QUEUE", "many"), ("OLLAMA_KEEP_ALIVE", "soon")]);
        assert_eq!(settings.max_queue, 512, "the default");
        assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
    }

    #[test]
    fn help_has_every_row() {
        let help = help();
        for row in TABLE {
            assert!(help.contains(row.name) && help.contains(row.about), "{} is missing", row.name);
        }
    }
}
