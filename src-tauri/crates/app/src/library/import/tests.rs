//! Imports: what is written, what is refused, and that a refused import leaves no files.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::*;
use crate::App;
use crate::clock::Clock;
use crate::settings::{Env, Places, Settings, System};

/// An app with its own library, and an Ollama library next to it.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) app: App,
}

pub(crate) fn fixture() -> Fixture {
    fixture_with(&[])
}

/// The same, with additional environment variables.
pub(crate) fn fixture_with(variables: &[(&str, &str)]) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let usual = [("CAIRN_HOME", folder.path().to_str().unwrap()), ("CAIRN_KERNEL", "scalar"), ("CAIRN_STALL", "300ms")];
    let env = Env::of(usual.into_iter().chain(variables.iter().copied()));
    let mut settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
    settings.models.linked.push(folder.path().join("ollama"));
    let clock = Clock::fixed(SystemTime::UNIX_EPOCH);
    let app = App::for_test(settings, clock);
    Fixture { folder, app }
}

impl Fixture {
    pub(crate) fn file(&self, name: &str, seed: u64) -> PathBuf {
        let path = self.folder.path().join(name);
        let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
        cairn_testkit::write_file(&spec, &path).unwrap();
        path
    }

    pub(crate) async fn import(&self, path: &Path, name: Option<&str>, force: bool) -> Result<Imported, String> {
        let import = Import { path: path.to_owned(), name: name.map(str::to_owned), taking: ImportMode::Copy, force };
        self.take(import).await
    }

    pub(crate) async fn take(&self, import: Import) -> Result<Imported, String> {
        let mut events = self.app.library().import(import);
        loop {
            match events.recv().await.expect("an import sends a last event") {
                ImportEvent::Progress(_) => {}
                ImportEvent::Done(imported) => return Ok(imported),
                ImportEvent::Failed(error) => return Err(error.to_string()),
            }
        }
    }

    fn blobs(&self) -> usize {
        fs::read_dir(self.folder.path().join("models/blobs")).map_or(0, Iterator::count)
    }
}

/// A model with a chat template that cannot be parsed.
pub(crate) fn with_broken_template() -> Vec<u8> {
    let mut bytes = cairn_testkit::write(&cairn_testkit::tiny_llama());
    let start = b"{% for message";
    let at = bytes.windows(start.len()).position(|part| part == start).expect("the model has a chat template");
    bytes[at + 1] = b'{';
    bytes
}

#[tokio::test]
async fn imported_file_with_broken_template_has_a_warning() {
    let fixture = fixture();
    let path = fixture.folder.path().join("broken.gguf");
    fs::write(&path, with_broken_template()).unwrap();
    let imported = fixture.import(&path, None, false).await.unwrap();
    let problem = imported.template_problem.expect("a problem");
    assert!(problem.starts_with("the chat template is not valid"), "{problem}");
    assert_eq!(fixture.app.library().show(&imported.name, false).unwrap().template_problem, Some(problem), "shown too");
}

#[tokio::test]
async fn imported_file_becomes_a_model_in_ollamas_format() {
    let fixture = fixture();
    let path = fixture.file("My Model.gguf", 1);
    let imported = fixture.import(&path, None, false).await.unwrap();
    assert_eq!(imported.name, "tiny-llama:latest", "the name in the file's metadata");
    assert_eq!(imported.size_bytes, fs::metadata(&path).unwrap().len(), "the size of the file");
    assert!(imported.has_chat_template, "the file has one");
    assert_eq!(imported.template_problem, None, "it renders");
    assert_eq!(fixture.app.library().show(&imported.name, false).unwrap().template_problem, None, "nor later");
    let listed = fixture.app.library().list().unwrap();
    assert_eq!(listed[0].name, "tiny-llama:latest", "the model is listed");
    let details = &listed[0].details;
    assert_eq!(
        (&*details.format, &*details.family, &*details.quantization),
        ("gguf", "llama", "F32"),
        "the details of the config"
    );
    let manifest = fixture.folder.path().join("models/manifests/registry.ollama.ai/library/tiny-llama/latest");
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1), "one layer: {manifest}");
    let digest = manifest["config"]["digest"].as_str().unwrap().replace(':', "-");
    let config = fs::read_to_string(fixture.folder.path().join("models/blobs").join(digest)).unwrap();
    let expected = r#"{"model_format":"gguf","model_family":"llama","model_families":["llama"],"model_type":"1.44M","file_type":"F32","context_length":2048,"embedding_length":256,"architecture":"amd64","os":"linux"}"#;
    assert_eq!(config, expected, "Ollama's fields");
    assert_eq!(
        fixture.import(&path, None, false).await.unwrap().way,
        ImportMethod::Present,
        "a second import changes nothing"
    );
}

#[tokio::test]
async fn import_refuses_unloadable_files_and_leaves_no_blobs() {
    let fixture = fixture();
    let check = async |name: &str, bytes: &[u8], expected: &str| {
        let path = fixture.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = fixture.import(&path, Some("x"), false).await.expect_err(expected);
        assert!(error.contains(expected) && error.contains(name), "{error}");
        assert_eq!(
            (fixture.blobs(), fixture.app.library().list().unwrap().len()),
            (0, 1),
            "only the built-in model exists"
        );
    };
    check("text.gguf", b"once upon a time", "not a GGUF file").await;
    let whole = cairn_testkit::write(&cairn_testkit::tiny_llama());
    check("cut.gguf", &whole[..whole.len() - 1000], "the file has").await;
    let mut bare = cairn_gguf::Writer::new(32);
    bare.set("general.architecture", "lorem");
    let path = fixture.folder.path().join("family.gguf");
    fs::write(&path, bare.finish()).unwrap();
    let error = fixture.import(&path, None, false).await.expect_err("the architecture is unknown");
    assert_eq!(fixture.blobs(), 0, "{error}");
}

#[tokio::test]
async fn import_merges_the_parts_of_a_split_model() {
    let fixture = fixture();
    let whole = fixture.file("whole.gguf", 1);
    let expected = fixture.import(&whole, Some("whole"), false).await.unwrap();
    let path = |number: usize| fixture.folder.path().join(format!("m-{number:05}-of-00003.gguf"));
    for (number, part) in (1..).zip(cairn_testkit::split(&fs::read(&whole).unwrap(), 3)) {
        fs::write(path(number), part).unwrap();
    }
    let imported = fixture.import(&path(2), Some("parts"), false).await.unwrap();
    let reason = "its 3 files are merged".to_owned();
    // Merging the same tensors in the same order may produce an identical file.
    assert!([ImportMethod::Copied { reason }, ImportMethod::Present].contains(&imported.way), "{:?}", imported.way);
    assert_eq!(imported.size_bytes, expected.size_bytes, "the size of the whole model");
    fixture.app.inference().load("parts", false, None).await.expect("the model loads");
    fs::remove_file(path(3)).unwrap();
    let error = fixture.import(&path(1), Some("less"), false).await.expect_err("a part is missing");
    assert!(error.contains("m-00003-of-00003.gguf"), "{error}");
}

#[tokio::test]
async fn import_refuses_names_in_use() {
    let fixture = fixture();
    let (one, two) = (fixture.file("one.gguf", 1), fixture.file("two.gguf", 2));
    fixture.import(&one, Some("m"), false).await.unwrap();
    let error =
        async |path: &Path, name| fixture.import(path, Some(name), false).await.expect_err("the name is in use");
    let blobs = fixture.blobs();
    assert!(error(&two, "M").await.contains("another model named m:latest"), "case does not matter");
    assert_eq!(fixture.blobs(), blobs, "the refused import leaves no blobs");
    assert!(error(&two, "pebble").await.contains("part of Cairn"), "the built-in model's");
    assert!(error(&two, "a b").await.contains("invalid model name"), "an invalid name");
    let digest = cairn_store::Digest::of(b"x");
    let foreign = fixture.folder.path().join("ollama/manifests/registry.ollama.ai/library/theirs");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("latest"), format!(r#"{{"layers":[{{"digest":"{digest}"}}]}}"#)).unwrap();
    assert!(error(&two, "theirs").await.contains("ollama"), "another library's");
    fixture.import(&two, Some("m"), true).await.expect("`force` replaces the model");
    assert_eq!(
        fixture.app.library().list().unwrap().iter().filter(|model| model.name == "m:latest").count(),
        1,
        "one model"
    );

    assert!(fixture.app.delete("theirs").unwrap_err().to_string().contains("`ollama rm"), "the library is read-only");
    assert!(fixture.app.delete("pebble").unwrap_err().to_string().contains("neither replaced nor deleted"), "built in");
    assert_eq!(fixture.app.delete("none").unwrap_err().to_string(), "model 'none' not found", "as sent");
    fixture.app.delete("m").unwrap();
    assert_eq!(fixture.blobs(), 0, "blobs without a model are removed");
}

#[tokio::test]
async fn moved_file_is_removed_after_the_import() {
    let fixture = fixture();
    let take = async |path: &Path, name: &str| {
        let import =
            Import { path: path.to_owned(), name: Some(name.to_owned()), taking: ImportMode::Move, force: false };
        fixture.take(import).await
    };
    let path = fixture.file("a.gguf", 1);
    let imported = take(&path, "a").await.unwrap();
    assert_eq!((imported.way, imported.moved, imported.kept), (ImportMethod::Moved, true, None), "renamed");
    assert!(!path.exists(), "the file was removed");
    fixture.app.inference().load("a", false, None).await.expect("the model loads");

    let whole = fs::read(fixture.file("whole.gguf", 2)).unwrap();
    let part = |number: usize| fixture.folder.path().join(format!("m-{number:05}-of-00003.gguf"));
    for (number, bytes) in (1..).zip(cairn_testkit::split(&whole, 3)) {
        fs::write(part(number), bytes).unwrap();
    }
    let error = take(&part(2), "a").await.expect_err("the name is in use");
    assert!(error.contains("another model named a") && [1, 2, 3].iter().all(|n| part(*n).exists()), "{error}");
    let imported = take(&part(2), "parts").await.unwrap();
    assert!(imported.moved && ![1, 2, 3].iter().any(|n| part(*n).exists()), "all parts were moved: {imported:?}");
    fixture.app.inference().load("parts", false, None).await.expect("the model loads");
}

#[tokio::test]
async fn import_refuses_to_take_files_of_libraries() {
    let fixture = fixture();
    let path = fixture.file("a.gguf", 1);
    let layer = fixture.import(&path, Some("a"), false).await.unwrap();
    let blobs = fs::read_dir(fixture.folder.path().join("models/blobs")).unwrap().flatten();
    let blob = blobs.map(|entry| entry.path()).find(|path| fs::metadata(path).unwrap().len() == layer.size_bytes);
    let blob = blob.expect("the model's file exists");
    let take = async |path: &Path, taking: ImportMode| {
        fixture.take(Import { path: path.to_owned(), name: Some("b".to_owned()), taking, force: false }).await
    };
    for taking in [ImportMode::Copy, ImportMode::Link, ImportMode::Move] {
        let error = take(&blob, taking).await.expect_err("the file is in Cairn's library");
        assert!(error.contains("`cairn cp`"), "{taking:?}: {error}");
    }
    fs::create_dir_all(fixture.folder.path().join("ollama/blobs")).unwrap();
    let theirs = fixture.file("ollama/blobs/sha256-x", 2);
    let error = take(&theirs, ImportMode::Move).await.expect_err("the file is in another library");
    assert!(error.contains("which Cairn only reads") && theirs.exists(), "{error}");
    take(&theirs, ImportMode::Copy).await.expect("a copy is allowed");
}
