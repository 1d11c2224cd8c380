//! `POST /api/create`: a model made of another one, or of files that were sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Message;

/// What is to be made. Fields that this version does not know how to honour are read too, so that it can say so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct CreateRequest {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// The same, as older clients call it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub from: String,
    /// Names and digests of contents that were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_files: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapters: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<Licenses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renderer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parser: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantize: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_quantize: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_host: Option<String>,
    /// What the model's description is to say in place of what its file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<Map<String, Value>>,
    /// Cairn's own: whether the registry of a model that is not here may be asked over plain http.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// One JSON object per step; on when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
}

/// One licence text, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Licenses {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Licenses {
    /// All of them.
    #[must_use]
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

/// A step of something that takes a while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressLine {
    /// Which step; the last one is `success`.
    pub status: String,
    /// What the step is about; while a model is quantised, [`ProgressLine::QUANTISED`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// How many bytes there are.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub total: u64,
    /// How many of them are done.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub completed: u64,
}

impl ProgressLine {
    /// What stands where the digest of contents would that are not there yet.
    pub const QUANTISED: &str = "0000000000000000000";
}
