//! Damage: 100 % of it is found, and found damage is a miss, never another chunk.

use super::*;

/// Two folders of the same installation, of one chunk each, to be mixed up.
struct Table {
    home: Home,
    chunk: Chunk,
    other: Chunk,
    file: Vec<u8>,
}

impl Table {
    fn new(keys: FileKeys) -> (Self, Ssd) {
        let home = Home::new();
        let mut sequence = Sequence::new("me", 1, 11);
        let (chunk, other) = (sequence.chunk(256), sequence.chunk(256));
        let ssd = Ssd::open(Arc::new(RealDisk), &home.root(), keys, SsdOptions::default(), || [5; NONCE_BYTES]);
        let ssd = ssd.expect("the folder is writable");
        ssd.save(&chunk).expect("there is room");
        ssd.save(&other).expect("there is room");
        let file = std::fs::read(home.file(&chunk)).expect("it is there");
        (Self { home, chunk, other, file }, ssd)
    }

    /// Puts these bytes in the chunk's place. They must be a miss, and be gone from there.
    fn check(&self, ssd: &Ssd, bytes: &[u8], what: &str) {
        let path = self.home.file(&self.chunk);
        std::fs::write(&path, bytes).expect("it can be written");
        let loaded = ssd.load(&wanted(&self.chunk));
        assert!(matches!(loaded, Err(Miss::Damaged(_))), "{what} is damage: {loaded:?}");
        assert!(!path.exists(), "{what}: it is put aside");
        assert!(ssd.aside().len() <= MAX_ASIDE, "{what}: few such files are kept");
        assert!(matches!(ssd.load(&wanted(&self.chunk)), Err(Miss::Absent)), "{what}: it is not read again");
    }
}

#[test]
fn every_class_of_damage_is_found() {
    for keys in [keys(), keys().checked(crate::format::Check::Keyed), keys().sealed([9; 32])] {
        let (table, ssd) = Table::new(keys);
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
            ("whose it is", 275),
            ("the digest of whose it is", 290),
            ("unused bytes of the header", 3000),
            ("the MAC", 4090),
            ("the table's first row", 4096 + 8),
            ("a check in the table", 4096 + 40 + 30),
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
            table.check(&ssd, &file[..len], "a cut");
        }
        for block in 0..blocks {
            let mut bytes = file.clone();
            bytes[block * 4096..][..4096].fill(0);
            table.check(&ssd, &bytes, "a block that never came");
        }
        table.check(&ssd, &[file.as_slice(), &[0; 4096]].concat(), "a block too many");
        table.check(&ssd, &std::fs::read(table.home.file(&table.other)).expect("it is there"), "another chunk");
        comes_back(&ssd, &table.other);
        ssd.save(&table.chunk).expect("there is room");
        comes_back(&ssd, &table.chunk);
    }
}

#[test]
fn two_files_that_change_places_are_both_found() {
    let (table, ssd) = Table::new(keys());
    let (one, other) = (table.home.file(&table.chunk), table.home.file(&table.other));
    let passing = table.home.root().join("passing");
    for (from, to) in [(&one, &passing), (&other, &one), (&passing, &other)] {
        std::fs::rename(from, to).expect("it is there");
    }
    for chunk in [&table.chunk, &table.other] {
        assert!(matches!(ssd.load(&wanted(chunk)), Err(Miss::Damaged(_))), "neither is taken for the other");
    }
}

/// The same tokens of another model, of another namespace, or under other keys of ours have other names or seals. Under ours they are
/// nothing.
#[test]
fn chunks_of_others_are_refused() {
    let (table, ssd) = Table::new(keys());
    // What was made with keys that are lost, such as that of a seal.
    let stranger = FileKeys::new(&crate::Namespace::new(b"another key", "disk"));
    let lost = stranger.of_home(&crate::Namespace::new(b"secret", "disk"));
    let tokens = Arc::clone(&table.chunk.head.keys);
    let others = [
        ("another model", Sequence::new("me", 2, 1).chunk_of(Arc::clone(&tokens)), keys()),
        ("another namespace", Sequence::new("you", 1, 1).chunk_of(Arc::clone(&tokens)), keys()),
        ("keys of ours that are lost", table.chunk.clone(), lost),
    ];
    for (what, chunk, keys) in others {
        let file = crate::format::encode(&chunk, Packing::Raw, &keys, [0; NONCE_BYTES]).expect("it fits").to_vec();
        table.check(&ssd, &file, what);
    }
}

#[test]
fn a_scan_leaves_out_what_is_damaged() {
    let (table, ssd) = Table::new(keys());
    let path = table.home.file(&table.chunk);
    for bytes in [&table.file[..4096], b"nothing", &[]] {
        std::fs::write(&path, bytes).expect("it can be written");
        assert_eq!(scanned(&ssd).len(), 1, "{} bytes are no chunk", bytes.len());
        assert!(!path.exists(), "they are put aside");
    }
    std::fs::write(path.with_file_name("notes.txt"), "mine").expect("it can be written");
    assert_eq!(scanned(&ssd).len(), 1, "other files do not count");
    assert!(path.with_file_name("notes.txt").exists(), "and stay");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_a_chunks_place_keeps_nobody_waiting() {
    let (table, ssd) = Table::new(keys());
    let path = table.home.file(&table.chunk);
    std::fs::remove_file(&path).expect("it is there");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("it starts").success(), "a pipe is made");
    let (told, answers) = std::sync::mpsc::channel();
    let chunk = table.chunk.clone();
    // Where one of these waits, only its thread does.
    std::thread::spawn(move || {
        let found = scanned(&ssd).len();
        let taken = ssd.taken_bytes().is_ok();
        let missed = ssd.load(&wanted(&chunk)).is_err();
        let _ = told.send((found, taken, missed, ssd));
    });
    let (found, taken, missed, ssd) =
        answers.recv_timeout(std::time::Duration::from_secs(20)).expect("nobody waits for a writer");
    assert_eq!((found, taken, missed), (1, true, true), "it is no chunk");
    ssd.save(&table.chunk).expect("a chunk takes its place");
    comes_back(&ssd, &table.chunk);
}
