//! `/app/settings`: the table of settings with current values, and changes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ErrorBody;

/// `GET /app/settings`, and the response to a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsResponse {
    /// Path of `config.toml`, even if it does not exist.
    pub path: String,
    /// Why `config.toml` cannot be read. Then it is ignored, and settings cannot be changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether a changed setting requires a restart of the daemon.
    pub restart: bool,
    /// All settings, ordered by group.
    pub settings: Vec<Setting>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Name in `config.toml`, for example `cache.ram`.
    pub key: String,
    /// Group: the part of the key before the dot.
    pub group: String,
    /// Kind of the value.
    pub kind: SettingKind,
    /// Current value; absent if it depends on the machine or is empty. Secrets are never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<SettingValue>,
    /// Default; absent if it depends on the machine or is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<SettingValue>,
    /// Description of the default.
    pub default_about: String,
    /// Origin of the value.
    pub origin: SettingOrigin,
    /// The variable or flag that sets the value. Then it cannot be changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_name: Option<String>,
    /// Environment variable of the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// Flag of `cairn serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
    /// Valid values of a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// Unit of a number or format of a text: `tokens`, `bytes_per_second`, `duration` (`5m`, `30d`), `list` (separated
    /// by commas), `paths` (as in `PATH`), ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// When a change takes effect.
    pub applies: SettingApplies,
    /// Whether the value requires a restart of the daemon.
    pub restart: bool,
    /// Description in one line of English.
    pub about: String,
}

/// Kind of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingKind {
    /// True or false.
    Bool,
    /// A whole number.
    Number,
    /// A whole number of bytes.
    Bytes,
    /// Text.
    Text,
    /// A path on the daemon's machine.
    Path,
    /// One of a fixed set of words.
    Choice,
    /// Text that clients do not display, such as a password.
    Secret,
}

/// Value of a setting: a boolean for `bool`, a number for `number` and `bytes`, a string for all other kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the types of JSON")]
pub enum SettingValue {
    Bool(bool),
    Number(u64),
    Text(String),
}

/// Origin of a value. Later ones take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingOrigin {
    /// The default.
    Default,
    /// `config.toml`.
    File,
    /// The daemon's environment.
    Environment,
    /// The daemon's command line.
    Flag,
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingApplies {
    /// Immediately.
    Now,
    /// When a model is loaded next.
    NextLoad,
    /// When the daemon restarts.
    Restart,
}

/// `PATCH /app/settings`: values by key, `null` for the default. All are written, or none.
pub type SettingsChange = BTreeMap<String, Option<SettingValue>>;

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsRefused {
    /// The reasons for all settings in one line.
    #[serde(flatten)]
    pub error: ErrorBody,
    /// Invalid settings.
    pub wrong: Vec<WrongSetting>,
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongSetting {
    /// Key of the setting.
    pub key: String,
    /// Why the value is refused.
    #[serde(flatten)]
    pub error: ErrorBody,
}

/// `POST /app/cache/test`: tests places for tiers without using them. An empty request tests the configured places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct CacheTestRequest {
    /// A folder on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// A mounted share or a bucket's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// Result of a [`CacheTestRequest`]. Places that were not requested are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheTested {
    /// The folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<TestedPlace>,
    /// The remote place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<TestedPlace>,
}

/// A tested place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestedPlace {
    /// Path or address.
    pub place: String,
    /// Whether the place can be used.
    pub works: bool,
    /// Why the place cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Free bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Time to write, read and remove a small file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<f64>,
}
