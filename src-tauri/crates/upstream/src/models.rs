//! The models of a server, as it lists and describes them.

use std::collections::HashSet;

use bytes::Bytes;
use cairn_wire::Timestamp;
use cairn_wire::ollama::{Details, ShowResponse};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::UpstreamClient;
use crate::failure::Failure;
use crate::server_kind::ServerKind;

/// Most models of one server. Further ones are ignored.
pub const MAX_MODELS: usize = 1_000;
/// Longest name of a model. Models with longer names are ignored.
const MAX_NAME_BYTES: usize = 256;
/// Most models that one check asks a server to describe, because its list has no capabilities.
const MAX_DESCRIBED: usize = 32;
/// Largest plausible context in tokens. Some servers report a larger number for a model without a limit, such as 10^18.
const MAX_CONTEXT_TOKENS: u64 = 100_000_000;

/// A model of a server. Servers of OpenAI's API report only the name, and some the context size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListedModel {
    /// The name, as the server spells it.
    pub name: String,
    /// Bytes on the server's disk; 0 if the server does not report it.
    pub size_bytes: u64,
    /// Digest of the manifest; empty if the server does not report it.
    pub digest: String,
    /// Time of the last change, if the server reports it.
    pub modified_at: Option<Timestamp>,
    /// Details of the model.
    pub details: Details,
    /// What the model can do; empty if the server does not report it.
    pub capabilities: Vec<String>,
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    modified_at: Value,
    #[serde(default)]
    details: Value,
    #[serde(default)]
    capabilities: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    created: Option<i64>,
    /// vLLM's and SGLang's field.
    #[serde(default)]
    max_model_len: Value,
    /// llama-server's field.
    #[serde(default)]
    meta: Value,
}

impl Row {
    /// Tokens of the context that a request can use.
    fn context_length(&self) -> Option<u64> {
        self.max_model_len.as_u64().or_else(|| self.meta.get("n_ctx").and_then(Value::as_u64))
    }
}

/// Lists the models of a server.
pub(crate) async fn list(client: &UpstreamClient, kind: ServerKind) -> Result<Vec<ListedModel>, Failure> {
    let models: Vec<ListedModel> = match kind.has_ollama_api() {
        true => client.get::<Tags>("/api/tags").await?.models.into_iter().map(of_tag).collect(),
        false => client.get::<List>("/v1/models").await?.data.into_iter().map(of_row).collect(),
    };
    Ok(usable(models))
}

/// The models with names that can be used, at most [`MAX_MODELS`], in no more memory than they need.
fn usable(mut models: Vec<ListedModel>) -> Vec<ListedModel> {
    models.retain(|model| {
        let is_clean = !model.name.is_empty() && !model.name.chars().any(char::is_control);
        is_clean && model.name.len() <= MAX_NAME_BYTES
    });
    let mut names = HashSet::new();
    models.retain(|model| names.insert(model.name.clone()));
    models.truncate(MAX_MODELS);
    models.shrink_to_fit();
    models
}

/// Adds capabilities that the list lacks, from the check before or from the server's descriptions.
pub(crate) async fn complete(client: &UpstreamClient, models: &mut [ListedModel], before: &[ListedModel]) {
    let mut described = 0;
    for model in models.iter_mut().filter(|model| model.capabilities.is_empty()) {
        let is_same = |other: &&ListedModel| other.name == model.name && other.digest == model.digest;
        match before.iter().find(is_same).filter(|other| !other.capabilities.is_empty()) {
            Some(other) => model.capabilities.clone_from(&other.capabilities),
            None if described < MAX_DESCRIBED => {
                described += 1;
                // Without its description the model is listed all the same.
                let Ok(shown) = show(client, &model.name).await else { return };
                model.capabilities = shown.capabilities;
            }
            None => {}
        }
    }
}

/// Removes a context size that no model has.
fn plausible(details: Details) -> Details {
    let context_length = details.context_length.filter(|tokens| (1..=MAX_CONTEXT_TOKENS).contains(tokens));
    Details { context_length, ..details }
}

fn of_tag(tag: Tag) -> ListedModel {
    ListedModel {
        name: tag.name,
        size_bytes: tag.size,
        digest: tag.digest.chars().filter(char::is_ascii_hexdigit).take(64).collect(),
        modified_at: serde_json::from_value(tag.modified_at).ok(),
        details: plausible(serde_json::from_value(tag.details).unwrap_or_default()),
        capabilities: tag.capabilities,
    }
}

fn of_row(row: Row) -> ListedModel {
    let context_length = row.context_length();
    ListedModel {
        name: row.id,
        modified_at: row
            .created
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Timestamp::from_unix_ms(seconds.saturating_mul(1000))),
        details: plausible(Details { context_length, ..Details::default() }),
        ..ListedModel::default()
    }
}

/// Describes a model. Only Ollama's API has a description; it includes the capabilities, which older versions do not list.
pub(crate) async fn show(client: &UpstreamClient, model: &str) -> Result<ShowResponse, Failure> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Shown {
        license: String,
        modelfile: String,
        parameters: String,
        template: String,
        system: String,
        details: Details,
        model_info: Map<String, Value>,
        capabilities: Vec<String>,
        modified_at: Value,
    }
    let body = Bytes::from(json!({"model": model}).to_string());
    let shown: Shown = client.post("/api/show", body).await?;
    Ok(ShowResponse {
        license: shown.license,
        modelfile: shown.modelfile,
        parameters: shown.parameters,
        template: shown.template,
        template_reason: String::new(),
        template_problem: None,
        vision_problem: None,
        continues_text: false,
        system: shown.system,
        details: plausible(shown.details),
        messages: Vec::new(),
        model_info: shown.model_info,
        tensors: Vec::new(),
        capabilities: shown.capabilities,
        modified_at: serde_json::from_value(shown.modified_at).unwrap_or(Timestamp::from_unix_ms(0)),
        origin: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_length_is_read_from_the_fields_of_each_server() {
        let check = |row: Value, expected| {
            let row: Row = serde_json::from_value(row).expect("a row");
            assert_eq!(of_row(row).details.context_length, expected);
        };
        check(json!({"id": "vllm", "max_model_len": 4096}), Some(4096));
        check(json!({"id": "llama-server", "meta": {"n_ctx": 2048, "n_ctx_train": 8192}}), Some(2048));
        check(json!({"id": "loading", "meta": null}), None);
        check(json!({"id": "other", "meta": "text"}), None);
    }

    #[test]
    fn implausible_context_length_is_unknown() {
        let of_row = |value: Value| {
            let row: Row = serde_json::from_value(json!({"id": "m", "max_model_len": value})).expect("a row");
            of_row(row).details.context_length
        };
        let of_tag = |value: Value| {
            let tag = serde_json::from_value(json!({"name": "m", "details": {"context_length": value}}));
            of_tag(tag.expect("a tag")).details.context_length
        };
        let check = |value: Value, expected| {
            assert_eq!((of_row(value.clone()), of_tag(value.clone())), (expected, expected), "{value}");
        };
        check(json!(100_000_000), Some(100_000_000));
        check(json!(100_000_001), None);
        check(json!(1_000_000_000_000_000_000_u64), None);
        check(json!(0), None);
        assert_eq!((of_row(json!(1e30)), of_row(json!(-1)), of_row(json!("4096"))), (None, None, None));
    }

    #[test]
    fn long_list_is_cut_and_its_memory_is_freed() {
        let model = |number: usize| ListedModel { name: number.to_string(), ..ListedModel::default() };
        let models = usable((0..100 * MAX_MODELS).map(model).collect());
        assert_eq!(models.len(), MAX_MODELS);
        assert!(models.capacity() < 2 * MAX_MODELS, "capacity {}", models.capacity());
        let unusable = ["", "a\nb", &"x".repeat(MAX_NAME_BYTES + 1)].map(str::to_owned);
        let unusable = unusable.map(|name| ListedModel { name, ..ListedModel::default() });
        assert!(usable(unusable.to_vec()).is_empty(), "unusable names");
        assert_eq!(usable(vec![model(1), model(1)]).len(), 1, "each name once");
    }
}
