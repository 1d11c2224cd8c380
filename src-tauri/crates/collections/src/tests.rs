//! Tests of the store: collections and documents that survive restarts and crashes, searches, limits.

use cairn_wire::ErrorBody;
use cairn_wire::app::collections::{CollectionHit, HitOrigin};
use cairn_wire::app::documents::{DocumentFormat, DocumentPart, PartPlace};

use super::*;

mod erased;
mod question_set;
mod repaired;
mod size;

struct Home {
    folder: tempfile::TempDir,
    store: CollectionStore,
}

impl Home {
    /// Opens a store with the collection `c`.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = CollectionStore::open(&folder.path().join("collections.sqlite"), 1).expect("a new file");
        store.create("c", "Notes", None, 5).expect("a collection");
        Self { folder, store }
    }

    fn reopened(self) -> Self {
        let Self { folder, store } = self;
        drop(store);
        let store = CollectionStore::open(&folder.path().join("collections.sqlite"), 2).expect("the file");
        Self { folder, store }
    }

    /// Adds a document of one part for each text, and returns its id.
    fn add(&self, name: &str, texts: &[&str]) -> String {
        let id = self.begin(name);
        self.store.store_text("c", &id, &text(texts)).expect("stored");
        id
    }

    fn begin(&self, name: &str) -> String {
        let (document, is_new) = self.store.begin_document("c", new_document(name), 7).expect("a document");
        assert!(is_new, "{name}");
        document.id
    }

    /// Stores vectors of all pending chunks, by the text of each.
    fn embed(&self, model: &str, vector: impl Fn(&str) -> Vec<f32>) {
        self.store.begin_vectors("c", model).expect("the collection");
        let pending = self.store.pending_chunks("c", true, usize::MAX).expect("chunks");
        let vectors: Vec<_> = pending.iter().map(|chunk| (chunk.row, vector(&chunk.text))).collect();
        assert!(self.store.store_vectors("c", model, &vectors).expect("stored"), "the model is current");
    }

    fn execute(&self, sql: &str) {
        self.store.write(|writer| Ok(writer.execute_batch(sql)?)).expect("executed");
    }

    fn search(&self, query: &str, vector: Option<&QueryVector>) -> Vec<CollectionHit> {
        self.store.search("c", query, vector, 5).expect("hits")
    }
}

fn new_document(name: &str) -> NewDocument<'_> {
    NewDocument { name, digest: name, bytes: 100 }
}

fn text(texts: &[&str]) -> NewText {
    let part = |(number, text): (usize, &&str)| DocumentPart {
        place: PartPlace::Page { number: u32::try_from(number).expect("few parts") + 1 },
        text: (*text).to_owned(),
    };
    let parts: Vec<_> = texts.iter().enumerate().map(part).collect();
    NewText { format: DocumentFormat::Pdf, pages: Some(9), chunks: chunks(&parts) }
}

/// Generates a text with common and rare words.
fn sentence(seed: u64) -> String {
    const WORDS: [&str; 8] = ["model", "window", "bread", "granite", "river", "翻译", "paper", "天气"];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut words = Vec::new();
    for _ in 0..60 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.push(format!("{} {}", WORDS[(state >> 61) as usize], state >> 20 & 0xfff));
    }
    words.join(" ")
}

fn query_vector(model: &str, vector: &[f32]) -> QueryVector {
    QueryVector { model: model.to_owned(), vector: vector.to_vec() }
}

fn names(hits: &[CollectionHit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.name.as_str()).collect()
}

#[test]
fn collections_and_documents_survive_a_restart() {
    let home = Home::new();
    home.add("rivers.pdf", &["Rivers carry sand.", "They end in the sea."]);
    home.store.set_model("c", Some("minilm")).expect("set");
    home.embed("digest", |text| if text.contains("sand") { vec![1.0, 0.0] } else { vec![0.0, 1.0] });
    let (before, documents) = (home.store.collections().expect("a list"), home.store.documents("c").expect("a list"));
    let home = home.reopened();
    assert_eq!(home.store.collections().expect("a list"), before, "the collections");
    assert_eq!(home.store.documents("c").expect("a list"), documents, "the documents");
    assert_eq!((before[0].chunks, before[0].vectors, before[0].model.as_deref()), (2, 2, Some("minilm")));
    assert_eq!((documents[0].state.clone(), documents[0].pages), (DocumentState::Stored, Some(9)));
    let hits = home.search("the sea", Some(&query_vector("digest", &[0.0, 1.0])));
    assert_eq!((hits[0].text.as_str(), &hits[0].place), ("They end in the sea.", &PartPlace::Page { number: 2 }));
    assert_eq!(hits[0].by, [HitOrigin::Words, HitOrigin::Meaning]);
    assert!((hits[0].score - 1.0).abs() < 1e-9, "the best score: {}", hits[0].score);
}

#[test]
fn collections_are_renamed_and_deleted() {
    let home = Home::new();
    home.add("a.pdf", &["apple"]);
    home.store.create("d", "Alpha", None, 6).expect("created");
    home.store.rename("c", "  Zeta ").expect("renamed");
    let names = || home.store.collections().expect("a list").into_iter().map(|row| row.name).collect::<Vec<_>>();
    assert_eq!(names(), ["Alpha", "Zeta"], "by name");
    let (long, longest) = ("x".repeat(MAX_NAME_CHARS + 1), "x".repeat(MAX_NAME_CHARS));
    for name in ["", " ", &long] {
        assert!(matches!(home.store.rename("c", name), Err(CollectionsError::Name)), "{name:?}");
    }
    home.store.rename("d", &longest).expect("a long name");
    home.store.delete("c").expect("deleted");
    assert_eq!(home.store.collections().expect("a list").len(), 1, "one is left");
    assert!(matches!(home.store.documents("c"), Err(CollectionsError::NotFound(id)) if id == "c"), "no documents");
    let left =
        "SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM found_chunks WHERE found_chunks MATCH 'apple')";
    let left: i64 = home.store.read(|reader| Ok(reader.query_row(left, [], |row| row.get(0))?)).expect("a count");
    assert_eq!(left, 0, "no chunk is left");
}

#[test]
fn removed_document_is_not_found() {
    let home = Home::new();
    let apple = home.add("apple.pdf", &["An apple is a fruit."]);
    home.add("pear.pdf", &["A pear is a fruit."]);
    home.embed("m", |text| if text.contains("apple") { vec![1.0, 0.0] } else { vec![0.6, 0.8] });
    let vector = query_vector("m", &[1.0, 0.0]);
    assert_eq!(names(&home.search("apple", Some(&vector))), ["apple.pdf", "pear.pdf"]);
    home.store.remove_document("c", &apple).expect("removed");
    assert_eq!(names(&home.search("apple fruit", Some(&vector))), ["pear.pdf"], "by words and by meaning");
    assert!(matches!(home.store.remove_document("c", &apple), Err(CollectionsError::DocumentNotFound(_))));
    for id in ["", "x", "99"] {
        assert!(matches!(home.store.document("c", id), Err(CollectionsError::DocumentNotFound(_))), "{id:?}");
    }
}

#[test]
fn same_file_is_added_once_and_a_failed_one_again() {
    let home = Home::new();
    let id = home.add("a.pdf", &["text"]);
    let (same, is_new) = home.store.begin_document("c", new_document("a.pdf"), 8).expect("the document");
    assert_eq!((same.id, is_new), (id, false), "the same file");
    let failed = home.begin("b.pdf");
    let error = ErrorBody::text("damaged");
    home.store.fail_document("c", &failed, &error).expect("stored");
    assert_eq!(home.store.document("c", &failed).expect("a document").state, DocumentState::Failed(Some(error)));
    let again = home.begin("b.pdf");
    assert_ne!(again, failed, "a new document");
    assert_eq!(home.store.documents("c").expect("a list").len(), 2, "the failed one is replaced");
}

#[test]
fn document_that_was_being_read_has_failed_after_a_restart() {
    let home = Home::new();
    let id = home.begin("a.pdf");
    assert_eq!(home.store.document("c", &id).expect("a document").state, DocumentState::Reading);
    let home = home.reopened();
    assert_eq!(home.store.document("c", &id).expect("a document").state, DocumentState::Failed(None));
}

#[test]
fn crash_while_text_is_stored_leaves_no_chunk() {
    let home = Home::new();
    home.add("old.pdf", &["the old text"]);
    let id = home.begin("new.pdf");
    let path = home.folder.path().join("collections.sqlite");
    let copy = home.folder.path().join("copy.sqlite");
    // A crash is a copy of the files while a transaction writes. The cache of one page makes SQLite write before the end.
    let writing = rusqlite::Connection::open(&path).expect("the file");
    writing.execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE").expect("a transaction");
    let many: Vec<String> = (0..200).map(|n| format!("new text number {n} {}", "word ".repeat(100))).collect();
    let many = text(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let sql = "INSERT INTO chunks (collection, document, ordinal, place, text, start, end, is_dense)
        VALUES (1, ?1, ?2, '{\"kind\":\"whole\"}', ?3, 0, 1, 0)";
    for (ordinal, chunk) in many.chunks.iter().enumerate() {
        writing.execute(sql, rusqlite::params![id, ordinal as i64, chunk.text]).expect("a row");
    }
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", path.display());
        std::fs::copy(from, format!("{}{suffix}", copy.display())).expect("copied");
    }
    writing.execute_batch("ROLLBACK").expect("the end");
    drop(writing);
    let wal = std::fs::metadata(format!("{}-wal", copy.display())).expect("a log").len();
    assert!(wal > 100_000, "the log has uncommitted chunks: {wal} bytes");

    let store = CollectionStore::open(&copy, 2).expect("the copy opens");
    let documents = store.documents("c").expect("a list");
    assert_eq!(documents[0].state, DocumentState::Stored, "the old document");
    assert_eq!((documents[1].state.clone(), documents[1].chunks), (DocumentState::Failed(None), 0), "the new one");
    let hits = store.search("c", "text", None, 5).expect("hits");
    assert_eq!(names(&hits), ["old.pdf"], "no chunk of the new document");
}

#[test]
fn text_above_a_limit_is_stored_not_at_all() {
    let home = Home::new();
    let id = home.begin("a.pdf");
    let chunk = Chunk { place: PartPlace::Whole, text: "x".repeat(1 << 20), start: 0, end: 1, is_dense: false };
    let megabytes = |count: usize| NewText {
        format: DocumentFormat::Text,
        pages: None,
        chunks: std::iter::repeat_n(chunk.clone(), count).collect(),
    };
    let error = home.store.store_text("c", &id, &megabytes(65)).expect_err("more than 64 MiB").to_string();
    assert_eq!(error, "the limit of 67108864 bytes of text of a collection is reached");
    assert_eq!(home.store.collection("c").expect("the collection").chunks, 0, "nothing is stored");

    let sql = format!("UPDATE documents SET chunks = {MAX_CHUNKS} WHERE row = {id}");
    home.execute(&sql);
    let other = home.begin("b.pdf");
    let error = home.store.store_text("c", &other, &text(&["one more"])).expect_err("full").to_string();
    assert_eq!(error, "the limit of 100000 chunks of a collection is reached");

    let many = format!(
        "WITH RECURSIVE n (n) AS (VALUES (3) UNION ALL SELECT n + 1 FROM n WHERE n < {MAX_DOCUMENTS})
        INSERT INTO documents (collection, name, digest, bytes, added_ms, state) SELECT 1, n, n, 0, 0, 'stored' FROM n"
    );
    home.execute(&many);
    let error = home.store.begin_document("c", new_document("c.pdf"), 9).expect_err("full").to_string();
    assert_eq!(error, "the limit of 1000 documents of a collection is reached");
}

#[test]
fn vectors_are_valid_for_one_model() {
    let home = Home::new();
    home.add("a.pdf", &["stone", "water"]);
    let by_text = |text: &str| if text.contains("stone") { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
    home.embed("first", by_text);
    assert!(home.store.pending_chunks("c", true, 9).expect("chunks").is_empty(), "all have vectors");
    let vector = |model: &str| query_vector(model, &[0.0, 1.0]);
    assert_eq!(home.search("unrelated", Some(&vector("first")))[0].text, "water", "by meaning");
    assert!(home.search("unrelated", Some(&vector("second"))).is_empty(), "vectors of another model are not compared");

    home.store.begin_vectors("c", "second").expect("the next model");
    assert!(home.search("unrelated", Some(&vector("first"))).is_empty(), "the old vectors are deleted");
    assert_eq!(home.store.collection("c").expect("the collection").vectors, 0, "they are not counted");
    let pending = home.store.pending_chunks("c", true, 9).expect("chunks");
    assert_eq!(pending.len(), 2, "all chunks need new vectors");
    assert_eq!(pending[0].text, "a\nstone", "with the name of the document");
    let late = [(pending[0].row, vec![1.0, 0.0])];
    assert!(!home.store.store_vectors("c", "first", &late).expect("no error"), "late vectors of the first model");
    assert!(home.store.store_vectors("c", "second", &late).expect("stored"), "vectors of the second");
    home.store.store_vectors("c", "second", &late).expect("stored again");
    assert_eq!(home.store.documents("c").expect("a list")[0].vectors, 1, "each chunk counts once");
    let gone = [(999, vec![1.0, 0.0])];
    assert!(home.store.store_vectors("c", "second", &gone).expect("no error"), "a deleted chunk is left out");
    home.store.set_model("c", None).expect("no model");
    let stored = home.store.collection("c").expect("the collection");
    assert_eq!((stored.vectors, stored.vector_model), (0, None), "without a model, there are no vectors");
}

#[test]
fn chinese_is_found_by_words_without_a_model_that_reads_it() {
    let home = Home::new();
    home.add("备份.pdf", &["数据库每天晚上备份一次，备份保留三十天。", "员工每年有十五天年假。"]);
    home.add("english.pdf", &["The database is backed up every night."]);
    let pending = home.store.pending_chunks("c", false, 9).expect("chunks");
    assert_eq!(pending.len(), 1, "only the English chunk gets a vector");
    let documents = home.store.documents("c").expect("a list");
    assert_eq!((documents[0].dense_chunks, documents[1].dense_chunks), (2, 0), "chunks without spaces");
    assert_eq!(home.search("年假有多少天？", None)[0].text, "员工每年有十五天年假。");
    assert_eq!(home.search("备份保留多久", None)[0].place, PartPlace::Page { number: 1 });
    assert_eq!(home.search("假", None)[0].place, PartPlace::Page { number: 2 }, "one character");
    assert!(CollectionStore::is_dense("年假有多少天？") && !CollectionStore::is_dense("How many days?"));
    assert_eq!(home.store.reads_dense("m").expect("no error"), None, "not stored");
    home.store.set_reads_dense("m", false).expect("stored");
    let home = home.reopened();
    assert_eq!(home.store.reads_dense("m").expect("no error"), Some(false));
}

#[test]
fn words_match_in_other_forms_and_by_their_context() {
    let home = Home::new();
    home.add("espresso-machine.md", &["Rinse the tank weekly."]);
    home.add("bicycle.md", &["Oil the chains monthly."]);
    assert_eq!(names(&home.search("rinsing tanks", None)), ["espresso-machine.md"], "stems");
    assert_eq!(names(&home.search("espresso machines", None)), ["espresso-machine.md"], "the name of the document");
    assert!(home.search("!?", None).is_empty() && home.search("zeppelin", None).is_empty(), "no match");
}

#[test]
fn searches_stay_in_their_collection() {
    let home = Home::new();
    home.store.create("d", "Other", None, 6).expect("created");
    let (other, _) = home.store.begin_document("d", new_document("secret.pdf"), 7).expect("a document");
    home.store.store_text("d", &other.id, &text(&["a secret apple"])).expect("stored");
    home.add("a.pdf", &["an apple"]);
    assert_eq!(names(&home.search("secret apple", None)), ["a.pdf"]);
    let error = home.store.remove_document("c", &other.id).expect_err("a document of another collection");
    assert!(matches!(error, CollectionsError::DocumentNotFound(_)), "{error}");
}
