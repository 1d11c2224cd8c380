//! `/app/settings`: the table of settings, as it holds, and changes to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `GET /app/settings`, and the answer to a change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SettingsResponse {
    /// Path of `config.toml`, whether or not it is there.
    pub path: String,
    /// Why that file cannot be read; then nothing of it holds, and nothing can be changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Whether some of what is set holds only when the daemon is started anew.
    pub restart: bool,
    /// Every setting, those of a group beside each other.
    pub settings: Vec<Setting>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name in `config.toml`, `cache.ram` for instance.
    pub key: String,
    /// What it belongs to: the part of the key before the dot.
    pub group: String,
    /// What its value is.
    pub kind: SettingKind,
    /// What is set, or the default; absent where that depends on the machine or is nothing. A secret is never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<SettingValue>,
    /// What holds where nobody sets it; absent where that depends on the machine or is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<SettingValue>,
    /// The default in words.
    pub default_about: String,
    /// Who set it.
    pub origin: SettingOrigin,
    /// The variable or the flag that set it; then it cannot be changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_name: Option<String>,
    /// The variable that sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The flag of `cairn serve` that sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
    /// The values that a choice has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// What a number counts or a text is: `tokens`, `bytes_per_second`, `duration` (`5m`, `30d`), `list` (between commas),
    /// `paths` (as `PATH` is one), ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// When a change holds.
    pub applies: SettingApplies,
    /// Whether what is set waits for the daemon to be started anew.
    pub restart: bool,
    /// What it does, in English and one line.
    pub about: String,
}

/// What a setting's value is.
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
    /// One of several words.
    Choice,
    /// Text that is not shown.
    Secret,
}

/// A setting's value: of a bool, of a number and of bytes, or of all others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "JSON's own kinds")]
pub enum SettingValue {
    Bool(bool),
    Number(u64),
    Text(String),
}

/// Who set a value; the later goes before the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingOrigin {
    /// Nobody.
    Default,
    /// `config.toml`.
    File,
    /// The daemon's environment.
    Environment,
    /// The daemon's command line.
    Flag,
}

/// When a change holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingApplies {
    /// At once.
    Now,
    /// For models that are loaded from now on.
    NextLoad,
    /// When the daemon is started anew.
    Restart,
}

/// `PATCH /app/settings`: values by key, `null` for the default. All are written, or none.
pub type SettingsChange = BTreeMap<String, Option<SettingValue>>;

/// Why a change was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsRefused {
    /// All of it in one line.
    pub error: String,
    /// What is wrong, by key; empty where it is nothing of one key.
    pub wrong: Vec<WrongSetting>,
}

/// A value that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongSetting {
    /// Its key.
    pub key: String,
    /// Why, in English and one line.
    pub reason: String,
}

/// `POST /app/cache/test`: tries a place for kept prefixes without using it. Absent ones are those that are set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTestRequest {
    /// A folder on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// A mounted share or a bucket's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

/// What came of a [`CacheTestRequest`]; a place that was not asked for is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheTested {
    /// The folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<TestedPlace>,
    /// The remote place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<TestedPlace>,
}

/// A place that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestedPlace {
    /// Its path or address.
    pub place: String,
    /// Whether it can be used.
    pub works: bool,
    /// Why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes that are free there, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// How long writing, reading and removing a small file took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<f64>,
}
