//! Moves of files into a library, also with disk faults.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use cairn_disk::RealDisk;
use cairn_testkit::FaultyDisk;

use super::*;
use crate::ModelRef;
use crate::write::tests::{Fixture, fixture};

impl Fixture {
    fn temp_files(&self) -> usize {
        fs::read_dir(self.library.temp_files()).unwrap().count()
    }
}

/// Moves a file as the app does.
fn move_file(writer: &LibraryWriter<'_>, path: &Path, to: &str) -> Result<ImportMethod, WriteError> {
    let (imported, pending) = writer.import_for_move(path, &mut |_| true)?;
    let name: ModelRef = to.parse().unwrap();
    let saved = writer.save(&name, b"{}", std::slice::from_ref(&imported.layer), false);
    saved.inspect_err(|_| writer.remove_unreferenced(&imported.layer))?;
    pending.finish(writer, &imported.layer)?;
    Ok(imported.method)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn move_import_removes_source_after_save() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    let path = fixture.file("file", b"weights");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let number = fs::metadata(&path).unwrap().ino();
    let (imported, pending) = writer.import_for_move(&path, &mut |_| true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"weights", "the file stays until `finish`");
    assert_eq!(mode(&path), 0o400, "the file is read-only");
    writer.save(&"m".parse().unwrap(), b"{}", std::slice::from_ref(&imported.layer), false).unwrap();
    pending.finish(&writer, &imported.layer).unwrap();
    assert!(!path.exists(), "the file is removed");
    let blob = fixture.library.blob(&imported.layer).unwrap();
    assert_eq!(
        (imported.method, fs::metadata(&blob).unwrap().ino()),
        (ImportMethod::Moved, number),
        "the blob is the same inode"
    );
    assert_eq!((mode(&blob), fs::read(&blob).unwrap()), (0o644, b"weights".to_vec()), "mode and contents of a blob");

    let again = fixture.file("again", b"weights");
    assert_eq!(move_file(&writer, &again, "m").unwrap(), ImportMethod::Present, "the blob exists");
    assert!(!again.exists(), "the file is removed all the same");
    assert!(fixture.library.blob(&imported.layer).is_ok(), "the blob stays");
}

#[test]
fn failed_move_leaves_the_file_unchanged() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    let taken = fixture.file("taken", b"taken");
    move_file(&writer, &taken, "m").unwrap();
    let check = |path: &Path, expected: &str| {
        let (bytes, before) = (fs::read(path).unwrap(), mode(path));
        let error = move_file(&writer, path, "m").expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!((fs::read(path).unwrap(), mode(path)), (bytes, before), "{expected}: the file is unchanged");
        assert_eq!((fixture.library.list().unwrap().models.len(), fixture.temp_files()), (1, 0), "{expected}");
        assert_eq!(fs::read_dir(fixture.library.blobs()).unwrap().count(), 2, "{expected}: no new blob remains");
    };
    let path = fixture.file("file", b"other");
    check(&path, "another model named m");
    let link = fixture.folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    check(&link, "is a link to");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    check(&path, "write-protected");
    // Not even root can create files there.
    check(Path::new("/proc/version"), "--copy");
}

#[test]
fn changed_file_is_not_removed() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    let long_ago = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        file
    };
    let path = fixture.file("file", b"first");
    drop(long_ago(&path));
    let outcome = writer.import_for_move(&path, &mut |_| fs::write(&path, b"later").is_ok()).map(drop);
    assert!(matches!(outcome, Err(WriteError::SourceChanged(_))), "changed while it was read: {outcome:?}");
    // A process with an open handle writes after the import, although the file is read-only.
    let mut open = long_ago(&path);
    let (imported, pending) = writer.import_for_move(&path, &mut |_| true).unwrap();
    std::io::Write::write_all(&mut open, b"LATER").unwrap();
    let error = pending.finish(&writer, &imported.layer).expect_err("the change is detected");
    assert!(matches!(error, WriteError::SourceChanged(_)), "{error}");
    assert_eq!(
        (fs::read(&path).unwrap(), mode(&path) & 0o200),
        (b"LATER".to_vec(), 0o200),
        "the file keeps the new contents and is writable"
    );
    // Another file replaces it.
    let path = fixture.file("other", b"old");
    let (imported, pending) = writer.import_for_move(&path, &mut |_| true).unwrap();
    fs::rename(fixture.file("new", b"new"), &path).unwrap();
    pending.finish(&writer, &imported.layer).expect_err("another file has the name");
    assert_eq!(fs::read(&path).unwrap(), b"new", "the other file stays");
}

#[test]
fn file_on_another_file_system_is_copied_and_removed() {
    let fixture = fixture();
    let writer = LibraryWriter::open(&fixture.library, &RealDisk).unwrap();
    // Linux has a second file system, in memory.
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() || fs::metadata(memory).unwrap().dev() == fs::metadata(fixture.folder.path()).unwrap().dev() {
        eprintln!("skipped: there is no second file system");
        return;
    }
    let folder = tempfile::tempdir_in(memory).unwrap();
    let path = folder.path().join("far");
    fs::write(&path, b"far away").unwrap();
    assert!(matches!(move_file(&writer, &path, "m").unwrap(), ImportMethod::Copied { .. }), "copied");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the folder is empty");
    let model = fixture.library.find(&"m".parse().unwrap()).unwrap().expect("the model exists");
    assert_eq!(model.manifest.layers[0].digest, Digest::of(b"far away"), "digest of the file");
    fs::write(&path, b"more").unwrap();
    let full = LibraryWriter::open(&fixture.library, &RealDisk).unwrap().with_reserve(u64::MAX);
    let error = move_file(&full, &path, "n").expect_err("the reserve is the whole disk").to_string();
    assert!(error.contains("CAIRN_DISK_RESERVE") && path.exists(), "{error}");
}

/// Fails the disk after each number of steps: the contents are in the file or in a model.
#[test]
fn failed_move_loses_no_contents() {
    for steps in 0.. {
        let fixture = fixture();
        let path = fixture.file("file", b"all there is");
        let disk = FaultyDisk::fail_after(steps);
        let outcome = LibraryWriter::open(&fixture.library, &disk).and_then(|writer| move_file(&writer, &path, "m"));
        let model = fixture.library.find(&"m".parse().unwrap()).unwrap();
        let has_blob = model.is_some_and(|model| fixture.library.blob(&model.manifest.layers[0]).is_ok());
        assert!(path.exists() || has_blob, "after {steps} steps the contents are lost");
        assert_eq!(outcome.is_ok(), !path.exists(), "after {steps} steps the file is removed or there is an error");
        if path.exists() {
            assert_ne!(mode(&path) & 0o200, 0, "after {steps} steps the file is writable as before");
        }
        if outcome.is_ok() && disk.steps_left() > 0 {
            assert!(steps > 5, "a move takes more steps than {steps}");
            return;
        }
    }
}
