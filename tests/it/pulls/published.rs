//! A model at a registry that a test runs, and what must be on the disk when it has come.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_store::Digest;
use cairn_testkit::Random;
use cairn_testkit::registry::FakeRegistry;
use serde_json::json;

use crate::cairn::Home;

/// One of a model's contents.
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) bytes: Arc<[u8]>,
    media_type: &'static str,
}

/// A model that a registry has.
pub(crate) struct Published {
    /// `127.0.0.1:PORT/library/m:latest`.
    pub(crate) name: String,
    pub(crate) manifest: Vec<u8>,
    /// The model's own contents, the largest first.
    pub(crate) blobs: Vec<Blob>,
}

pub(crate) fn blob(media_type: &'static str, bytes: impl Into<Arc<[u8]>>) -> Blob {
    let bytes = bytes.into();
    Blob { digest: Digest::of(&bytes), bytes, media_type }
}

/// So many bytes that nobody has seen.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

impl Published {
    /// Puts a model of these contents up at a registry, the last of them as its config.
    pub(crate) fn at(registry: &FakeRegistry, model: &str, blobs: Vec<Blob>) -> Self {
        let layer = |blob: &Blob| {
            let kind = match blob.media_type {
                "config" => "application/vnd.docker.container.image.v1+json".to_owned(),
                kind => format!("application/vnd.ollama.image.{kind}"),
            };
            json!({"mediaType": kind, "digest": blob.digest.to_string(), "size": blob.bytes.len()})
        };
        let (config, layers) = blobs.split_last().expect("there is a config");
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": layer(config),
            "layers": layers.iter().map(layer).collect::<Vec<_>>(),
        });
        // Spelled as nobody would write it, because it must be kept byte for byte.
        let manifest = serde_json::to_vec_pretty(&manifest).expect("it is JSON");
        for blob in &blobs {
            registry.put_blob(&blob.digest.to_string(), Arc::clone(&blob.bytes));
        }
        registry.put_manifest(&format!("library/{model}"), "latest", &manifest);
        Self { name: format!("{}/library/{model}:latest", registry.host()), manifest, blobs }
    }

    /// A model that can be run, and is small.
    pub(crate) fn tiny(registry: &FakeRegistry, model: &str, seed: u64) -> Self {
        let spec = cairn_testkit::ModelSpec { seed, ..cairn_testkit::tiny_llama() };
        let config = br#"{"model_format":"gguf","model_family":"llama","requires":"0.99.0"}"#;
        let blobs = vec![
            blob("model", cairn_testkit::write(&spec)),
            blob("system", *b"Be brief."),
            blob("config", config.as_slice()),
        ];
        Self::at(registry, model, blobs)
    }

    /// A model of noise: one large layer of so many bytes and three small ones.
    pub(crate) fn of_noise(registry: &FakeRegistry, model: &str, seed: u64, bytes: usize) -> Self {
        let blobs = vec![
            blob("model", noise(seed, bytes)),
            blob("template", noise(seed + 1, 3000)),
            blob("params", format!("{{\"seed\":{seed}}}").into_bytes()),
            blob("config", format!("{{\"model_format\":\"gguf\",\"model_type\":\"{seed}\"}}").into_bytes()),
        ];
        Self::at(registry, model, blobs)
    }

    pub(crate) fn large(&self) -> &Blob {
        &self.blobs[0]
    }

    /// Everything is there, byte for byte.
    pub(crate) fn assert_is_in(&self, home: &Home) {
        let (host, rest) = self.name.split_once('/').expect("a name has a host");
        let rest = rest.replace(':', "/");
        let manifest = models(home).join("manifests").join(host).join(rest);
        let found = std::fs::read(&manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
        assert!(found == self.manifest, "the manifest is not what the registry sent");
        for blob in &self.blobs {
            let path = models(home).join("blobs").join(blob.digest.file_name());
            let found = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(found[..] == blob.bytes[..], "{} is not what its name says", path.display());
        }
    }
}

/// The library of a home.
pub(crate) fn models(home: &Home) -> PathBuf {
    home.folder.path().join("models")
}

/// Every file in the library's own folder, and every file in `blobs` that is no blob: nothing, when all is done.
pub(crate) fn leftovers(home: &Home) -> Vec<String> {
    let mut left = Vec::new();
    walk(&models(home).join(".cairn"), &mut left);
    // What came from its registry is remembered for as long as the model is there: one file for each, and no half-written one.
    left.retain(|path| !path.contains("/.cairn/brought/") || path.contains("/brought/."));
    let blobs = std::fs::read_dir(models(home).join("blobs")).into_iter().flatten().flatten();
    let names = blobs.map(|entry| entry.file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| name.parse::<Digest>().is_err()));
    left
}

/// Every file below a folder.
pub(super) fn walk(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, into) } else { into.push(path.to_string_lossy().into_owned()) }
    }
}
