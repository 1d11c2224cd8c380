//! Models that tests add to the library.

use std::path::{Path, PathBuf};

/// Adds a model file to the library of the daemon with this home folder.
pub(crate) fn install(home: &Path, name: &str, file: &[u8]) {
    let root = home.join("models");
    let digest = cairn_store::Digest::of(file);
    let manifest = manifest(home, name);
    std::fs::create_dir_all(root.join("blobs")).expect("a folder");
    std::fs::create_dir_all(manifest.parent().expect("a folder")).expect("a folder");
    std::fs::write(root.join("blobs").join(digest.file_name()), file).expect("a blob");
    let (kind, size) = ("application/vnd.ollama.image.model", file.len());
    let layers = format!(r#"{{"layers":[{{"mediaType":"{kind}","digest":"{digest}","size":{size}}}]}}"#);
    std::fs::write(manifest, layers).expect("a manifest");
}

/// Returns the path of the manifest of a model.
pub(crate) fn manifest(home: &Path, name: &str) -> PathBuf {
    home.join("models/manifests/registry.ollama.ai/library").join(name).join("latest")
}
