//! Blobs in the making, kept by one process at a time, and published whole.
#![expect(clippy::single_range_in_vec_init, reason = "one range is what is meant")]

use std::ops::Range;

use cairn_disk::RealDisk;
use cairn_testkit::FaultyDisk;

use super::*;
use crate::{LayerKind, LibraryError, LibraryWriter, Manifest, ModelRef, WriteError};

struct Fixture {
    _folder: tempfile::TempDir,
    library: Library,
    staging: Staging,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::new(folder.path().join("models"));
    let staging = Staging::open(&library, Arc::new(RealDisk)).unwrap();
    Fixture { _folder: folder, library, staging }
}

impl Fixture {
    fn files(&self) -> Vec<String> {
        let kept = [&self.staging.partials, &self.staging.ready];
        let mut names: Vec<String> = kept.into_iter().flat_map(|folder| names_in(folder)).collect();
        names.iter_mut().for_each(|name| *name = name.replace(&blob().hex(), "X"));
        names
    }

    /// Makes a blob ready, and gives its layer.
    fn ready(&self, contents: &[u8]) -> crate::Layer {
        let (digest, size_bytes) = (Digest::of(contents), contents.len() as u64);
        let staged = self.staging.claim(&digest, size_bytes).unwrap();
        staged.file().write_at(0, contents).unwrap();
        staged.finish().unwrap();
        crate::Layer { kind: LayerKind::Model, digest, size_bytes }
    }
}

fn blob() -> Digest {
    Digest::of(b"0123456789")
}

fn write(staged: &mut StagedBlob, ranges: &[Range<u64>]) {
    for range in ranges {
        let bytes: Vec<u8> = range.clone().map(|at| b'0' + at as u8).collect();
        staged.file().write_at(range.start, &bytes).unwrap();
    }
    staged.keep(&ranges.iter().cloned().collect()).unwrap();
}

fn held(staged: &StagedBlob) -> Vec<Range<u64>> {
    staged.held().iter().cloned().collect()
}

#[test]
fn goes_on_where_it_was_left() {
    let at = fixture();
    let mut staged = at.staging.claim(&blob(), 10).unwrap();
    assert!(staged.held().is_empty(), "nothing is there yet");
    write(&mut staged, &[0..3, 6..8]);
    write(&mut staged, &[3..4]);
    staged.file().write_at(8, b"89").unwrap();
    drop(staged);

    let mut staged = at.staging.claim(&blob(), 10).unwrap();
    assert_eq!(held(&staged), [0..4, 6..8], "what was kept, and not what was only written");
    assert_eq!(at.staging.held_bytes(&blob()), 6, "others can tell too");
    write(&mut staged, &[4..6, 8..10]);
    let path = staged.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"0123456789", "the whole contents");
    assert_eq!(at.staging.ready(&blob(), 10), Some(path), "it is ready");
    assert_eq!(at.staging.ready(&blob(), 11), None, "not for a manifest that gives another size");
    assert_eq!(at.files(), ["sha256-X"], "the journal and the lock are gone");
}

#[test]
fn one_at_a_time() {
    let at = fixture();
    let staged = at.staging.claim(&blob(), 10).unwrap();
    assert!(matches!(at.staging.claim(&blob(), 10), Err(StagingError::InUse(digest)) if digest == blob()), "claimed");
    assert!(matches!(at.staging.discard(&blob()), Err(StagingError::InUse(_))), "it is in use");
    assert!(at.staging.list().unwrap()[0].in_use, "the list says so");
    Staging::open(&at.library, Arc::new(RealDisk)).unwrap();
    assert!(matches!(at.staging.claim(&blob(), 10), Err(StagingError::InUse(_))), "opening clears no living lock away");
    drop(staged);
    at.staging.claim(&blob(), 10).expect("it was let go");
}

#[test]
fn lists_and_discards() {
    let at = fixture();
    let mut staged = at.staging.claim(&blob(), 10).unwrap();
    write(&mut staged, &[2..5]);
    drop(staged);
    let layer = at.ready(b"whole");
    let mut list = at.staging.list().unwrap();
    list.sort_by_key(|staged| staged.ready);
    let said = |staged: &Staged| (staged.digest, staged.size_bytes, staged.held_bytes, staged.in_use);
    assert_eq!(said(&list[0]), (blob(), Some(10), 3, false), "a partial");
    assert_eq!(said(&list[1]), (layer.digest, Some(5), 5, false), "one that is ready");
    assert!(at.staging.discard(&blob()).unwrap() > 0, "some bytes of the disk are free again");
    at.staging.discard(&layer.digest).unwrap();
    assert_eq!(at.files(), [""; 0], "nothing is left");
}

#[test]
fn a_partial_that_is_gone_or_shorter_counts_for_nothing_more_than_it_has() {
    let at = fixture();
    let mut staged = at.staging.claim(&blob(), 10).unwrap();
    write(&mut staged, &[0..9]);
    staged.file().truncate(4).unwrap();
    drop(staged);
    assert_eq!(held(&at.staging.claim(&blob(), 10).unwrap()), [0..4], "what the file has");
    fs::remove_file(at.staging.partial_path(&blob())).unwrap();
    Staging::open(&at.library, Arc::new(RealDisk)).unwrap();
    assert_eq!(at.files(), [""; 0], "a journal without its partial goes");
    assert!(at.staging.claim(&blob(), 10).unwrap().held().is_empty(), "nothing is there");
}

#[test]
fn what_a_killed_process_left_half_written_goes() {
    let at = fixture();
    let half = format!(".{}.journal.123-4.tmp", blob().file_name());
    let write = || fs::write(at.staging.partials.join(&half), b"half").unwrap();
    write();
    let staged = at.staging.claim(&blob(), 10).unwrap();
    let open = || drop(Staging::open(&at.library, Arc::new(RealDisk)).unwrap());
    open();
    assert!(at.staging.partials.join(&half).exists(), "its writer lives");
    drop(staged);
    open();
    assert!(!at.staging.partials.join(&half).exists(), "nobody is writing it");
}

#[test]
fn another_size_keeps_the_bytes_and_not_the_end() {
    let at = fixture();
    let mut staged = at.staging.claim(&blob(), 12).unwrap();
    write(&mut staged, &[0..12]);
    drop(staged);
    let staged = at.staging.claim(&blob(), 10).unwrap();
    assert_eq!(held(&staged), [0..10], "the bytes are the same, whatever was thought of their number");
    let path = staged.finish().unwrap();
    assert_eq!(fs::read(path).unwrap(), b"0123456789", "nothing beyond the end stays");
}

#[test]
fn publishes_the_manifest_as_it_came_and_last() {
    let at = fixture();
    let name: ModelRef = "kept".parse().unwrap();
    let (config, first, second) = (at.ready(b"{}"), at.ready(b"first weights"), at.ready(b"second weights"));
    let config = crate::Layer { kind: LayerKind::config(), ..config };
    // A manifest is kept byte for byte, so its spelling is not ours to change.
    let manifest =
        |layer: &crate::Layer| [b" ".as_slice(), &Manifest::to_json(&config, std::slice::from_ref(layer))].concat();
    let writer = LibraryWriter::open(&at.library, &RealDisk).unwrap();

    let published = writer.publish(&at.staging, &name, &manifest(&first), true).unwrap();
    assert_eq!(published.model.manifest.digest, Digest::of(&manifest(&first)), "its bytes are those that came");
    assert!(published.removed.is_empty(), "there was none before");
    assert_eq!(fs::read(at.library.blob(&first).unwrap()).unwrap(), b"first weights", "its contents");

    let published = writer.publish(&at.staging, &name, &manifest(&second), true).unwrap();
    assert_eq!(published.removed, [first.digest], "what nothing has any more goes, the shared config stays");
    at.library.blob(&first).expect_err("it is gone");
    at.library.blob(&config).expect("both have it");
    assert_eq!(at.files(), [""; 0], "nothing waits any more");

    let missing = crate::Layer { digest: Digest::of(b"elsewhere"), ..second.clone() };
    let error = writer.publish(&at.staging, &name, &manifest(&missing), true).expect_err("a blob is missing");
    assert!(
        matches!(error, WriteError::Library(LibraryError::Blob { digest, .. }) if digest == missing.digest),
        "{error}"
    );
    assert_eq!(at.library.find(&name).unwrap().unwrap().manifest.layers, [second], "the model is as it was");
}

/// Wherever the disk fails: no model without contents, and the next try succeeds.
#[test]
fn a_publish_that_fails_anywhere_can_be_repeated() {
    for steps in 0.. {
        let at = fixture();
        let name: ModelRef = "kept".parse().unwrap();
        let (config, layer) = (at.ready(b"{}"), at.ready(b"weights"));
        let manifest = Manifest::to_json(&config, &[layer]);
        let disk = FaultyDisk::after(steps);
        let publish = |disk: &dyn Disk| {
            LibraryWriter::open(&at.library, disk)?.publish(&at.staging, &name, &manifest, true).map(drop)
        };
        let failed = publish(&disk);
        for model in at.library.list().unwrap().models {
            model.manifest.layers.iter().for_each(|layer| drop(at.library.blob(layer).expect("a model is whole")));
        }
        publish(&RealDisk).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
        if failed.is_ok() {
            assert!(steps > 3, "the disk was never asked");
            return;
        }
    }
}
