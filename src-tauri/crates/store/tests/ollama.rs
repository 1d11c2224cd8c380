//! Compatibility with Ollama: Cairn reads Ollama's libraries, and Ollama's rules can read Cairn's.
//!
//! The fixture is hand-written from the documentation of the layout. The reader for Cairn's libraries does not use this crate: it
//! applies Ollama's rules to plain files and JSON.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_disk::RealDisk;
use cairn_store::{Digest, LayerKind, Library, LibraryWriter, ModelRef};
use serde_json::Value;

const TYPES: &str = "application/vnd.ollama.image.";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

struct Fixture {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("models");
        fs::create_dir_all(root.join("blobs")).unwrap();
        Self { root, _folder: folder }
    }

    fn blob(&self, contents: &[u8]) -> String {
        let digest = Digest::of(contents);
        fs::write(self.root.join("blobs").join(format!("sha256-{}", digest.hex())), contents).unwrap();
        format!("sha256:{}", digest.hex())
    }

    fn manifest(&self, path: &str, text: &str) -> String {
        let path = self.root.join("manifests").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        Digest::of(text.as_bytes()).hex()
    }

    fn layer(&self, kind: &str, contents: &str) -> String {
        let (digest, size) = (self.blob(contents.as_bytes()), contents.len());
        format!(r#"{{"mediaType":"{TYPES}{kind}","digest":"{digest}","size":{size}}}"#)
    }

    fn config(&self, json: &str) -> String {
        let (digest, size) = (self.blob(json.as_bytes()), json.len());
        format!(r#"{{"mediaType":"{DOCKER_CONFIG}","digest":"{digest}","size":{size}}}"#)
    }
}

/// Checks a model's identity, the texts of its layers, and its family.
fn check(fixture: &Fixture, path: &str, manifest: &str, name: &str, texts: &[(LayerKind, &str)], family: &str) {
    let identity = fixture.manifest(path, manifest);
    let library = Library::new(fixture.root.clone());
    let model = library.find(&name.parse().unwrap()).unwrap().unwrap_or_else(|| panic!("{name} is not found"));
    assert_eq!(model.name.to_string(), name, "name of the model");
    assert_eq!(model.manifest.digest.hex(), identity, "{name}: digest of the manifest");
    for (kind, text) in texts {
        let found = library.joined_texts(&model.manifest, kind).unwrap();
        assert_eq!(found.as_deref(), Some(*text), "{name}: {kind:?}");
    }
    assert_eq!(library.config(&model.manifest).model_family, family, "{name}: family");
    let listed = library.list().unwrap();
    assert!(listed.models.iter().any(|listed| listed.name == model.name), "{name} is listed");
}

#[test]
fn library_of_ollama_is_read() {
    let fixture = Fixture::new();
    let model = fixture.layer("model", "GGUF");
    let config = fixture.config(
        r#"{"model_format":"gguf","model_family":"llama","model_families":["llama"],"model_type":"3.2B","file_type":"Q4_K_M","architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:0"]},"history":null,"container_config":{}}"#,
    );
    let head = format!(r#"{{"schemaVersion":2,"mediaType":"{DOCKER_MANIFEST}","config":{config},"layers":"#);
    let weights = (LayerKind::Model, "GGUF");

    // As a registry sends it, without a final line break.
    let pulled =
        format!("{head}[{model},{},{}]}}", fixture.layer("template", "{{ .Prompt }}"), fixture.layer("license", "MIT"));
    let texts = [weights.clone(), (LayerKind::Template, "{{ .Prompt }}"), (LayerKind::License, "MIT")];
    check(&fixture, "registry.ollama.ai/library/llama3.2/latest", &pulled, "llama3.2:latest", &texts, "llama");
    // As Ollama creates it, with a final line break and `from`.
    let system = fixture.layer("system", "Be brief.");
    let created = format!("{head}[{},{system}]}}\n", model.replace("}", r#","from":"llama3.2:latest"}"#));
    let texts = [weights.clone(), (LayerKind::System, "Be brief.")];
    check(&fixture, "registry.ollama.ai/me/mine/v1", &created, "me/mine:v1", &texts, "llama");
    // Pretty-printed, with Windows line breaks.
    let pretty = created.replace(",\"", ",\r\n  \"").replace('{', "{\r\n  ") + "\r\n\r\n";
    check(&fixture, "hf.co/Me/Model-GGUF/Q4_K_M", &pretty, "hf.co/Me/Model-GGUF:Q4_K_M", &texts, "llama");
    // The old media type of templates, obsolete and unknown layers, unknown fields, digests with dashes and capitals.
    let shouted = model.replace("sha256:", "sha256-");
    let (_, hex) = shouted.split_once("sha256-").unwrap();
    let hex = &hex[..64];
    let old = format!(
        r#"{{"layers":[{},{},{},{}],"annotations":{{"a":[1]}},"config":{},"schemaVersion":2,"subject":null}}"#,
        shouted.replace(hex, &hex.to_uppercase()),
        fixture.layer("prompt", "{{ .System }}"),
        fixture.layer("embed", "x"),
        fixture.layer("something.new", "y"),
        fixture.config("{}"),
    );
    let texts = [weights.clone(), (LayerKind::Template, "{{ .System }}")];
    check(&fixture, "localhost:5000/a/b/c", &old, "localhost:5000/a/b:c", &texts, "");
    // Very old manifests have a config without a digest.
    let ancient = format!(r#"{{"layers":[{model}],"config":{{"architecture":"amd64"}}}}"#);
    check(&fixture, "registry.ollama.ai/library/old/7b", &ancient, "old:7b", &[weights], "");

    // Other files: downloads, temporary files, files of the system.
    for name in ["sha256-12-partial", "sha256-12-partial-0", "sha256-9183471", ".DS_Store"] {
        fs::write(fixture.root.join("blobs").join(name), "x").unwrap();
    }
    fs::write(fixture.root.join("manifests/.DS_Store"), "x").unwrap();
    let listing = Library::new(fixture.root.clone()).list().unwrap();
    assert_eq!(listing.models.len(), 5, "{:?}", listing.models);
    assert!(listing.skipped.is_empty(), "{:?}", listing.skipped);
}

/// Model as read by Ollama's rules: name, size, and the media types and contents of its layers.
type OllamaModel = (String, u64, Vec<(String, Vec<u8>)>);

/// Reads a library by Ollama's rules: manifests are the files four levels below `manifests`.
fn read_by_ollama_rules(root: &Path) -> Vec<OllamaModel> {
    fn below(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
    let mut models = Vec::new();
    let tags = below(&root.join("manifests")).into_iter().flat_map(|host| below(&host));
    for tag in tags.flat_map(|namespace| below(&namespace)).flat_map(|model| below(&model)) {
        let parts: Vec<&str> = tag.strip_prefix(root.join("manifests")).unwrap().to_str().unwrap().split('/').collect();
        let [host, namespace, model, version] = parts[..] else { panic!("{tag:?} has other than four parts") };
        let bytes = fs::read(&tag).unwrap();
        assert!(bytes.ends_with(b"}\n"), "{tag:?}: final line break");
        let manifest: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(manifest["schemaVersion"], 2, "{tag:?}");
        assert_eq!(manifest["mediaType"], DOCKER_MANIFEST, "{tag:?}");
        assert_eq!(manifest["config"]["mediaType"], DOCKER_CONFIG, "{tag:?}");
        let mut layers = Vec::new();
        let mut size = 0;
        for layer in manifest["layers"].as_array().unwrap().iter().chain([&manifest["config"]]) {
            let digest = layer["digest"].as_str().unwrap();
            let hex = digest.strip_prefix("sha256:").unwrap();
            assert!(hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{digest}");
            let contents = fs::read(root.join("blobs").join(format!("sha256-{hex}"))).unwrap();
            assert_eq!(layer["size"], contents.len() as u64, "{tag:?}: {digest}");
            assert_eq!(Digest::of(&contents).hex(), hex, "{tag:?}: contents match the digest");
            size += contents.len() as u64;
            layers.push((layer["mediaType"].as_str().unwrap().to_owned(), contents));
        }
        let config: Value = serde_json::from_slice(&layers.last().unwrap().1).unwrap();
        assert_eq!((&config["architecture"], &config["os"]), (&"amd64".into(), &"linux".into()), "{config}");
        models.push((format!("{host}/{namespace}/{model}:{version}"), size, layers));
    }
    models
}

#[test]
fn library_of_cairn_is_readable_by_ollama_rules() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::new(folder.path().join("models"));
    let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
    let file = folder.path().join("x.gguf");
    fs::write(&file, "GGUF").unwrap();
    let weights = writer.import_file(&file, false, &mut |_| true).unwrap().layer;
    let params = writer.put(LayerKind::Params, br#"{"stop":["x"]}"#).unwrap();
    let template = writer.put(LayerKind::Template, b"{{ .Prompt }}").unwrap();
    let config = cairn_store::Config { model_format: "gguf".to_owned(), ..Default::default() }.to_json();
    let name = |text: &str| text.parse::<ModelRef>().unwrap();
    writer.save(&name("Mine"), &config, &[weights, template, params], false).unwrap();
    writer.copy(&library, &name("mine"), &name("hf.co/me/other:q8"), &mut |_| true).unwrap();
    writer.save(&name("deleted"), &config, &[], false).unwrap();
    writer.delete(&name("deleted")).unwrap();

    let read = read_by_ollama_rules(library.root());
    let names: Vec<&str> = read.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["hf.co/me/other:q8", "registry.ollama.ai/library/Mine:latest"], "spelling is preserved");
    for (name, size, layers) in &read {
        let kinds: Vec<&str> = layers.iter().map(|(kind, _)| kind.as_str()).collect();
        let expected = ["model", "template", "params"].map(|kind| format!("{TYPES}{kind}"));
        assert_eq!(kinds, [&expected[0], &expected[1], &expected[2], DOCKER_CONFIG], "{name}");
        assert_eq!(layers[0].1, b"GGUF", "{name}");
        assert_eq!(*size, 4 + 13 + 14 + config.len() as u64, "{name}");
    }
    #[cfg(unix)]
    for entry in fs::read_dir(library.root().join("blobs")).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "readable for another user's Ollama");
    }
}
