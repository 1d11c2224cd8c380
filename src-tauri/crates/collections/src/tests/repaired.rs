//! Damaged files are repaired, and backups are written daily.

use std::path::{Path, PathBuf};

use super::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const PAGE_BYTES: u64 = 4096;
const DOCUMENTS: usize = 60;
/// Chunks of each document.
const CHUNKS: u64 = 4;

/// Fills a new database with documents that have vectors.
fn filled() -> (Home, PathBuf) {
    let home = Home::new();
    for n in 0..DOCUMENTS {
        let texts: Vec<String> =
            (0..CHUNKS).map(|at| format!("marble{n} {}", sentence(n as u64 * CHUNKS + at))).collect();
        home.add(&format!("{n}.pdf"), &texts.iter().map(String::as_str).collect::<Vec<_>>());
    }
    home.store.set_model("c", Some("minilm")).expect("set");
    home.embed("m", |_| vec![0.5; 64]);
    let path = home.folder.path().join("collections.sqlite");
    (home, path)
}

/// Closes the database, damages pages, and opens it again.
fn reopened_after(home: Home, damage: impl FnOnce(&Path)) -> Home {
    let Home { folder, store } = home;
    drop(store);
    let path = folder.path().join("collections.sqlite");
    damage(&path);
    let store = CollectionStore::open(&path, 5).expect("a damaged file never fails the start");
    Home { folder, store }
}

fn overwrite(path: &Path, from: u64, bytes: usize) {
    use std::io::{Seek, Write};
    let mut file = std::fs::OpenOptions::new().write(true).open(path).expect("the file");
    file.seek(std::io::SeekFrom::Start(from)).expect("the page");
    file.write_all(&vec![0xa5; bytes]).expect("written");
}

/// Returns the pages that have rows of a table, in order. The first page of the file has the number 0.
fn leaf_pages(path: &Path, table: &str) -> Vec<u64> {
    let connection = rusqlite::Connection::open(path).expect("the file");
    let root: u32 = connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .expect("the table");
    drop(connection);
    let bytes = std::fs::read(path).expect("the file");
    let page = |number: u32| &bytes[(number as usize - 1) * 4096..number as usize * 4096];
    // A leaf page of a table has the type 13. An interior page: type 5, number of cells, address of each cell, which begins with a child page.
    let interior = page(root);
    if interior[0] == 13 {
        return vec![u64::from(root) - 1];
    }
    assert_eq!(interior[0], 5, "a page of the table {table}");
    let cells = u16::from_be_bytes([interior[3], interior[4]]) as usize;
    let child = |at: usize| u32::from_be_bytes(interior[at..at + 4].try_into().expect("four bytes"));
    let address = |cell: usize| u16::from_be_bytes([interior[12 + 2 * cell], interior[13 + 2 * cell]]) as usize;
    (0..cells).map(|cell| u64::from(child(address(cell))) - 1).chain([u64::from(child(8)) - 1]).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder exists").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Uses every part of the file, until damage is found, and repairs it. Returns the repair.
fn use_and_repair(home: &Home) -> Repair {
    let use_all = || -> Result<(), CollectionsError> {
        home.store.documents("c")?;
        for n in 0..DOCUMENTS {
            home.store.search("c", &format!("marble{n} granite"), Some(&query_vector("m", &[0.5; 64])), 99)?;
        }
        home.store.read(|reader| Ok(cairn_sqlite::quick_check(reader)?))
    };
    let found = use_all();
    if home.store.last_repair().is_none() {
        assert!(found.is_err(), "the damage is found");
        home.store.repair_if_damaged(6).expect("a repair");
    }
    let repair = home.store.last_repair().expect("a repair");
    home.store.read(|reader| Ok(cairn_sqlite::quick_check(reader)?)).expect("the new file is valid");
    repair
}

/// Checks that the file can be used, and that vectors can be computed again.
fn check_use(home: &Home) {
    home.embed("m", |_| vec![0.5; 64]);
    let stored = home.store.collection("c").expect("the collection");
    assert_eq!(stored.vectors, stored.chunks, "all chunks have vectors again");
    home.add("new.pdf", &["obsidian"]);
    assert_eq!(names(&home.search("obsidian", None)), ["new.pdf"], "a new document is found");
}

#[test]
fn damaged_chunks_are_lost_alone_and_their_documents_are_marked() {
    let (home, _) = filled();
    let mut damaged = Vec::new();
    let home = reopened_after(home, |path| {
        let pages = leaf_pages(path, "chunks");
        assert!(pages.len() > 4, "the damage is between readable pages: {pages:?}");
        overwrite(path, pages[2] * PAGE_BYTES, PAGE_BYTES as usize);
        damaged = std::fs::read(path).expect("the file");
    });
    let repair = use_and_repair(&home);
    assert_eq!((repair.collections, repair.documents, repair.used_backup), (1, DOCUMENTS as u64, false), "{repair:?}");
    assert_eq!(std::fs::read(&repair.set_aside).expect("the damaged file"), damaged, "the damaged file is unchanged");
    assert!(repair.to_string().contains(&repair.reason), "the reason: {repair}");
    let documents = home.store.documents("c").expect("a list");
    let is_whole = |document: &StoredDocument| document.state == DocumentState::Stored && document.chunks == CHUNKS;
    let is_marked = |document: &StoredDocument| match &document.state {
        DocumentState::Failed(Some(error)) => error.error.contains("lost") && document.chunks < CHUNKS,
        _ => false,
    };
    assert!(documents.iter().all(|document| is_whole(document) || is_marked(document)), "{documents:?}");
    let marked = documents.iter().filter(|document| is_marked(document)).count();
    assert!((1..8).contains(&marked), "one page has few documents: {marked}");
    let whole = documents.iter().rfind(|document| is_whole(document)).expect("a document");
    let number = whole.name.trim_end_matches(".pdf");
    assert_eq!(home.search(&format!("marble{number}"), None)[0].name, whole.name, "its text is found");
    check_use(&home);

    let lost = documents.iter().find(|document| is_marked(document)).expect("a document");
    let (again, is_new) = home.store.begin_document("c", new_document(&lost.name), 9).expect("a document");
    assert!(is_new && again.id != lost.id, "an incomplete document is replaced when it is added again");
}

#[test]
fn damage_at_any_offset_is_repaired_from_the_backup() {
    let check = |what: &str, damage: &dyn Fn(&Path)| {
        let (home, path) = filled();
        home.store.back_up_if_due(4).expect("a backup");
        let home = reopened_after(home, damage);
        let repair = use_and_repair(&home);
        assert!(repair.set_aside.exists() && path.exists(), "{what}: both files exist");
        let documents = home.store.documents("c").expect("a list");
        assert_eq!(documents.len(), DOCUMENTS, "{what}: all documents: {repair:?}");
        for document in &documents {
            assert_eq!((&document.state, document.chunks), (&DocumentState::Stored, CHUNKS), "{what}: {document:?}");
        }
        for n in 0..DOCUMENTS {
            let hits = home.search(&format!("marble{n}"), None);
            assert!(hits.len() == 4 && names(&hits)[0] == format!("{n}.pdf"), "{what}: {hits:?}");
        }
        check_use(&home);
    };
    let length = |path: &Path| path.metadata().expect("the file").len();
    check("header", &|path| overwrite(path, 0, 100));
    check("first page", &|path| overwrite(path, 0, PAGE_BYTES as usize));
    check("schema", &|path| overwrite(path, 100, 500));
    check("all but the first page", &|path| overwrite(path, PAGE_BYTES, (length(path) - PAGE_BYTES) as usize));
    check("middle", &|path| overwrite(path, length(path) / 2, 16 * PAGE_BYTES as usize));
    check("truncated in a page", &|path| truncate(path, length(path) / 2 + 100));
    check("truncated to one page", &|path| truncate(path, PAGE_BYTES));
    check("truncated header", &|path| truncate(path, 50));
    check("documents", &|path| {
        leaf_pages(path, "documents").iter().for_each(|page| overwrite(path, page * PAGE_BYTES, 900))
    });
    check("chunks", &|path| leaf_pages(path, "chunks").iter().for_each(|page| overwrite(path, page * PAGE_BYTES, 900)));
    check("index", &|path| {
        leaf_pages(path, "found_chunks_data").iter().for_each(|page| overwrite(path, page * PAGE_BYTES, 900));
    });
}

fn truncate(path: &Path, bytes: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("the file");
    file.set_len(bytes).expect("truncated");
}

#[test]
fn chunks_without_their_document_get_a_new_one() {
    let (home, _) = filled();
    let home = reopened_after(home, |path| {
        let pages = leaf_pages(path, "documents");
        overwrite(path, pages[0] * PAGE_BYTES, PAGE_BYTES as usize);
    });
    let repair = use_and_repair(&home);
    assert_eq!(repair.documents, DOCUMENTS as u64, "each document has chunks: {repair:?}");
    let hits = home.search("marble0", None);
    assert_eq!(hits[0].name, "Recovered document 1", "the text is found: {hits:?}");
    let document = home.store.document("c", "1").expect("the document");
    assert!(matches!(document.state, DocumentState::Failed(Some(_))), "{document:?}");
    assert_eq!(document.chunks, CHUNKS, "its chunks");
    check_use(&home);
}

#[test]
fn documents_without_their_collection_get_a_new_one() {
    let (home, _) = filled();
    let delete = "PRAGMA foreign_keys = OFF; DELETE FROM collections; PRAGMA foreign_keys = ON;";
    let deleted = home.store.database.with_writer(|writer| Ok::<_, CollectionsError>(writer.execute_batch(delete)?));
    deleted.expect("deleted");
    home.store.database.report_damage("found by the test".to_owned());
    let repair = home.store.repair_if_damaged(6).expect("a repair").expect("a new file");
    assert_eq!((repair.collections, repair.documents), (1, DOCUMENTS as u64));
    let collections = home.store.collections().expect("a list");
    assert_eq!(collections[0].name, "Recovered collection 1");
    let hits = home.store.search(&collections[0].id, "marble7", None, 9).expect("hits");
    assert_eq!(hits.len() as u64, CHUNKS, "its documents are found");
}

#[test]
fn deleted_documents_are_not_restored_from_a_backup() {
    let (home, _) = filled();
    home.store.create("d", "Deleted", None, 6).expect("created");
    home.store.back_up_if_due(7).expect("a backup");
    home.store.remove_document("c", "3").expect("removed");
    home.store.delete("d").expect("deleted");
    // The documents and collections are not readable, but their erasures are.
    let home = reopened_after(home, |path| {
        for table in ["documents", "chunks"] {
            leaf_pages(path, table).iter().for_each(|page| overwrite(path, page * PAGE_BYTES, PAGE_BYTES as usize));
        }
    });
    let repair = use_and_repair(&home);
    assert_eq!((repair.collections, repair.documents), (1, DOCUMENTS as u64 - 1), "{repair:?}");
    assert!(repair.used_backup && home.store.document("c", "3").is_err(), "the deleted document stays deleted");
    assert!(home.search("marble2", None).is_empty(), "row 3 is the document 2");
    assert_eq!(home.search("marble3", None).len() as u64, CHUNKS, "the next document stays");
    home.store.erase_deleted(8).expect("erased");
    assert!(!repair.set_aside.exists(), "the damaged file has deleted documents");
    let new = home.add("new.pdf", &["obsidian"]);
    assert_eq!(new, (DOCUMENTS + 1).to_string(), "no row number is used again");
}

#[test]
fn invalid_values_of_readable_rows_are_corrected() {
    let (home, _) = filled();
    home.execute("UPDATE chunks SET place = 'no JSON', ordinal = -1 WHERE row = 1; UPDATE documents SET pages = -1 WHERE row = 1");
    assert!(home.store.search("c", "marble0", None, 5).is_err() && home.store.documents("c").is_err(), "unreadable");
    home.store.database.report_damage("found by the test".to_owned());
    home.store.repair_if_damaged(6).expect("a repair").expect("a new file");
    let hits = home.search("marble0", None);
    assert!(hits.len() == 4 && hits.iter().any(|hit| hit.place == PartPlace::Whole), "{hits:?}");
    assert_eq!(home.store.document("c", "1").expect("the document").pages, None);
}

#[test]
fn backups_are_daily_complete_and_without_vectors() {
    let (home, path) = filled();
    let backups = || names_in(home.folder.path()).into_iter().filter(|name| name.ends_with(".bak")).collect::<Vec<_>>();
    let name = |days: i64| format!("collections.v2.{}.bak", days * DAY_MS);
    for (now_ms, expected) in [
        (DAY_MS, vec![name(1)]),
        (2 * DAY_MS - 1, vec![name(1)]),
        (2 * DAY_MS, vec![name(2), name(1)]),
        (3 * DAY_MS, vec![name(3), name(2)]),
    ] {
        home.store.back_up_if_due(now_ms).expect("a backup");
        let mut expected = expected;
        expected.sort();
        assert_eq!(backups(), expected, "at {now_ms}");
    }
    let bytes = |path: &Path| path.metadata().expect("a file").len();
    let copy = home.folder.path().join(name(3));
    let whole = home.folder.path().join("whole");
    rusqlite::Connection::open(&path)
        .and_then(|reader| reader.execute("VACUUM INTO ?1", [whole.to_str().expect("a path in UTF-8")]))
        .expect("a whole copy");
    let vectors = DOCUMENTS as u64 * CHUNKS * 128;
    assert!(bytes(&copy) + vectors <= bytes(&whole), "{} and {} bytes", bytes(&copy), bytes(&whole));
    let store = CollectionStore::open(&copy, 9).expect("the backup is a database");
    let stored = store.collection("c").expect("the collection");
    assert_eq!((stored.chunks, stored.vectors, stored.vector_model), (DOCUMENTS as u64 * CHUNKS, 0, None));
    assert_eq!(store.search("c", "marble7", None, 9).expect("hits").len() as u64, CHUNKS, "it has the index");
}

#[test]
fn empty_file_has_no_backup() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = CollectionStore::open(&folder.path().join("collections.sqlite"), 1).expect("a new file");
    store.back_up_if_due(DAY_MS).expect("nothing to do");
    assert_eq!(names_in(folder.path()).iter().filter(|name| name.ends_with(".bak")).count(), 0);
}
