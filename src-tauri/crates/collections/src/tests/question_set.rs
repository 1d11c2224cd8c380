//! Quality of searches: 100 questions over 30 documents, `tests/fixtures/retrieval`. Half of the questions share no content word with
//! the passage that answers them.
//!
//! `vectors.bin` has the vectors of all chunks and questions, computed from the weights of all-MiniLM-L6-v2 and stored
//! as 16-bit floats, so that this test needs no model. It begins with the SHA-256 of the texts. `tests/it/clients/retrieval.py` writes it.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use cairn_store::Digest;
use half::f16;

use super::*;

/// Elements of a vector.
const WIDTH: usize = 384;
/// Digest of the model.
const MODEL: &str = "all-MiniLM-L6-v2";
/// Hits in which the passage must be.
const HITS: usize = 5;

struct Question {
    is_paraphrase: bool,
    document: String,
    /// A text of the passage that answers the question.
    passage: String,
    text: String,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/fixtures/retrieval"))
}

fn questions() -> Vec<Question> {
    let text = std::fs::read_to_string(folder().join("questions.txt")).expect("the fixture");
    let question = |line: &str| {
        let [kind, document, passage, text] = line.splitn(4, '|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(matches!(kind, "w" | "p"), "{line}");
        Question {
            is_paraphrase: kind == "p",
            document: format!("{document}.md"),
            passage: passage.to_owned(),
            text: text.to_owned(),
        }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(question).collect()
}

/// Adds all documents, in the order of their names.
fn add_documents(home: &Home) {
    let entries = std::fs::read_dir(folder().join("documents")).expect("the fixture");
    let names: BTreeSet<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(names.len(), 30, "documents");
    for path in names {
        let bytes = std::fs::read(&path).expect("a document");
        let words = bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        assert!((370..=900).contains(&words), "{}: {words} words", path.display());
        let limits = cairn_documents::Limits::default();
        let extracted = cairn_documents::extract(&bytes, "md", &limits).expect("a document");
        let id = home.begin(&path.file_name().expect("a file").to_string_lossy());
        let text = NewText { format: extracted.format, pages: None, chunks: chunks(&extracted.parts) };
        home.store.store_text("c", &id, &text).expect("stored");
    }
}

/// Returns the recorded vectors of texts.
fn recorded(texts: &[&str]) -> Vec<Vec<f32>> {
    let bytes = std::fs::read(folder().join("vectors.bin")).unwrap_or_default();
    let digest = Digest::of(texts.join("\0").as_bytes());
    if !bytes.starts_with(digest.as_bytes()) {
        let path = std::env::temp_dir().join("cairn-retrieval.json");
        std::fs::write(&path, serde_json::to_vec(texts).expect("texts")).expect("the folder is writable");
        panic!("the texts have changed: record their vectors with tests/it/clients/retrieval.py {}", path.display());
    }
    let numbers: Vec<f32> =
        bytes[digest.as_bytes().len()..].chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect();
    assert_eq!(numbers.len(), texts.len() * WIDTH, "a vector for each text");
    numbers.chunks(WIDTH).map(<[f32]>::to_vec).collect()
}

/// Returns words without endings, except for common ones.
fn content_words(text: &str) -> BTreeSet<String> {
    const COMMON: &str = "a about all an and any are as at be been by can cannot could did do does done for from get gets had has \
        have her his how i if in is it its long many may me much must my next no not of on or our out should so still than that \
        the their there they this to until was we were when where which why will with without would you your";
    let is_common = |word: &String| COMMON.split_ascii_whitespace().any(|common| common == word);
    let words = text.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase).filter(|word| !word.is_empty());
    let stem = |word: String| {
        let mut stems = ["ing", "ed", "es", "ly", "s"].iter().filter_map(|ending| word.strip_suffix(ending));
        stems.find(|stem| stem.len() >= 3).unwrap_or(&word).to_owned()
    };
    words.filter(|word| !is_common(word)).map(stem).collect()
}

#[test]
fn hybrid_search_answers_the_question_set() {
    let home = Home::new();
    add_documents(&home);
    let questions = questions();
    let paraphrases = questions.iter().filter(|question| question.is_paraphrase).count();
    assert_eq!((questions.len(), paraphrases), (100, 50), "questions");

    home.store.begin_vectors("c", MODEL).expect("the collection");
    let pending = home.store.pending_chunks("c", true, usize::MAX).expect("chunks");
    let chunk_texts = pending.iter().map(|chunk| chunk.text.as_str());
    let texts: Vec<&str> = chunk_texts.chain(questions.iter().map(|question| question.text.as_str())).collect();
    for Question { passage, text, .. } in questions.iter().filter(|question| question.is_paraphrase) {
        let answer = texts.iter().find(|text| text.contains(passage)).unwrap_or_else(|| panic!("no passage {passage}"));
        let shared: Vec<_> = content_words(text).intersection(&content_words(answer)).cloned().collect();
        assert!(shared.is_empty(), "{text:?} shares {shared:?} with its passage");
    }
    let mut vectors = recorded(&texts);
    let query_vectors = vectors.split_off(pending.len());
    let vectors: Vec<_> = pending.iter().map(|chunk| chunk.row).zip(vectors).collect();
    home.store.store_vectors("c", MODEL, &vectors).expect("stored");

    let mut found: HashMap<(&str, bool), usize> = HashMap::new();
    let mut missed = Vec::new();
    for (question, vector) in questions.iter().zip(query_vectors) {
        let vector = query_vector(MODEL, &vector);
        for (search, vector) in [("words", None), ("hybrid", Some(&vector))] {
            let hits = home.store.search("c", &question.text, vector, HITS).expect("hits");
            let is_found = hits.iter().any(|hit| hit.name == question.document && hit.text.contains(&question.passage));
            *found.entry((search, question.is_paraphrase)).or_default() += usize::from(is_found);
            if search == "hybrid" && !is_found {
                missed.push(question.text.as_str());
            }
        }
    }
    let of = |search, is_paraphrase| found[&(search, is_paraphrase)];
    let (words, hybrid) = (of("words", false) + of("words", true), of("hybrid", false) + of("hybrid", true));
    println!("{} chunks; recall at {HITS}: words {words}, hybrid {hybrid} of 100: {found:?}", pending.len());
    println!("missed: {missed:#?}");
    assert!(hybrid >= 85, "hybrid recall {hybrid} of 100");
    assert!(hybrid >= words + 5, "hybrid recall {hybrid}, by words alone {words}");
    assert!(of("words", false) >= 47, "questions with words of the passage, by words alone: {}", of("words", false));
}
