//! What the settings make of the tiers, over real folders.

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
        std::fs::create_dir(home.path("share")).expect("it is writable");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, variables: &[(&str, &str)]) -> Opened {
        let home = [("CAIRN_HOME", self.0.path().to_str().expect("it is text")), ("CAIRN_KV_RAM", "8M")];
        // However full the disk of the machine is that tests.
        let home = [home[0], home[1], ("CAIRN_KV_RESERVE", "1M")];
        let env = Env::of(home.into_iter().chain(variables.iter().copied()));
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).expect("there is a home"));
        let clock = Clock::standing(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let opened = open(&settings.tiers, &Machine::probe(), &clock).expect("tiers are wanted");
        assert!(opened.kept.tiers.wait_idle(Duration::from_secs(10)), "what is there is found");
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

/// Puts the prompt's chunks down, and lets go of the tiers.
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

/// How much of the prompt is found.
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
fn what_cannot_be_had_is_left_out_and_the_rest_works() {
    let home = Home::new();
    let text = |name: &str| home.path(name).to_str().expect("it is text").to_owned();
    std::fs::write(home.path("file"), b"no folder").expect("it is writable");
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
    assert_eq!(places(&gone)[2], (TierKind::Remote, Health::Unavailable), "a share that is not there");
    let trouble = gone.kept.tiers.status().tiers[2].last_error.clone();
    assert!(trouble.as_ref().is_some_and(|why| why.contains("missing")), "it says why: {trouble:?}");
}

#[test]
fn a_remote_place_outlives_all_that_is_local_and_is_nothing_without_its_key() {
    let home = Home::new();
    let share = home.path("share");
    let share = share.to_str().expect("it is text");
    let settings = [("OLLAMA_KV_TIER_LOCAL_GB", "0"), ("OLLAMA_KV_TIER_REMOTE", share)];
    store(home.open(&settings));
    assert_eq!(home.files("share").len(), 3, "it is in the share");
    let reads = |needle: &[u8]| {
        let files = home.files("share").into_iter().map(|path| std::fs::read(path).expect("it is readable"));
        files.filter(|bytes| bytes.windows(needle.len()).any(|part| part == needle)).count()
    };
    assert_eq!(reads(&ROW), 0, "nobody reads the rows there");
    std::fs::remove_dir_all(home.path("cache")).expect("it is there");
    let opened = home.open(&settings);
    assert_eq!((found(&opened), opened.key), (TOKENS, Some(KeyPlace::File)), "with nothing local, all is found");
    drop(opened);

    // Whoever loses the key loses what it sealed, and goes on with another.
    let key = home.path("kv-key");
    std::fs::rename(&key, home.path("elsewhere")).expect("it is there");
    assert_eq!(found(&home.open(&settings)), 0, "without the key there is nothing");
    std::fs::rename(home.path("elsewhere"), &key).expect("it is there");
    assert_eq!(found(&home.open(&settings)), TOKENS, "with it there is all");

    // What is not to be sealed is checked all the same, and lies beside the rest.
    let open = [settings[0], settings[1], ("CAIRN_KV_ENCRYPT", "off"), ("OLLAMA_KV_TIER_COMPRESS", "off")];
    let opened = home.open(&open);
    assert_eq!((found(&opened), opened.key), (0, None), "what is sealed is not read then");
    store(opened);
    assert_eq!((found(&home.open(&open)), reads(&ROW)), (TOKENS, 3), "the same chunks, for all to read");
}

#[test]
fn a_folder_is_for_its_user_alone_and_sealed_if_that_is_wanted() {
    let home = Home::new();
    store(home.open(&[]));
    let files = home.files("cache/kv");
    assert_eq!(files.len(), 3, "prefixes are kept on the disk unless that is switched off");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: PathBuf| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(home.path("cache/kv")), 0o700, "the folder");
        assert_eq!(mode(home.path("cache/kv-index.redb")), 0o600, "what is remembered");
        assert!(files.iter().all(|path| mode(path.clone()) == 0o600), "the files");
    }
    let rows = |path: &PathBuf| std::fs::read(path).expect("it is readable").windows(ROW.len()).any(|part| part == ROW);
    assert!(files.iter().all(rows), "this machine's disk is trusted unless it is said not to be");
    let sealed = [("CAIRN_KV_ENCRYPT", "on")];
    store(home.open(&sealed));
    assert!(!home.files("cache/kv").iter().any(rows), "now it is not");
    assert_eq!(found(&home.open(&sealed)), TOKENS, "and all is found");
}

#[test]
fn what_is_switched_off_is_not_there() {
    let home = Home::new();
    let off = home.open(&[("OLLAMA_KV_TIERING", "0"), ("OLLAMA_KV_TIER_REMOTE", "/nowhere")]);
    assert_eq!(places(&off), [(TierKind::Ram, Health::Up)], "RAM has a switch of its own");
    store(off);
    assert!(home.files("cache").is_empty() && home.files("share").is_empty(), "nothing is written");
}
