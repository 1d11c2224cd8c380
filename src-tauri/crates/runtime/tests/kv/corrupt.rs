//! Corruption: every change to the files of a folder is detected, and the answers are right.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cairn_testkit::Random;
use cairn_testkit::hash_backend::History;
use cairn_tier::TierKind;
use tempfile::TempDir;

use crate::scale;
use crate::workload::{Tally, ask};
use crate::world::{MODELS, Settings, TENANTS, TIMEOUT, World};

/// Damage that is done to every file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// None: the chunks are restored.
    None,
    /// A bit is flipped at this offset from the front or the back.
    Front(usize),
    Back(usize),
    /// The file is truncated to this many eighths of its length.
    Cut(usize),
    /// The last byte is removed.
    LastByte,
    /// One block of 4 KiB is zeros.
    Zeros(usize),
    /// Each file has the name of the next one of the same model, which is another chunk's or another tenant's.
    NextName,
    /// Each file has the name of one of the other model.
    OtherModel,
}

/// The classes of bytes of a file: header, table of sections, tokens, rows, trailer.
const TABLE: &[(&str, Damage)] = &[
    ("nothing", Damage::None),
    ("the magic", Damage::Front(0)),
    ("the version", Damage::Front(4)),
    ("the flags", Damage::Front(8)),
    ("the fingerprint", Damage::Front(20)),
    ("the hash", Damage::Front(50)),
    ("the parent", Damage::Front(90)),
    ("the position", Damage::Front(112)),
    ("the count of tokens", Damage::Front(136)),
    ("the class", Damage::Front(210)),
    ("unused bytes of the header", Damage::Front(3000)),
    ("the header's MAC", Damage::Front(4090)),
    ("the table's first row", Damage::Front(4104)),
    ("a check in the table", Damage::Front(4166)),
    ("a token", Damage::Front(8197)),
    ("the first row", Damage::Front(3 * 4096)),
    ("the last row", Damage::Back(2 * 4096)),
    ("the trailer's magic", Damage::Back(32)),
    ("the trailer's length", Damage::Back(24)),
    ("the trailer's MAC", Damage::Back(1)),
    ("the whole file", Damage::Cut(0)),
    ("most of the file", Damage::Cut(1)),
    ("half of the file", Damage::Cut(4)),
    ("the last byte", Damage::LastByte),
    ("the header's block", Damage::Zeros(0)),
    ("a block of rows", Damage::Zeros(3)),
    ("names within a model", Damage::NextName),
    ("names across models", Damage::OtherModel),
];

/// Conversations with the same tokens for all tenants and models.
fn histories(world: &World, seed: u64, tenant: usize, model: usize) -> Vec<History> {
    let mut dice = Random::from_name(seed, "corrupt");
    let history = |_| {
        let mut history = History::new(world.shape(tenant, model));
        (0..700).for_each(|_| history.push(dice.below(300) as u32));
        history
    };
    (0..2).map(history).collect()
}

/// Sends each conversation until it was answered once without cancellation.
async fn ask_all(world: &World, life: &crate::world::Instance, seed: u64) -> Tally {
    let mut tally = Tally::default();
    for tenant in 0..TENANTS {
        for model in 0..MODELS {
            for mut history in histories(world, seed, tenant, model) {
                let before = tally.answers;
                for chance in 0.. {
                    let mut dice = Random::from_name(chance, "stays");
                    ask(life, tenant, model, &mut history, &mut dice, &mut tally).await;
                    if tally.answers > before || chance == 9 {
                        break;
                    }
                }
            }
        }
    }
    tally
}

fn damage(files: &[PathBuf], damage: Damage, bit: u8) {
    let rename = |order: Vec<(PathBuf, PathBuf)>| {
        for (from, _) in &order {
            std::fs::rename(from, from.with_extension("passing")).expect("the folder is writable");
        }
        for (from, to) in &order {
            std::fs::rename(from.with_extension("passing"), to).expect("the folder is writable");
        }
    };
    let models = files.chunk_by(|a, b| model_folder(a) == model_folder(b));
    match damage {
        Damage::None => {}
        Damage::NextName => {
            for files in models {
                rename(files.iter().cloned().zip(files.iter().cycle().skip(1).cloned()).collect());
            }
        }
        Damage::OtherModel => {
            // One model may have more files than the other. No file keeps its name.
            let first = models.map(<[PathBuf]>::len).next().expect("there are two models");
            rename(files.iter().cloned().zip(files.iter().cycle().skip(first).cloned()).collect());
        }
        _ => files.iter().for_each(|path| change(path, damage, bit)),
    }
}

/// The folder of a file's model.
fn model_folder(file: &Path) -> Option<&Path> {
    file.parent()?.parent()
}

fn change(path: &Path, damage: Damage, bit: u8) {
    let mut bytes = std::fs::read(path).expect("the file exists");
    let len = bytes.len();
    match damage {
        Damage::Front(at) => bytes[at] ^= 1 << bit,
        Damage::Back(at) => bytes[len - at] ^= 1 << bit,
        Damage::Cut(eighths) => bytes.truncate(len / 8 * eighths),
        Damage::LastByte => bytes.truncate(len - 1),
        Damage::Zeros(block) => bytes[block * 4096..][..4096].fill(0),
        Damage::None | Damage::NextName | Damage::OtherModel => {}
    }
    std::fs::write(path, bytes).expect("the file is writable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn corrupt_files_are_detected() {
    let seeds = scale::runs(1);
    // A sequence that waited for pages would find its own rows, which are not damaged. So there are enough pages.
    let settings = Settings {
        pages_bytes: 8 << 20,
        ram_bytes: 0,
        ssd_bytes: 64 << 20,
        row_time: Duration::ZERO,
        index: false,
        ..Settings::default()
    };
    for seed in seeds.clone() {
        for &(what, kind) in TABLE {
            let home = TempDir::new().expect("a temporary folder");
            let world = World::new(home.path());
            let life = world.start(settings);
            let first = ask_all(&world, &life, seed).await;
            assert_eq!((first.wrong, first.failed.len()), (0, 0), "{what}: {first:#?}");
            life.end(TIMEOUT).await;
            let files = cairn_testkit::chunk_files(&world.chunk_folder());
            assert!(files.len() >= TENANTS * MODELS * 6, "{what}: {} files are too few", files.len());
            damage(&files, kind, (seed % 8) as u8);

            let life = world.start(settings);
            assert!(life.tiers.wait_idle(TIMEOUT), "{what}: the folder is soon read");
            let again = ask_all(&world, &life, seed).await;
            assert_eq!((again.wrong, again.failed.len()), (0, 0), "{what}: {again:#?}");
            let from_ssd = life.place(TierKind::Ssd).counters.hit_tokens;
            match kind {
                Damage::None => assert_eq!(again.from_ssd, again.answers, "undamaged files are used: {again:?}"),
                // No chunk is restored.
                _ => {
                    assert_eq!(from_ssd, 0, "{what}, {} files: tokens came from damaged ones: {again:#?}", files.len())
                }
            }
            life.end(Duration::ZERO).await;
        }
    }
    println!("{} kinds of damage to every file, {} times: all detected", TABLE.len() - 1, seeds.count());
}
