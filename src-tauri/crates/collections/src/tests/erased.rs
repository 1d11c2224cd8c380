//! A deleted document or collection is in no file of the folder: pages, search index, vectors, write-ahead log, backups.

use std::path::{Path, PathBuf};

use super::*;

/// Words of the deleted document, one for each place that stores text. No other document has one.
const SECRETS: [&str; 4] = ["qaxnamewort", "qbxtextwort", "qcxheadingwort", "秘密口令"];
/// Name of the deleted collection.
const COLLECTION: &str = "Qdxcollectionwort";
/// Bytes of the vectors of the deleted document.
const VECTOR: [f32; 4] = [0.1234, 0.4321, -0.777, 0.0625];

/// Returns the files of a folder that contain a secret. The index stores a word without the beginning that it shares with the word
/// before, so the first three bytes are not compared.
fn occurrences(folder: &Path) -> Vec<String> {
    let mut secrets: Vec<Vec<u8>> = SECRETS.iter().map(|word| word.as_bytes()[3..].to_vec()).collect();
    secrets.push(COLLECTION.to_ascii_lowercase().as_bytes()[3..].to_vec());
    let vector: Vec<u8> = VECTOR.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect();
    let mut found = Vec::new();
    for path in files(folder) {
        let bytes = std::fs::read(&path).expect("a file is readable");
        let lower = bytes.to_ascii_lowercase();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let is_in = |bytes: &[u8], secret: &[u8]| bytes.windows(secret.len()).any(|window| window == secret);
        for (at, secret) in secrets.iter().enumerate() {
            if is_in(&lower, secret) {
                found.push(format!("{name}: secret {at}"));
            }
        }
        if is_in(&bytes, &vector) {
            found.push(format!("{name}: vector"));
        }
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).expect("the folder exists").flatten().map(|entry| entry.path()).collect()
}

/// Adds documents, so that pages are split and the index has several segments.
fn add_others(home: &Home, from: u64, to: u64) {
    for n in from..to {
        home.add(&format!("other{n}.pdf"), &[&sentence(n)]);
    }
}

/// Adds a document with every kind of text and with vectors, and returns its id.
fn add_secret(home: &Home) -> String {
    let id = home.begin("Qaxnamewort-report.md");
    let texts = (0..40).map(|n| DocumentPart {
        place: PartPlace::Heading { text: "qcxheadingwort".to_owned() },
        text: format!("qbxtextwort {n} 秘密口令 {}", sentence(n)),
    });
    let chunks = chunks(&texts.collect::<Vec<_>>());
    home.store
        .store_text("c", &id, &NewText { format: DocumentFormat::Markdown, pages: None, chunks })
        .expect("stored");
    home.embed("m", |text| if text.contains("qbxtextwort") { VECTOR.to_vec() } else { vec![0.5; 4] });
    id
}

fn assert_all_present(found: &[String]) {
    for secret in ["secret 0", "secret 1", "secret 2", "secret 3", "vector"] {
        let is_present = found.iter().any(|line| line.ends_with(secret));
        assert!(is_present, "{secret} is in a file before the deletion, else this test finds nothing: {found:?}");
    }
}

#[test]
fn removed_document_is_in_no_file() {
    let home = Home::new();
    add_others(&home, 0, 40);
    let id = add_secret(&home);
    add_others(&home, 40, 80);
    home.store.back_up_if_due(5).expect("a backup");
    let folder = home.folder.path();
    for copy in ["collections.damaged.4.sqlite", "collections.damaged.4.sqlite-wal", "collections.bak-partial"] {
        std::fs::copy(folder.join("collections.v2.5.bak"), folder.join(copy)).expect("a copy");
    }
    let before = occurrences(folder);
    assert_all_present(&before);
    assert!(!before.iter().any(|line| line.starts_with("collections.v2") && line.ends_with("vector")), "{before:?}");
    home.store.remove_document("c", &id).expect("removed");
    assert_ne!(occurrences(folder), Vec::<String>::new(), "the erasure is later");
    home.store.erase_deleted(11).expect("erased");
    let none = Vec::<String>::new();
    assert_eq!(occurrences(folder), none, "with the database open");
    assert_eq!(home.store.documents("c").expect("a list").len(), 80, "the other documents stay");
    assert!(!home.search("granite", None).is_empty(), "other documents are found");
    assert!(folder.join("collections.v2.11.bak").exists(), "a new backup");
    home.store.erase_deleted(12).expect("nothing to erase");
    assert!(!folder.join("collections.v2.12.bak").exists(), "the erasure is complete");
    let Home { folder, store } = home;
    drop(store);
    assert_eq!(occurrences(folder.path()), none, "after the database was closed");
}

#[test]
fn deleted_collection_is_in_no_file() {
    let home = Home::new();
    home.store.rename("c", COLLECTION).expect("renamed");
    home.store.create("d", "Other", None, 6).expect("created");
    add_secret(&home);
    let before = occurrences(home.folder.path());
    assert_all_present(&before);
    assert!(before.iter().any(|line| line.ends_with("secret 4")), "the name of the collection: {before:?}");
    home.store.delete("c").expect("deleted");
    home.store.erase_deleted(11).expect("erased");
    assert_eq!(occurrences(home.folder.path()), Vec::<String>::new(), "no file has the collection");
    assert_eq!(home.store.collections().expect("a list").len(), 1, "the other collection stays");

    home.store.create("e", COLLECTION, None, 12).expect("created");
    home.store.delete("e").expect("deleted");
    home.store.erase_deleted(13).expect("erased");
    assert_eq!(occurrences(home.folder.path()), Vec::<String>::new(), "an empty collection has a name");
}

#[test]
fn replaced_document_is_in_no_file() {
    let home = Home::new();
    let failed = home.begin("qaxnamewort.pdf");
    home.store.fail_document("c", &failed, &ErrorBody::text("qbxtextwort on page 1")).expect("stored");
    let document = NewDocument { name: "new.pdf", digest: "qaxnamewort.pdf", bytes: 1 };
    home.store.begin_document("c", document, 8).expect("the same file with another name");
    home.execute("UPDATE documents SET digest = ''");
    home.store.erase_deleted(9).expect("erased");
    assert_eq!(occurrences(home.folder.path()), Vec::<String>::new(), "no file has the failed document");
}

#[test]
fn deletions_in_version_1_are_erased_after_the_migration() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("collections.sqlite");
    let migrations = &schema::MIGRATIONS[..1];
    let old = cairn_sqlite::Schema { migrations, ..schema::FORMAT.schema }.open(&path, 1).expect("version 1");
    let rows = "
        PRAGMA secure_delete = OFF;
        INSERT INTO collections (id, name, created_ms) VALUES ('c', 'Notes', 1);
        INSERT INTO documents (collection, name, digest, bytes, added_ms, state) VALUES (1, 'qaxnamewort', '', 1, 1, 'stored');
        INSERT INTO found_chunks (rowid, words, singles) VALUES (1, 'qbxtextwort', '秘密口令');
        DELETE FROM found_chunks;
        DELETE FROM documents;";
    old.execute_batch(rows).expect("a deleted document");
    drop(old);
    let before = occurrences(folder.path());
    assert!(before.iter().any(|line| line.ends_with("secret 1")), "version 1 leaves the words: {before:?}");
    let store = CollectionStore::open(&path, 2).expect("the file is migrated");
    store.erase_deleted(3).expect("erased");
    assert_eq!(occurrences(folder.path()), Vec::<String>::new(), "no file has the document");
    assert_eq!(store.collections().expect("a list").len(), 1, "the collection stays");
}
