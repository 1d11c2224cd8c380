//! `POST /api/pull`: brings a model here from a registry.

use serde::{Deserialize, Serialize};

/// Which model. `username` and `password`, which older clients send, mean nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct PullRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// The same, as older clients call it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
    /// Whether the registry may be asked over plain `http`.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub insecure: bool,
    /// One JSON object per step; on when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Addresses of mirrors to take contents from before the registry. Our own clients send it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "super::null_is_empty")]
    pub sources: Vec<String>,
}

/// A step of a pull or a push, or how far one of the model's contents has come. The fields after `completed` are our own;
/// Ollama's clients pass over them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullLine {
    /// Which step; the last one is `success`.
    pub status: String,
    /// The contents that are fetched, `sha256:...`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// How many bytes they have.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub total: u64,
    /// How many of them are here.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub completed: u64,
    /// How fast they come.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub bytes_per_second: u64,
    /// The host that they come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What went wrong and was got round, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_like_ollamas() {
        let json = |line: &PullLine| serde_json::to_string(line).unwrap();
        let step = PullLine { status: "pulling manifest".into(), ..PullLine::default() };
        assert_eq!(json(&step), r#"{"status":"pulling manifest"}"#, "a step is nothing but its name");
        let begun = PullLine { status: "pulling 6a07".into(), digest: "sha256:6a07".into(), total: 9, ..step };
        assert_eq!(
            json(&begun),
            r#"{"status":"pulling 6a07","digest":"sha256:6a07","total":9}"#,
            "`completed` is left out while nothing is here"
        );
        assert_eq!(serde_json::from_str::<PullLine>(&json(&begun)).unwrap(), begun, "and it is read back");
    }

    #[test]
    fn older_clients_are_understood() {
        let old = r#"{"name":"m","insecure":null,"username":"me","password":"secret","stream":false}"#;
        let request: PullRequest = serde_json::from_str(old).unwrap();
        let expected = PullRequest { name: "m".into(), stream: Some(false), ..PullRequest::default() };
        assert_eq!(request, expected, "name and password mean nothing");
    }
}
