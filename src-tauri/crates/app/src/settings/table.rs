//! The settings table. A new setting needs a line in its group here, and two translations in the interface.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::values::KeepAlive;

use super::address::{self, Address};
use super::context_shift::ContextShift;
use super::downloads::{self, bytes};
use super::mirror::{self, MirroredOrigin};
use super::ollama;
use super::problem::SettingProblem;
use super::reader::{Reader, Slot};
use super::require_key::RequireKey;
use super::row::Applies::{NextLoad, Now};
use super::row::Kind::{Bool, Choice, Number, Path as File, Text};
use super::row::{BYTES, GIB, Row, environment, group, interface, row};
use super::tiers::{self, Compress, RemoteLocation};

/// Largest number of parallel requests or loaded models, because memory is reserved for each.
const MAX_AT_ONCE: usize = 4096;

group! {
    /// Where the daemon listens.
    ServerSettings {
        /// Address that the daemon listens on and that commands connect to
        address: Address = row("server.host", "OLLAMA_HOST", Text, "127.0.0.1:11434").checked(address::check),
            address::read;
        /// Further names of this machine that `Host` headers may have, comma-separated
        names: Vec<String> = row("server.names", "CAIRN_NAMES", Text, "none").words().unit("list"),
            |slot| slot.text().map(list).unwrap_or_default();
        /// Web origins besides local ones that may call /api, comma-separated
        origins: Vec<String> = row("server.origins", "OLLAMA_ORIGINS", Text, "this machine").words().unit("list"),
            |slot| slot.text().map(list).unwrap_or_default();
        /// What other machines need an API key for: changes to models, all (also chats and lists), or off (as Ollama)
        require_key: RequireKey =
            row("server.require_key", "CAIRN_REQUIRE_KEY", Choice(&["off", "changes", "all"]), "changes").applies(Now),
            |slot| slot.parsed_or_default(RequireKey::parse);
    }
}

group! {
    /// Local models.
    ModelSettings {
        /// Library of models, in Ollama's layout
        folder: Option<PathBuf> =
            row("models.folder", "OLLAMA_MODELS", File, "Cairn's own library, then ~/.ollama/models")
                .words()
                .checked(is_no_file),
            models_folder;
        /// Further libraries, read-only, as a list of folders like PATH
        linked: Vec<PathBuf> = row("models.linked", "CAIRN_LIBRARIES", Text, "none").words().unit("paths"),
            |slot| slot.paths();
        /// Keep files that no model uses: of a model's older version, and those that the start would remove
        keep_unneeded: bool = row("models.keep_unneeded", "OLLAMA_NOPRUNE", Bool, "false"), |slot| slot.is_on();
        /// Prefer a library's template over the one in the model's own file if both exist
        go_template: Option<bool> =
            row("models.go_template", "OLLAMA_GO_TEMPLATE", Bool, "the better of a model's two").words(),
            |slot| slot.is_on_if_set();
        /// Leave the built-in model out of lists
        hide_pebble: bool = row("models.hide_pebble", "CAIRN_HIDE_PEBBLE", Bool, "false"), |slot| slot.is_on();
    }
}

group! {
    /// Chats.
    ChatSettings {
        /// Let a chat's model name the chat, after its first answer and while the model is idle
        titles: bool = row("chats.titles", "CAIRN_CHAT_TITLES", Bool, "true"), |slot| slot.is_on();
    }
}

group! {
    /// The engine.
    EngineSettings {
        /// How long a model stays loaded after its last request; negative: forever
        keep_alive: KeepAlive =
            row("engine.keep_alive", "OLLAMA_KEEP_ALIVE", Text, "5m").unit("duration").applies(Now),
            |slot| slot.parsed_or_default(|text| KeepAlive::parse_setting(text).ok());
        /// Context size of a model unless a request sets it
        context_tokens: Option<u32> =
            row("engine.context", "OLLAMA_CONTEXT_LENGTH", Number, "4096").unit("tokens").applies(NextLoad),
            |slot| slot.parsed(|text| text.parse().ok()).filter(|tokens| *tokens > 0);
        /// Parallel requests per model
        parallel: usize = row("engine.parallel", "OLLAMA_NUM_PARALLEL", Number, "8").checked(is_at_most),
            positive;
        /// Models that are loaded at the same time
        max_loaded: usize = row("engine.max_loaded", "OLLAMA_MAX_LOADED_MODELS", Number, "3").checked(is_at_most),
            positive;
        /// Requests that may wait for a model, besides those that are computed; more are rejected
        max_queue: usize = row("engine.max_queue", "OLLAMA_MAX_QUEUE", Number, "512"),
            |slot| slot.parsed_or_default(|text| text.parse().ok());
        /// Variant of the compute kernels, for example avx2-fma-f16c
        kernel: Option<String> =
            row("engine.kernel", "CAIRN_KERNEL", Text, "the best that the processor has")
                .words()
                .fallback("OLLAMA_LLM_LIBRARY"),
            ollama::kernel;
        /// Type of the KV cache unless a request or its model sets it: f16, bf16, q8_0 or q4_0
        kv_type: Option<String> =
            row("engine.kv_type", "OLLAMA_KV_CACHE_TYPE", Choice(&["f16", "bf16", "q8_0", "q4_0"]), "f16"),
            |slot| slot.parsed(|text| cairn_runtime::parse_kv_type(text).is_ok().then(|| text.to_owned()));
        /// Bytes for the KV caches of all loaded models
        kv_budget_bytes: Option<u64> =
            row("engine.kv_budget", "CAIRN_KV_BUDGET", BYTES, "a quarter of the memory").words(),
            |slot| slot.parsed(bytes);
        /// What a full context drops: a chat's oldest messages (turns), or tokens without reading again (rope)
        context_shift: Option<ContextShift> =
            row("engine.context_shift", "CAIRN_CONTEXT_SHIFT", Choice(&["turns", "rope"]), "turns"),
            |slot| slot.parsed(|text| ContextShift::parse(text).ok());
    }
}

group! {
    /// The cache of computed prefixes. [`TierSettings`](super::TierSettings) adds derived values.
    CacheSettings {
        /// Bytes of RAM for computed prefixes of unloaded models; 0: none
        ram_bytes: Option<u64> =
            row("cache.ram", "CAIRN_KV_RAM", BYTES, "an eighth of the memory, 4G at most").words().applies(Now),
            |slot| slot.parsed(bytes);
        /// Store computed prefixes on the disk and in a remote tier, so that they survive a restart
        is_tiered: bool = row("cache.tiering", "OLLAMA_KV_TIERING", Bool, "true"), |slot| slot.is_on();
        /// Folder for computed prefixes on this machine
        folder: Option<PathBuf> =
            row("cache.folder", "OLLAMA_KV_TIER_LOCAL", File, "a folder among Cairn's caches").words(),
            |slot| slot.path();
        /// GiB that the folder may hold; 0: no folder
        folder_bytes: Option<u64> =
            row("cache.folder_size", "OLLAMA_KV_TIER_LOCAL_GB", GIB, "a tenth of what is free, 20 at most")
                .words()
                .applies(Now),
            |slot| slot.parsed(tiers::gib);
        /// Remote tier: a mounted share, or s3://, gs:// or az:// with credentials from the usual variables
        remote: Option<RemoteLocation> =
            row("cache.remote", "OLLAMA_KV_TIER_REMOTE", Text, "none").words().unit("place"),
            |slot| slot.parsed_in(tiers::remote);
        /// GiB that the remote tier may hold
        remote_bytes: Option<u64> = row("cache.remote_size", "OLLAMA_KV_TIER_REMOTE_GB", GIB, "100"),
            |slot| slot.parsed(tiers::gib);
        /// Compression of stored prefixes: off, on (lossless), or compact (rounded to 8 bits)
        compress: Option<Compress> =
            row(
                "cache.compress",
                "OLLAMA_KV_TIER_COMPRESS",
                Choice(&["off", "on", "compact"]),
                "off in the folder, on in the remote tier",
            )
            .words(),
            |slot| slot.parsed(Compress::parse);
        /// How long unused prefixes are stored; never: as long as there is space
        ttl: Option<Duration> = row("cache.ttl", "CAIRN_KV_TTL", Text, "30d").unit("duration"),
            |slot| slot.parsed_or_default(tiers::ttl);
        /// Which files of prefixes are encrypted: on (all), remote, or off
        encrypt: tiers::Encrypt =
            row("cache.encrypt", "CAIRN_KV_ENCRYPT", Choice(&["on", "remote", "off"]), "remote"),
            |slot| slot.parsed_or_default(tiers::Encrypt::parse);
        /// Store the encryption key in the system's keychain instead of a private file
        keychain: Option<bool> =
            row("cache.keychain", "CAIRN_KV_KEYCHAIN", Bool, "true, unless CAIRN_HOME is set").words(),
            |slot| slot.parsed(tiers::switch);
        /// Store and restore prefixes only if that is faster than computing them
        weigh: bool = row("cache.weigh", "CAIRN_KV_WEIGH", Bool, "true"), |slot| slot.is_on();
        /// Bytes of the disk that the folder for prefixes leaves free
        reserve_bytes: Option<u64> =
            row("cache.reserve", "CAIRN_KV_RESERVE", BYTES, "11G, or a twentieth of the disk if that is more").words(),
            |slot| slot.parsed(bytes);
        /// Bytes written to the folder per day, to spare the disk; or none
        daily_write_bytes: Option<u64> = row("cache.daily_write", "CAIRN_KV_DAILY_WRITE", BYTES, "54G"),
            |slot| slot.parsed_or_default(tiers::daily);
    }
}

group! {
    /// Downloads.
    DownloadSettings {
        /// Total speed limit of all downloads, for example 20M
        limit_bytes_per_s: Option<u64> =
            row("downloads.limit", "CAIRN_DOWNLOAD_LIMIT", BYTES, "none").words().unit("bytes_per_second").applies(Now),
            |slot| slot.parsed(bytes).filter(|limit| *limit > 0);
        /// Bytes of the disk that downloads leave free
        reserve_bytes: Option<u64> = row("downloads.reserve", "CAIRN_DISK_RESERVE", BYTES, "512M"),
            |slot| slot.parsed(bytes);
        /// Mirrors to ask before a registry, as registry.ollama.ai=http://nas:11434,hf.co=...
        mirrors: Vec<(String, String)> = row("downloads.mirrors", "CAIRN_MIRRORS", Text, "none").words().unit("list"),
            |slot| slot.parsed(downloads::mirrors).unwrap_or_default();
        /// Retry a stalled download after this time; other waits scale with it
        stall: Option<Duration> = row("downloads.stall", "CAIRN_STALL", Text, "30s").unit("duration"),
            |slot| slot.parsed(downloads::stall);
        /// Index that `cairn search` asks besides its own catalogue; empty: none
        hub: Option<String> =
            row("downloads.hub", "CAIRN_HUB", Text, "https://huggingface.co").fallback("HF_ENDPOINT").blank(),
            |slot| (!slot.is_blank()).then(|| slot.text_or_default());
    }
}

group! {
    /// Connections to other machines.
    NetworkSettings {
        /// Proxy for registries: http, https, socks5 or socks5h
        proxy: Option<String> = row("network.proxy", "CAIRN_PROXY", Text, "HTTP_PROXY and HTTPS_PROXY").words(),
            |slot| slot.text().map(str::to_owned);
        /// Hosts, domains and networks that are reached without a proxy, comma-separated
        no_proxy: String =
            row("network.no_proxy", "NO_PROXY", Text, "this machine").words().unit("list").fallback("no_proxy"),
            |slot| slot.text().unwrap_or_default().to_owned();
        /// PEM file of additional certificates to trust
        ca_file: Option<PathBuf> =
            row("network.ca_file", "CAIRN_CA_FILE", File, "the system's certificates").words().checked(is_file),
            |slot| slot.path();
        /// Ed25519 key that signs in to registries, for example ~/.ollama/id_ed25519
        key: Option<PathBuf> =
            row("network.key", "CAIRN_KEY", File, "a key of Cairn's own").words().checked(is_file),
            |slot| slot.path();
        /// Further user names and passwords for registries, in a file like ~/.docker/config.json
        auth_file: Option<PathBuf> =
            row("network.auth_file", "CAIRN_AUTH_FILE", File, "those of cairn login").words().checked(is_file),
            |slot| slot.path();
    }
}

group! {
    /// Sharing with other machines.
    SharingSettings {
        /// Let other machines that reach OLLAMA_HOST pull models from /v2, and find those that do so (mDNS)
        share: bool = row("sharing.share", "CAIRN_SHARE", Bool, "false"), |slot| slot.is_on();
        /// Fetch models that clients of /v2 request and this machine lacks, once for all of them
        mirror: bool = row("sharing.mirror", "CAIRN_MIRROR", Bool, "false"), |slot| slot.is_on();
        /// What the mirror fetches: registries, each with a namespace or all
        mirror_origins: Vec<MirroredOrigin> =
            row("sharing.mirror_origins", "CAIRN_MIRROR_ORIGINS", Text, "registry.ollama.ai/library").unit("list"),
            |slot| slot.parsed_or_default(mirror::origins);
        /// Addresses of reverse proxies before /v2 whose X-Forwarded-For, -Proto and -Host are trusted
        trusted_proxies: Vec<std::net::IpAddr> =
            row("sharing.trusted_proxies", "CAIRN_TRUSTED_PROXIES", Text, "none").words().unit("list"),
            |slot| slot.parsed(mirror::proxies).unwrap_or_default();
    }
}

group! {
    /// The log.
    LogSettings {
        /// What is logged: error, warn, info, debug, trace, or a filter like cairn_http=debug
        filter: String = row("log.filter", "CAIRN_LOG", Text, "info").fallback("OLLAMA_DEBUG"), ollama::log_filter;
    }
}

group! {
    /// Settings of the environment only.
    EnvironmentSettings {
        /// One folder for everything that Cairn stores
        has_home: bool = environment("CAIRN_HOME", "the system's usual folders"), |slot| slot.path().is_some();
        /// Commands at a terminal store no history of prompts
        no_history: bool = environment("OLLAMA_NOHISTORY", "false"), |slot| slot.is_on();
        /// Set to anything: commands print no colours (https://no-color.org)
        no_color: bool = environment("NO_COLOR", "unset"), |slot| slot.text().is_some();
        /// API key that commands send to the server of OLLAMA_HOST if it is not this user's daemon
        api_key: Option<String> = environment("CAIRN_API_KEY", "none"), |slot| slot.text().map(str::to_owned);
    }
}

/// Proxy variables that many programs share. [`proxies`](super::derived::proxies) reads them.
const PROXY_VARIABLES: &[Row] = &[
    environment("HTTP_PROXY", "ALL_PROXY")
        .fallback("http_proxy")
        .about("Proxy for registries over plain http, unless CAIRN_PROXY is set"),
    environment("HTTPS_PROXY", "ALL_PROXY")
        .fallback("https_proxy")
        .about("Proxy for registries over https, unless CAIRN_PROXY is set"),
    environment("ALL_PROXY", "none").fallback("all_proxy").about("Proxy if neither of the two is set"),
];

/// Settings of clients with a window. The daemon stores them, but does not read them.
const INTERFACE: &[Row] = &[
    interface("ui.theme", Choice(&["system", "light", "dark"]), "system").about("Colours of the window"),
    interface("ui.contrast", Choice(&["system", "normal", "high"]), "system").about("Contrast of the window"),
    interface("ui.language", Choice(&["system", "en", "zh-CN"]), "system").about("Language of the window"),
    interface("ui.text_size", Number, "100").unit("percent").about("Size of text in the window"),
    interface("ui.width", Choice(&["narrow", "normal", "full"]), "normal").about("Width of a chat's text"),
    interface("ui.follow", Bool, "true").about("Scroll a chat along with its answer"),
    interface("ui.announce", Choice(&["sentence", "done", "off"]), "sentence")
        .about("What a screen reader announces of an answer: each sentence, its completion, or nothing"),
    interface("ui.send", Choice(&["enter", "mod_enter"]), "enter").about("The key that sends a message"),
    interface("ui.shortcuts", Text, "the usual ones")
        .words()
        .about("Changed shortcuts of the window, as in \"new_chat=mod+e find=\""),
    interface("ui.close", Choice(&["ask", "tray", "quit"]), "ask").about("What closing the window does"),
    interface("ui.notify", Bool, "true").about("Notify when a download completes or fails"),
    interface("ui.welcomed", Bool, "false").about("Whether the first run is complete"),
];

/// The groups, in the order of the table.
const GROUPS: [&[Row]; 12] = [
    ServerSettings::ROWS,
    ModelSettings::ROWS,
    ChatSettings::ROWS,
    EngineSettings::ROWS,
    CacheSettings::ROWS,
    DownloadSettings::ROWS,
    NetworkSettings::ROWS,
    SharingSettings::ROWS,
    LogSettings::ROWS,
    EnvironmentSettings::ROWS,
    PROXY_VARIABLES,
    INTERFACE,
];

const fn rows() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < GROUPS.len() {
        count += GROUPS[at].len();
        at += 1;
    }
    count
}

/// All settings. Rows of a group are adjacent.
pub static TABLE: [Row; rows()] = {
    let mut table = [GROUPS[0][0]; rows()];
    let (mut filled, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut at = 0;
        while at < GROUPS[group].len() {
            table[filled] = GROUPS[group][at];
            filled += 1;
            at += 1;
        }
        group += 1;
    }
    table
};

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Reads a number; zero means the default, as in Ollama.
fn positive(slot: &mut Slot<'_>) -> usize {
    let parse = |text: &str| text.parse().ok();
    let count = slot.parsed(parse).filter(|count| *count > 0);
    count.unwrap_or_else(|| slot.default(parse))
}

fn is_at_most(text: &str) -> Result<(), SettingProblem> {
    match text.parse::<usize>() {
        Ok(count) if count > MAX_AT_ONCE => Err(SettingProblem::TooLarge(MAX_AT_ONCE)),
        _ => Ok(()),
    }
}

fn is_file(text: &str) -> Result<(), SettingProblem> {
    if Path::new(text).is_file() { Ok(()) } else { Err(SettingProblem::NoFile(text.into())) }
}

/// Checks that a path is a folder, or that one can be created there.
fn is_no_file(text: &str) -> Result<(), SettingProblem> {
    match Path::new(text).ancestors().find(|path| path.exists()) {
        Some(path) if !path.is_dir() => Err(SettingProblem::NotFolder(path.to_owned())),
        _ => Ok(()),
    }
}

/// Reads the library. A file in its place is kept, because models must not go to another library than intended.
fn models_folder(slot: &mut Slot<'_>) -> Option<PathBuf> {
    let folder = slot.path()?;
    if let Err(problem) = is_no_file(&folder.to_string_lossy()) {
        slot.warn(&format!("is no library: {problem}"));
    }
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::super::row::Kind;
    use super::super::value;
    use super::*;

    #[test]
    fn groups_are_contiguous_and_names_unique() {
        let mut groups: Vec<&str> = TABLE.iter().filter(|row| row.key.is_some()).map(Row::group).collect();
        groups.dedup();
        let count = groups.len();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), count, "a group in two places: {groups:?}");
        for (at, row) in TABLE.iter().enumerate() {
            let rest = &TABLE[at + 1..];
            assert!(row.key.is_none() || rest.iter().all(|other| other.key != row.key), "{:?} twice", row.key);
            let unique = row.variable.is_none() || rest.iter().all(|other| other.variable != row.variable);
            assert!(unique, "{:?} twice", row.variable);
            assert!(row.key.is_some() || row.variable.is_some(), "{row:?} cannot be set");
            let named = row.key.is_none_or(|key| key.split('.').count() == 2);
            assert!(named, "{:?} must be group.name", row.key);
            assert!(!row.about.is_empty() && !row.about.starts_with(' '), "{row:?} has no description");
        }
    }

    #[test]
    fn defaults_are_values_of_their_kind() {
        for row in TABLE.iter().filter(|row| row.key.is_some() && !row.has_default_in_words) {
            let value = value::shown(row, row.default).expect("a default value");
            let form = value::text(row, &value).unwrap_or_else(|why| panic!("{row:?}: {why}"));
            assert_eq!(value::shown(row, &form), Some(value), "{row:?}: round trip");
            assert!(row.kind != Kind::Bool || matches!(row.default, "true" | "false"), "{row:?}");
        }
    }
}
