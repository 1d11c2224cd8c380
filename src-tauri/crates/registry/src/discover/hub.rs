//! Hugging Face's public index of models: `GET /api/models` with a filter, and the files of one repository.
//! <https://huggingface.co/docs/hub/api>
//!
//! Responses are untrusted: lengths and counts are limited, names must be valid model names, and invalid entries are
//! skipped. Requests carry no credentials and follow no redirects.

use std::collections::BTreeMap;

use cairn_store::ModelRef;
use reqwest::Url;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{DiscoveredModel, ModelIndex, Variant};
use crate::{AddressError, SourceError, Transport};

/// The registry host of Hugging Face in model names.
pub(super) const REGISTRY: &str = "hf.co";
/// Maximum number of repositories in a search result.
const MAX_RESULTS: usize = 50;
/// Maximum number of variants of one repository; llama.cpp has fewer types.
const MAX_VARIANTS: usize = 100;
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 8 << 20;
/// Maximum length of a text from the index: a licence, a task.
const MAX_TEXT_CHARS: usize = 60;

/// Client of Hugging Face's index or a compatible one.
#[derive(Debug, Clone)]
pub struct Hub {
    transport: Transport,
    base: Url,
}

#[derive(Deserialize)]
struct Repository {
    id: String,
    #[serde(default)]
    downloads: Option<u64>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    pipeline_tag: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
}

/// An element of an untrusted list: parsed, or skipped if it is invalid.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lenient<T> {
    Parsed(T),
    Skipped(IgnoredAny),
}

impl<T> Lenient<T> {
    fn parsed(self) -> Option<T> {
        match self {
            Self::Parsed(item) => Some(item),
            Self::Skipped(IgnoredAny) => None,
        }
    }
}

impl Hub {
    /// Creates a client for the index at an `https://` or `http://` address.
    ///
    /// # Errors
    /// [`AddressError::Invalid`] if the address is invalid.
    pub fn new(transport: Transport, address: &str) -> Result<Self, AddressError> {
        let invalid = |reason: &str| AddressError::Invalid { address: address.to_owned(), reason: reason.to_owned() };
        let base = Url::parse(address).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("the scheme must be http or https"));
        }
        if !base.username().is_empty() || base.password().is_some() || base.query().is_some() {
            return Err(invalid("it must contain only a host and a path"));
        }
        Ok(Self { transport, base })
    }

    /// The host, with a non-default port.
    #[must_use]
    pub fn host(&self) -> String {
        crate::client::host_and_port(&self.base)
    }

    /// The URL of an API resource below the path of the index.
    fn url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "models"]).extend(parts);
        }
        url
    }

    /// Searches repositories with GGUF files, the most downloaded first. [`Hub::variants`] returns the variants of each.
    ///
    /// # Errors
    /// If the request fails, or the response is not a list.
    pub async fn search(&self, query: &str) -> Result<Vec<DiscoveredModel>, SourceError> {
        let mut url = self.url([]);
        let limit = MAX_RESULTS.to_string();
        url.query_pairs_mut().extend_pairs([
            ("search", query.trim()),
            ("filter", "gguf"),
            ("sort", "downloads"),
            ("direction", "-1"),
            ("limit", &limit),
        ]);
        let found: Vec<Lenient<Repository>> = self.transport.json(url, MAX_RESPONSE_BYTES).await?;
        Ok(found.into_iter().filter_map(Lenient::parsed).take(MAX_RESULTS).filter_map(discovered).collect())
    }

    /// Returns the variants of `user/repository`: one for each quantisation, the smallest first.
    ///
    /// # Errors
    /// As [`Hub::search`].
    pub async fn variants(&self, repository: &str) -> Result<Vec<Variant>, SourceError> {
        let mut url = self.url(repository.split('/').chain(["tree", "main"]));
        url.query_pairs_mut().append_pair("recursive", "true");
        let listed: Vec<Lenient<Entry>> = self.transport.json(url, MAX_RESPONSE_BYTES).await?;
        let is_not_empty = !listed.is_empty();
        let entries: Vec<Entry> = listed.into_iter().filter_map(Lenient::parsed).collect();
        if is_not_empty && entries.is_empty() {
            // If no entry is valid, report an error instead of an empty list.
            let reason = format!("cannot parse the file list of {repository}");
            return Err(SourceError::Broken { host: self.host(), reason, answered: true });
        }
        Ok(variants(repository, &entries))
    }
}

fn discovered(repository: Repository) -> Option<DiscoveredModel> {
    // Skip repositories whose id is not a valid model name without a tag.
    let name: ModelRef = format!("{REGISTRY}/{}", repository.id).parse().ok()?;
    if format!("{}/{}", name.namespace(), name.model()) != repository.id {
        return None;
    }
    let licence = repository.tags.iter().find_map(|tag| tag.strip_prefix("license:")).map(sanitize);
    Some(DiscoveredModel {
        title: repository.id,
        about: String::new(),
        index: ModelIndex::HuggingFace,
        tasks: repository.pipeline_tag.iter().map(|task| sanitize(task)).collect(),
        licence,
        downloads: repository.downloads,
        variants: Vec::new(),
    })
}

/// Removes control characters from an untrusted text and limits its length.
fn sanitize(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT_CHARS).collect()
}

/// Groups files by quantisation, because large models are split into several files. Skips projectors and importance
/// matrices.
fn variants(repository: &str, entries: &[Entry]) -> Vec<Variant> {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.kind == "file") {
        let name = entry.path.rsplit('/').next().unwrap_or_default();
        let Some(stem) = name.strip_suffix(".gguf") else { continue };
        if name.starts_with("mmproj") || stem.contains("imatrix") {
            continue;
        }
        if let Some(quantization) = quantization(stem) {
            let size = sizes.entry(quantization).or_default();
            *size = size.saturating_add(entry.size);
        }
    }
    let parameters = parameters(repository);
    let variant = |(quantization, size_bytes): (String, u64)| {
        let name = format!("{REGISTRY}/{repository}:{quantization}");
        let _: ModelRef = name.parse().ok()?;
        Some(Variant {
            name,
            parameters: parameters.clone(),
            active_parameters: None,
            quantization: Some(quantization),
            architecture: None,
            size_bytes,
            is_approximate: false,
        })
    };
    let mut variants: Vec<Variant> = sizes.into_iter().filter_map(variant).collect();
    variants.sort_by_key(|variant| variant.size_bytes);
    variants.truncate(MAX_VARIANTS);
    variants
}

/// Parses the number of parameters in a repository's name: `8B` in `me/Model-8b-Instruct-GGUF`, `8X7B`.
fn parameters(repository: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.parse::<f32>().is_ok_and(|n| n > 0.0 && n < 10_000.0);
    let read = |part: &str| {
        let upper = part.to_ascii_uppercase();
        let number = upper.strip_suffix(['B', 'M'])?;
        let is_valid =
            number.split('X').all(|factor| is_number(factor) && factor.starts_with(|c: char| c.is_ascii_digit()));
        is_valid.then_some(upper)
    };
    repository.rsplit('/').next()?.split(['-', '_']).find_map(read)
}

/// Parses the quantisation in a file name, the last matching part: `Q4_K_M` in `Model-8B-Q4_K_M-00001-of-00002`.
fn quantization(stem: &str) -> Option<String> {
    let parts: Vec<&str> = stem.split(['-', '.']).collect();
    let read = |part: &str| {
        let upper = part.to_ascii_uppercase();
        let is_type = matches!(upper.as_str(), "F32" | "F16" | "BF16")
            || upper.starts_with("MXFP4")
            || ["IQ", "TQ", "Q"].iter().any(|prefix| {
                upper
                    .strip_prefix(prefix)
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('_'))
            });
        is_type.then_some(upper)
    };
    let at = parts.iter().rposition(|part| read(part).is_some())?;
    let quantization = read(parts.get(at)?)?;
    // Unsloth's dynamic quantisations: `UD-Q4_K_XL`.
    let dynamic =
        at.checked_sub(1).and_then(|before| parts.get(before)).is_some_and(|part| part.eq_ignore_ascii_case("UD"));
    Some(if dynamic { format!("UD-{quantization}") } else { quantization })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::test_server::{TestServer, reply, transport};

    fn hub(served: &TestServer) -> Hub {
        Hub::new(transport(), &served.url("/")).expect("a valid address")
    }

    #[tokio::test]
    async fn search_requests_gguf_and_skips_invalid_names() {
        let served = TestServer::start(|_| {
            let body = r#"[{"id":"me/Model-GGUF","downloads":7,"tags":["gguf","license:mit"],"pipeline_tag":"text-generation"},
                {"id":"no-slash-no-name?"},{"id":"../../etc"},{"id":"a/b/c"},{"id":"a/b:c"}]"#;
            reply(200, &[("content-type", "application/json")], body)
        })
        .await;
        let found = hub(&served).search(" tiny llama&x=1 ").await.expect("a valid response");
        let titles: Vec<&str> = found.iter().map(|model| model.title.as_str()).collect();
        assert_eq!(titles, ["me/Model-GGUF"], "the others are not valid names");
        let first = found.first().expect("one");
        assert_eq!((first.licence.as_deref(), first.downloads), (Some("mit"), Some(7)), "{first:?}");
        let line = served.request_lines().concat();
        assert!(line.contains("search=tiny+llama%26x%3D1&filter=gguf&sort=downloads"), "{line}");
    }

    #[tokio::test]
    async fn files_are_grouped_by_quantisation() {
        let served = TestServer::start(|_| {
            let file = |path: &str, size: u64| format!(r#"{{"type":"file","path":"{path}","size":{size}}}"#);
            let files = [
                file("Model-8B-Q8_0.gguf", 80),
                file("Model-8B-Q4_K_M-00001-of-00002.gguf", 20),
                file("Q4_K_M/Model-8B-Q4_K_M-00002-of-00002.gguf", 21),
                file("Model-8B-UD-IQ1_S.gguf", 9),
                file("mmproj-F16.gguf", 5),
                file("Model.imatrix.gguf", 5),
                file("README.md", 1),
                r#"{"type":"directory","path":"Q4_K_M"}"#.to_owned(),
            ];
            reply(200, &[], format!("[{}]", files.join(",")))
        })
        .await;
        let variants = hub(&served).variants("me/Model-GGUF").await.expect("a valid response");
        let rows: Vec<_> = variants.iter().map(|v| (v.name.as_str(), v.size_bytes)).collect();
        let expected =
            [("hf.co/me/Model-GGUF:UD-IQ1_S", 9), ("hf.co/me/Model-GGUF:Q4_K_M", 41), ("hf.co/me/Model-GGUF:Q8_0", 80)];
        assert_eq!(rows, expected, "sorted by size");
        assert_eq!(served.request_lines(), ["GET /api/models/me/Model-GGUF/tree/main?recursive=true"], "one request");
    }

    #[tokio::test]
    async fn untrusted_texts_and_counts_are_limited() {
        let served = TestServer::start(|seen| {
            let body = if seen.target.contains("tree") {
                let file = |n: usize| format!(r#"{{"type":"file","path":"m-Q4_{n:05}.gguf","size":{}}}"#, u64::MAX);
                format!("[{}]", (0..5_000).map(file).collect::<Vec<_>>().join(","))
            } else {
                let long = "x".repeat(100_000);
                format!(
                    r#"[{{"id":"me/M","tags":["license:\u001b[31m{long}"],"pipeline_tag":"a\u0007b"}},
                        {{"id":"me/\u001b[2J"}},{{"id":"me/{long}"}}]"#
                )
            };
            reply(200, &[], body)
        })
        .await;
        let hub = Hub::new(transport(), &served.url("/a/mirror/")).expect("a valid address");
        let found = hub.search("m").await.expect("a valid response");
        let [model] = found.as_slice() else { panic!("the others are not valid names: {found:?}") };
        assert_eq!(model.tasks, ["ab"], "without control characters");
        let licence = model.licence.as_deref().unwrap_or_default();
        assert!(licence.starts_with("[31mxx") && licence.len() == MAX_TEXT_CHARS, "{licence:?}");
        let variants = hub.variants("me/M").await.expect("a valid response");
        assert_eq!((variants.len(), variants[0].size_bytes), (MAX_VARIANTS, u64::MAX), "the limits");
        assert!(
            served.request_lines().iter().all(|line| line.starts_with("GET /a/mirror/api/models")),
            "{:?}",
            served.request_lines()
        );
    }

    #[tokio::test]
    async fn invalid_entry_is_skipped() {
        let served = TestServer::start(|seen| {
            let body = match seen.target.contains("tree") {
                true => {
                    r#"[{"type":"file","path":"m-Q4_0.gguf","size":-1},7,
                        {"type":"file","path":"m-Q8_0.gguf","size":8}]"#
                }
                false => r#"[{"id":"me/A","downloads":"many"},{"id":"me/B","tags":[1]},null,{},{"id":"me/C"}]"#,
            };
            reply(200, &[], body)
        })
        .await;
        let found = hub(&served).search("m").await.expect("a valid response");
        let titles: Vec<&str> = found.iter().map(|model| model.title.as_str()).collect();
        assert_eq!(titles, ["me/C"], "the valid entry");
        let variants = hub(&served).variants("me/C").await.expect("a valid response");
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["hf.co/me/C:Q8_0"], "the valid file");
    }

    #[test]
    fn index_address_is_validated() {
        let check = |address: &str, good: bool| assert_eq!(Hub::new(transport(), address).is_ok(), good, "{address}");
        for address in ["https://huggingface.co", "http://127.0.0.1:1/", "https://hub.company/path"] {
            check(address, true);
        }
        for address in ["", "huggingface.co", "file:///etc/passwd", "https://me:secret@hub", "https://hub/?x=1"] {
            check(address, false);
        }
    }

    #[test]
    fn quantisation_is_parsed_from_file_name() {
        let check = |stem: &str, expected: Option<&str>| assert_eq!(quantization(stem).as_deref(), expected, "{stem}");
        check("model.q4_0", Some("Q4_0"));
        check("Llama-3.2-1B-Instruct-f16", Some("F16"));
        check("gpt-oss-20b-MXFP4", Some("MXFP4"));
        check("Qwen3-8B", None);
        check("Q-Model", None);
    }

    #[test]
    fn parameters_are_parsed_from_repository_name() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(parameters(name).as_deref(), expected, "{name}");
        check("me/Llama-3.2-1B-Instruct-GGUF", Some("1B"));
        check("me/SmolLM2_135m", Some("135M"));
        check("me/Qwen2.5-0.5b-GGUF", Some("0.5B"));
        check("me/Mixtral-8x7B-v0.1", Some("8X7B"));
        check("7B/Model", None);
        check("me/Model-B-GGUF", None);
        check("me/infB-nanB-1e9B-.5B", None);
    }

    #[tokio::test]
    async fn invalid_response_is_an_error() {
        let served = TestServer::start(|_| reply(200, &[], "<html>")).await;
        let error = hub(&served).search("x").await.expect_err("the response is not a list").to_string();
        assert!(error.contains("127.0.0.1") && error.contains("cannot parse"), "{error}");
        let served = TestServer::start(|_| reply(200, &[], vec![b' '; MAX_RESPONSE_BYTES + 1])).await;
        let error = hub(&served).search("x").await.expect_err("the response is too long").to_string();
        assert!(error.contains("longer than"), "{error}");
        let served = TestServer::start(|_| reply(503, &[("retry-after", "3")], "")).await;
        assert!(matches!(hub(&served).search("x").await, Err(SourceError::Busy { .. })), "expected Busy");
    }
}
