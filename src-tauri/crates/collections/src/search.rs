//! Search in a collection by words and by meaning.
//!
//! By words, a chunk needs only one word of the query: a question has words that no answer contains. BM25 weights rare words more.
//! English words match in all their forms, because the index has their stems.

use cairn_wire::app::collections::{CollectionHit, HitOrigin};
use cairn_words::Run;
use rusqlite::{Connection, params};

use crate::fusion::{Fused, fuse};
use crate::{CollectionStore, CollectionsError, chunk, stored_collection, vector};

/// Length of each ranked list, if the request has no more hits.
const RANKED: usize = 10;
/// Most terms of a query. A pasted text is found by its beginning.
const MAX_TERMS: usize = 64;
/// English words that are in most texts. A query is searched without them, unless it has no other words.
const COMMON_WORDS: &str = "a about all am an and any are as at be been being but by can could did do does for from had has have he \
    her his how i if in into is it its may me might must my no not of on or our shall she should so than that the their them then \
    there these they this those to too was we were what when where which while why will with would you your";
/// Longest word of a query in characters.
const MAX_WORD_CHARS: usize = 64;

/// The vector of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryVector {
    /// Digest of the model.
    pub model: String,
    /// The vector, of length 1.
    pub vector: Vec<f32>,
}

impl CollectionStore {
    /// Returns the best chunks for a query, best first. Without a vector, or if the collection has vectors of another model, it
    /// compares words only.
    ///
    /// # Errors
    /// If there is no such collection, or the file cannot be read.
    pub fn search(
        &self,
        collection: &str,
        query: &str,
        vector: Option<&QueryVector>,
        limit: usize,
    ) -> Result<Vec<CollectionHit>, CollectionsError> {
        self.read(|connection| {
            let (row, stored) = stored_collection::find(connection, collection)?;
            let ranked = RANKED.max(limit);
            let mut lists = vec![(HitOrigin::Words, by_words(connection, row, query, ranked)?)];
            if let Some(query) = vector.filter(|query| stored.vector_model.as_ref() == Some(&query.model)) {
                lists.push((HitOrigin::Meaning, vector::nearest(connection, row, &query.vector, ranked)?));
            }
            fuse(&lists, limit).into_iter().map(|fused| hit(connection, fused)).collect()
        })
    }

    /// Returns whether a text is in a script without spaces, for example Chinese.
    #[must_use]
    pub fn is_dense(text: &str) -> bool {
        chunk::is_dense(text)
    }
}

fn by_words(connection: &Connection, collection: i64, query: &str, limit: usize) -> Result<Vec<i64>, CollectionsError> {
    let Some(expression) = expression(query) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(
        "SELECT chunks.row FROM found_chunks CROSS JOIN chunks ON chunks.row = found_chunks.rowid
        WHERE found_chunks MATCH ?1 AND chunks.collection = ?2 ORDER BY bm25(found_chunks), chunks.row LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![expression, collection, limit], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns an FTS5 expression for texts with at least one word of a query; `None` if the query has no words. Each word is quoted,
/// so that it contains no operators.
fn expression(query: &str) -> Option<String> {
    let is_common = |run: &Run<'_>| match run {
        Run::Word(word) => COMMON_WORDS.split_ascii_whitespace().any(|common| common.eq_ignore_ascii_case(word)),
        Run::Dense(_) => false,
    };
    let runs = || cairn_words::runs(query).map(|(_, run)| run);
    let has_only_common = runs().all(|run| is_common(&run));
    let mut terms: Vec<String> = Vec::new();
    let mut push = |term: String| {
        if terms.len() < MAX_TERMS && !terms.contains(&term) {
            terms.push(term);
        }
    };
    for run in runs().filter(|run| has_only_common || !is_common(run)) {
        match run {
            Run::Word(word) => {
                let word: String = word.chars().take(MAX_WORD_CHARS).collect();
                push(format!("words : \"{word}\""));
            }
            Run::Dense(run) if run.chars().nth(1).is_none() => push(format!("singles : \"{run}\"")),
            Run::Dense(run) => cairn_words::pairs(run).for_each(|pair| push(format!("words : \"{pair}\""))),
        }
    }
    (!terms.is_empty()).then(|| terms.join(" OR "))
}

fn hit(connection: &Connection, Fused { chunk, score, by }: Fused) -> Result<CollectionHit, CollectionsError> {
    let mut statement = connection.prepare_cached(
        "SELECT documents.row, documents.name, place, ordinal, text
        FROM chunks JOIN documents ON documents.row = chunks.document WHERE chunks.row = ?1",
    )?;
    let (document, name, place, ordinal, text) = statement.query_row([chunk], |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get::<_, String>(2)?, row.get(3)?, row.get(4)?))
    })?;
    let place = serde_json::from_str(&place)?;
    Ok(CollectionHit { document: document.to_string(), name, place, chunk: ordinal, text, score, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_words_are_quoted_alternatives() {
        let check =
            |query: &str, expected: Option<&str>| assert_eq!(expression(query).as_deref(), expected, "{query:?}");
        check("How hot is iron? Hot", Some("words : \"hot\" OR words : \"iron\" OR words : \"Hot\""));
        check("How? By whom", Some("words : \"whom\""));
        check("To be", Some("words : \"To\" OR words : \"be\""));
        check("备份策略", Some("words : \"备份\" OR words : \"份策\" OR words : \"策略\""));
        check("茶", Some("singles : \"茶\""));
        check("a\" AND NEAR(b", Some("words : \"NEAR\" OR words : \"b\""));
        check("?!", None);
        let long = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(expression(&long).expect("words").matches(" OR ").count(), MAX_TERMS - 1, "a pasted text is cut");
    }
}
