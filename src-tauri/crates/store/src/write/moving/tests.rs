//! Files that move into a library: when they go, when they stay, and that nothing is lost whatever the disk does.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use cairn_disk::RealDisk;
use cairn_testkit::FaultyDisk;

use super::*;
use crate::ModelRef;
use crate::write::tests::{Fixture, fixture};

impl Fixture {
    fn drafts(&self) -> usize {
        fs::read_dir(self.library.drafts()).unwrap().count()
    }
}

/// Moves a file as an import does.
fn moved(writer: &LibraryWriter<'_>, path: &Path, to: &str) -> Result<Way, WriteError> {
    let (brought, departing) = writer.bring_to_move(path, &mut |_| true)?;
    let name: ModelRef = to.parse().unwrap();
    let saved = writer.save(&name, b"{}", std::slice::from_ref(&brought.layer), false);
    saved.inspect_err(|_| writer.forget(&brought.layer))?;
    departing.leave(writer, &brought.layer)?;
    Ok(brought.way)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_file_goes_when_its_model_is_there() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    let path = fixture.file("file", b"weights");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let number = fs::metadata(&path).unwrap().ino();
    let (brought, departing) = writer.bring_to_move(&path, &mut |_| true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"weights", "until then it is where it was");
    assert_eq!(mode(&path), 0o400, "and nobody writes to it");
    writer.save(&"m".parse().unwrap(), b"{}", std::slice::from_ref(&brought.layer), false).unwrap();
    departing.leave(&writer, &brought.layer).unwrap();
    assert!(!path.exists(), "it has gone");
    let blob = fixture.library.blob(&brought.layer).unwrap();
    assert_eq!((brought.way, fs::metadata(&blob).unwrap().ino()), (Way::Moved, number), "nothing was copied");
    assert_eq!((mode(&blob), fs::read(&blob).unwrap()), (0o644, b"weights".to_vec()), "as a library has it");

    let again = fixture.file("again", b"weights");
    assert_eq!(moved(&writer, &again, "m").unwrap(), Way::Present, "what is here already");
    assert!(!again.exists(), "goes all the same");
    assert!(fixture.library.blob(&brought.layer).is_ok(), "and what is here stays");
}

#[test]
fn what_is_not_moved_is_as_it_was() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    let taken = fixture.file("taken", b"taken");
    moved(&writer, &taken, "m").unwrap();
    let check = |path: &Path, expected: &str| {
        let (bytes, before) = (fs::read(path).unwrap(), mode(path));
        let error = moved(&writer, path, "m").expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!((fs::read(path).unwrap(), mode(path)), (bytes, before), "{expected}: it is as it was");
        assert_eq!((fixture.library.list().unwrap().models.len(), fixture.drafts()), (1, 0), "{expected}");
        assert_eq!(fs::read_dir(fixture.library.blobs()).unwrap().count(), 2, "{expected}: nothing stays of it");
    };
    let path = fixture.file("file", b"other");
    check(&path, "another model named m");
    let link = fixture.folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    check(&link, "is a link to");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    check(&path, "write-protected");
    // Nobody, not even the superuser, makes files there.
    check(Path::new("/proc/version"), "--copy");
}

#[test]
fn a_file_that_is_written_to_stays() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    let long_ago = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        file
    };
    let path = fixture.file("file", b"first");
    drop(long_ago(&path));
    let outcome = writer.bring_to_move(&path, &mut |_| fs::write(&path, b"later").is_ok()).map(drop);
    assert!(matches!(outcome, Err(WriteError::SourceChanged(_))), "while it is read: {outcome:?}");
    // Somebody who had it open writes after it was read, whatever its rights are by then.
    let mut open = long_ago(&path);
    let (brought, departing) = writer.bring_to_move(&path, &mut |_| true).unwrap();
    std::io::Write::write_all(&mut open, b"LATER").unwrap();
    let error = departing.leave(&writer, &brought.layer).expect_err("it is noticed");
    assert!(matches!(error, WriteError::SourceChanged(_)), "{error}");
    assert_eq!((fs::read(&path).unwrap(), mode(&path) & 0o200), (b"LATER".to_vec(), 0o200), "and as it was");
    // Another file has taken its place.
    let path = fixture.file("other", b"old");
    let (brought, departing) = writer.bring_to_move(&path, &mut |_| true).unwrap();
    fs::rename(fixture.file("new", b"new"), &path).unwrap();
    departing.leave(&writer, &brought.layer).expect_err("it is not that one");
    assert_eq!(fs::read(&path).unwrap(), b"new", "what nobody asked to move stays");
}

#[test]
fn a_file_on_another_file_system_is_copied_first() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    // Every Linux has a file system in memory beside the one on disk.
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() || fs::metadata(memory).unwrap().dev() == fs::metadata(fixture.folder.path()).unwrap().dev() {
        eprintln!("skipped: there is no second file system here");
        return;
    }
    let folder = tempfile::tempdir_in(memory).unwrap();
    let path = folder.path().join("far");
    fs::write(&path, b"far away").unwrap();
    assert!(matches!(moved(&writer, &path, "m").unwrap(), Way::Copied { .. }), "by its bytes");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it has gone, and nothing was left there");
    let model = fixture.library.find(&"m".parse().unwrap()).unwrap().expect("it is here");
    assert_eq!(model.manifest.layers[0].digest, Digest::of(b"far away"), "whole");
    fs::write(&path, b"more").unwrap();
    let full = LibraryWriter::open(&fixture.library, &RealDisk).unwrap().keeping_free(u64::MAX);
    let error = moved(&full, &path, "n").expect_err("all of the disk is to stay free").to_string();
    assert!(error.contains("CAIRN_DISK_RESERVE") && path.exists(), "{error}");
}

/// The disk fails after each number of steps in turn: the contents are in the file or in a model, and mostly in both.
#[test]
fn a_disk_that_fails_anywhere_loses_nothing() {
    for steps in 0.. {
        let fixture = fixture();
        let path = fixture.file("file", b"all there is");
        let disk = FaultyDisk::after(steps);
        let outcome = LibraryWriter::open(&fixture.library, &disk).and_then(|writer| moved(&writer, &path, "m"));
        let model = fixture.library.find(&"m".parse().unwrap()).unwrap();
        let whole = model.is_some_and(|model| fixture.library.blob(&model.manifest.layers[0]).is_ok());
        assert!(path.exists() || whole, "after {steps} steps it is nowhere");
        assert_eq!(outcome.is_ok(), !path.exists(), "after {steps} steps it has gone, or an error says why not");
        if path.exists() {
            assert_ne!(mode(&path) & 0o200, 0, "after {steps} steps it can be written to as before");
        }
        if outcome.is_ok() && disk.left() > 0 {
            assert!(steps > 5, "a move takes more steps than {steps}");
            return;
        }
    }
}
