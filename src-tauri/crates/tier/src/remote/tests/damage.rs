//! What others put into a place.

use super::*;
use crate::format::tests::class;

/// Writes something under a chunk's name and expects every reader to miss it, and a later save to heal it.
fn check(change: impl Fn(&Home, &Chunk), why: &str) {
    for (door, known) in DOORS.into_iter().flat_map(|door| [(door, false), (door, true)]) {
        let why = format!("{why}, through {door:?}, {} before", if known { "read" } else { "not read" });
        let home = Home::new();
        let all = chunks(3);
        let writer = home.open(door);
        for chunk in &all {
            writer.save(chunk).expect("it is written");
        }
        let reader = home.open(door);
        if known {
            assert_eq!(scanned(&reader).len(), 3, "{why}: all is well at first");
        }
        change(&home, &all[1]);
        let miss = reader.load(&wanted(&all[1])).err();
        assert!(matches!(miss, Some(Miss::Damaged(_) | Miss::Foreign)), "{why}: {miss:?}");
        comes_back(&reader, &all[0], "others are as they were");
        let reader = home.open(door);
        scanned(&reader);
        let miss = reader.load(&wanted(&all[1])).err();
        assert!(matches!(miss, Some(Miss::Damaged(_) | Miss::Foreign)), "{why}, after a scan: {miss:?}");
        assert!(reader.is_up(), "{why}: the place itself works");
        reader.save(&all[1]).expect("it is written anew");
        comes_back(&reader, &all[1], "and then it is right");
    }
}

fn edit(home: &Home, chunk: &Chunk, change: impl FnOnce(&mut Vec<u8>)) {
    let path = home.file(chunk);
    let mut file = std::fs::read(&path).expect("it was written");
    change(&mut file);
    std::fs::write(&path, file).expect("it is changed");
}

#[test]
fn what_is_not_what_was_written_is_a_miss_and_is_healed() {
    check(|home, chunk| edit(home, chunk, |file| file[100] ^= 1), "a bit of the header");
    check(|home, chunk| edit(home, chunk, |file| file[4096 + 33] ^= 1), "a bit of the table");
    check(|home, chunk| edit(home, chunk, |file| file.truncate(20_000)), "the end is missing");
    check(|home, chunk| edit(home, chunk, |file| file.truncate(3)), "next to nothing");
    check(|home, chunk| edit(home, chunk, Vec::clear), "nothing");
    check(|home, chunk| edit(home, chunk, |file| file.fill(0)), "zeros");
    check(|home, chunk| drop(std::fs::copy(home.file(&chunks(3)[0]), home.file(chunk))), "another chunk's file");
    let foreign = |home: &Home, chunk: &Chunk| {
        std::fs::remove_file(home.file(chunk)).expect("it was written");
        let keys = Remote::keys(&Namespace::new(b"another secret", "place"));
        home.open_over(home.files(Door::Folder), keys).save(chunk).expect("a stranger writes it");
    };
    check(foreign, "a stranger's file");
    let huge = |home: &Home, chunk: &Chunk| {
        let file = std::fs::File::create(home.file(chunk)).expect("it is made anew");
        file.set_len(1 << 40).expect("a file of holes");
    };
    check(huge, "a terabyte of nothing");
}

#[test]
fn a_bit_of_the_rows_is_noticed() {
    for door in DOORS {
        let home = Home::new();
        let remote = home.open(door);
        let chunk = &chunks(3)[0];
        remote.save(chunk).expect("it is written");
        edit(&home, chunk, |file| file[20_000] ^= 1);
        assert!(matches!(remote.load(&wanted(chunk)), Err(Miss::Damaged(_))), "{door:?}: it does not open");
        assert!(!remote.may_hold(&chunk.head.id), "{door:?}: and is not asked for again");
    }
}

#[test]
fn nobody_without_the_secret_sees_what_was_said() {
    let home = Home::new();
    let chunk = &chunks(3)[0];
    home.open(Door::Folder).save(chunk).expect("it is written");
    let file = std::fs::read(home.file(chunk)).expect("it was written");
    let token = chunk.head.keys[5].as_token().expect("tokens").to_le_bytes();
    let next = chunk.head.keys[6].as_token().expect("tokens").to_le_bytes();
    let said = [token, next].concat();
    assert!(!file.windows(8).any(|part| part == said), "two tokens in a row are nowhere in it");
    assert!(!file.windows(64).any(|part| part == &chunk.payload[..64]), "nor are rows");
    let stranger = home.open_over(home.files(Door::Folder), Remote::keys(&Namespace::new(b"guess", "place")));
    assert_eq!(scanned(&stranger), [], "a stranger's scan finds nothing of use");
    assert!(stranger.load(&wanted(chunk)).is_err(), "nor does a load");
}

#[test]
fn rows_of_another_arithmetic_give_way() {
    for door in DOORS {
        let home = Home::new();
        let (old, new) = (home.open(door), home.open(door));
        let chunk = chunks(3).remove(0);
        let head =
            crate::ChunkHead { class: crate::NumericClass::new("gpu/1").expect("short"), ..(*chunk.head).clone() };
        let other = Chunk { head: Arc::new(head), ..chunk.clone() };
        old.save(&other).expect("it is written");
        new.save(&chunk).expect("it is written");
        assert_eq!(chunk.head.class, class(), "the newer one");
        comes_back(&new, &chunk, "the newer one");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_or_a_link_in_a_folder_is_no_file() {
    let home = Home::new();
    let remote = home.open(Door::Folder);
    let all = chunks(3);
    remote.save(&all[0]).expect("it is written");
    std::os::unix::fs::symlink("/dev/zero", home.file(&all[0]).with_file_name("x")).expect("a link");
    std::fs::create_dir_all(home.file(&all[1]).parent().expect("a folder")).expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", home.file(&all[1])).expect("a link");
    assert_eq!(remote.load(&wanted(&all[1])).err(), Some(Miss::Absent), "it is not read");
    assert_eq!(scanned(&remote).len(), 1, "nor listed");
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&home.file(&all[0])), 0o600, "files are nobody else's");
    assert_eq!(mode(home.file(&all[0]).parent().expect("a folder")), 0o700, "nor are folders");
}
