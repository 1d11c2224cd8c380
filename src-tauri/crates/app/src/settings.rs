//! Settings: one table that help, documents and the program itself read.
//!
//! A value comes from the command line, else the environment, else `config.toml`, else it is the default ([`Origin`]). One
//! that cannot be read is not fatal: the default holds, and [`Settings::warnings`] says so, because a daemon that does not
//! start over a typo helps nobody. What a running daemon is asked to change goes to `config.toml` (`change`).

mod address;
mod change;
mod config_file;
mod document;
mod downloads;
mod mirror;
mod origin;
mod table;
mod tiers;
mod value;

use std::path::PathBuf;

use cairn_wire::KeepAlive;

use crate::{Env, Places};
pub use address::Address;
pub(crate) use change::Held;
pub use change::{SettingRow, SettingTable, SettingsError, WrongSetting};
use config_file::ConfigFile;
pub use document::{document, help};
pub use downloads::{DownloadSettings, bytes};
pub use mirror::{MirrorSettings, MirroredOrigin};
use origin::Said;
pub use origin::{Flag, FlagError, Origin, Sources};
pub use table::{Applies, Kind, Row, TABLE};
pub use tiers::{Compress, RemotePlace, TierSettings};
pub use value::Value;

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
    /// Where Ollama's own app keeps its chats, if it is here.
    pub ollama_chats: Option<PathBuf>,
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
    /// Rows whose text could not be read.
    unread: Vec<&'static str>,
    /// What was said of each row of the table.
    said: Vec<Said>,
    sources: Sources,
}

impl Settings {
    /// Reads what the environment and `config.toml` say.
    #[must_use]
    pub fn load(env: &Env, places: &Places) -> Self {
        Self::of(Sources::new(env, places, Vec::new()))
    }

    /// Reads what sources say.
    #[must_use]
    pub fn of(sources: Sources) -> Self {
        let file = ConfigFile::read(&sources.path());
        Self::with(sources, &file)
    }

    /// As they would be if the daemon were started anew.
    #[must_use]
    pub(crate) fn anew(&self) -> Self {
        Self::of(self.sources.clone())
    }

    /// Where the user's own things are.
    #[must_use]
    pub fn data_folder(&self) -> &std::path::Path {
        &self.sources.places.data
    }

    /// What the environment would say for a place as `OLLAMA_KV_TIER_REMOTE`, with the credentials that it has.
    pub(crate) fn remote_place(&self, text: &str) -> Option<RemotePlace> {
        self.sources.remote_place(text)
    }

    fn with(sources: Sources, file: &ConfigFile) -> Self {
        let origin::Merged { env, said, warnings } = sources.merged(file);
        let (env, places) = (&env, &sources.places);
        let warnings = warnings.into_iter().map(|(row, why)| {
            format!("config.toml: {} is not what it can be: {why}; the default holds", row.key.unwrap_or_default())
        });
        let strange = file.strange().into_iter().map(|key| format!("config.toml: there is no setting {key}"));
        let trouble = file.trouble.iter().map(|why| format!("{} cannot be read: {why}", sources.path().display()));
        let warnings = trouble.chain(warnings).chain(strange).collect();
        let mut read = Reader { env, said: &said, warnings, unread: Vec::new() };
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
            ollama_chats: crate::scan::places::ollama_chats(env, crate::System::this()),
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
            kv_budget_bytes: read.parsed("CAIRN_KV_BUDGET", bytes),
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
            unread: Vec::new(),
            said: Vec::new(),
            sources: sources.clone(),
        };
        // Whoever reaches this machine's models may have others fetched.
        settings.downloads.for_others |= !settings.address.is_loopback() || !settings.mirror.trusted_proxies.is_empty();
        (settings.warnings, settings.unread) = (read.warnings, read.unread);
        settings.said = said;
        settings
    }

    /// Where a setting's value comes from; `None` for a variable that the table does not have.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<Origin> {
        TABLE.iter().zip(&self.said).find(|(row, _)| row.name == Some(name)).map(|(_, said)| said.origin)
    }
}

struct Reader<'a> {
    env: &'a Env,
    said: &'a [Said],
    warnings: Vec<String>,
    unread: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    fn text(&self, name: &'static str) -> Option<&'a str> {
        let row = TABLE.iter().find(|row| row.name == Some(name)).expect("every setting that is read has a row");
        self.env.text(name).or_else(|| row.also.and_then(|also| self.env.text(also)))
    }

    fn parsed<T>(&mut self, name: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(text);
        if value.is_none() {
            let mut rows = TABLE.iter().zip(self.said);
            let (row, said) = rows.find(|(row, _)| row.name == Some(name)).expect("it was found above");
            let by = match (said.origin, row.key) {
                (Origin::File, Some(key)) => format!("config.toml: {key} = {text:?}"),
                (Origin::Flag, Some(key)) => format!("--set {key}={text}"),
                _ => format!("{name}={text:?}"),
            };
            self.warnings.push(format!("{by} cannot be read; the default holds"));
            self.unread.push(name);
        }
        value
    }
}

/// What Ollama takes for true: all but the words for false. "off" and "no" are such words too, whatever Ollama takes them for: who
/// writes them means it.
fn is_true(text: &str) -> bool {
    !matches!(text.to_ascii_lowercase().as_str(), "0" | "f" | "false" | "off" | "no")
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
}
