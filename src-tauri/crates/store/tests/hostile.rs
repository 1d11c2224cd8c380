//! Hostile names and digests: they are rejected, or stay inside the library.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cairn_disk::RealDisk;
use cairn_store::{Digest, LayerKind, Library, LibraryWriter, Manifest, ModelRef};
use cairn_testkit::hostile::{INVALID_DIGESTS, INVALID_NAMES, UNUSUAL_VALID_NAMES, long_names};

#[test]
fn invalid_names_are_rejected() {
    assert!(INVALID_NAMES.len() + INVALID_DIGESTS.len() >= 80, "the table is long enough");
    let long = long_names();
    for name in INVALID_NAMES.iter().copied().chain(long.iter().map(String::as_str)) {
        let parsed = name.parse::<ModelRef>();
        assert!(parsed.is_err(), "{:?} was parsed as {parsed:?}", name.get(..80).unwrap_or(name));
    }
    let unique: BTreeSet<&str> = INVALID_NAMES.iter().copied().collect();
    assert_eq!(unique.len(), INVALID_NAMES.len(), "names are unique");
}

#[test]
fn invalid_parts_are_rejected() {
    // Folder names of other programs follow the same rules.
    for part in INVALID_NAMES.iter().filter(|name| !name.contains(':')) {
        assert!(part.contains('/') || ModelRef::from_parts("h", "n", part, "t").is_err(), "{part:?} as a model");
        for (host, namespace, model, tag) in [("h", *part, "m", "t"), ("h", "n", "m", *part), (*part, "n", "m", "t")] {
            if part.contains(['/', '\\', '\0']) || part.starts_with('.') {
                assert!(ModelRef::from_parts(host, namespace, model, tag).is_err(), "{part:?} in {host}/{namespace}");
            }
        }
    }
}

#[test]
fn invalid_digests_are_rejected() {
    for digest in INVALID_DIGESTS {
        assert!(digest.parse::<Digest>().is_err(), "{digest:?}");
        let layer = serde_json::json!({"mediaType": "x", "digest": digest, "size": 1});
        let manifest = serde_json::json!({"layers": [layer]}).to_string();
        assert!(Manifest::parse(manifest.as_bytes()).is_err(), "{digest:?} in a layer");
        let manifest = serde_json::json!({"config": layer, "layers": []}).to_string();
        // Very old manifests have a config without a digest, which counts as no config.
        let config = Manifest::parse(manifest.as_bytes()).map(|manifest| manifest.config);
        assert!(digest.is_empty() && config == Ok(None) || config.is_err(), "{digest:?} in a config");
    }
}

/// Collects all paths below a folder.
fn tree(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        into.insert(path.to_string_lossy().into_owned());
        if path.is_dir() {
            tree(&path, into);
        }
    }
}

#[test]
fn odd_names_stay_inside_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::new(folder.path().join("outer/models"));
    let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
    let layer = writer.put(LayerKind::System, b"x").unwrap();
    for name in UNUSUAL_VALID_NAMES {
        let name: ModelRef = name.parse().unwrap_or_else(|error| panic!("{name:?}: {error}"));
        writer.save(&name, b"{}", std::slice::from_ref(&layer), false).unwrap();
        assert_eq!(library.find(&name).unwrap().unwrap().name, name, "the model is found");
    }
    assert_eq!(library.list().unwrap().models.len(), UNUSUAL_VALID_NAMES.len(), "all models are listed");
    let mut paths = BTreeSet::new();
    tree(folder.path(), &mut paths);
    let root = library.root().to_string_lossy().into_owned();
    let outside: Vec<&String> = paths.iter().filter(|path| !path.starts_with(&root)).collect();
    assert_eq!(outside, [&folder.path().join("outer").to_string_lossy().into_owned()], "nothing is outside");
    let manifests = library.root().join("manifests").to_string_lossy().into_owned();
    let files = paths.iter().filter(|path| path.starts_with(&manifests) && Path::new(path).is_file());
    for file in files {
        assert_eq!(file[manifests.len()..].matches('/').count(), 4, "{file} is four folders deep");
    }
    for name in UNUSUAL_VALID_NAMES {
        writer.delete(&name.parse().unwrap()).unwrap().expect("the model is deleted");
    }
    assert_eq!(fs::read_dir(manifests).unwrap().count(), 0, "no manifest remains");
}

/// A part may be longer than the file system allows. Lookups then find no model, without an error.
#[test]
fn host_too_long_for_a_folder_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::new(folder.path().join("models"));
    let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
    let name: ModelRef = format!("{}/n/m:t", "h".repeat(350)).parse().unwrap();
    assert!(library.find(&name).unwrap().is_none(), "no such model");
    assert!(writer.delete(&name).unwrap().is_none(), "nothing to delete");
    let layer = writer.put(LayerKind::System, b"x").unwrap();
    assert!(writer.save(&name, b"{}", &[layer], false).is_err(), "the folder cannot be created");
}
