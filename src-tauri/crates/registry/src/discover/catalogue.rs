//! Well-known models of Ollama's library, which come as a list with the program.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Discovered, Shelf, Variant};

#[derive(Deserialize)]
struct Row {
    name: String,
    about: String,
    tasks: Vec<String>,
    licence: String,
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    tag: String,
    parameters: String,
    quantization: String,
    size_bytes: u64,
}

static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| serde_json::from_str(include_str!("catalogue.json")).expect("a test reads the list"));

/// A word of the query is found in a name, a task, or what is said about the model; all words must be.
pub(super) fn search(query: &str) -> Vec<Discovered> {
    let query = query.to_lowercase();
    let has = |row: &Row, word: &str| {
        let texts = [&row.name, &row.about, &row.licence].into_iter().chain(&row.tasks);
        texts.into_iter().any(|text| text.to_lowercase().contains(word))
    };
    let meant = ROWS.iter().filter(|row| query.split_whitespace().all(|word| has(row, word)));
    meant.map(discovered).collect()
}

fn discovered(row: &Row) -> Discovered {
    let variant = |tag: &Tag| Variant {
        name: format!("{}:{}", row.name, tag.tag),
        parameters: Some(tag.parameters.clone()),
        quantization: Some(tag.quantization.clone()),
        size_bytes: tag.size_bytes,
        approximate: true,
    };
    Discovered {
        title: row.name.clone(),
        about: row.about.clone(),
        shelf: Shelf::Library,
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
    fn every_row_can_be_pulled() {
        let all = search("");
        assert!(all.len() > 20, "{} models", all.len());
        let mut names = HashSet::new();
        for model in &all {
            assert!(!model.about.is_empty() && !model.variants.is_empty(), "{} says what it is", model.title);
            assert!(model.variants.is_sorted_by_key(|v| v.size_bytes), "{}: the smallest first", model.title);
            for variant in &model.variants {
                let name: ModelRef = variant.name.parse().expect("a name");
                assert!(name.to_string() == variant.name && names.insert(variant.name.clone()), "{}", variant.name);
                assert!(variant.size_bytes > 100_000_000 && variant.approximate, "{}", variant.name);
            }
        }
    }

    #[test]
    fn a_search_means_all_its_words() {
        let titles = |query: &str| search(query).into_iter().map(|model| model.title).collect::<Vec<_>>();
        assert_eq!(titles("QWEN code"), ["qwen2.5-coder"], "words, in any case");
        assert!(titles("thinking").contains(&"gpt-oss".to_owned()), "tasks are searched");
        assert!(titles("no such model").is_empty(), "nothing");
    }
}
