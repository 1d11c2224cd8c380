//! Tests with chunk files of a newer version, as after a downgrade.

use super::*;

/// Gives a chunk's file a header that only a newer version can verify, and returns its bytes.
fn make_newer(dir: &TestFolder, chunk: &Chunk) -> Vec<u8> {
    let path = dir.file(chunk);
    let mut bytes = std::fs::read(&path).expect("the chunk is stored");
    bytes[4..8].copy_from_slice(&2_u32.to_le_bytes());
    bytes[4096 - 32..4096].fill(9);
    std::fs::write(&path, &bytes).expect("the file is writable");
    bytes
}

#[test]
fn chunk_files_of_a_newer_version_are_ignored_and_kept() {
    let dir = TestFolder::new();
    let mut sequence = Sequence::new("me", 1, 41);
    let chunks = [sequence.chunk(256), sequence.chunk(256)];
    let ssd = dir.open();
    chunks.iter().for_each(|chunk| drop(ssd.save(chunk).expect("the chunk is stored")));
    drop(ssd);
    let newer = make_newer(&dir, &chunks[1]);
    let ssd = dir.open();
    assert!(ssd.is_owner(), "no other process is running");
    assert_eq!(ssd.load(&wanted(&chunks[1])).err(), Some(Miss::Foreign), "the file is not read");
    assert_eq!(scanned(&ssd).len(), 1, "a scan reports only the other file");
    assert_loads(&ssd, &chunks[0]);
    assert_eq!(ssd.fsck(true).expect("the folder can be repaired").foreign, 1, "a repair leaves it");
    assert!(ssd.quarantined_files().is_empty(), "it is not quarantined");
    assert!(std::fs::read(dir.file(&chunks[1])).expect("the file exists") == newer, "the file is unchanged");
}

#[test]
fn damaged_version_in_a_header_is_damage() {
    let dir = TestFolder::new();
    let chunk = Sequence::new("me", 1, 42).chunk(256);
    let ssd = dir.open();
    ssd.save(&chunk).expect("the chunk is stored");
    let path = dir.file(&chunk);
    let mut bytes = std::fs::read(&path).expect("the chunk is stored");
    bytes[4] = 2;
    std::fs::write(&path, &bytes).expect("the file is writable");
    assert!(matches!(ssd.load(&wanted(&chunk)), Err(Miss::Damaged(_))), "the rest of the header is of this version");
}
