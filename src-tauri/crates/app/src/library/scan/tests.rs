//! Scans of folders as other apps write them.

use std::fs;

use super::*;
use crate::library::import::tests::{Fixture, fixture};

impl Fixture {
    async fn scan(&self, folder: &str, digests: bool) -> Scanned {
        let scan = Scan { folders: vec![self.folder.path().join(folder)], apps: false, digests };
        let mut events = self.app.library().scan(scan);
        loop {
            match events.recv().await.expect("a scan sends a last event") {
                ScanEvent::Progress { .. } => {}
                ScanEvent::Done(scanned) => return scanned,
            }
        }
    }

    fn folder(&self, name: &str) {
        fs::create_dir_all(self.folder.path().join(name)).unwrap();
    }
}

fn short(scanned: &Scanned) -> Vec<(String, String)> {
    let file = |found: &Found| found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut short: Vec<_> = scanned.found.iter().map(|f| (file(f), format!("{:?}", f.status))).collect();
    short.sort();
    short
}

fn check(scanned: &Scanned, expected: &[(&str, &str)]) {
    let found = short(scanned);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((file, status), (name, part)) in found.iter().zip(expected) {
        assert!(file == name && status.starts_with(part), "{file} is {status}, not {name} {part}");
    }
}

#[tokio::test]
async fn scan_classifies_files_by_their_heads() {
    let fixture = fixture();
    fixture.folder("apps/publisher/repo");
    let here = fixture.file("here.gguf", 1);
    fixture.import(&here, Some("mine"), false).await.unwrap();
    let at = |name: &str| fixture.folder.path().join("apps/publisher/repo").join(name);
    fixture.file("apps/publisher/repo/new.gguf", 2);
    fs::copy(&here, at("same.gguf")).unwrap();
    fs::write(at("text.gguf"), "once upon a time").unwrap();
    let put = |name: &str, pairs: &[(&str, &str)]| {
        let mut writer = cairn_gguf::Writer::new(32);
        for (key, value) in pairs {
            writer.set(*key, *value);
        }
        fs::write(at(name), writer.finish()).unwrap();
    };
    put("mmproj-f16.gguf", &[("general.architecture", "clip")]);
    put("lora.gguf", &[("general.architecture", "llama"), ("general.type", "adapter")]);
    put("vocabulary.gguf", &[("general.architecture", "llama")]);
    let scanned = fixture.scan("apps", false).await;
    let unread = [
        ("lora.gguf", "Adapter"),
        ("mmproj-f16.gguf", "Projector"),
        ("new.gguf", r#"MaybeHere("mine:latest")"#),
        ("same.gguf", r#"MaybeHere("mine:latest")"#),
        ("text.gguf", "Broken(\"not a GGUF file"),
        ("vocabulary.gguf", "Broken(\"it has no tensors"),
    ];
    check(&scanned, &unread);
    let new = scanned.found.iter().find(|found| found.path.ends_with("new.gguf")).unwrap();
    assert_eq!(
        (&*new.name, &*new.details.family, new.source_app),
        ("tiny-llama:latest", "llama", ModelApp::Folder),
        "{new:?}"
    );
    let scanned = fixture.scan("apps", true).await;
    let mut read = unread;
    (read[2].1, read[3].1) = ("New", r#"Here("mine:latest")"#);
    check(&scanned, &read);
}

#[tokio::test]
async fn scan_reports_a_split_model_once() {
    let fixture = fixture();
    fixture.folder("split");
    let whole = fs::read(fixture.file("whole.gguf", 1)).unwrap();
    let path = |number: usize| fixture.folder.path().join(format!("split/m-{number:05}-of-00003.gguf"));
    for (number, part) in (1..).zip(cairn_testkit::split(&whole, 3)) {
        fs::write(path(number), part).unwrap();
    }
    let scanned = fixture.scan("split", true).await;
    check(&scanned, &[("m-00001-of-00003.gguf", "New")]);
    let bytes: u64 = [1, 2, 3].map(|number| fs::metadata(path(number)).unwrap().len()).iter().sum();
    assert_eq!((scanned.found[0].parts, scanned.found[0].size_bytes), (3, bytes), "all three");
    fs::remove_file(path(1)).unwrap();
    let scanned = fixture.scan("split", false).await;
    check(&scanned, &[("m-00002-of-00003.gguf", "Broken(\"this model has 3 files, of which are missing")]);
}

#[cfg(unix)]
#[tokio::test]
async fn scan_trusts_names_that_are_digests() {
    let fixture = fixture();
    let here = fixture.file("here.gguf", 1);
    fixture.import(&here, Some("mine"), false).await.unwrap();
    // The layout of the hub's cache: each revision has a link to a file that is named after its digest.
    fixture.folder("hub/models--me--tiny/blobs");
    let digest = Digest::of(&fs::read(&here).unwrap()).hex();
    fs::rename(&here, fixture.folder.path().join("hub/models--me--tiny/blobs").join(&digest)).unwrap();
    for revision in ["r1", "r2"] {
        let snapshot = format!("hub/models--me--tiny/snapshots/{revision}");
        fixture.folder(&snapshot);
        let link = fixture.folder.path().join(snapshot).join("tiny.gguf");
        std::os::unix::fs::symlink(format!("../../blobs/{digest}"), link).unwrap();
    }
    let scanned = fixture.scan("hub", false).await;
    check(&scanned, &[("tiny.gguf", r#"Here("mine:latest")"#)]);
    assert_eq!(scanned.found[0].digest.map(|digest| digest.hex()), Some(digest), "the digest comes from the name");
    // A hard link to a library's file is recognised by its inode.
    let linked = fixture.file("other.gguf", 2);
    let import = crate::library::Import {
        path: linked.clone(),
        name: Some("linked".to_owned()),
        taking: crate::library::ImportMode::Link,
        force: false,
    };
    fixture.take(import).await.unwrap();
    fixture.folder("apps");
    fs::rename(&linked, fixture.folder.path().join("apps/other.gguf")).unwrap();
    check(&fixture.scan("apps", false).await, &[("other.gguf", r#"Here("linked:latest")"#)]);
}

#[tokio::test]
async fn scan_lists_the_models_of_libraries_in_ollamas_layout() {
    let (theirs, fixture) = (fixture(), fixture());
    theirs.import(&theirs.file("a.gguf", 1), Some("Them"), false).await.unwrap();
    let folder = theirs.folder.path().join("models").to_string_lossy().into_owned();
    let scanned = fixture.scan(&folder, false).await;
    assert_eq!((scanned.found.len(), &*scanned.found[0].name), (1, "Them:latest"), "{:?}", scanned.found);
    assert_eq!(
        (&scanned.found[0].status, scanned.found[0].source_app),
        (&FoundStatus::New, ModelApp::Ollama),
        "the model is new"
    );
    let own = theirs.scan(&folder, false).await;
    assert_eq!(
        own.found[0].status,
        FoundStatus::Here("Them:latest".to_owned()),
        "the model is present in its own library"
    );
    let absent = fixture.scan("nowhere", false).await;
    assert_eq!((absent.found.len(), absent.unread.len()), (0, 1), "a missing folder is reported");
}
