//! Tiers from settings, over real folders.

use std::time::SystemTime;

use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::tiers::{Health, StoreReason, StoreRequest};
use cairn_tier::{
    Chain, Chunk, ChunkHead, ChunkId, Fingerprint, Flags, Group, Groups, Key, NumericClass, Prefix, RowTypes,
    SectionKind, SectionShape, TierKind, WeightsDigest,
};

use super::*;
use crate::settings::System;
use crate::settings::{Env, Places, Settings};

/// Rows that are easy to find in a file.
const ROW: [u8; 8] = *b"rowsrows";
const TOKENS: usize = 3 * CHUNK_TOKENS;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a temporary folder"));
        std::fs::create_dir(home.path("share")).expect("the folder is writable");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, variables: &[(&str, &str)]) -> Opened {
        let home = [("CAIRN_HOME", self.0.path().to_str().expect("the path is Unicode")), ("CAIRN_KV_RAM", "8M")];
        // The tests must pass on a nearly full disk.
        let home = [home[0], home[1], ("CAIRN_KV_RESERVE", "1M")];
        let env = Env::of(home.into_iter().chain(variables.iter().copied()));
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("the home is set"));
        let clock = Clock::fixed(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let opened = open(&settings.tiers, &Machine::probe(), &clock).expect("the settings enable tiers");
        assert!(opened.kept.tiers.wait_idle(Duration::from_secs(10)), "the folder is scanned");
        opened
    }

    fn files(&self, name: &str) -> Vec<PathBuf> {
        let (mut folders, mut files) = (vec![self.path(name)], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "kvc"));
        files
    }
}

fn fingerprint() -> Fingerprint {
    Fingerprint::new(WeightsDigest([1; 32]), [("arch", b"llama".as_slice())])
}

fn prompt() -> Arc<[Key]> {
    (0..TOKENS as u32).map(Key::token).collect()
}

/// Stores the prompt's chunks and closes the tiers.
fn store(opened: Opened) {
    let mut chain = Chain::new(&opened.kept.namespace, &fingerprint());
    for (index, keys) in prompt().chunks(CHUNK_TOKENS).enumerate() {
        let parent = chain.last();
        let head = ChunkHead {
            id: ChunkId { fingerprint: fingerprint(), hash: chain.push(keys), group: Group::Full },
            parent,
            first_position: (index * CHUNK_TOKENS) as u64,
            keys: keys.into(),
            class: NumericClass::new("cpu/1").expect("a short name"),
            rows: RowTypes { keys: cairn_gguf::DType::F16, values: cairn_gguf::DType::F16 },
            flags: Flags::default(),
            created_unix_s: 1_800_000_000,
            sections: Arc::new([SectionShape { layer: 0, kind: SectionKind::Keys, bytes: 4096 }]),
        };
        let chunk = Chunk { head: Arc::new(head), payload: Arc::new(ROW.repeat(4096 / ROW.len())) };
        let offer = StoreRequest { chunk, reason: StoreReason::Idle, owner: None, recompute: Duration::from_secs(2) };
        opened.kept.tiers.store(offer).expect("there is room");
    }
    close(&opened.kept);
}

/// Number of the prompt's tokens that the tiers have.
fn found(opened: &Opened) -> usize {
    let prefix = Prefix {
        namespace: opened.kept.namespace.clone(),
        fingerprint: fingerprint(),
        keys: prompt(),
        class: None,
        allow_lossy: false,
        groups: Groups::FULL,
    };
    opened.kept.tiers.lookup(&prefix).tokens()
}

fn places(opened: &Opened) -> Vec<(TierKind, Health)> {
    opened.kept.tiers.status().tiers.iter().map(|status| (status.kind, status.health)).collect()
}

#[test]
fn tier_that_cannot_open_is_left_out() {
    let home = Home::new();
    let text = |name: &str| home.path(name).to_str().expect("the path is Unicode").to_owned();
    std::fs::write(home.path("file"), b"no folder").expect("the folder is writable");
    let check = |local: &str, remote: &str, expected: &[TierKind]| {
        let opened = home.open(&[("OLLAMA_KV_TIER_LOCAL", local), ("OLLAMA_KV_TIER_REMOTE", remote)]);
        let found: Vec<TierKind> = places(&opened).into_iter().map(|(place, _)| place).collect();
        assert_eq!(found, expected, "{local} and {remote}");
    };
    check(&text("kv"), &text("share"), &[TierKind::Ram, TierKind::Ssd, TierKind::Remote]);
    check(&text("file"), &text("share"), &[TierKind::Ram, TierKind::Remote]);
    check(&text("kv"), "az://no-account-is-given", &[TierKind::Ram, TierKind::Ssd]);
    check(&text("file"), "az://no-account-is-given", &[TierKind::Ram]);
    let gone = home.open(&[("OLLAMA_KV_TIER_REMOTE", &text("missing"))]);
    assert_eq!(places(&gone)[2], (TierKind::Remote, Health::Unavailable), "a missing share");
    let problem = gone.kept.tiers.status().tiers[2].last_error.clone();
    assert!(problem.as_ref().is_some_and(|why| why.contains("missing")), "the error names the share: {problem:?}");
}

#[test]
fn remote_tier_survives_local_loss_and_requires_its_key() {
    let home = Home::new();
    let share = home.path("share");
    let share = share.to_str().expect("the path is Unicode");
    let settings = [("OLLAMA_KV_TIER_LOCAL_GB", "0"), ("OLLAMA_KV_TIER_REMOTE", share)];
    store(home.open(&settings));
    assert_eq!(home.files("share").len(), 3, "the chunks are in the share");
    let reads = |needle: &[u8]| {
        let files = home.files("share").into_iter().map(|path| std::fs::read(path).expect("the file is readable"));
        files.filter(|bytes| bytes.windows(needle.len()).any(|part| part == needle)).count()
    };
    assert_eq!(reads(&ROW), 0, "the rows are encrypted");
    std::fs::remove_dir_all(home.path("cache")).expect("the file exists");
    let opened = home.open(&settings);
    assert_eq!(
        (found(&opened), opened.key),
        (TOKENS, Some(KeyLocation::File)),
        "all tokens are found without local files"
    );
    drop(opened);

    // Without its key, encrypted files cannot be read. A new key is created.
    let key = home.path("kv-key");
    std::fs::rename(&key, home.path("elsewhere")).expect("the file exists");
    assert_eq!(found(&home.open(&settings)), 0, "no tokens are found without the key");
    std::fs::rename(home.path("elsewhere"), &key).expect("the file exists");
    assert_eq!(found(&home.open(&settings)), TOKENS, "all tokens are found with the key");

    // Unencrypted files have a checksum too, and are stored next to the encrypted ones.
    let open = [settings[0], settings[1], ("CAIRN_KV_ENCRYPT", "off"), ("OLLAMA_KV_TIER_COMPRESS", "off")];
    let opened = home.open(&open);
    assert_eq!((found(&opened), opened.key), (0, None), "encrypted files are not read");
    store(opened);
    assert_eq!((found(&home.open(&open)), reads(&ROW)), (TOKENS, 3), "the same chunks are stored unencrypted");
}

#[test]
fn folder_is_private_and_encrypted_on_request() {
    let home = Home::new();
    store(home.open(&[]));
    let files = home.files("cache/kv");
    assert_eq!(files.len(), 3, "the SSD tier is on by default");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: PathBuf| path.metadata().expect("the file exists").permissions().mode() & 0o777;
        assert_eq!(mode(home.path("cache/kv")), 0o700, "the folder");
        assert_eq!(mode(home.path("cache/kv-index.redb")), 0o600, "the index");
        assert!(files.iter().all(|path| mode(path.clone()) == 0o600), "the files");
    }
    let rows =
        |path: &PathBuf| std::fs::read(path).expect("the file is readable").windows(ROW.len()).any(|part| part == ROW);
    assert!(files.iter().all(rows), "the folder is not encrypted by default");
    let sealed = [("CAIRN_KV_ENCRYPT", "on")];
    store(home.open(&sealed));
    assert!(!home.files("cache/kv").iter().any(rows), "the rows are encrypted");
    assert_eq!(found(&home.open(&sealed)), TOKENS, "all tokens are found");
}

#[test]
fn disabled_tiers_are_absent_and_write_nothing() {
    let home = Home::new();
    let off = home.open(&[("OLLAMA_KV_TIERING", "0"), ("OLLAMA_KV_TIER_REMOTE", "/nowhere")]);
    assert_eq!(places(&off), [(TierKind::Ram, Health::Up)], "RAM has its own setting");
    store(off);
    assert!(home.files("cache").is_empty() && home.files("share").is_empty(), "no file is written");
}
