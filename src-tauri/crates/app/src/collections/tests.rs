//! Tests of collections with a real embedding model and a process that reads documents.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cairn_testkit::families::BERT;

use super::*;
use crate::app::App;
use crate::clock::Clock;
use crate::documents::Extractor;
use crate::library::installation;
use crate::settings::{Env, Places, Settings, System};
use crate::values::{
    Collection, CollectionChange, CollectionDocument, DocumentStatus, MeaningSearch, NewCollectionRequest, WordsOnly,
};

/// Reads one line as the text of a page. Some texts make it crash or hang.
const READER: &str = r#"read -r text
case "$text" in
  crash*) kill -SEGV $$ ;;
  long*) i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo "{\"part\":{\"place\":{\"kind\":\"page\",\"number\":$i},\"text\":\"$text $i\"}}"; done ;;
  *) echo "{\"part\":{\"place\":{\"kind\":\"page\",\"number\":1},\"text\":\"$text\"}}" ;;
esac
echo '{"done":{"format":"pdf","pages":1}}'
"#;

struct Fixture {
    folder: tempfile::TempDir,
    app: App,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { app: start(folder.path()), folder }
    }

    fn collections(&self) -> &Collections {
        self.app.collections()
    }

    /// Ends the daemon and starts it again.
    fn restarted(self) -> Self {
        self.restarted_after(|_| {})
    }

    /// Ends the daemon, changes the database and starts the daemon again.
    fn restarted_after(self, change: impl FnOnce(&Path)) -> Self {
        let Self { folder, app } = self;
        app.shutdown();
        app.collections().close();
        drop(app);
        change(&database_in(folder.path()));
        Self { app: start(folder.path()), folder }
    }

    /// Adds the tiny BERT to the library.
    fn install(&self, name: &str) {
        let contents = cairn_testkit::write(&cairn_testkit::tiny_bert(&BERT));
        installation::install(self.folder.path(), name, &contents);
    }

    async fn create(&self, model: &str) -> Collection {
        let request = NewCollectionRequest { name: "Notes".to_owned(), model: Some(model.to_owned()) };
        self.collections().create(request).await.expect("a collection")
    }

    async fn add(&self, collection: &str, name: &str, text: &str) -> Result<CollectionDocument, Error> {
        self.collections().add_document(collection, name, format!("{text}\n").into_bytes(), ()).await
    }

    /// Waits until the search by meaning has this state.
    async fn wait_for(&self, collection: &str, is_expected: impl Fn(&MeaningSearch) -> bool) -> Collection {
        let mut changes = self.collections().changes();
        let wait = async {
            loop {
                changes.mark_unchanged();
                let found = self.collections().collection(collection).await.expect("the collection").collection;
                if is_expected(&found.meaning) {
                    return found;
                }
                changes.changed().await.expect("the daemon runs");
            }
        };
        tokio::time::timeout(Duration::from_secs(120), wait).await.expect("the state is reached")
    }

    async fn embedded(&self, collection: &str) -> Collection {
        self.wait_for(collection, |meaning| *meaning == MeaningSearch::Ready).await
    }
}

fn database_in(home: &Path) -> PathBuf {
    home.join("collections/collections.sqlite")
}

/// Returns the files beside the database that have a text.
fn files_with(home: &Path, text: &str) -> Vec<PathBuf> {
    let folder = database_in(home).parent().expect("a folder").to_owned();
    let has_text = |path: &PathBuf| {
        let bytes = std::fs::read(path).expect("a file is readable");
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    std::fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path()).filter(has_text).collect()
}

fn start(home: &Path) -> App {
    let home_text = home.to_str().expect("a path in UTF-8");
    let env = Env::of([("CAIRN_HOME", home_text), ("CAIRN_HIDE_PEBBLE", "1"), ("OLLAMA_KV_TIERING", "0")]);
    let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("places"));
    let reader = Extractor::new("/bin/sh".into(), ["-c".into(), READER.into()], Duration::from_secs(60));
    App::with_extractor(settings, Clock::real(), reader)
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_found_by_words_and_by_meaning() {
    let fixture = Fixture::new();
    fixture.install("bert");
    let collection = fixture.create("bert").await;
    assert_eq!(collection.model.as_deref(), Some("bert:latest"), "{collection:?}");
    assert_eq!(collection.meaning, MeaningSearch::Ready, "an empty collection");
    let document = fixture.add(&collection.id, "stone.pdf", "the green stone").await.expect("added");
    assert_eq!((document.name.as_str(), document.pages, document.chunks), ("stone.pdf", Some(1), 1));
    fixture.add(&collection.id, "water.pdf", "one word of water").await.expect("added");
    let found = fixture.embedded(&collection.id).await;
    assert_eq!((found.documents, found.chunks, found.unreadable_chunks), (2, 2, 0));
    let all = fixture.collections().collection(&collection.id).await.expect("the collection");
    assert!(all.documents.iter().all(|document| document.status == DocumentStatus::Ready), "{all:?}");

    let search = async |query: &str| fixture.collections().search(&collection.id, query, None).await.expect("hits");
    let found = search("green stone").await;
    assert_eq!((found.words_only, found.hits.len()), (None, 2), "by meaning, each chunk is a hit: {found:?}");
    assert_eq!((found.hits[0].name.as_str(), found.hits[0].by.len()), ("stone.pdf", 2), "{found:?}");
    let error = fixture.collections().search(&collection.id, " ", None).await.expect_err("no query");
    assert!(matches!(error, Error::NoQuery), "{error}");
    let error = fixture.collections().search("other", "stone", None).await.expect_err("no collection");
    assert!(matches!(error, Error::Store(CollectionsError::NotFound(_))), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_are_computed_after_a_restart() {
    let fixture = Fixture::new();
    let collection = fixture.create("").await;
    assert_eq!(collection.meaning, MeaningSearch::NoModel);
    let document = fixture.add(&collection.id, "long.pdf", "long text of stone").await.expect("added");
    assert_eq!((document.chunks, document.status), (40, DocumentStatus::Ready), "it is found by words");
    let found = fixture.collections().search(&collection.id, "stone", Some(3)).await.expect("hits");
    assert_eq!((found.hits.len(), found.words_only), (3, Some(WordsOnly::NoModel)));

    // The model is chosen, and the daemon ends before all vectors are computed.
    fixture.install("bert");
    let change = CollectionChange { model: Some("bert".to_owned()), name: None };
    let changed = fixture.collections().change(&collection.id, change).await.expect("changed");
    assert_eq!(changed.meaning, MeaningSearch::Embedding { done: 0, total: 40 }, "no vector exists");
    let fixture = fixture.restarted();
    let found = fixture.embedded(&collection.id).await;
    assert_eq!((found.name.as_str(), found.chunks), ("Notes", 40), "the collection is restored");
    let found = fixture.collections().search(&collection.id, "stone", None).await.expect("hits");
    assert_eq!((found.hits.len(), found.words_only), (5, None), "by meaning too");
}

#[tokio::test(flavor = "multi_thread")]
async fn document_that_cannot_be_read_stays_with_its_error() {
    let fixture = Fixture::new();
    let collection = fixture.create("").await;
    let error = fixture.add(&collection.id, "bad.pdf", "crash").await.expect_err("a crash");
    assert!(matches!(&error, Error::Documents(crate::documents::Error::Crashed(_))), "{error:?}");
    fixture.add(&collection.id, "good.pdf", "stone").await.expect("the daemon is unharmed");
    let all = fixture.collections().collection(&collection.id).await.expect("the collection");
    let DocumentStatus::Failed { error: stored } = &all.documents[0].status else { panic!("{all:?}") };
    assert_eq!(stored.error, error.to_string(), "the reason");
    assert_eq!((all.collection.documents, all.collection.chunks), (2, 1), "it has no chunks");
    fixture.add(&collection.id, "bad.pdf", "crash").await.expect_err("it crashes again");
    let same = fixture.add(&collection.id, "copy.pdf", "stone").await.expect("the same file");
    assert_eq!(same.name, "good.pdf", "a file is added once");
    let all = fixture.collections().collection(&collection.id).await.expect("the collection");
    assert_eq!(all.documents.len(), 2, "the failed one was replaced: {all:?}");
    fixture.collections().remove_document(&collection.id, &same.id).await.expect("removed");
    let found = fixture.collections().search(&collection.id, "stone", None).await.expect("no hits");
    assert_eq!(found.hits, [], "a removed document");
    fixture.collections().delete(&collection.id).await.expect("deleted");
    assert!(fixture.collections().list().await.expect("a list").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn chinese_uses_words_only_if_the_model_cannot_read_it() {
    let fixture = Fixture::new();
    fixture.install("bert");
    let collection = fixture.create("bert").await;
    fixture.add(&collection.id, "备份.pdf", "数据库每天晚上备份一次。").await.expect("added");
    fixture.add(&collection.id, "stone.pdf", "the green stone").await.expect("added");
    let found = fixture.embedded(&collection.id).await;
    assert_eq!(found.unreadable_chunks, 1, "the Chinese document has no vector: {found:?}");
    let all = fixture.collections().collection(&collection.id).await.expect("the collection");
    let unreadable: Vec<u64> = all.documents.iter().map(|document| document.unreadable_chunks).collect();
    assert_eq!(unreadable, [1, 0], "by document");
    let found = fixture.collections().search(&collection.id, "什么时候备份数据库？", None).await.expect("hits");
    assert_eq!((found.hits[0].name.as_str(), found.words_only), ("备份.pdf", Some(WordsOnly::Script)));
    let found = fixture.collections().search(&collection.id, "stone", None).await.expect("hits");
    assert_eq!(found.words_only, None, "an English query uses the vectors");
}

#[tokio::test(flavor = "multi_thread")]
async fn model_is_checked_chosen_and_may_be_missing() {
    let fixture = Fixture::new();
    let named = |model: Option<&str>| NewCollectionRequest { name: "A".to_owned(), model: model.map(str::to_owned) };
    let error = fixture.collections().create(named(Some("absent"))).await.expect_err("no such model");
    assert!(matches!(error, Error::Library(crate::library::Error::NotFound(_))), "{error}");
    let created = fixture.collections().create(named(None)).await.expect("created");
    assert_eq!(created.model, None, "no embedding model is installed");
    let unnamed = NewCollectionRequest { name: " ".to_owned(), model: None };
    let error = fixture.collections().create(unnamed).await.expect_err("no name");
    assert!(matches!(error, Error::Store(CollectionsError::Name)), "{error}");

    fixture.install("bert");
    let collection = fixture.create("bert").await;
    fixture.add(&collection.id, "a.pdf", "stone").await.expect("added");
    fixture.embedded(&collection.id).await;
    std::fs::remove_file(installation::manifest(fixture.folder.path(), "bert")).expect("the model is deleted");
    let found = fixture.collections().collection(&collection.id).await.expect("the collection");
    assert_eq!(found.collection.meaning, MeaningSearch::ModelMissing);
    assert_eq!(found.documents[0].status, DocumentStatus::Ready, "it is found by words");
    let found = fixture.collections().search(&collection.id, "stone", None).await.expect("hits");
    assert_eq!((found.hits.len(), found.words_only), (1, Some(WordsOnly::ModelMissing)));
}

#[tokio::test(flavor = "multi_thread")]
async fn model_that_fails_is_reported_and_tried_again() {
    let fixture = Fixture::new();
    fixture.install("bert");
    let collection = fixture.create("bert").await;
    // The model's file disappears.
    let blobs = fixture.folder.path().join("models/blobs");
    let hidden = fixture.folder.path().join("hidden");
    std::fs::rename(&blobs, &hidden).expect("moved");
    fixture.add(&collection.id, "a.pdf", "stone").await.expect("added");
    let failed = fixture.wait_for(&collection.id, |meaning| matches!(meaning, MeaningSearch::Failed { .. })).await;
    assert_eq!(failed.chunks, 1, "the document is stored");
    std::fs::rename(&hidden, &blobs).expect("moved back");
    let change = CollectionChange { model: Some("bert".to_owned()), name: Some("B".to_owned()) };
    fixture.collections().change(&collection.id, change).await.expect("changed");
    assert_eq!(fixture.embedded(&collection.id).await.name, "B");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_database_is_repaired_and_vectors_are_computed_again() {
    let fixture = Fixture::new();
    fixture.install("bert");
    let collection = fixture.create("bert").await;
    fixture.add(&collection.id, "stone.pdf", "the green stone").await.expect("added");
    fixture.embedded(&collection.id).await;
    // The end of the daemon writes a backup.
    let fixture = fixture.restarted_after(|path| {
        let mut bytes = std::fs::read(path).expect("the database");
        bytes[4096..].fill(0xa5);
        std::fs::write(path, bytes).expect("damaged");
    });
    // The first request may find the damage; the next one repairs it.
    if let Err(error) = fixture.collections().collection(&collection.id).await {
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    let found = fixture.embedded(&collection.id).await;
    assert_eq!((found.name.as_str(), found.documents, found.chunks), ("Notes", 1, 1), "from the backup");
    let found = fixture.collections().search(&collection.id, "stone", None).await.expect("hits");
    assert_eq!((found.hits.len(), found.hits[0].by.len(), found.words_only), (1, 2, None), "by words and by meaning");
    let kept = std::fs::read_dir(database_in(fixture.folder.path()).parent().expect("a folder")).expect("the folder");
    let is_kept = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("collections.damaged.");
    assert!(kept.flatten().any(is_kept), "the damaged file is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_documents_are_erased_at_the_end() {
    let fixture = Fixture::new();
    let collection = fixture.create("").await;
    let document = fixture.add(&collection.id, "a.pdf", "zqxjmarker of a").await.expect("added");
    fixture.add(&collection.id, "b.pdf", "stone").await.expect("added");
    let fixture = fixture.restarted();
    let home = fixture.folder.path().to_owned();
    assert!(files_with(&home, "zqxjmarker").len() >= 2, "the database and a backup have the document");
    fixture.collections().remove_document(&collection.id, &document.id).await.expect("removed");
    let fixture = fixture.restarted();
    assert_eq!(files_with(&home, "zqxjmarker"), Vec::<PathBuf>::new(), "no file has the document");
    let found = fixture.collections().search(&collection.id, "stone", None).await.expect("hits");
    assert_eq!(found.hits.len(), 1, "the other document stays");
}
