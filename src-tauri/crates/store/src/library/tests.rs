//! Libraries in a real folder: spelling, damaged entries, hostile manifests.

use super::*;
use crate::MAX_LAYERS;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn library(&self) -> Library {
        Library::new(self.0.path().to_owned())
    }

    fn blob(&self, contents: &str) -> String {
        let digest = Digest::of(contents.as_bytes());
        let blobs = self.0.path().join("blobs");
        fs::create_dir_all(&blobs).unwrap();
        fs::write(blobs.join(digest.file_name()), contents).unwrap();
        digest.to_string()
    }

    fn manifest(&self, path: &str, json: &str) {
        let path = self.0.path().join("manifests").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json).unwrap();
    }

    fn model(&self, path: &str, layers: &[(&str, &str)]) {
        let layers: Vec<String> = layers
            .iter()
            .map(|(kind, contents)| {
                let (digest, size) = (self.blob(contents), contents.len());
                format!(r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"{digest}","size":{size}}}"#)
            })
            .collect();
        self.manifest(path, &format!(r#"{{"layers":[{}]}}"#, layers.join(",")));
    }
}

fn name(text: &str) -> ModelRef {
    text.parse().unwrap()
}

#[test]
fn find_ignores_case() {
    let folder = Folder::new();
    folder.model(
        "registry.ollama.ai/library/Tiny/latest",
        &[("model", "GGUF"), ("license", "a"), ("license", "b"), ("system", "Be brief.")],
    );
    let library = folder.library();
    let model = library.find(&name("tiny")).unwrap().expect("the model exists");
    assert_eq!(model.name.to_string(), "Tiny:latest", "spelled as on disk");
    let layer = model.manifest.layer(&LayerKind::Model).unwrap();
    assert_eq!(fs::read(library.blob(layer).unwrap()).unwrap(), b"GGUF", "contents of the blob");
    let text = |kind| library.joined_texts(&model.manifest, &kind).unwrap();
    assert_eq!(text(LayerKind::License).as_deref(), Some("a\nb"), "licences are joined by a line break");
    assert_eq!(text(LayerKind::System).as_deref(), Some("Be brief."), "one text");
    assert_eq!(text(LayerKind::Template), None, "no such layer");
    assert!(library.find(&name("tiny:1b")).unwrap().is_none(), "another tag");
    assert!(library.find(&name("other")).unwrap().is_none(), "another model");
}

#[test]
fn list_skips_damaged_models_with_reasons() {
    let folder = Folder::new();
    folder.model("registry.ollama.ai/library/a/latest", &[("model", "GGUF")]);
    folder.model("hf.co/me/b/Q8_0", &[("model", "GGUF")]);
    folder.manifest("registry.ollama.ai/library/broken/latest", "{");
    folder.manifest("registry.ollama.ai/library/.hidden/latest", "{}");
    folder.manifest("registry.ollama.ai/library/deep/er/latest", "{}");
    fs::write(folder.0.path().join("manifests/stray"), "").unwrap();
    let listing = folder.library().list().unwrap();
    let mut names: Vec<String> = listing.models.iter().map(|model| model.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["a:latest", "hf.co/me/b:Q8_0"], "readable models");
    assert_eq!(listing.skipped.len(), 3, "{:?}", listing.skipped);
}

#[test]
fn manifest_with_too_many_layers_hides_no_other_model() {
    let folder = Folder::new();
    folder.model("registry.ollama.ai/library/a/latest", &[("model", "GGUF")]);
    let layer = format!(r#"{{"digest":"{}","size":4}}"#, Digest::of(b"GGUF"));
    let json = format!(r#"{{"layers":[{}]}}"#, vec![layer; MAX_LAYERS + 1].join(","));
    folder.manifest("registry.ollama.ai/library/many/latest", &json);
    let library = folder.library();
    let listing = library.list().unwrap();
    assert_eq!(listing.models.len(), 1, "the other model is listed");
    assert!(listing.skipped[0].reason.contains("it has 4097 layers"), "{:?}", listing.skipped);
    let error = library.find(&name("many")).expect_err("too many layers").to_string();
    assert!(error.contains("it has 4097 layers; the maximum is 4096"), "{error}");
    let writer = crate::LibraryWriter::open(&library, &cairn_disk::RealDisk).unwrap();
    assert!(writer.delete(&name("many")).unwrap().is_some(), "it can be deleted");
    assert!(library.find(&name("a")).unwrap().is_some_and(|model| library.blob(&model.manifest.layers[0]).is_ok()));
}

#[test]
fn many_layers_of_one_text_are_not_all_read() {
    let folder = Folder::new();
    let text = "x".repeat(1 << 20);
    folder.model("registry.ollama.ai/library/a/latest", &[("license", &text)]);
    let library = folder.library();
    let mut manifest = library.find(&name("a")).unwrap().unwrap().manifest;
    manifest.layers = vec![manifest.layers[0].clone(); 8];
    assert_eq!(library.texts(&manifest, &LayerKind::License).unwrap().len(), 8, "8 MiB together");
    manifest.layers.push(manifest.layers[0].clone());
    let error = library.texts(&manifest, &LayerKind::License).expect_err("more than 8 MiB").to_string();
    assert!(error.contains("together have more than 8388608 bytes"), "{error}");
}

#[test]
fn absent_library_is_empty() {
    let library = Library::new(PathBuf::from("/nonexistent/library"));
    assert!(library.list().unwrap().models.is_empty(), "no models");
    assert!(library.find(&name("x")).unwrap().is_none(), "no such model");
}

#[test]
fn blob_that_differs_from_the_manifest_is_rejected() {
    let folder = Folder::new();
    folder.model("registry.ollama.ai/library/a/latest", &[("model", "GGUF"), ("config", "x")]);
    let library = folder.library();
    let model = library.find(&name("a")).unwrap().unwrap();
    let layer = model.manifest.layer(&LayerKind::Model).unwrap();
    let path = library.blob(layer).unwrap();
    let reason = |expected: &str| {
        let error = library.blob(layer).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    };
    fs::write(&path, "GG").unwrap();
    reason("has 2 bytes where its manifest says 4");
    fs::remove_file(&path).unwrap();
    reason("cannot be read");
    fs::create_dir(&path).unwrap();
    reason("is no file");
}

#[test]
fn error_names_the_damaged_manifest() {
    let folder = Folder::new();
    folder.manifest("registry.ollama.ai/library/a/latest", r#"{"layers":[{"digest":"sha256:../../../etc/passwd"}]}"#);
    let error = folder.library().find(&name("a")).expect_err("the digest is a path").to_string();
    assert!(error.contains("latest is no manifest: invalid digest format"), "{error}");
}
