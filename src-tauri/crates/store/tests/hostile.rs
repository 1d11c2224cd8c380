//! Names and digests of people who mean harm: refused, or kept inside the library.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cairn_disk::RealDisk;
use cairn_store::{Digest, LayerKind, Library, LibraryWriter, Manifest, ModelRef};
use cairn_testkit::hostile::{DIGESTS, NAMES, ODD_BUT_ALLOWED, long_names};

#[test]
fn names_that_are_none_are_refused() {
    assert!(NAMES.len() + DIGESTS.len() >= 80, "the table is long enough to mean something");
    let long = long_names();
    for name in NAMES.iter().copied().chain(long.iter().map(String::as_str)) {
        let read = name.parse::<ModelRef>();
        assert!(read.is_err(), "{:?} was read as {read:?}", name.get(..80).unwrap_or(name));
    }
    let unique: BTreeSet<&str> = NAMES.iter().copied().collect();
    assert_eq!(unique.len(), NAMES.len(), "each is there once");
}

#[test]
fn parts_that_are_none_are_refused() {
    // What a folder of somebody else's may be called is held to the same rules.
    for part in NAMES.iter().filter(|name| !name.contains(':')) {
        assert!(part.contains('/') || ModelRef::from_parts("h", "n", part, "t").is_none(), "{part:?} as a model");
        for (host, namespace, model, tag) in [("h", *part, "m", "t"), ("h", "n", "m", *part), (*part, "n", "m", "t")] {
            if part.contains(['/', '\\', '\0']) || part.starts_with('.') {
                assert!(ModelRef::from_parts(host, namespace, model, tag).is_none(), "{part:?} in {host}/{namespace}");
            }
        }
    }
}

#[test]
fn digests_that_are_none_are_refused() {
    for digest in DIGESTS {
        assert!(digest.parse::<Digest>().is_err(), "{digest:?}");
        let layer = serde_json::json!({"mediaType": "x", "digest": digest, "size": 1});
        let manifest = serde_json::json!({"layers": [layer]}).to_string();
        assert!(Manifest::parse(manifest.as_bytes()).is_err(), "{digest:?} in a layer");
        let manifest = serde_json::json!({"config": layer, "layers": []}).to_string();
        // Very old manifests have a config without a digest, which is none.
        let config = Manifest::parse(manifest.as_bytes()).map(|manifest| manifest.config);
        assert!(digest.is_empty() && config == Ok(None) || config.is_err(), "{digest:?} in a config");
    }
}

/// Everything below a folder.
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
    for name in ODD_BUT_ALLOWED {
        let name: ModelRef = name.parse().unwrap_or_else(|error| panic!("{name:?}: {error}"));
        writer.save(&name, b"{}", std::slice::from_ref(&layer), false).unwrap();
        assert_eq!(library.find(&name).unwrap().unwrap().name, name, "it is found");
    }
    assert_eq!(library.list().unwrap().models.len(), ODD_BUT_ALLOWED.len(), "all are listed");
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
    for name in ODD_BUT_ALLOWED {
        writer.delete(&name.parse().unwrap()).unwrap().expect("and can be deleted");
    }
    assert_eq!(fs::read_dir(manifests).unwrap().count(), 0, "nothing is left");
}

/// A part may be longer than the names of some file systems: then there is no such model, which is no failure.
#[test]
fn a_host_that_is_too_long_for_a_folder_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::new(folder.path().join("models"));
    let writer = LibraryWriter::open(&library, &RealDisk).unwrap();
    let name: ModelRef = format!("{}/n/m:t", "h".repeat(350)).parse().unwrap();
    assert!(library.find(&name).unwrap().is_none(), "there is none");
    assert!(writer.delete(&name).unwrap().is_none(), "and none to delete");
    let layer = writer.put(LayerKind::System, b"x").unwrap();
    assert!(writer.save(&name, b"{}", &[layer], false).is_err(), "and none can be made");
}
