//! Resolution of names: the built-in model, opened files, libraries on disk.

use super::*;
use crate::settings::{Env, Places, System};

/// The smallest file that is a GGUF file: a header and one key.
fn tiny_gguf() -> Vec<u8> {
    let mut writer = cairn_gguf::Writer::new(32);
    writer.set("general.architecture", "llama");
    writer.finish()
}

struct Fixture {
    folder: tempfile::TempDir,
    catalog: Catalog,
}

fn fixture(hide_pebble: bool) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::of([("CAIRN_HOME", folder.path().to_str().unwrap())]);
    let places = Places::of(&env, System::Xdg).unwrap();
    let mut settings = Settings::load(&env, &places);
    settings.models.hide_pebble = hide_pebble;
    Fixture { catalog: Catalog::new(&settings, SystemTime::UNIX_EPOCH), folder }
}

impl Fixture {
    fn names(&self) -> Vec<String> {
        self.catalog.list().unwrap().into_iter().map(|model| model.name).collect()
    }

    fn store(&self, model: &str, layers: &[(&str, &[u8])]) {
        let root = self.folder.path().join("models");
        std::fs::create_dir_all(root.join("blobs")).unwrap();
        let layers: Vec<String> = layers
            .iter()
            .map(|(kind, contents)| {
                let digest = Digest::of(contents);
                std::fs::write(root.join("blobs").join(digest.file_name()), contents).unwrap();
                let size = contents.len();
                format!(r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"{digest}","size":{size}}}"#)
            })
            .collect();
        let manifest = root.join("manifests/registry.ollama.ai/library").join(model).join("latest");
        std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        std::fs::write(manifest, format!(r#"{{"layers":[{}]}}"#, layers.join(","))).unwrap();
    }
}

#[test]
fn built_in_model_is_listed_unless_hidden() {
    let shown = fixture(false);
    assert_eq!(shown.names(), ["pebble:latest"], "listed");
    assert_eq!(shown.catalog.find("Pebble").unwrap().summary.origin, Some("built in"), "case does not matter");
    let hidden = fixture(true);
    assert!(hidden.names().is_empty(), "hidden from lists");
    assert!(hidden.catalog.find("pebble").is_ok(), "the name still resolves");
}

#[test]
fn mark_of_a_local_model_is_not_part_of_its_name() {
    let fixture = fixture(false);
    fixture.store("tiny", &[("model", &tiny_gguf())]);
    for name in ["tiny:local", "tiny:latest:LOCAL", " pebble:local "] {
        assert!(fixture.catalog.find(name).is_ok(), "{name}");
    }
    assert!(
        matches!(fixture.catalog.find("other:local"), Err(Error::NotFound(name)) if name == "other:local"),
        "missing"
    );
    assert!(fixture.catalog.find("tiny:1:2").is_err(), "another tag");
    let check = |text: &str, expected: &str| {
        let name = fixture.catalog.name_of(text).map(|name| name.to_string());
        assert_eq!(name.as_deref().ok(), Some(expected), "{text}");
    };
    check("tiny:local", "tiny:latest");
    check("tiny:7b:local", "tiny:7b");
    check("pebble:Local", "pebble:latest");
    let manifests = fixture.folder.path().join("models/manifests/registry.ollama.ai/library/tiny");
    std::fs::copy(manifests.join("latest"), manifests.join("local")).unwrap();
    check("tiny:local", "tiny:local");
}

#[test]
fn library_model_has_the_content_of_its_layers() {
    let fixture = fixture(false);
    fixture.store(
        "Tiny",
        &[
            ("model", &tiny_gguf()),
            ("system", b"Be brief."),
            ("params", br#"{"temperature":0.1}"#),
            ("messages", br#"[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]"#),
        ],
    );
    assert_eq!(fixture.names(), ["Tiny:latest", "pebble:latest"], "the built-in model is last");
    let model = fixture.catalog.find("tiny").unwrap();
    assert_eq!(model.system.as_deref(), Some("Be brief."), "its system message");
    assert_eq!(model.params.get("temperature"), Some(&serde_json::json!(0.1)), "its options");
    assert_eq!(model.messages.len(), 2, "its messages");
    assert_eq!(fixture.catalog.by_engine_key(&model.key).unwrap().name, "Tiny:latest", "the name in `ps`");
}

#[test]
fn missing_model_error_has_the_name_as_sent() {
    let fixture = fixture(false);
    let error = |name: &str| fixture.catalog.find(name).err().expect("the model does not exist").to_string();
    assert_eq!(error("Nope:1b"), "model 'Nope:1b' not found", "as sent");
    assert_eq!(error("../x"), "invalid model name", "an invalid name");
    assert_eq!(error(" "), "model is required", "an empty name");
    fixture.store("empty", &[("system", b"x")]);
    assert_eq!(error("empty"), "model 'empty:latest' has no GGUF file", "a model without weights");
}

#[test]
fn opened_file_gets_a_stable_name() {
    let fixture = fixture(false);
    let path = fixture.folder.path().join("My model (v1).gguf");
    std::fs::write(&path, tiny_gguf()).unwrap();
    let Opened { name, has_chat_template } = fixture.catalog.open(&path).unwrap();
    assert!(!has_chat_template, "the file has none");
    assert!(name.starts_with("file/My_model__v1_:"), "{name}");
    assert_eq!(fixture.catalog.open(&path).unwrap().name, name, "the same file has the same name");
    let model = fixture.catalog.find(&name).unwrap();
    assert_eq!(model.summary.details.family, "llama", "from its head");
    std::fs::write(&path, [tiny_gguf(), vec![0; 64]].concat()).unwrap();
    assert_ne!(fixture.catalog.find(&name).unwrap().key, model.key, "a changed file is another model");
    std::fs::remove_file(&path).unwrap();
    let error = fixture.catalog.find(&name).err().expect("the file was removed").to_string();
    assert!(error.contains("could not open"), "{error}");
}

/// The cache of the Hugging Face hub keeps files under their digests and links to them.
#[cfg(unix)]
#[test]
fn opened_link_is_named_after_the_link() {
    let fixture = fixture(false);
    let (blob, link) = (fixture.folder.path().join("0a1b2c"), fixture.folder.path().join("Qwen3-0.6B-Q8_0.gguf"));
    std::fs::write(&blob, tiny_gguf()).unwrap();
    std::os::unix::fs::symlink(&blob, &link).unwrap();
    let name = fixture.catalog.open(&link).unwrap().name;
    assert!(name.starts_with("file/Qwen3-0.6B-Q8_0:"), "{name}");
    let direct = fixture.catalog.open(&blob).unwrap().name;
    assert_eq!(name.split(':').next_back(), direct.split(':').next_back(), "both are the same file");
    assert_eq!(fixture.catalog.find(&name).unwrap().summary.details.family, "llama", "the name resolves");
}

#[test]
fn open_refuses_files_that_are_not_models() {
    let fixture = fixture(false);
    let check = |file: &str, contents: Option<&[u8]>, expected: &str| {
        let path = fixture.folder.path().join(file);
        if let Some(contents) = contents {
            std::fs::write(&path, contents).unwrap();
        }
        let error = fixture.catalog.open(&path).expect_err(expected).to_string();
        assert!(error.starts_with("could not open") && error.contains(expected), "{error}");
    };
    check("text.gguf", Some(b"once upon a time"), "not a GGUF file");
    check("short.gguf", Some(&tiny_gguf()[..20]), "needs");
    check("absent.gguf", None, "No such file");
    check("", None, "it is a directory");
}
