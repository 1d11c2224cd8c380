//! Well-known models of Ollama's library, as a list that is part of the program.
//!
//! It lists only models of supported architectures with published files in llama.cpp's layout. Some models
//! of the library (`gemma3`, `gpt-oss`, all vision models) are published in a layout of Ollama's own. The engine translates it,
//! which is tested with files that are made for tests, not with published ones.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{DiscoveredModel, ModelIndex, Variant};

#[derive(Deserialize)]
struct Row {
    name: String,
    /// `general.architecture` of its files, unless a tag has its own.
    architecture: String,
    about: String,
    tasks: Vec<String>,
    licence: String,
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    tag: String,
    architecture: Option<String>,
    parameters: String,
    /// Parameters that compute each token, for models with experts.
    active_parameters: Option<String>,
    quantization: String,
    size_bytes: u64,
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| serde_json::from_str(include_str!("catalogue.json")).expect("a test parses the list"));

/// Models whose name, description, licence or tasks contain every word of the query, ignoring case.
pub(super) fn search(query: &str) -> Vec<DiscoveredModel> {
    let query = query.to_lowercase();
    let has = |row: &Row, word: &str| {
        let texts = [&row.name, &row.about, &row.licence].into_iter().chain(&row.tasks);
        texts.into_iter().any(|text| text.to_lowercase().contains(word))
    };
    let matches = ROWS.iter().filter(|row| query.split_whitespace().all(|word| has(row, word)));
    matches.map(discovered).collect()
}

fn discovered(row: &Row) -> DiscoveredModel {
    let variant = |tag: &Tag| Variant {
        name: format!("{}:{}", row.name, tag.tag),
        parameters: Some(tag.parameters.clone()),
        active_parameters: tag.active_parameters.clone(),
        quantization: Some(tag.quantization.clone()),
        architecture: Some(tag.architecture.as_ref().unwrap_or(&row.architecture).clone()),
        size_bytes: tag.size_bytes,
        is_approximate: true,
    };
    DiscoveredModel {
        title: row.name.clone(),
        about: row.about.clone(),
        index: ModelIndex::Library,
        tasks: row.tasks.clone(),
        licence: Some(row.licence.clone()),
        downloads: None,
        variants: row.tags.iter().map(variant).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_store::ModelRef;
    use std::collections::HashSet;

    #[test]
    fn catalogue_entries_have_unique_valid_names() {
        let all = search("");
        assert!(all.len() > 20, "{} models", all.len());
        let mut names = HashSet::new();
        for model in &all {
            assert!(
                !model.about.is_empty() && !model.variants.is_empty(),
                "{} has a description and a variant",
                model.title
            );
            assert!(model.variants.is_sorted_by_key(|v| v.size_bytes), "{}: variants are sorted by size", model.title);
            for variant in &model.variants {
                let name: ModelRef = variant.name.parse().expect("the name is valid");
                assert!(name.to_string() == variant.name && names.insert(variant.name.clone()), "{}", variant.name);
                assert!(variant.size_bytes > 100_000_000 && variant.is_approximate, "{}", variant.name);
            }
        }
    }

    /// Architectures of which Ollama's library publishes files in its own layout.
    const IN_OLLAMA_LAYOUT: [&str; 8] =
        ["gemma3", "gemma3n", "gemma4", "gpt-oss", "gptoss", "mistral3", "qwen25vl", "qwen3vl"];

    #[test]
    fn catalogue_lists_no_files_in_ollamas_own_layout() {
        for variant in search("").iter().flat_map(|model| &model.variants) {
            let architecture = variant.architecture.as_deref().expect("the catalogue names it");
            assert!(!IN_OLLAMA_LAYOUT.contains(&architecture), "{}: {architecture}", variant.name);
        }
    }

    #[test]
    fn catalogue_search_requires_all_words() {
        let titles = |query: &str| search(query).into_iter().map(|model| model.title).collect::<Vec<_>>();
        assert_eq!(titles("QWEN code"), ["qwen2.5-coder"], "matching ignores case");
        assert!(titles("thinking").contains(&"deepseek-r1".to_owned()), "tasks are searched");
        assert!(titles("no such model").is_empty(), "no match");
    }
}
