//! Tests with files that other programs changed.

use super::*;
use crate::format::tests::class;

/// Changes a chunk's file and expects every reader to miss it, and a later save to repair it.
fn check(change: impl Fn(&TestFolder, &Chunk), why: &str) {
    for (backend, known) in BACKENDS.into_iter().flat_map(|backend| [(backend, false), (backend, true)]) {
        let why = format!("{why}, through {backend:?}, {} before", if known { "read" } else { "not read" });
        let dir = TestFolder::new();
        let all = chunks(3);
        let writer = dir.open(backend);
        for chunk in &all {
            writer.save(chunk).expect("the chunks are written");
        }
        let reader = dir.open(backend);
        if known {
            assert_eq!(scanned(&reader).len(), 3, "{why}: all chunks are valid at first");
        }
        change(&dir, &all[1]);
        let miss = reader.load(&wanted(&all[1])).err();
        assert!(matches!(miss, Some(Miss::Damaged(_) | Miss::Foreign)), "{why}: {miss:?}");
        assert_loads(&reader, &all[0], "other chunks are unaffected");
        let reader = dir.open(backend);
        scanned(&reader);
        let miss = reader.load(&wanted(&all[1])).err();
        assert!(matches!(miss, Some(Miss::Damaged(_) | Miss::Foreign)), "{why}, after a scan: {miss:?}");
        assert!(reader.is_up(), "{why}: the tier is still used");
        reader.save(&all[1]).expect("the file is replaced");
        assert_loads(&reader, &all[1], "the replaced file loads");
    }
}

fn edit(dir: &TestFolder, chunk: &Chunk, change: impl FnOnce(&mut Vec<u8>)) {
    let path = dir.file(chunk);
    let mut file = std::fs::read(&path).expect("the file was written");
    change(&mut file);
    std::fs::write(&path, file).expect("the file is changed");
}

#[test]
fn changed_file_is_a_miss_and_is_repaired_by_save() {
    check(|dir, chunk| edit(dir, chunk, |file| file[100] ^= 1), "a bit of the header");
    check(|dir, chunk| edit(dir, chunk, |file| file[4096 + 33] ^= 1), "a bit of the table");
    check(|dir, chunk| edit(dir, chunk, |file| file.truncate(20_000)), "the end is missing");
    check(|dir, chunk| edit(dir, chunk, |file| file.truncate(3)), "almost nothing");
    check(|dir, chunk| edit(dir, chunk, Vec::clear), "nothing");
    check(|dir, chunk| edit(dir, chunk, |file| file.fill(0)), "zeros");
    check(|dir, chunk| drop(std::fs::copy(dir.file(&chunks(3)[0]), dir.file(chunk))), "another chunk's file");
    let foreign = |dir: &TestFolder, chunk: &Chunk| {
        std::fs::remove_file(dir.file(chunk)).expect("the file was written");
        let keys = RemoteTier::keys(&Namespace::new(b"another secret", "place"));
        dir.open_over(dir.files(Backend::Folder), keys).save(chunk).expect("another installation writes it");
    };
    check(foreign, "a file of another installation");
    let huge = |dir: &TestFolder, chunk: &Chunk| {
        let file = std::fs::File::create(dir.file(chunk)).expect("the file is created");
        file.set_len(1 << 40).expect("a sparse file");
    };
    check(huge, "a sparse terabyte");
}

#[test]
fn changed_bit_of_rows_is_detected() {
    for backend in BACKENDS {
        let dir = TestFolder::new();
        let remote = dir.open(backend);
        let chunk = &chunks(3)[0];
        remote.save(chunk).expect("the chunks are written");
        edit(&dir, chunk, |file| file[20_000] ^= 1);
        assert!(matches!(remote.load(&wanted(chunk)), Err(Miss::Damaged(_))), "{backend:?}: authentication fails");
        assert!(!remote.may_contain(&chunk.head.id), "{backend:?}: the chunk is not requested again");
    }
}

#[test]
fn file_reveals_neither_tokens_nor_rows_without_secret() {
    let dir = TestFolder::new();
    let chunk = &chunks(3)[0];
    dir.open(Backend::Folder).save(chunk).expect("the chunks are written");
    let file = std::fs::read(dir.file(chunk)).expect("the file was written");
    let token = chunk.head.keys[5].as_token().expect("tokens").to_le_bytes();
    let next = chunk.head.keys[6].as_token().expect("tokens").to_le_bytes();
    let said = [token, next].concat();
    assert!(!file.windows(8).any(|part| part == said), "two consecutive tokens do not occur in the file");
    assert!(!file.windows(64).any(|part| part == &chunk.payload[..64]), "rows do not occur in the file");
    let stranger = dir.open_over(dir.files(Backend::Folder), RemoteTier::keys(&Namespace::new(b"guess", "place")));
    assert_eq!(scanned(&stranger), [], "a scan with another secret finds nothing");
    assert!(stranger.load(&wanted(chunk)).is_err(), "a load with another secret fails");
}

#[test]
fn rows_of_newer_numeric_class_replace_older() {
    for backend in BACKENDS {
        let dir = TestFolder::new();
        let (old, new) = (dir.open(backend), dir.open(backend));
        let chunk = chunks(3).remove(0);
        let head = crate::ChunkHead {
            class: crate::NumericClass::new("gpu/1").expect("the name is short"),
            ..(*chunk.head).clone()
        };
        let other = Chunk { head: Arc::new(head), ..chunk.clone() };
        old.save(&other).expect("the chunks are written");
        new.save(&chunk).expect("the chunks are written");
        assert_eq!(chunk.head.class, class(), "the newer class");
        assert_loads(&new, &chunk, "the newer class");
    }
}

#[cfg(unix)]
#[test]
fn pipe_and_symlink_are_not_files() {
    let dir = TestFolder::new();
    let remote = dir.open(Backend::Folder);
    let all = chunks(3);
    remote.save(&all[0]).expect("the chunks are written");
    std::os::unix::fs::symlink("/dev/zero", dir.file(&all[0]).with_file_name("x")).expect("a link");
    std::fs::create_dir_all(dir.file(&all[1]).parent().expect("a folder")).expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", dir.file(&all[1])).expect("a link");
    assert_eq!(remote.load(&wanted(&all[1])).err(), Some(Miss::Absent), "the link is not read");
    assert_eq!(scanned(&remote).len(), 1, "the link is not listed");
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&dir.file(&all[0])), 0o600, "files are private");
    assert_eq!(mode(dir.file(&all[0]).parent().expect("a folder")), 0o700, "folders are private");
}
