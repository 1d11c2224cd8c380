//! The table of settings: what `--help`, the loader, `config.toml` and the settings panel know, they know from here.

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its name in `config.toml`, of which the part before the dot is its group; none for what only the environment says.
    pub key: Option<&'static str>,
    /// The environment variable; none for what only `config.toml` says.
    pub name: Option<&'static str>,
    /// Another variable that is read when the first is not set.
    pub also: Option<&'static str>,
    /// What its value is.
    pub kind: Kind,
    /// What a number counts, or how a text is written.
    pub unit: Option<&'static str>,
    /// What holds when nobody sets it, in words or as a value.
    pub default: &'static str,
    /// Whether that is words.
    pub words: bool,
    /// Whether a variable that is set to nothing says something.
    pub blank: bool,
    /// When a change of it holds.
    pub applies: Applies,
    /// What it does, in one line.
    pub about: &'static str,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number.
    Number,
    /// Bytes. The environment counts in so many of them.
    Bytes(u64),
    /// Text.
    Text,
    /// The path of a folder or a file, from the root.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// When a change holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// At once.
    Now,
    /// For models that are loaded from now on.
    NextLoad,
    /// When the daemon is started anew.
    Restart,
}

use Kind::{Bool, Choice, Number, Path, Text};

const BYTES: Kind = Kind::Bytes(1);
const GIB: Kind = Kind::Bytes(1 << 30);

const fn row(key: &'static str, name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Row {
    Row { key: Some(key), name: Some(name), ..environment(name, default, about).of(kind) }
}

/// What decides where `config.toml` is, or is the system's and not ours to set.
const fn environment(name: &'static str, default: &'static str, about: &'static str) -> Row {
    let name = Some(name);
    let (key, also, unit, kind, applies) = (None, None, None, Text, Applies::Restart);
    Row { key, name, also, kind, unit, default, words: false, blank: false, applies, about }
}

/// What clients with a window keep here, so that all of them show the same.
const fn interface(key: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Row {
    Row { key: Some(key), name: None, applies: Applies::Now, ..environment("", default, about).of(kind) }
}

impl Row {
    const fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    const fn words(self) -> Self {
        Self { words: true, ..self }
    }

    const fn blank(self) -> Self {
        Self { blank: true, ..self }
    }

    const fn unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    const fn also(self, also: &'static str) -> Self {
        Self { also: Some(also), ..self }
    }

    const fn applies(self, applies: Applies) -> Self {
        Self { applies, ..self }
    }

    /// What it belongs to.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.key.and_then(|key| key.split_once('.')).map_or("", |(group, _)| group)
    }
}

/// Every setting, those of a group beside each other.
pub const TABLE: &[Row] = &[
    row(
        "server.host",
        "OLLAMA_HOST",
        Text,
        "127.0.0.1:11434",
        "Where the daemon listens, and where commands look for it",
    ),
    row(
        "server.origins",
        "OLLAMA_ORIGINS",
        Text,
        "this machine",
        "Web origins besides local ones that may use /api, comma-separated",
    )
    .words()
    .unit("list"),
    row(
        "models.folder",
        "OLLAMA_MODELS",
        Path,
        "Cairn's own library, then ~/.ollama/models",
        "The library of models, in Ollama's layout",
    )
    .words(),
    row(
        "models.linked",
        "CAIRN_LIBRARIES",
        Text,
        "none",
        "Further libraries that are only read, as a list of folders such as PATH is one",
    )
    .words()
    .unit("paths"),
    row(
        "models.keep_unneeded",
        "OLLAMA_NOPRUNE",
        Bool,
        "false",
        "Keeps what no model needs: of a pulled model's older version, and what the start would clear away",
    ),
    row(
        "models.go_template",
        "OLLAMA_GO_TEMPLATE",
        Bool,
        "the better of a model's two",
        "Whether a library's template goes before that of the model's own file, where there are both",
    )
    .words(),
    row("models.hide_pebble", "CAIRN_HIDE_PEBBLE", Bool, "false", "Leaves the built-in model out of lists"),
    row(
        "chats.titles",
        "CAIRN_CHAT_TITLES",
        Bool,
        "true",
        "Whether a chat's model names it, after the first answer and when nothing else is computed",
    ),
    row(
        "engine.keep_alive",
        "OLLAMA_KEEP_ALIVE",
        Text,
        "5m",
        "How long a model stays loaded after its last request; negative: for ever",
    )
    .unit("duration")
    .applies(Applies::Now),
    row(
        "engine.context",
        "OLLAMA_CONTEXT_LENGTH",
        Number,
        "4096",
        "Tokens of context of a model, unless a request says otherwise",
    )
    .unit("tokens")
    .applies(Applies::NextLoad),
    row("engine.parallel", "OLLAMA_NUM_PARALLEL", Number, "8", "Requests that one model answers at the same time"),
    row("engine.max_loaded", "OLLAMA_MAX_LOADED_MODELS", Number, "3", "Models that are loaded at the same time"),
    row("engine.max_queue", "OLLAMA_MAX_QUEUE", Number, "512", "Requests that wait before more are refused"),
    row(
        "engine.kernel",
        "CAIRN_KERNEL",
        Text,
        "the best that the processor has",
        "The variant of the compute kernels, avx2-fma-f16c for instance",
    )
    .words()
    .also("OLLAMA_LLM_LIBRARY"),
    row(
        "engine.kv_type",
        "OLLAMA_KV_CACHE_TYPE",
        Choice(&["f16", "bf16", "q8_0", "q4_0"]),
        "f16",
        "Type of the attention cache, f16, bf16, q8_0 or q4_0, unless a request or its model says otherwise",
    ),
    row(
        "engine.kv_budget",
        "CAIRN_KV_BUDGET",
        BYTES,
        "a quarter of the memory",
        "Bytes for the attention caches of all models together",
    )
    .words(),
    row(
        "engine.context_shift",
        "CAIRN_CONTEXT_SHIFT",
        Choice(&["turns", "rope"]),
        "turns",
        "What goes when an answer fills its context: a chat's oldest turns, or tokens without reading anew (rope)",
    ),
    row(
        "cache.ram",
        "CAIRN_KV_RAM",
        BYTES,
        "an eighth of the memory, 4G at most",
        "Bytes for computed prefixes whose model has left memory, so that they need not be computed again; 0: none",
    )
    .words()
    .applies(Applies::Now),
    row(
        "cache.tiering",
        "OLLAMA_KV_TIERING",
        Bool,
        "true",
        "Whether computed prefixes are kept on the disk and in a remote place too, where they outlive a restart",
    ),
    row(
        "cache.folder",
        "OLLAMA_KV_TIER_LOCAL",
        Path,
        "a folder among Cairn's caches",
        "The folder for them on this machine",
    )
    .words(),
    row(
        "cache.folder_size",
        "OLLAMA_KV_TIER_LOCAL_GB",
        GIB,
        "a tenth of what is free, 20 at most",
        "GiB that the folder may hold; 0: no folder",
    )
    .words()
    .applies(Applies::Now),
    row(
        "cache.remote",
        "OLLAMA_KV_TIER_REMOTE",
        Text,
        "none",
        "A further place for them: a mounted share, or s3://, gs:// or az:// with credentials from the usual variables",
    )
    .words()
    .unit("place"),
    row("cache.remote_size", "OLLAMA_KV_TIER_REMOTE_GB", GIB, "100", "GiB that the remote place may hold"),
    row(
        "cache.compress",
        "OLLAMA_KV_TIER_COMPRESS",
        Choice(&["off", "on", "compact"]),
        "off in the folder, on in the remote place",
        "Whether they are stored smaller: off, on (without loss), or compact (rounded to 8 bits)",
    )
    .words(),
    row(
        "cache.ttl",
        "CAIRN_KV_TTL",
        Text,
        "30d",
        "How long prefixes are kept that nobody uses; never: as long as there is room",
    )
    .unit("duration"),
    row(
        "cache.encrypt",
        "CAIRN_KV_ENCRYPT",
        Choice(&["on", "remote", "off"]),
        "remote",
        "Which of their files are encrypted: on (all), remote, or off",
    ),
    row(
        "cache.keychain",
        "CAIRN_KV_KEYCHAIN",
        Bool,
        "true, unless CAIRN_HOME is set",
        "Whether the key for that is kept in the system's keychain, else in a file that only this user can read",
    )
    .words(),
    row(
        "cache.weigh",
        "CAIRN_KV_WEIGH",
        Bool,
        "true",
        "Keeps and brings back prefixes only where that is quicker than computing them",
    ),
    row(
        "cache.reserve",
        "CAIRN_KV_RESERVE",
        BYTES,
        "11G, or a twentieth of the disk where that is more",
        "Bytes of the disk that the folder for prefixes leaves free",
    )
    .words(),
    row(
        "cache.daily_write",
        "CAIRN_KV_DAILY_WRITE",
        BYTES,
        "54G",
        "Bytes that are written to the folder on one day, to spare the disk; or none",
    ),
    row(
        "downloads.limit",
        "CAIRN_DOWNLOAD_LIMIT",
        BYTES,
        "none",
        "Bytes per second of all downloads together, 20M for instance",
    )
    .words()
    .unit("bytes_per_second")
    .applies(Applies::Now),
    row("downloads.reserve", "CAIRN_DISK_RESERVE", BYTES, "512M", "Bytes of the disk that downloads leave free"),
    row(
        "downloads.mirrors",
        "CAIRN_MIRRORS",
        Text,
        "none",
        "Mirrors to ask before a registry, as registry.ollama.ai=http://nas:11434,hf.co=...",
    )
    .words()
    .unit("list"),
    row(
        "downloads.stall",
        "CAIRN_STALL",
        Text,
        "30s",
        "How long nothing may come of a download before it is asked for anew; waits go with it",
    )
    .unit("duration"),
    row(
        "downloads.hub",
        "CAIRN_HUB",
        Text,
        "https://huggingface.co",
        "Where `cairn search` looks besides its own catalogue; set to nothing, it asks nobody",
    )
    .also("HF_ENDPOINT")
    .blank(),
    row(
        "network.proxy",
        "CAIRN_PROXY",
        Text,
        "HTTP_PROXY and HTTPS_PROXY",
        "The proxy that leads to registries: http, https, socks5 or socks5h",
    )
    .words(),
    environment("HTTP_PROXY", "ALL_PROXY", "The proxy to registries of plain http, unless CAIRN_PROXY is set")
        .also("http_proxy"),
    environment("HTTPS_PROXY", "ALL_PROXY", "The proxy to registries of https, unless CAIRN_PROXY is set")
        .also("https_proxy"),
    environment("ALL_PROXY", "none", "The proxy where neither of the two before is set").also("all_proxy"),
    row(
        "network.no_proxy",
        "NO_PROXY",
        Text,
        "this machine",
        "Hosts, domains and networks that are reached without a proxy, comma-separated",
    )
    .words()
    .unit("list")
    .also("no_proxy"),
    row(
        "network.ca_file",
        "CAIRN_CA_FILE",
        Path,
        "the system's certificates",
        "A PEM file of certificates to trust besides",
    )
    .words(),
    row(
        "network.key",
        "CAIRN_KEY",
        Path,
        "a key of Cairn's own",
        "The ed25519 key that signs in to registries, ~/.ollama/id_ed25519 for instance",
    )
    .words(),
    row(
        "network.auth_file",
        "CAIRN_AUTH_FILE",
        Path,
        "those of cairn login",
        "Further names and passwords for registries, in a file such as ~/.docker/config.json",
    )
    .words(),
    row(
        "sharing.share",
        "CAIRN_SHARE",
        Bool,
        "false",
        "Lets other machines that reach OLLAMA_HOST pull models from /v2 here, and finds those that do so (mDNS)",
    ),
    row(
        "sharing.mirror",
        "CAIRN_MIRROR",
        Bool,
        "false",
        "Fetches models that clients of /v2 ask for and this machine lacks, once for all of them",
    ),
    row(
        "sharing.mirror_origins",
        "CAIRN_MIRROR_ORIGINS",
        Text,
        "registry.ollama.ai/library",
        "What CAIRN_MIRROR fetches: registries, each with a namespace or all",
    )
    .unit("list"),
    row(
        "sharing.trusted_proxies",
        "CAIRN_TRUSTED_PROXIES",
        Text,
        "none",
        "Addresses of reverse proxies in front of /v2 whose X-Forwarded-For, -Proto and -Host are believed",
    )
    .words()
    .unit("list"),
    row(
        "log.filter",
        "CAIRN_LOG",
        Text,
        "info",
        "What is logged: error, warn, info, debug, trace, or a filter such as cairn_http=debug",
    ),
    environment("CAIRN_HOME", "the system's usual folders", "One folder for everything that Cairn keeps"),
    environment("NO_COLOR", "unset", "Set to anything, commands print no colours (https://no-color.org)"),
    interface("ui.theme", Choice(&["system", "light", "dark"]), "system", "Colours of the window"),
    interface("ui.contrast", Choice(&["system", "normal", "high"]), "system", "Contrast of the window"),
    interface("ui.language", Choice(&["system", "en", "zh-CN"]), "system", "Language of the window"),
    interface("ui.text_size", Number, "100", "Size of text in the window").unit("percent"),
    interface("ui.width", Choice(&["narrow", "normal", "full"]), "normal", "Width of a chat's text"),
    interface("ui.follow", Bool, "true", "Whether a chat scrolls along with its answer"),
    interface(
        "ui.announce",
        Choice(&["sentence", "done", "off"]),
        "sentence",
        "What a screen reader is told of an answer: each sentence, that it is complete, or nothing",
    ),
    interface("ui.send", Choice(&["enter", "mod_enter"]), "enter", "The key that sends a message"),
    interface(
        "ui.shortcuts",
        Text,
        "the usual ones",
        "Shortcuts of the window that are other than usual, as in \"new_chat=mod+e find=\"",
    )
    .words(),
    interface("ui.close", Choice(&["ask", "tray", "quit"]), "ask", "What closing the window does"),
    interface("ui.notify", Bool, "true", "Whether the end of a download or trouble with it is told by the system"),
    interface("ui.welcomed", Bool, "false", "Whether the first run is over"),
];

#[cfg(test)]
mod tests {
    use super::super::value;
    use super::*;

    #[test]
    fn groups_stand_together_and_names_are_used_once() {
        let mut groups: Vec<&str> = TABLE.iter().filter(|row| row.key.is_some()).map(Row::group).collect();
        groups.dedup();
        let count = groups.len();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), count, "a group in two places: {groups:?}");
        for (at, row) in TABLE.iter().enumerate() {
            let rest = &TABLE[at + 1..];
            assert!(row.key.is_none() || rest.iter().all(|other| other.key != row.key), "{:?} twice", row.key);
            assert!(row.name.is_none() || rest.iter().all(|other| other.name != row.name), "{:?} twice", row.name);
            assert!(row.key.is_some() || row.name.is_some(), "nobody can set {row:?}");
            let named = row.key.is_none_or(|key| key.split('.').count() == 2);
            assert!(named, "{:?} is a group and a name", row.key);
        }
    }

    #[test]
    fn defaults_are_values_of_their_kind() {
        for row in TABLE.iter().filter(|row| row.key.is_some() && !row.words) {
            let value = value::shown(row, row.default).expect("a default says something");
            let form = value::text(row, &value).unwrap_or_else(|why| panic!("{row:?}: {why}"));
            assert_eq!(value::shown(row, &form), Some(value), "{row:?}: and back");
            assert!(row.kind != Bool || matches!(row.default, "true" | "false"), "{row:?}");
        }
    }
}
