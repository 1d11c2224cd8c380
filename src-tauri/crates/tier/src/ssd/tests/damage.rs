//! Damage tests: all damage is detected and is a miss, never another chunk.

use super::*;

/// A folder with two chunks, one of which gets damaged.
struct DamageEnv {
    dir: TestFolder,
    chunk: Chunk,
    other: Chunk,
    file: Vec<u8>,
}

impl DamageEnv {
    fn new(keys: FileKeys) -> (Self, SsdTier) {
        let dir = TestFolder::new();
        let mut sequence = Sequence::new("me", 1, 11);
        let (chunk, other) = (sequence.chunk(256), sequence.chunk(256));
        let ssd = SsdTier::open(Arc::new(RealDisk), &dir.root(), keys, SsdOptions::default(), || [5; NONCE_BYTES]);
        let ssd = ssd.expect("the folder is writable");
        ssd.save(&chunk).expect("the chunk is stored");
        ssd.save(&other).expect("the chunk is stored");
        let file = std::fs::read(dir.file(&chunk)).expect("it exists");
        (Self { dir, chunk, other, file }, ssd)
    }

    /// Replaces the chunk's file by these bytes. A load must miss and quarantine the file.
    fn check(&self, ssd: &SsdTier, bytes: &[u8], what: &str) {
        let path = self.dir.file(&self.chunk);
        std::fs::write(&path, bytes).expect("the file is writable");
        let loaded = ssd.load(&wanted(&self.chunk));
        assert!(matches!(loaded, Err(Miss::Damaged(_))), "{what} is detected as damage: {loaded:?}");
        assert!(!path.exists(), "{what}: the file is quarantined");
        assert!(ssd.quarantined_files().len() <= MAX_ASIDE, "{what}: few files are quarantined");
        assert!(matches!(ssd.load(&wanted(&self.chunk)), Err(Miss::Absent)), "{what}: the file is not read again");
    }
}

#[test]
fn damage_of_every_part_of_a_file_is_detected() {
    for keys in [keys(), keys().with_checksum(crate::format::Checksum::Keyed), keys().with_encryption([9; 32])] {
        let (table, ssd) = DamageEnv::new(keys);
        let file = &table.file;
        let blocks = file.len() / 4096;
        let places = [
            ("the magic", 0),
            ("the version", 4),
            ("the flags", 8),
            ("the fingerprint", 20),
            ("the hash", 50),
            ("the parent", 90),
            ("the position", 112),
            ("the count of tokens", 136),
            ("the class", 210),
            ("the installation id", 275),
            ("the digest of the installation id", 290),
            ("unused bytes of the header", 3000),
            ("the MAC", 4090),
            ("the table's first row", 4096 + 8),
            ("a checksum in the table", 4096 + 40 + 30),
            ("unused bytes of the table", 8190),
            ("a token", 8192 + 5),
            ("unused bytes after the tokens", 3 * 4096 - 1),
            ("the first row", 3 * 4096),
            ("the last row", (blocks - 2) * 4096),
            ("bytes between sections", (blocks - 1) * 4096 - 1),
            ("the trailer's zeros", (blocks - 1) * 4096 + 7),
            ("the trailer's magic", file.len() - 32),
            ("the trailer's length", file.len() - 24),
            ("the trailer's MAC", file.len() - 1),
        ];
        for (what, at) in places {
            for bit in [0, 7] {
                let mut bytes = file.clone();
                bytes[at] ^= 1 << bit;
                table.check(&ssd, &bytes, what);
            }
        }
        for len in [0, 1, 4095, 4096, 8192, file.len() / 2, file.len() - 4096, file.len() - 1] {
            table.check(&ssd, &file[..len], "a truncated file");
        }
        for block in 0..blocks {
            let mut bytes = file.clone();
            bytes[block * 4096..][..4096].fill(0);
            table.check(&ssd, &bytes, "a block of zeros");
        }
        table.check(&ssd, &[file.as_slice(), &[0; 4096]].concat(), "an extra block");
        table.check(&ssd, &std::fs::read(table.dir.file(&table.other)).expect("it exists"), "another chunk");
        assert_loads(&ssd, &table.other);
        ssd.save(&table.chunk).expect("the chunk is stored");
        assert_loads(&ssd, &table.chunk);
    }
}

#[test]
fn swapped_files_are_both_detected() {
    let (table, ssd) = DamageEnv::new(keys());
    let (one, other) = (table.dir.file(&table.chunk), table.dir.file(&table.other));
    let passing = table.dir.root().join("passing");
    for (from, to) in [(&one, &passing), (&other, &one), (&passing, &other)] {
        std::fs::rename(from, to).expect("it exists");
    }
    for chunk in [&table.chunk, &table.other] {
        assert!(matches!(ssd.load(&wanted(chunk)), Err(Miss::Damaged(_))), "no file is loaded as the other");
    }
}

/// Files of another model, namespace or lost key under this chunk's name are damage.
#[test]
fn file_of_another_chunk_or_key_is_detected() {
    let (table, ssd) = DamageEnv::new(keys());
    // Written with keys that are lost, such as another encryption key.
    let stranger = FileKeys::new(&crate::Namespace::new(b"another key", "disk"));
    let lost = stranger.with_installation(&crate::Namespace::new(b"secret", "disk"));
    let tokens = Arc::clone(&table.chunk.head.keys);
    let others = [
        ("another model", Sequence::new("me", 2, 1).chunk_of(Arc::clone(&tokens)), keys()),
        ("another namespace", Sequence::new("you", 1, 1).chunk_of(Arc::clone(&tokens)), keys()),
        ("lost keys of this installation", table.chunk.clone(), lost),
    ];
    for (what, chunk, keys) in others {
        let file =
            crate::format::encode(&chunk, Packing::Raw, &keys, [0; NONCE_BYTES]).expect("the chunk is valid").to_vec();
        table.check(&ssd, &file, what);
    }
}

#[test]
fn scan_skips_and_quarantines_damaged_files() {
    let (table, ssd) = DamageEnv::new(keys());
    let path = table.dir.file(&table.chunk);
    for bytes in [&table.file[..4096], b"nothing", &[]] {
        std::fs::write(&path, bytes).expect("the file is writable");
        assert_eq!(scanned(&ssd).len(), 1, "{} bytes are not a chunk", bytes.len());
        assert!(!path.exists(), "the file is quarantined");
    }
    std::fs::write(path.with_file_name("notes.txt"), "mine").expect("the file is writable");
    assert_eq!(scanned(&ssd).len(), 1, "other files are not counted");
    assert!(path.with_file_name("notes.txt").exists(), "other files stay");
}

#[cfg(unix)]
#[test]
fn pipe_in_place_of_chunk_blocks_no_call() {
    let (table, ssd) = DamageEnv::new(keys());
    let path = table.dir.file(&table.chunk);
    std::fs::remove_file(&path).expect("it exists");
    assert!(
        std::process::Command::new("mkfifo").arg(&path).status().expect("the process starts").success(),
        "the pipe is created"
    );
    let (reported, answers) = std::sync::mpsc::channel();
    let chunk = table.chunk.clone();
    // If a call blocks, only this thread does.
    std::thread::spawn(move || {
        let found = scanned(&ssd).len();
        let taken = ssd.used_bytes().is_ok();
        let missed = ssd.load(&wanted(&chunk)).is_err();
        let _ = reported.send((found, taken, missed, ssd));
    });
    let (found, taken, missed, ssd) =
        answers.recv_timeout(std::time::Duration::from_secs(20)).expect("no call waits for a writer");
    assert_eq!((found, taken, missed), (1, true, true), "the pipe is not a chunk");
    ssd.save(&table.chunk).expect("a chunk replaces the pipe");
    assert_loads(&ssd, &table.chunk);
}
