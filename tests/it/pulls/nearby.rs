//! A pull copies verified blobs from linked libraries instead of downloading them.

use std::fs;

use cairn_testkit::registry::Faults;

use super::published::{Published, leftovers};
use super::registry;
use crate::cairn::{Home, succeeded, text};

#[test]
fn blobs_of_a_linked_library_are_not_downloaded() {
    let registry = registry(Faults::default());
    let model = Published::tiny(&registry, "tiny", 1);
    let digest = model.large().digest.to_string();
    let other = Home::new();
    succeeded(&other.run(&["pull", &model.name, "--insecure"]));
    let sent = registry.sent_bytes(&digest);
    let linked = other.folder.path().join("models");
    let home = || Home::new().with("CAIRN_LIBRARIES", linked.to_string_lossy());

    let first = home();
    let output = first.run(&["pull", &model.name, "--insecure"]);
    succeeded(&output);
    let stderr = text(&output.stderr);
    let line = format!("importing 3 of 3 missing files from {}", linked.display());
    assert_eq!(stderr.matches(&line).count(), 1, "one note: {stderr}");
    assert_eq!(registry.sent_bytes(&digest), sent, "no byte was downloaded");
    model.assert_is_in(&first);
    assert_eq!(leftovers(&first), [""; 0], "no leftovers");
    succeeded(&first.run(&["run", &model.name, "hello"]));

    // Damaged blobs are downloaded.
    let blob = linked.join("blobs").join(model.large().digest.file_name());
    let mut bytes = fs::read(&blob).expect("the file exists");
    bytes[1_000_000] ^= 0x10;
    fs::write(&blob, bytes).expect("the folder is writable");
    let second = home();
    let output = second.run(&["pull", &model.name, "--insecure"]);
    succeeded(&output);
    assert!(text(&output.stderr).contains("cannot import"), "{}", text(&output.stderr));
    assert!(registry.sent_bytes(&digest) > sent, "downloaded from the registry");
    model.assert_is_in(&second);
    assert_eq!(leftovers(&second), [""; 0], "no leftovers");
}
