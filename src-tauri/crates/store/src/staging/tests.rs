//! Staged blobs: resuming, locking, listing and publishing.
#![expect(clippy::single_range_in_vec_init, reason = "a single range is intended")]

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
        let folders = [&self.staging.partials, &self.staging.ready];
        let mut names: Vec<String> = folders.into_iter().flat_map(|folder| names_in(folder)).collect();
        names.iter_mut().for_each(|name| *name = name.replace(&blob().hex(), "X"));
        names
    }

    /// Adds a ready blob and returns its layer.
    fn add_ready(&self, contents: &[u8]) -> crate::Layer {
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
    staged.commit(&ranges.iter().cloned().collect()).unwrap();
}

fn durable(staged: &StagedBlob) -> Vec<Range<u64>> {
    staged.durable().iter().cloned().collect()
}

#[test]
fn claim_resumes_an_interrupted_download() {
    let fixture = fixture();
    let mut staged = fixture.staging.claim(&blob(), 10).unwrap();
    assert!(staged.durable().is_empty(), "no bytes yet");
    write(&mut staged, &[0..3, 6..8]);
    write(&mut staged, &[3..4]);
    staged.file().write_at(8, b"89").unwrap();
    drop(staged);

    let mut staged = fixture.staging.claim(&blob(), 10).unwrap();
    assert_eq!(durable(&staged), [0..4, 6..8], "committed ranges only");
    assert_eq!(fixture.staging.durable_bytes(&blob()), 6, "readable without the lock");
    write(&mut staged, &[4..6, 8..10]);
    let path = staged.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"0123456789", "whole contents");
    assert_eq!(fixture.staging.ready(&blob(), 10), Some(path), "the blob is ready");
    assert_eq!(fixture.staging.ready(&blob(), 11), None, "a manifest with another size");
    assert_eq!(fixture.files(), ["sha256-X"], "journal and lock are removed");
}

#[test]
fn blob_has_one_claim_at_a_time() {
    let fixture = fixture();
    let staged = fixture.staging.claim(&blob(), 10).unwrap();
    assert!(
        matches!(fixture.staging.claim(&blob(), 10), Err(StagingError::InUse(digest)) if digest == blob()),
        "in use"
    );
    assert!(
        matches!(fixture.staging.discard(&blob()), Err(StagingError::InUse(_))),
        "a claimed blob cannot be discarded"
    );
    assert!(fixture.staging.list().unwrap()[0].in_use, "the list reports the lock");
    Staging::open(&fixture.library, Arc::new(RealDisk)).unwrap();
    assert!(matches!(fixture.staging.claim(&blob(), 10), Err(StagingError::InUse(_))), "`open` keeps live locks");
    drop(staged);
    fixture.staging.claim(&blob(), 10).expect("the lock was released");
}

#[test]
fn staged_blobs_are_listed_and_discarded() {
    let fixture = fixture();
    let mut staged = fixture.staging.claim(&blob(), 10).unwrap();
    write(&mut staged, &[2..5]);
    drop(staged);
    let layer = fixture.add_ready(b"whole");
    let mut list = fixture.staging.list().unwrap();
    list.sort_by_key(|staged| staged.ready);
    let summary = |staged: &StagedBlobInfo| (staged.digest, staged.size_bytes, staged.durable_bytes, staged.in_use);
    assert_eq!(summary(&list[0]), (blob(), Some(10), 3, false), "a partial blob");
    assert_eq!(summary(&list[1]), (layer.digest, Some(5), 5, false), "a ready blob");
    assert!(fixture.staging.discard(&blob()).unwrap() > 0, "disk space is freed");
    fixture.staging.discard(&layer.digest).unwrap();
    assert_eq!(fixture.files(), [""; 0], "no file remains");
}

#[test]
fn durable_ranges_are_limited_to_the_partial_file() {
    let fixture = fixture();
    let mut staged = fixture.staging.claim(&blob(), 10).unwrap();
    write(&mut staged, &[0..9]);
    staged.file().truncate(4).unwrap();
    drop(staged);
    assert_eq!(durable(&fixture.staging.claim(&blob(), 10).unwrap()), [0..4], "bytes that the file has");
    fs::remove_file(fixture.staging.partial_path(&blob())).unwrap();
    Staging::open(&fixture.library, Arc::new(RealDisk)).unwrap();
    assert_eq!(fixture.files(), [""; 0], "a journal without its partial file is removed");
    assert!(fixture.staging.claim(&blob(), 10).unwrap().durable().is_empty(), "no bytes");
}

#[test]
fn temporary_journals_of_killed_processes_are_removed() {
    let fixture = fixture();
    let half = format!(".{}.journal.123-4.tmp", blob().file_name());
    let write = || fs::write(fixture.staging.partials.join(&half), b"half").unwrap();
    write();
    let staged = fixture.staging.claim(&blob(), 10).unwrap();
    let open = || drop(Staging::open(&fixture.library, Arc::new(RealDisk)).unwrap());
    open();
    assert!(fixture.staging.partials.join(&half).exists(), "its writer may be alive");
    drop(staged);
    open();
    assert!(!fixture.staging.partials.join(&half).exists(), "no process has the lock");
}

#[test]
fn claim_with_a_smaller_size_drops_bytes_beyond_the_end() {
    let fixture = fixture();
    let mut staged = fixture.staging.claim(&blob(), 12).unwrap();
    write(&mut staged, &[0..12]);
    drop(staged);
    let staged = fixture.staging.claim(&blob(), 10).unwrap();
    assert_eq!(durable(&staged), [0..10], "ranges are clipped to the size");
    let path = staged.finish().unwrap();
    assert_eq!(fs::read(path).unwrap(), b"0123456789", "the file is truncated");
}

#[test]
fn publish_stores_the_manifest_unchanged() {
    let fixture = fixture();
    let name: ModelRef = "kept".parse().unwrap();
    let (config, first, second) =
        (fixture.add_ready(b"{}"), fixture.add_ready(b"first weights"), fixture.add_ready(b"second weights"));
    let config = crate::Layer { kind: LayerKind::config(), ..config };
    // The leading space must be preserved.
    let manifest =
        |layer: &crate::Layer| [b" ".as_slice(), &Manifest::to_json(&config, std::slice::from_ref(layer))].concat();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();

    let published = writer.publish(&fixture.staging, &name, &manifest(&first), true).unwrap();
    assert_eq!(published.model.manifest.digest, Digest::of(&manifest(&first)), "same bytes");
    assert!(published.removed.is_empty(), "no model was replaced");
    assert_eq!(fs::read(fixture.library.blob(&first).unwrap()).unwrap(), b"first weights", "contents of the blob");

    let published = writer.publish(&fixture.staging, &name, &manifest(&second), true).unwrap();
    assert_eq!(published.removed, [first.digest], "only the unreferenced blob is removed");
    fixture.library.blob(&first).expect_err("the blob is removed");
    fixture.library.blob(&config).expect("the config is shared");
    assert_eq!(fixture.files(), [""; 0], "no staged files remain");

    let missing = crate::Layer { digest: Digest::of(b"elsewhere"), ..second.clone() };
    let error = writer.publish(&fixture.staging, &name, &manifest(&missing), true).expect_err("a blob is missing");
    assert!(
        matches!(error, WriteError::Library(LibraryError::Blob { digest, .. }) if digest == missing.digest),
        "{error}"
    );
    assert_eq!(fixture.library.find(&name).unwrap().unwrap().manifest.layers, [second], "the model is unchanged");
}

/// Fails the disk after each number of steps: no model loses blobs, and the next attempt succeeds.
#[test]
fn failed_publish_can_be_repeated() {
    for steps in 0.. {
        let fixture = fixture();
        let name: ModelRef = "kept".parse().unwrap();
        let (config, layer) = (fixture.add_ready(b"{}"), fixture.add_ready(b"weights"));
        let manifest = Manifest::to_json(&config, &[layer]);
        let disk = FaultyDisk::fail_after(steps);
        let publish = |disk: &dyn Disk| {
            LibraryWriter::open(&fixture.library, disk)?.publish(&fixture.staging, &name, &manifest, true).map(drop)
        };
        let outcome = publish(&disk);
        for model in fixture.library.list().unwrap().models {
            model
                .manifest
                .layers
                .iter()
                .for_each(|layer| drop(fixture.library.blob(layer).expect("models have their blobs")));
        }
        publish(&RealDisk).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
        if outcome.is_ok() {
            assert!(steps > 3, "the fault was never injected");
            return;
        }
    }
}
