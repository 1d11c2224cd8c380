//! Measures direct I/O of 16 MiB chunks to and from a folder, for each packing and checksum, and the time to scan a
//! folder of 10,000 chunks: `cargo run --release -p cairn-tier --example ssd_speed FOLDER`. The folder is created, and
//! removed at the end.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cairn_disk::RealDisk;
use cairn_gguf::DType;
use cairn_testkit::random::Random;
use cairn_tier::chunk::{Chunk, ChunkHead, ChunkId, Flags, Group, NumericClass, RowTypes, SectionKind, SectionShape};
use cairn_tier::{
    Chain, Checksum, ChunkRequest, FileKeys, Fingerprint, Key, Namespace, Packing, SsdOptions, SsdTier, Tier,
    WeightsDigest,
};

const CHUNKS: u32 = 32;
const MANY: u32 = 10_000;
const LAYERS: u16 = 16;
/// Elements of one layer's K or V: 256 tokens of 8 heads of 128.
const ELEMENTS: usize = 256 * 8 * 128;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder to measure in is the first argument");
    let folder = Path::new(&folder);
    assert!(!folder.exists(), "{} already exists", folder.display());
    let plain = || FileKeys::new(&Namespace::new(b"secret", "place"));
    let forms = [
        ("raw, one piece at a time", DType::F16, plain(), Packing::Raw, 1),
        ("raw, 8 pieces", DType::F16, plain(), Packing::Raw, 8),
        ("raw, keyed checksum", DType::F16, plain().with_checksum(Checksum::Keyed), Packing::Raw, 8),
        ("raw, encrypted", DType::F16, plain().with_encryption([1; 32]), Packing::Raw, 8),
        ("lossless F16", DType::F16, plain(), Packing::Lossless, 8),
        ("lossless BF16", DType::BF16, plain(), Packing::Lossless, 8),
        ("lossless Q8_0", DType::Q8_0, plain(), Packing::Lossless, 8),
        ("lossless Q4_0", DType::Q4_0, plain(), Packing::Lossless, 8),
        ("compact F16", DType::F16, plain(), Packing::Compact, 8),
    ];
    for (name, dtype, keys, packing, threads) in forms {
        let chunks = chunks(dtype, CHUNKS, LAYERS, ELEMENTS);
        let bytes: usize = chunks.iter().map(|chunk| chunk.payload.len()).sum();
        let speed = |start: Instant| bytes as f64 / 1e9 / start.elapsed().as_secs_f64();
        let options = SsdOptions { packing, threads, ..SsdOptions::default() };
        // A fixed nonce, since nothing here is secret.
        let ssd =
            SsdTier::open(Arc::new(RealDisk), folder, keys, options, || [1; 24]).expect("the folder can be created");
        let start = Instant::now();
        let room: u64 = chunks.iter().map(|chunk| ssd.save(chunk).expect("the chunk is saved").bytes).sum();
        let save = speed(start);
        let mut load = [0.0; 5];
        for load in &mut load {
            let start = Instant::now();
            chunks.iter().for_each(|chunk| drop(ssd.load(&wanted(&chunk.head)).expect("the chunk was saved")));
            *load = speed(start);
        }
        load.sort_by(f64::total_cmp);
        let ratio = bytes as f64 / room as f64;
        println!("{name:25} {ratio:.3} times smaller, save {save:.2} GB/s, load {:.2} GB/s (median of 5)", load[2]);
        drop(ssd);
        std::fs::remove_dir_all(folder).expect("the folder was created here");
    }
    scan(folder, plain());
}

fn scan(folder: &Path, keys: FileKeys) {
    let open = || SsdTier::open(Arc::new(RealDisk), folder, keys.clone(), SsdOptions::default(), || [1; 24]);
    let ssd = open().expect("the folder can be created");
    for chunk in chunks(DType::F16, MANY, 1, 1024) {
        ssd.save(&chunk).expect("the chunk is saved");
    }
    drop(ssd);
    let start = Instant::now();
    let ssd = open().expect("the folder exists");
    let mut count = 0;
    ssd.scan(&mut |_| count += 1).expect("the folder can be listed");
    println!("opened and scanned {count} chunks in {:.2} s", start.elapsed().as_secs_f64());
    std::fs::remove_dir_all(folder).expect("the folder was created here");
}

/// Chunks of one sequence, with normally distributed rows and a few large columns, as keys have.
fn chunks(dtype: DType, count: u32, layers: u16, elements: usize) -> Vec<Chunk> {
    let fingerprint = Fingerprint::new(WeightsDigest([1; 32]), []);
    let mut chain = Chain::new(&Namespace::new(b"secret", "me"), &fingerprint);
    let mut random = Random::new(1);
    let x: Vec<f32> = (0..elements).map(|at| random.normal() * if at % 64 == 3 { 8.0 } else { 1.0 }).collect();
    let mut rows = Vec::new();
    dtype.encode(&x, &mut rows).expect("the type has an encoder");
    let bytes = rows.len() as u32;
    let kinds = [SectionKind::Keys, SectionKind::Values];
    let sections: Arc<[SectionShape]> =
        (0..layers).flat_map(|layer| kinds.map(|kind| SectionShape { layer, kind, bytes })).collect();
    let payload: Arc<Vec<u8>> = rows.repeat(sections.len()).into();
    let chunk = |at: u32| {
        let keys: Arc<[Key]> = (0..256).map(|token| Key::token(token + at)).collect();
        let parent = chain.last();
        let head = ChunkHead {
            id: ChunkId { fingerprint, hash: chain.push(&keys), group: Group::Full },
            parent,
            first_position: u64::from(at) * 256,
            keys,
            class: NumericClass::new("cpu").expect("the name is short"),
            rows: RowTypes { keys: dtype, values: dtype },
            flags: Flags::default(),
            created_unix_s: 0,
            sections: Arc::clone(&sections),
        };
        Chunk { head: Arc::new(head), payload: Arc::clone(&payload) }
    };
    (0..count).map(chunk).collect()
}

fn wanted(head: &ChunkHead) -> ChunkRequest<'_> {
    ChunkRequest {
        id: head.id,
        parent: head.parent,
        first_position: head.first_position,
        keys: &head.keys,
        class: None,
        allow_lossy: true,
    }
}
