//! Models published at a test registry, and checks of their files after a pull.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_store::Digest;
use cairn_testkit::Random;
use cairn_testkit::registry::FakeRegistry;
use serde_json::json;

use crate::cairn::Home;

/// A blob of a published model.
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) bytes: Arc<[u8]>,
    media_type: &'static str,
}

/// A model published at a registry.
pub(crate) struct Published {
    /// `127.0.0.1:PORT/library/m:latest`.
    pub(crate) name: String,
    pub(crate) manifest: Vec<u8>,
    /// The model's blobs, the largest first, the config last.
    pub(crate) blobs: Vec<Blob>,
}

pub(crate) fn blob(media_type: &'static str, bytes: impl Into<Arc<[u8]>>) -> Blob {
    let bytes = bytes.into();
    Blob { digest: Digest::of(&bytes), bytes, media_type }
}

/// Returns `len` pseudo-random bytes.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

impl Published {
    /// Publishes a model with these blobs; the last one is the config.
    pub(crate) fn at(registry: &FakeRegistry, model: &str, blobs: Vec<Blob>) -> Self {
        let layer = |blob: &Blob| {
            let kind = match blob.media_type {
                "config" => "application/vnd.docker.container.image.v1+json".to_owned(),
                kind => format!("application/vnd.ollama.image.{kind}"),
            };
            json!({"mediaType": kind, "digest": blob.digest.to_string(), "size": blob.bytes.len()})
        };
        let (config, layers) = blobs.split_last().expect("the last blob is the config");
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": layer(config),
            "layers": layers.iter().map(layer).collect::<Vec<_>>(),
        });
        // Unusual formatting, because a manifest must be stored byte for byte.
        let manifest = serde_json::to_vec_pretty(&manifest).expect("valid JSON");
        for blob in &blobs {
            registry.put_blob(&blob.digest.to_string(), Arc::clone(&blob.bytes));
        }
        registry.put_manifest(&format!("library/{model}"), "latest", &manifest);
        Self { name: format!("{}/library/{model}:latest", registry.host()), manifest, blobs }
    }

    /// Publishes a small model that can be run.
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

    /// Publishes random bytes: one layer of `bytes` bytes and three small ones. None is a model file, which would have to
    /// be one that can run.
    pub(crate) fn of_noise(registry: &FakeRegistry, model: &str, seed: u64, bytes: usize) -> Self {
        let blobs = vec![
            blob("projector", noise(seed, bytes)),
            blob("template", noise(seed + 1, 3000)),
            blob("params", format!("{{\"seed\":{seed}}}").into_bytes()),
            blob("config", format!("{{\"model_format\":\"gguf\",\"model_type\":\"{seed}\"}}").into_bytes()),
        ];
        Self::at(registry, model, blobs)
    }

    pub(crate) fn large(&self) -> &Blob {
        &self.blobs[0]
    }

    /// Asserts that the manifest and all blobs are stored correctly.
    pub(crate) fn assert_is_in(&self, home: &Home) {
        let (host, rest) = self.name.split_once('/').expect("a name has a host");
        let rest = rest.replace(':', "/");
        let manifest = models(home).join("manifests").join(host).join(rest);
        let found = std::fs::read(&manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
        assert!(found == self.manifest, "the manifest is not what the registry sent");
        for blob in &self.blobs {
            let path = models(home).join("blobs").join(blob.digest.file_name());
            let found = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(found[..] == blob.bytes[..], "{} does not match its digest", path.display());
        }
    }
}

/// Returns the library folder of a home.
pub(crate) fn models(home: &Home) -> PathBuf {
    home.folder.path().join("models")
}

/// Returns all files in `.cairn` except the records of manifest sources, and all files in `blobs` that are not blobs.
/// Empty after a complete pull.
pub(crate) fn leftovers(home: &Home) -> Vec<String> {
    let mut left = Vec::new();
    walk(&models(home).join(".cairn"), &mut left);
    // `.cairn/brought` has one file per stored model with its registry; temporary files there are leftovers.
    left.retain(|path| !path.contains("/.cairn/brought/") || path.contains("/brought/."));
    let blobs = std::fs::read_dir(models(home).join("blobs")).into_iter().flatten().flatten();
    let names = blobs.map(|entry| entry.file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| name.parse::<Digest>().is_err()));
    left
}

/// Collects the paths of all files below a folder.
pub(crate) fn walk(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, into) } else { into.push(path.to_string_lossy().into_owned()) }
    }
}
