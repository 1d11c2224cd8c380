//! Files of [`RealDisk`] in temporary folders.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::{AlignedBuffer, BLOCK_BYTES, Disk, Mode, RealDisk, Step, total_bytes};

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("folder is readable").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn write_atomic_replaces_the_whole_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("settings");
    for bytes in [&b"a longer first text"[..], b"short", b""] {
        RealDisk.write_atomic(&path, bytes, Mode::Shared).expect("write succeeds");
        assert_eq!(RealDisk.read(&path).expect("read succeeds"), bytes, "file contents");
    }
    assert_eq!(names(folder.path()), ["settings"], "no temporary file remains");
}

#[test]
fn failed_write_atomic_keeps_the_old_state_and_names_the_step() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("taken");
    fs::create_dir(&path).expect("folder is created");
    let error = RealDisk.write_atomic(&path, b"x", Mode::Private).expect_err("a folder cannot be replaced");
    assert_eq!((error.step, &error.path), (Step::Rename, &path), "the rename failed");
    assert_eq!(names(folder.path()), ["taken"], "the temporary file is removed");

    let missing = folder.path().join("missing/file");
    let error = RealDisk.write_atomic(&missing, b"x", Mode::Private).expect_err("the folder is missing");
    assert_eq!(error.step, Step::CreateTemporary, "failed before any byte was written");
    assert_eq!(error.source.kind(), io::ErrorKind::NotFound, "the system's error is the source");
}

#[test]
fn readers_never_see_half_a_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("file");
    let texts = [vec![b'a'; 100_000], vec![b'b'; 50_000]];
    RealDisk.write_atomic(&path, &texts[0], Mode::Shared).expect("write succeeds");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for turn in 0..50 {
                RealDisk.write_atomic(&path, &texts[turn % 2], Mode::Shared).expect("write succeeds");
            }
        });
        while !writer.is_finished() {
            let read = RealDisk.read(&path).expect("the file always exists");
            assert!(texts.contains(&read), "{} bytes are neither of the two texts", read.len());
        }
    });
}

#[cfg(unix)]
#[test]
fn touch_sets_the_time_to_now() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("old");
    let file = File::create(&path).expect("file is created");
    file.set_modified(std::time::UNIX_EPOCH).expect("time is set");
    RealDisk.touch(&path).expect("touch succeeds");
    let fresh = File::create(folder.path().join("new")).expect("file is created");
    let time = |file: &File| file.metadata().and_then(|metadata| metadata.modified()).expect("files have times");
    let difference = time(&fresh).duration_since(time(&file)).unwrap_or_default();
    assert!(difference < std::time::Duration::from_secs(60), "as recent as a new file: {difference:?}");
    let error = RealDisk.touch(&folder.path().join("missing")).expect_err("the file is missing");
    assert_eq!(error.step, Step::Touch, "the error names the step");
}

#[cfg(unix)]
#[test]
fn files_and_folders_get_the_requested_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("temporary folder");
    let mode = |path: &Path| fs::metadata(path).expect("path exists").permissions().mode() & 0o777;
    for requested in [Mode::Private, Mode::Shared, Mode::Private] {
        let path = folder.path().join("file");
        RealDisk.write_atomic(&path, b"x", requested).expect("write succeeds");
        assert_eq!(mode(&path), requested.bits(), "{requested:?}");
    }
    let deep = folder.path().join("a/b");
    RealDisk.create_dir_all(&deep).expect("folder is created");
    RealDisk.create_dir_all(&deep).expect("an existing folder is no error");
    assert_eq!((mode(&deep), mode(&folder.path().join("a"))), (0o700, 0o700), "folders are for this user only");
}

#[test]
fn free_bytes_needs_an_existing_folder() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let free = RealDisk.free_bytes(folder.path()).expect("query succeeds");
    assert!(free > 0, "the disk is not full");
    assert!(total_bytes(folder.path()).expect("query succeeds") > free, "free space is less than the size");
    let error = RealDisk.free_bytes(&folder.path().join("missing")).expect_err("the folder is missing");
    assert_eq!(error.step, Step::QueryFreeSpace, "the error names the step");
}

#[test]
fn rename_replaces_an_existing_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, "new").expect("file is written");
    fs::write(&to, "old").expect("file is written");
    RealDisk.rename(&from, &to).expect("rename succeeds");
    assert!(!from.exists(), "the old name is gone");
    assert_eq!(RealDisk.read(&to).expect("read succeeds"), b"new", "the new name refers to the file");
    let error = RealDisk.rename(&from, &to).expect_err("the file is missing");
    assert_eq!((error.step, error.source.kind()), (Step::Rename, io::ErrorKind::NotFound), "{error}");
}

#[test]
fn link_adds_a_name_and_never_replaces_a_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let (source, second) = (folder.path().join("source"), folder.path().join("second"));
    fs::write(&source, "x").expect("file is written");
    RealDisk.link(&source, &second).expect("link succeeds");
    RealDisk.remove(&source).expect("remove succeeds");
    assert_eq!(fs::read(&second).expect("read succeeds"), b"x", "the contents stay while a name exists");
    fs::write(&source, "y").expect("file is written");
    let error = RealDisk.link(&source, &second).expect_err("the name is taken");
    assert_eq!((error.step, error.source.kind()), (Step::Link, io::ErrorKind::AlreadyExists), "{error}");
}

#[test]
fn temp_file_gets_final_name_when_persisted_and_is_removed_when_dropped() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut dropped = RealDisk.create_temp_file(folder.path(), Mode::Shared).expect("temporary file");
    dropped.write(b"half").expect("write succeeds");
    drop(dropped);
    assert!(names(folder.path()).is_empty(), "a dropped temporary file is removed");

    let mut temp = RealDisk.create_temp_file(folder.path(), Mode::Shared).expect("temporary file");
    temp.write(b"one ").expect("write succeeds");
    temp.write(b"two").expect("write succeeds");
    assert_eq!(fs::read(temp.path()).expect("read succeeds"), b"one two", "readable before it is persisted");
    temp.persist(&folder.path().join("whole")).expect("persist succeeds");
    assert_eq!(names(folder.path()), ["whole"], "only the final name exists");
    assert_eq!(fs::read(folder.path().join("whole")).expect("read succeeds"), b"one two", "file contents");
}

#[test]
fn only_stale_temp_files_are_removed() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let live = RealDisk.create_temp_file(folder.path(), Mode::Shared).expect("temporary file");
    for name in [".draft.1-2.tmp", "sha256-x", ".draft.kept"] {
        fs::write(folder.path().join(name), "x").expect("file is written");
    }
    assert_eq!(RealDisk.remove_stale_temp_files(folder.path()).expect("clean-up succeeds"), 1, "one is stale");
    let left = names(folder.path());
    assert!(live.path().exists() && left.len() == 3, "live and other files stay: {left:?}");
}

/// Not every test machine has a file system with reflinks. Both outcomes are checked.
#[test]
fn reflink_copies_everything_or_nothing() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let source = folder.path().join("source");
    fs::write(&source, vec![7; 100_000]).expect("file is written");
    let mut temp = RealDisk.create_temp_file(folder.path(), Mode::Shared).expect("temporary file");
    let outcome = temp.reflink(&File::open(&source).expect("file exists"));
    let expected = if outcome.is_ok() { 100_000 } else { 0 };
    let written = fs::read(temp.path()).expect("read succeeds");
    assert!(written.len() == expected && written.iter().all(|byte| *byte == 7), "{outcome:?}");
    if let Err(error) = outcome {
        assert_eq!(error.step, Step::Reflink, "the error names the step: {error}");
    }
}

#[test]
fn partial_file_keeps_bytes_at_their_offsets_when_reopened() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("partial");
    let partial = RealDisk.open_partial(&path, Mode::Shared).expect("file is created");
    partial.write_at(5, b"fgh").expect("write beyond the end");
    partial.write_at(0, b"ab").expect("write at the start");
    partial.sync().expect("sync succeeds");
    drop(partial);

    let partial = RealDisk.open_partial(&path, Mode::Shared).expect("file is reopened");
    let mut buffer = [9; 16];
    assert_eq!(partial.read_at(1, &mut buffer).expect("read succeeds"), 7, "the file ends before the buffer");
    assert_eq!(&buffer[..8], b"b\0\0\0fgh\x09", "gaps are zeros; bytes beyond the end are untouched");
    partial.truncate(3).expect("truncate succeeds");
    assert_eq!(partial.len_bytes().expect("length is known"), 3, "length after truncation");
    assert_eq!(partial.read_at(3, &mut buffer).expect("read succeeds"), 0, "end of file");
}

#[test]
fn direct_io_writes_and_reads_aligned_and_unaligned_bytes() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("blocks");
    let mut buffer = AlignedBuffer::new(3 * BLOCK_BYTES);
    assert_eq!(buffer.as_ptr().align_offset(BLOCK_BYTES), 0, "the buffer is aligned");
    buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
    let mut temp = RealDisk.create_temp_file(folder.path(), Mode::Private).expect("temporary file");
    temp.bypass_page_cache();
    temp.write(&buffer).expect("aligned write");
    temp.write(&buffer[5..10]).expect("unaligned write");
    temp.persist_unsynced(&path).expect("rename succeeds");

    let blocks = RealDisk.open_blocks(&path).expect("file exists");
    assert_eq!(blocks.len_bytes().expect("length is known"), 3 * BLOCK_BYTES as u64 + 5, "all bytes were written");
    assert!(blocks.allocated_bytes().expect("size is known") >= 3 * BLOCK_BYTES as u64, "bytes were not compressed");
    let mut read = AlignedBuffer::new(4 * BLOCK_BYTES);
    assert_eq!(blocks.read_at(0, &mut read).expect("aligned read"), 3 * BLOCK_BYTES + 5, "up to the end of the file");
    assert!(read[..3 * BLOCK_BYTES] == buffer[..] && read[3 * BLOCK_BYTES..][..5] == buffer[5..10], "same bytes");
    let mut few = [0; 9];
    assert_eq!(blocks.read_at(7, &mut few).expect("unaligned read"), 9, "any offset and length");
    assert_eq!(few, buffer[7..16], "same bytes");
    assert_eq!(blocks.read_at(1 << 30, &mut few).expect("read beyond the end"), 0, "end of file");
}

#[test]
fn missing_folders_are_those_that_do_not_exist() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("a/b/c");
    let expected = ["a/b/c", "a/b", "a"].map(|name| home.path().join(name));
    assert_eq!(crate::folder::missing(&path), expected, "deepest first");
    RealDisk.create_dir_all(&path).expect("the folder is writable");
    assert!(crate::folder::missing(&path).is_empty(), "all exist");
    RealDisk.create_dir_all(&path).expect("existing folders are no error");
    assert!(crate::folder::missing(Path::new("")).is_empty(), "the current folder exists");
}
