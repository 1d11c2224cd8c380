//! `POST /api/push`: sends a model to a registry. Answered by [`super::PullLine`]s.

use serde::{Deserialize, Serialize};

/// Which model. `username` and `password`, which older clients send, mean nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct PushRequest {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_clients_are_understood() {
        let old = r#"{"name":"m","insecure":null,"username":"me","password":"secret","stream":false}"#;
        let request: PushRequest = serde_json::from_str(old).unwrap();
        let expected = PushRequest { name: "m".into(), stream: Some(false), ..PushRequest::default() };
        assert_eq!(request, expected, "name and password mean nothing");
    }
}
