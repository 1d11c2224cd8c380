//! Settings: one table that help, documents, `config.toml` and the program itself read.
//!
//! A value comes from the command line, else the environment, else `config.toml`, else it is the default ([`Origin`]).
//! A value that cannot be read is not fatal: the default is used and [`Settings::warnings`] reports it, so that a typo
//! does not keep the daemon from starting. Changes at run time go to `config.toml` ([`SettingsStore`]).

mod address;
mod change;
mod config_file;
mod context_shift;
mod derived;
mod document;
mod downloads;
mod env;
mod load;
mod mirror;
mod ollama;
mod origin;
mod other_apps;
mod places;
mod problem;
mod reader;
mod require_key;
mod row;
mod sources;
mod table;
mod tiers;
mod value;
mod without_effect;

pub use address::Address;
pub(crate) use change::LiveValues;
pub use change::{Apply, SettingRow, SettingTable, SettingsError, SettingsStore, WrongSetting};
pub use context_shift::{ContextShift, UnknownContextShift};
pub use derived::TierSettings;
pub use document::{document, help};
pub use downloads::bytes;
pub use env::Env;
pub use load::Settings;
pub use mirror::MirroredOrigin;
pub use origin::Origin;
pub use other_apps::{AppFolder, ModelApp};
pub use places::{NoHome, Places, System};
pub use problem::SettingProblem;
pub use require_key::RequireKey;
pub use row::{Applies, Kind, Row};
pub use sources::{Flag, FlagError, Sources};
pub use table::{
    CacheSettings, ChatSettings, DownloadSettings, EngineSettings, EnvironmentSettings, LogSettings, ModelSettings,
    NetworkSettings, ServerSettings, SharingSettings, TABLE,
};
pub use tiers::{Compress, Encrypt, RemoteLocation};
pub use value::Value;
