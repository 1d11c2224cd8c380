//! Hugging Face's public index of models: `GET /api/models` with a filter, and the files of one repository.
//! <https://huggingface.co/docs/hub/api>
//!
//! What it answers is somebody's words: lengths and counts are bounded, names are checked as names of models, and what is
//! neither is left out. No credentials are sent, and no redirect is followed.

use std::collections::BTreeMap;

use cairn_store::ModelRef;
use reqwest::Url;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Discovered, Shelf, Variant};
use crate::{AddressError, SourceError, Transport};

/// The host in names, which Hugging Face answers as a registry at.
pub(super) const REGISTRY: &str = "hf.co";
/// Repositories that a search brings at most.
const MAX_FOUND: usize = 50;
/// Variants of one repository at most; the types that llama.cpp knows are fewer.
const MAX_VARIANTS: usize = 100;
/// The longest answer that is read.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// The longest word about a model that is kept: a licence, a task.
const MAX_WORD_CHARS: usize = 60;

/// Hugging Face's index, or one that answers as it does.
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

/// One of a list that is somebody else's: what it should be, or something else, which spoils nothing but itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed<T> {
    Known(T),
    Other(IgnoredAny),
}

impl<T> Listed<T> {
    fn known(self) -> Option<T> {
        match self {
            Self::Known(item) => Some(item),
            Self::Other(IgnoredAny) => None,
        }
    }
}

impl Hub {
    /// The one at an address: Hugging Face's own, a company's, a mirror. Whoever writes `http://` asks for that.
    ///
    /// # Errors
    /// [`AddressError::Invalid`] when it is no address.
    pub fn at(transport: Transport, address: &str) -> Result<Self, AddressError> {
        let invalid = |reason: &str| AddressError::Invalid { address: address.to_owned(), reason: reason.to_owned() };
        let base = Url::parse(address).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("its scheme is neither http nor https"));
        }
        if !base.username().is_empty() || base.password().is_some() || base.query().is_some() {
            return Err(invalid("there is more than a host and a path in it"));
        }
        Ok(Self { transport, base })
    }

    /// Who is asked, with the port where it has one.
    #[must_use]
    pub fn host(&self) -> String {
        crate::client::place(&self.base)
    }

    /// The address of something of its interface, below whatever path the index is at.
    fn url<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", "models"]).extend(parts);
        }
        url
    }

    /// Repositories with GGUF files that a search means, those most fetched first. What can be pulled of each is asked
    /// for by [`Hub::variants`].
    ///
    /// # Errors
    /// When it cannot be reached, or answers what is no list.
    pub async fn search(&self, query: &str) -> Result<Vec<Discovered>, SourceError> {
        let mut url = self.url([]);
        let limit = MAX_FOUND.to_string();
        url.query_pairs_mut().extend_pairs([
            ("search", query.trim()),
            ("filter", "gguf"),
            ("sort", "downloads"),
            ("direction", "-1"),
            ("limit", &limit),
        ]);
        let found: Vec<Listed<Repository>> = self.transport.json(url, MAX_ANSWER_BYTES).await?;
        Ok(found.into_iter().filter_map(Listed::known).take(MAX_FOUND).filter_map(discovered).collect())
    }

    /// What can be pulled of `user/repository`: one variant for each quantisation that it has files of, the smallest
    /// first.
    ///
    /// # Errors
    /// As [`Hub::search`].
    pub async fn variants(&self, repository: &str) -> Result<Vec<Variant>, SourceError> {
        let mut url = self.url(repository.split('/').chain(["tree", "main"]));
        url.query_pairs_mut().append_pair("recursive", "true");
        let listed: Vec<Listed<Entry>> = self.transport.json(url, MAX_ANSWER_BYTES).await?;
        let any = !listed.is_empty();
        let entries: Vec<Entry> = listed.into_iter().filter_map(Listed::known).collect();
        if any && entries.is_empty() {
            // Where nothing makes sense, no sizes are known, and that is said.
            let reason = format!("the list of {repository}'s files cannot be read");
            return Err(SourceError::Broken { host: self.host(), reason, answered: true });
        }
        Ok(variants(repository, &entries))
    }
}

fn discovered(repository: Repository) -> Option<Discovered> {
    // A repository that is no name cannot be pulled, and one with a tag is none.
    let name: ModelRef = format!("{REGISTRY}/{}", repository.id).parse().ok()?;
    if format!("{}/{}", name.namespace(), name.model()) != repository.id {
        return None;
    }
    let licence = repository.tags.iter().find_map(|tag| tag.strip_prefix("license:")).map(word);
    Some(Discovered {
        title: repository.id,
        about: String::new(),
        shelf: Shelf::HuggingFace,
        tasks: repository.pipeline_tag.iter().map(|task| word(task)).collect(),
        licence,
        downloads: repository.downloads,
        variants: Vec::new(),
    })
}

/// A stranger's word, as far as it can be printed in a line.
fn word(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(MAX_WORD_CHARS).collect()
}

/// Files of one quantisation are one variant, because large ones come in parts. Projectors and importance matrices are
/// no models.
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
            quantization: Some(quantization),
            size_bytes,
            approximate: false,
        })
    };
    let mut variants: Vec<Variant> = sizes.into_iter().filter_map(variant).collect();
    variants.sort_by_key(|variant| variant.size_bytes);
    variants.truncate(MAX_VARIANTS);
    variants
}

/// How many parameters a repository's name says that its model has: `8B` in `me/Model-8b-Instruct-GGUF`, `8X7B`.
fn parameters(repository: &str) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.parse::<f32>().is_ok_and(|n| n > 0.0 && n < 10_000.0);
    let read = |part: &str| {
        let upper = part.to_ascii_uppercase();
        let number = upper.strip_suffix(['B', 'M'])?;
        let plain =
            number.split('X').all(|factor| is_number(factor) && factor.starts_with(|c: char| c.is_ascii_digit()));
        plain.then_some(upper)
    };
    repository.rsplit('/').next()?.split(['-', '_']).find_map(read)
}

/// The quantisation in a file's name: its last part that reads like one, `Q4_K_M` in `Model-8B-Q4_K_M-00001-of-00002`.
fn quantization(stem: &str) -> Option<String> {
    let parts: Vec<&str> = stem.split(['-', '.']).collect();
    let read = |part: &str| {
        let upper = part.to_ascii_uppercase();
        let known = matches!(upper.as_str(), "F32" | "F16" | "BF16")
            || upper.starts_with("MXFP4")
            || ["IQ", "TQ", "Q"].iter().any(|prefix| {
                upper
                    .strip_prefix(prefix)
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('_'))
            });
        known.then_some(upper)
    };
    let at = parts.iter().rposition(|part| read(part).is_some())?;
    let quantization = read(parts.get(at)?)?;
    // Unsloth's own mixes: `UD-Q4_K_XL`.
    let dynamic =
        at.checked_sub(1).and_then(|before| parts.get(before)).is_some_and(|part| part.eq_ignore_ascii_case("UD"));
    Some(if dynamic { format!("UD-{quantization}") } else { quantization })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::{Served, reply, transport};

    fn hub(served: &Served) -> Hub {
        Hub::at(transport(), &served.url("/")).expect("an address")
    }

    #[tokio::test]
    async fn a_search_asks_for_gguf_and_passes_over_what_cannot_be_pulled() {
        let served = Served::by(|_| {
            let body = r#"[{"id":"me/Model-GGUF","downloads":7,"tags":["gguf","license:mit"],"pipeline_tag":"text-generation"},
                {"id":"no-slash-no-name?"},{"id":"../../etc"},{"id":"a/b/c"},{"id":"a/b:c"}]"#;
            reply(200, &[("content-type", "application/json")], body)
        })
        .await;
        let found = hub(&served).search(" tiny llama&x=1 ").await.expect("it answers");
        let titles: Vec<&str> = found.iter().map(|model| model.title.as_str()).collect();
        assert_eq!(titles, ["me/Model-GGUF"], "the others are no names");
        let first = found.first().expect("one");
        assert_eq!((first.licence.as_deref(), first.downloads), (Some("mit"), Some(7)), "{first:?}");
        let line = served.lines().concat();
        assert!(line.contains("search=tiny+llama%26x%3D1&filter=gguf&sort=downloads"), "{line}");
    }

    #[tokio::test]
    async fn files_of_one_quantisation_are_one_variant() {
        let served = Served::by(|_| {
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
        let variants = hub(&served).variants("me/Model-GGUF").await.expect("it answers");
        let rows: Vec<_> = variants.iter().map(|v| (v.name.as_str(), v.size_bytes)).collect();
        let expected =
            [("hf.co/me/Model-GGUF:UD-IQ1_S", 9), ("hf.co/me/Model-GGUF:Q4_K_M", 41), ("hf.co/me/Model-GGUF:Q8_0", 80)];
        assert_eq!(rows, expected, "the smallest first");
        assert_eq!(served.lines(), ["GET /api/models/me/Model-GGUF/tree/main?recursive=true"], "one question");
    }

    #[tokio::test]
    async fn strangers_words_are_bounded() {
        let served = Served::by(|seen| {
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
        let hub = Hub::at(transport(), &served.url("/a/mirror/")).expect("an address");
        let found = hub.search("m").await.expect("it answers");
        let [model] = found.as_slice() else { panic!("the others are no names: {found:?}") };
        assert_eq!(model.tasks, ["ab"], "without what a terminal would obey");
        let licence = model.licence.as_deref().unwrap_or_default();
        assert!(licence.starts_with("[31mxx") && licence.len() == MAX_WORD_CHARS, "{licence:?}");
        let variants = hub.variants("me/M").await.expect("it answers");
        assert_eq!((variants.len(), variants[0].size_bytes), (MAX_VARIANTS, u64::MAX), "as many as there can be");
        assert!(served.lines().iter().all(|line| line.starts_with("GET /a/mirror/api/models")), "{:?}", served.lines());
    }

    #[tokio::test]
    async fn an_entry_that_makes_no_sense_spoils_no_other() {
        let served = Served::by(|seen| {
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
        let found = hub(&served).search("m").await.expect("it answers");
        let titles: Vec<&str> = found.iter().map(|model| model.title.as_str()).collect();
        assert_eq!(titles, ["me/C"], "the one that makes sense");
        let variants = hub(&served).variants("me/C").await.expect("it answers");
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["hf.co/me/C:Q8_0"], "the file that makes sense");
    }

    #[test]
    fn addresses_of_an_index() {
        let check = |address: &str, good: bool| assert_eq!(Hub::at(transport(), address).is_ok(), good, "{address}");
        for address in ["https://huggingface.co", "http://127.0.0.1:1/", "https://hub.company/path"] {
            check(address, true);
        }
        for address in ["", "huggingface.co", "file:///etc/passwd", "https://me:secret@hub", "https://hub/?x=1"] {
            check(address, false);
        }
    }

    #[test]
    fn quantisations_in_names() {
        let check = |stem: &str, expected: Option<&str>| assert_eq!(quantization(stem).as_deref(), expected, "{stem}");
        check("model.q4_0", Some("Q4_0"));
        check("Llama-3.2-1B-Instruct-f16", Some("F16"));
        check("gpt-oss-20b-MXFP4", Some("MXFP4"));
        check("Qwen3-8B", None);
        check("Q-Model", None);
    }

    #[test]
    fn parameters_in_names() {
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
    async fn an_answer_that_is_no_list_is_said() {
        let served = Served::by(|_| reply(200, &[], "<html>")).await;
        let error = hub(&served).search("x").await.expect_err("it is no list").to_string();
        assert!(error.contains("127.0.0.1") && error.contains("cannot be read"), "{error}");
        let served = Served::by(|_| reply(200, &[], vec![b' '; MAX_ANSWER_BYTES + 1])).await;
        let error = hub(&served).search("x").await.expect_err("it does not end").to_string();
        assert!(error.contains("longer than"), "{error}");
        let served = Served::by(|_| reply(503, &[("retry-after", "3")], "")).await;
        assert!(matches!(hub(&served).search("x").await, Err(SourceError::Busy { .. })), "it asks to wait");
    }
}
