//! The settings of one start, read from all their sources.

use std::ffi::OsString;
use std::path::PathBuf;

use cairn_registry::Proxies;

use super::config_file::ConfigFile;
use super::derived::{TierSettings, proxies};
use super::env::Env;
use super::origin::{Assigned, Origin};
use super::other_apps::{self, AppFolder};
use super::places::{Places, System};
use super::reader::Reader;
use super::sources::{Merged, Sources};
use super::table::{
    CacheSettings, ChatSettings, DownloadSettings, EngineSettings, EnvironmentSettings, LogSettings, ModelSettings,
    NetworkSettings, ServerSettings, SharingSettings, TABLE,
};
use super::tiers::{self, RemoteLocation};

/// The settings of one start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address and origins of the server.
    pub server: ServerSettings,
    /// Local models.
    pub models: ModelSettings,
    /// Chats.
    pub chats: ChatSettings,
    /// The engine.
    pub engine: EngineSettings,
    /// The cache of computed prefixes and its tiers.
    pub tiers: TierSettings,
    /// Downloads.
    pub downloads: DownloadSettings,
    /// Connections to other machines.
    pub network: NetworkSettings,
    /// Sharing with other machines.
    pub sharing: SharingSettings,
    /// The log.
    pub log: LogSettings,
    /// Settings of the environment only.
    pub environment: EnvironmentSettings,
    /// The library to which models are written.
    pub library: PathBuf,
    /// The library of Ollama, which is read if it exists; `None` if `OLLAMA_MODELS` names the library.
    pub ollama_library: Option<PathBuf>,
    /// Folders in which other apps store models. They are scanned only on request.
    pub other_apps: Vec<AppFolder>,
    /// The database in which Ollama's app stores its chats, if it is installed.
    pub ollama_chats: Option<PathBuf>,
    /// The proxies that lead to registries.
    pub proxies: Proxies,
    /// Warnings about values that cannot be read.
    pub warnings: Vec<String>,
    /// Variables of values that cannot be read.
    pub(super) unread: Vec<&'static str>,
    /// By row of the table.
    pub(super) assigned: Vec<Assigned>,
    pub(super) sources: Sources,
}

impl Settings {
    /// Reads the settings of an environment and its `config.toml`.
    #[must_use]
    pub fn load(env: &Env, places: &Places) -> Self {
        Self::of(Sources::new(env, places, Vec::new()))
    }

    /// Reads the settings of all sources.
    #[must_use]
    pub fn of(sources: Sources) -> Self {
        let file = ConfigFile::read(&sources.path());
        Self::with(sources, &file)
    }

    /// Reads the settings again, as the next start will.
    #[must_use]
    pub(crate) fn reload(&self) -> Self {
        Self::of(self.sources.clone())
    }

    /// The folders of the user.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.sources.places
    }

    /// Parses the address of a remote tier and adds the credentials of the environment.
    pub(crate) fn remote_place(&self, text: &str) -> Option<RemoteLocation> {
        tiers::remote(text, self.sources.env())
    }

    /// The environment of this process, of which programs that the daemon starts get a part.
    pub(crate) fn environment_of_programs(&self) -> Vec<(OsString, OsString)> {
        self.sources.env().all()
    }

    /// Where the value of a variable comes from; `None` if the table does not have it.
    #[must_use]
    pub fn origin(&self, variable: &str) -> Option<Origin> {
        let mut rows = TABLE.iter().zip(&self.assigned);
        rows.find(|(row, _)| row.variable == Some(variable)).map(|(_, assigned)| assigned.origin)
    }

    pub(super) fn with(sources: Sources, file: &ConfigFile) -> Self {
        let Merged { env, assigned, warnings } = sources.merged(file);
        let (env, places) = (&env, sources.places.clone());
        let warnings = warnings.into_iter().map(|(row, why)| {
            format!("config.toml: {} is invalid: {why}; the default is used", row.key.unwrap_or_default())
        });
        let unknown = file.unknown_keys().into_iter().map(|key| format!("config.toml: unknown setting {key}"));
        let problem = file.problem.iter().map(|why| format!("cannot read {}: {why}", sources.path().display()));
        let ollama = super::without_effect::warnings(sources.env());
        let mut reader = Reader::new(env, &assigned, problem.chain(warnings).chain(unknown).chain(ollama).collect());
        let read = &mut reader;
        // In the table's order.
        let (server, models, chats) = (ServerSettings::read(read), ModelSettings::read(read), ChatSettings::read(read));
        let (engine, cache) = (EngineSettings::read(read), CacheSettings::read(read));
        let (downloads, network) = (DownloadSettings::read(read), NetworkSettings::read(read));
        let sharing = SharingSettings::read(read);
        let (log, environment) = (LogSettings::read(read), EnvironmentSettings::read(read));
        let Reader { warnings, unread, .. } = reader;
        let (library, ollama_library) = match &models.folder {
            Some(folder) => (folder.clone(), None),
            None => (places.models(), places.ollama_models.clone()),
        };
        Self {
            proxies: proxies(&network, env),
            tiers: TierSettings::new(cache, &places, !environment.has_home),
            other_apps: other_apps::folders(env, System::this()),
            ollama_chats: other_apps::ollama_chats(env, System::this()),
            server,
            models,
            chats,
            engine,
            downloads,
            network,
            sharing,
            log,
            environment,
            library,
            ollama_library,
            warnings,
            unread,
            assigned,
            sources,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::values::KeepAlive;

    use super::super::context_shift::ContextShift;
    use super::*;

    fn load<const N: usize>(variables: [(&str, &str); N]) -> Settings {
        let places = Places::of(&Env::of([("HOME", "/h")]), System::Xdg).unwrap();
        Settings::load(&Env::of(variables), &places)
    }

    #[test]
    fn settings_of_empty_environment_are_defaults() {
        let settings = load([]);
        assert_eq!(settings.server.address.to_string(), "http://127.0.0.1:11434", "Ollama's address");
        assert_eq!(settings.engine.keep_alive, KeepAlive::For(std::time::Duration::from_secs(300)), "five minutes");
        assert_eq!(settings.library, PathBuf::from("/h/.local/share/cairn/models"), "own library");
        assert_eq!(settings.ollama_library, Some(PathBuf::from("/h/.ollama/models")), "Ollama's library");
        assert!(settings.models.linked.is_empty(), "{:?}", settings.models.linked);
        assert_eq!(settings.origin("OLLAMA_HOST"), Some(Origin::Default), "unset");
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    }

    #[test]
    fn environment_overrides_all_defaults() {
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
        assert_eq!((&settings.library, &settings.ollama_library), (&PathBuf::from("/m"), &None), "one library");
        let further = std::env::join_paths(["/a", "", "/b c", "here"]).unwrap();
        let linked = load([("CAIRN_LIBRARIES", further.to_str().unwrap())]).models.linked;
        let here = std::path::absolute("here").unwrap();
        assert_eq!(linked, [PathBuf::from("/a"), PathBuf::from("/b c"), here], "a list of folders");
        assert_eq!(settings.engine.keep_alive, KeepAlive::Forever, "a negative number");
        assert_eq!(settings.server.origins, ["http://a", "http://b"], "a list");
        assert_eq!(settings.engine.kernel.as_deref(), Some("scalar"), "fallback variable");
        assert_eq!(settings.origin("CAIRN_KERNEL"), Some(Origin::Environment("OLLAMA_LLM_LIBRARY")), "fallback");
        assert!(settings.models.hide_pebble, "yes is true");
        assert_eq!((settings.models.go_template, load([]).models.go_template), (Some(false), None), "unset is None");
        assert_eq!(settings.engine.context_shift, Some(ContextShift::Rope), "any case");
        assert_eq!(settings.engine.context_tokens, Some(8192), "blanks and quotes are trimmed");
    }

    #[test]
    fn no_color_with_any_text_disables_colours() {
        assert!(!load([]).environment.no_color && !load([("NO_COLOR", "")]).environment.no_color, "unset or empty");
        assert!(load([("NO_COLOR", "0")]).environment.no_color, "any text");
    }

    #[test]
    fn settings_with_typos_warn_and_use_defaults() {
        let settings = load([("OLLAMA_MAX_QUEUE", "many"), ("OLLAMA_KEEP_ALIVE", "soon")]);
        assert_eq!(settings.engine.max_queue, 512, "the default");
        assert_eq!(settings.warnings.len(), 2, "{:?}", settings.warnings);
    }

    #[test]
    fn address_and_library_without_effect_warn() {
        let check = |name: &str, text: &str, parts: &[&str]| {
            let settings = load([(name, text)]);
            let warnings = settings.warnings.join("\n");
            assert!(parts.iter().all(|part| warnings.contains(part)), "{name}={text}: {warnings}");
            assert_eq!(warnings.is_empty(), parts.is_empty(), "{name}={text}: {warnings}");
            assert!(!warnings.contains("secret"), "{warnings}");
            settings
        };
        for (host, port) in [("127.0.0.1:99999", 11434), (":-1", 11434), ("[::1]:x", 11434), ("http://a:x", 80)] {
            let settings = check("OLLAMA_HOST", host, &[host, "invalid port", &format!("port {port} is used")]);
            assert_eq!(settings.server.address.port, port, "{host}");
        }
        check("OLLAMA_HOST", "me:secret@a:1", &["...@a:1", "has no effect"]);
        check("OLLAMA_HOST", "ftp://me:secret@a:1", &["ftp://...@a:1", "is invalid"]);
        check("OLLAMA_HOST", "[::1]:80", &[]);
        check("OLLAMA_HOST", "::1", &[]);
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let settings = check("OLLAMA_MODELS", path, &[path, "is a file, not a folder"]);
        assert_eq!(settings.library, file.path(), "models go to no other library");
        check("OLLAMA_MODELS", &format!("{path}/below"), &["is a file, not a folder"]);
        check("OLLAMA_MODELS", "/absent/models", &[]);
    }

    #[test]
    fn mirrors_setting_is_parsed_as_host_and_address_pairs() {
        let settings =
            load([("CAIRN_MIRRORS", "registry.ollama.ai=http://nas:11434/, hf.co=https://m; hf.co=https://n")]);
        let pair = |host: &str, address: &str| (host.to_owned(), address.to_owned());
        let expected =
            [pair("registry.ollama.ai", "http://nas:11434"), pair("hf.co", "https://m"), pair("hf.co", "https://n")];
        assert_eq!(settings.downloads.mirrors, expected, "in order");
        let wrong = load([("CAIRN_MIRRORS", "http://nas")]);
        assert!(wrong.downloads.mirrors.is_empty(), "no registry is named");
        assert_eq!(wrong.warnings.len(), 1, "{:?}", wrong.warnings);
    }

    #[test]
    fn hub_is_overridden_or_turned_off_by_variables() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let places = Places::of(&Env::of([("HOME", "/h")]), System::Xdg).unwrap();
            let settings = Settings::load(&Env::of(variables.iter().copied()), &places);
            assert_eq!(settings.downloads.hub.as_deref(), expected, "{variables:?}");
        };
        check(&[], Some("https://huggingface.co"));
        check(&[("CAIRN_HUB", "http://hub")], Some("http://hub"));
        check(&[("HF_ENDPOINT", "https://mirror")], Some("https://mirror"));
        check(&[("HF_ENDPOINT", "https://mirror"), ("CAIRN_HUB", "http://hub")], Some("http://hub"));
        check(&[("CAIRN_HUB", " ")], None);
        check(&[("HF_ENDPOINT", "https://mirror"), ("CAIRN_HUB", "")], None);
    }

    #[test]
    fn downloads_have_no_limit_mirror_or_proxy_by_default() {
        let downloads = load([]);
        assert_eq!(downloads.proxies, Proxies::none(), "no proxy");
        assert_eq!(downloads.places().config, PathBuf::from("/h/.config/cairn"), "folder of the key");
        assert!(!downloads.models.keep_unneeded, "unused files are removed");
        let downloads = downloads.downloads;
        assert!(downloads.limit_bytes_per_s.is_none() && downloads.mirrors.is_empty());
    }

    #[test]
    fn cairn_proxy_overrides_common_proxy_variables() {
        let customary = load([("HTTPS_PROXY", "http://a"), ("no_proxy", "b")]).proxies;
        assert_ne!(customary, Proxies::none(), "the customary variables count");
        let own = load([("HTTPS_PROXY", "http://a"), ("CAIRN_PROXY", "socks5://c"), ("NO_PROXY", "b")]).proxies;
        assert_eq!(own, Proxies::all("socks5://c", "b"), "hosts of NO_PROXY are still direct");
    }
}
