//! Folders in which other apps store their models: one table for all systems, without access to the disk, so that each
//! system's part is tested on any.
//!
//! The folders are those of the apps' documentation and code as of 2026. If a user chose another folder, the user has
//! to name it.

use std::path::PathBuf;

use crate::settings::env::Env;
use crate::settings::places::System;

/// An app that stores models on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelApp {
    /// LM Studio.
    LmStudio,
    /// Jan.
    Jan,
    /// The cache of the Hugging Face hub, which many programs share.
    HuggingFace,
    /// GPT4All.
    Gpt4All,
    /// llama.cpp's own downloads.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// A folder that the user named.
    Folder,
}

impl ModelApp {
    /// The app's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LmStudio => "LM Studio",
            Self::Jan => "Jan",
            Self::HuggingFace => "Hugging Face",
            Self::Gpt4All => "GPT4All",
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "Ollama",
            Self::Folder => "folder",
        }
    }
}

/// A folder in which an app stores models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppFolder {
    /// The app.
    pub source_app: ModelApp,
    /// The folder. Usually it does not exist.
    pub folder: PathBuf,
}

/// The parent of an app's folder.
#[derive(Debug, Clone, Copy)]
enum Base {
    /// The user's home.
    Home,
    /// Data of apps: `~/.local/share`, `~/Library/Application Support`, `%LOCALAPPDATA%`.
    Data,
    /// Data of apps that roams with the user: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    Config,
    /// Caches: `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`.
    Cache,
    /// `~/.cache` on every system, as in Python programs.
    DotCache,
    /// The folder named by a variable.
    Variable(&'static str),
    /// The root folder, on Linux only, for data of a service.
    Service,
}

const TABLE: &[(ModelApp, Base, &str)] = &[
    (ModelApp::LmStudio, Base::Home, ".lmstudio/models"),
    (ModelApp::LmStudio, Base::Home, ".cache/lm-studio/models"),
    (ModelApp::Jan, Base::Data, "Jan/data/llamacpp/models"),
    (ModelApp::Jan, Base::Config, "Jan/data/llamacpp/models"),
    (ModelApp::Jan, Base::Data, "Jan/data/models"),
    (ModelApp::Jan, Base::Config, "Jan/data/models"),
    (ModelApp::Jan, Base::Home, "jan/models"),
    (ModelApp::HuggingFace, Base::Variable("HF_HUB_CACHE"), ""),
    (ModelApp::HuggingFace, Base::Variable("HUGGINGFACE_HUB_CACHE"), ""),
    (ModelApp::HuggingFace, Base::Variable("HF_HOME"), "hub"),
    (ModelApp::HuggingFace, Base::DotCache, "huggingface/hub"),
    (ModelApp::Gpt4All, Base::Data, "nomic.ai/GPT4All"),
    (ModelApp::Gpt4All, Base::Home, ".cache/gpt4all"),
    (ModelApp::LlamaCpp, Base::Variable("LLAMA_CACHE"), ""),
    (ModelApp::LlamaCpp, Base::Cache, "llama.cpp"),
    (ModelApp::Ollama, Base::Home, ".ollama/models"),
    (ModelApp::Ollama, Base::Service, "/usr/share/ollama/.ollama/models"),
];

/// The folders in which apps store their models on a system, without duplicates.
#[must_use]
pub(crate) fn folders(env: &Env, system: System) -> Vec<AppFolder> {
    let mut folders: Vec<AppFolder> = Vec::new();
    for (source_app, base, tail) in TABLE {
        let Some(base) = base_folder(*base, env, system) else { continue };
        let folder = if tail.is_empty() { base } else { base.join(tail) };
        if folders.iter().all(|known| known.folder != folder) {
            folders.push(AppFolder { source_app: *source_app, folder });
        }
    }
    folders
}

/// The database in which Ollama's app stores its chats. Usually it does not exist.
/// <https://github.com/ollama/ollama/blob/main/app/store/store.go>
#[must_use]
pub(crate) fn ollama_chats(env: &Env, system: System) -> Option<PathBuf> {
    let (base, folder) = match system {
        System::Xdg => (Base::Home, ".ollama"),
        System::Mac | System::Windows => (Base::Data, "Ollama"),
    };
    Some(base_folder(base, env, system)?.join(folder).join("db.sqlite"))
}

fn base_folder(base: Base, env: &Env, system: System) -> Option<PathBuf> {
    let home = || env.home().cloned();
    let below_home = |folder: &str| Some(home()?.join(folder));
    // The specification demands that a relative path in these variables is ignored.
    let xdg =
        |name: &str, folder: &str| env.path(name).filter(|path| path.is_absolute()).or_else(|| below_home(folder));
    let windows = |name: &str, folder: &str| env.path(name).or_else(|| below_home(folder));
    match (base, system) {
        (Base::Home, _) => home(),
        (Base::Variable(name), _) => env.full_path(name),
        (Base::DotCache, _) | (Base::Cache, System::Xdg) => xdg("XDG_CACHE_HOME", ".cache"),
        (Base::Data, System::Xdg) => xdg("XDG_DATA_HOME", ".local/share"),
        (Base::Config, System::Xdg) => xdg("XDG_CONFIG_HOME", ".config"),
        (Base::Data | Base::Config, System::Mac) => below_home("Library/Application Support"),
        (Base::Cache, System::Mac) => below_home("Library/Caches"),
        (Base::Data | Base::Cache, System::Windows) => windows("LOCALAPPDATA", "AppData/Local"),
        (Base::Config, System::Windows) => windows("APPDATA", "AppData/Roaming"),
        (Base::Service, System::Xdg) => Some(PathBuf::from("/")),
        (Base::Service, System::Mac | System::Windows) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(variables: [(&str, &str); N], system: System, source_app: ModelApp, expected: &[&str]) {
        let folders = folders(&Env::of(variables), system);
        let found: Vec<String> = folders
            .iter()
            .filter(|found| found.source_app == source_app)
            .map(|found| found.folder.to_string_lossy().into_owned())
            .collect();
        assert_eq!(found, expected, "{source_app:?} on {system:?}");
    }

    #[test]
    fn folders_on_linux() {
        let home = [("HOME", "/h")];
        let lm_studio = ["/h/.lmstudio/models", "/h/.cache/lm-studio/models"];
        check(home, System::Xdg, ModelApp::LmStudio, &lm_studio);
        let jan = [
            "/h/.local/share/Jan/data/llamacpp/models",
            "/h/.config/Jan/data/llamacpp/models",
            "/h/.local/share/Jan/data/models",
            "/h/.config/Jan/data/models",
            "/h/jan/models",
        ];
        check(home, System::Xdg, ModelApp::Jan, &jan);
        check(home, System::Xdg, ModelApp::HuggingFace, &["/h/.cache/huggingface/hub"]);
        check(home, System::Xdg, ModelApp::Gpt4All, &["/h/.local/share/nomic.ai/GPT4All", "/h/.cache/gpt4all"]);
        check(home, System::Xdg, ModelApp::LlamaCpp, &["/h/.cache/llama.cpp"]);
        check(home, System::Xdg, ModelApp::Ollama, &["/h/.ollama/models", "/usr/share/ollama/.ollama/models"]);
    }

    #[test]
    fn folders_on_other_systems() {
        let support = "/Users/a/Library/Application Support";
        let mac = [("HOME", "/Users/a")];
        check(mac, System::Mac, ModelApp::LlamaCpp, &["/Users/a/Library/Caches/llama.cpp"]);
        check(mac, System::Mac, ModelApp::HuggingFace, &["/Users/a/.cache/huggingface/hub"]);
        let gpt4all = [format!("{support}/nomic.ai/GPT4All"), "/Users/a/.cache/gpt4all".to_owned()];
        check(mac, System::Mac, ModelApp::Gpt4All, &gpt4all.each_ref().map(String::as_str));
        check(mac, System::Mac, ModelApp::Ollama, &["/Users/a/.ollama/models"]);
        let windows = [("HOME", "/U"), ("LOCALAPPDATA", "/L"), ("APPDATA", "/R")];
        check(windows, System::Windows, ModelApp::LlamaCpp, &["/L/llama.cpp"]);
        check(windows, System::Windows, ModelApp::Gpt4All, &["/L/nomic.ai/GPT4All", "/U/.cache/gpt4all"]);
        let jan = [
            "/L/Jan/data/llamacpp/models",
            "/R/Jan/data/llamacpp/models",
            "/L/Jan/data/models",
            "/R/Jan/data/models",
            "/U/jan/models",
        ];
        check(windows, System::Windows, ModelApp::Jan, &jan);
    }

    #[test]
    fn ollama_chats_are_found_on_each_system() {
        fn check<const N: usize>(variables: [(&str, &str); N], system: System, expected: Option<&str>) {
            let found = ollama_chats(&Env::of(variables), system);
            assert_eq!(found, expected.map(PathBuf::from), "{system:?}");
        }
        check([("HOME", "/h")], System::Xdg, Some("/h/.ollama/db.sqlite"));
        check([("HOME", "/U/a")], System::Mac, Some("/U/a/Library/Application Support/Ollama/db.sqlite"));
        check([("LOCALAPPDATA", "/L")], System::Windows, Some("/L/Ollama/db.sqlite"));
        check([], System::Xdg, None);
    }

    #[test]
    fn variables_of_other_programs_are_used() {
        let set = [("HOME", "/h"), ("HF_HOME", "/hf"), ("LLAMA_CACHE", "/lc"), ("XDG_CACHE_HOME", "/c")];
        check(set, System::Xdg, ModelApp::HuggingFace, &["/hf/hub", "/c/huggingface/hub"]);
        check(set, System::Xdg, ModelApp::LlamaCpp, &["/lc", "/c/llama.cpp"]);
        check(
            [("HF_HUB_CACHE", "/x"), ("HF_HOME", "relative")],
            System::Mac,
            ModelApp::HuggingFace,
            &["/x", &std::path::absolute("relative/hub").unwrap().to_string_lossy()],
        );
        check([], System::Xdg, ModelApp::LmStudio, &[]);
    }
}
