//! Checkpoints that are made to exhaust memory or time, or have false descriptions: each is refused with a short error and bounded
//! memory.
//!
//! `cargo test -p cairn-convert --test hostile -- --nocapture` prints all of them as a table.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use cairn_convert::{CheckpointFile, Conversion, FileType};
use cairn_gguf::DType;
use cairn_testkit::allocation::{CountingAllocator, peak_bytes};
use cairn_testkit::checkpoint::{CheckpointSpec, Storage, Vocabulary, checkpoint};
use cairn_testkit::{ModelSpec, tiny_llama};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The most memory of a plan. The largest vocabulary has 64 MiB, and a header 100 MB.
const MOST_BYTES: usize = 512 << 20;
/// The longest error.
const MOST_ERROR_BYTES: usize = 16 << 10;
/// The most time: a second in practice, on a machine that may be busy.
const MOST_TIME: Duration = Duration::from_secs(60);

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "more.safetensors";

/// Files that replace those of a valid checkpoint, and a part of the error.
struct Case {
    what: &'static str,
    files: Vec<(String, Vec<u8>)>,
    error: &'static str,
}

/// A safetensors file with this header, of which each tensor may be in the data.
fn safetensors(header: &[u8], data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header, &vec![0; data]].concat()
}

/// A header of many tensors without elements.
fn many_tensors(count: usize, prefix: &str) -> Vec<u8> {
    let mut header = b"{".to_vec();
    for number in 0..count {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(header, "{comma}\"{prefix}{number}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    }
    header.push(b'}');
    header
}

fn nested(open: &str, depth: usize) -> Vec<u8> {
    open.repeat(depth).into_bytes()
}

/// Passes one case after the other to `check`, because all of them together have a gigabyte.
fn each(mut check: impl FnMut(&Case)) {
    const MIB: usize = 1 << 20;
    let within = |start: &str, inside: Vec<u8>, end: &str| [start.as_bytes(), &inside, end.as_bytes()].concat();
    let list = |item: &str, bytes: usize| {
        let items = item.repeat(bytes / item.len());
        items.as_bytes()[..items.len() - 1].to_vec()
    };
    let mut one = |what, name: &str, contents, error| {
        check(&Case { what, files: vec![(name.to_owned(), contents)], error });
    };
    let piece = [&[0x0a, 0x02, 0x0a, 0x00][..]].concat();
    one("nested lists in the config", CONFIG, nested("[", MIB - 1), "config.json: recursion limit exceeded");
    one("nested objects in the config", CONFIG, nested("{\"a\":", 200_000), "config.json: recursion limit exceeded");
    one("a million numbers in the config", CONFIG, within("{\"a\":[", list("0,", MIB - 9), "]}"), "architectures");
    one("config without an end", CONFIG, b"{\"architectures\":[\"LlamaForCausalLM\"]".to_vec(), "EOF while parsing");
    one("config that is not JSON", CONFIG, vec![0xff; 1000], "config.json: expected value");
    one("nested lists in a vocabulary", TOKENIZER, within("{\"x\":", nested("[", 60 * MIB), ""), "tokenizer.json: EOF");
    one(
        "vocabulary with one text of 60 MB",
        TOKENIZER,
        within("{\"model\":{\"vocab\":{\"", vec![b'a'; 60 * MIB], "\":0}}}"),
        "tokenizer.json",
    );
    one(
        "30 million merges",
        TOKENIZER,
        within("{\"model\":{\"type\":\"BPE\",\"merges\":[", list("\"\",", 60 * MIB), "]}}"),
        "tokenizer.json: ",
    );
    one(
        "2 million merges",
        TOKENIZER,
        within("{\"model\":{\"type\":\"BPE\",\"merges\":[", list("\"a a\",", (1 << 21) * 6 + 12), "]}}"),
        "it has more than 2097152 merges",
    );
    one(
        "millions of added tokens",
        TOKENIZER,
        within("{\"added_tokens\":[", list("{\"id\":0,\"content\":\"a\"},", 60 * MIB), "]}"),
        "it has more than 1048576 tokens",
    );
    one(
        "millions of steps",
        TOKENIZER,
        within("{\"pre_tokenizer\":{\"pretokenizers\":[", list("{},", 60 * MIB), "]}}"),
        "it has more than 64 steps",
    );
    one(
        "nested lists in the settings of a vocabulary",
        TOKENIZER_CONFIG,
        nested("[", MIB - 1),
        "tokenizer_config.json: ",
    );
    one(
        "settings of a vocabulary of 17 MiB",
        TOKENIZER_CONFIG,
        vec![b' '; 17 * MIB],
        "tokenizer_config.json: it is longer than 16 MiB",
    );
    one("nested lists in the index", INDEX, nested("[", 10 * MIB), "model.safetensors.index.json: ");
    one(
        "index of one tensor, millions of times",
        INDEX,
        within("{\"weight_map\":{", list("\"a\":\"a.safetensors\",", 15 * MIB), "}}"),
        "it has more than 262144 tensors",
    );
    one("index of 17 MiB", INDEX, vec![b' '; 17 * MIB], "it is longer than 16 MiB");
    one("header of 95 MiB without tensors", WEIGHTS, safetensors(&vec![b' '; 95 * MIB], 0), "EOF while parsing");
    one("header that claims 100 MB", WEIGHTS, 100_000_000u64.to_le_bytes().to_vec(), "the header has 100000000");
    one("header that claims more than the limit", WEIGHTS, 100_000_001u64.to_le_bytes().to_vec(), "limit is 100000000");
    one("nested header", WEIGHTS, safetensors(&within("{\"a\":", nested("[", 50 * MIB), ""), 0), "more.safetensors: ");
    one(
        "nested metadata in a header",
        WEIGHTS,
        safetensors(&within("{\"__metadata__\":", nested("[", 50 * MIB), ""), 0),
        "EOF while parsing",
    );
    one("65,537 tensors", WEIGHTS, safetensors(&many_tensors((1 << 16) + 1, "t"), 0), "it has more than 65536 tensors");
    one(
        "names of a kilobyte",
        WEIGHTS,
        safetensors(&many_tensors(60_000, &"n".repeat(1000)), 0),
        "is not part of a llama model",
    );
    one(
        "millions of pieces",
        "tokenizer.model",
        piece.repeat(60 * MIB / 4),
        "tokenizer.model: it has more than 1048576 tokens",
    );
    one(
        "piece that claims 2^63 bytes",
        "tokenizer.model",
        [&[0x0a][..], &[0xff; 8], &[0x7f]].concat(),
        "tokenizer.model: a field ends beyond the end of the file",
    );
    let header = safetensors(&many_tensors(1 << 16, "t"), 0);
    check(&Case {
        what: "327,680 tensors in five files",
        files: (0..5).map(|number| (format!("m{number}.safetensors"), header.clone())).collect(),
        error: "the files have more than 262144 tensors together",
    });
}

/// A small checkpoint.
fn llama(vocabulary: Vocabulary) -> Vec<(String, Vec<u8>)> {
    let model = ModelSpec { width: 64, heads: 4, kv_heads: 2, head_dim: 16, ffn: 96, vocab: 520, ..tiny_llama() };
    let storage = Storage::Float(DType::F32);
    let spec = CheckpointSpec {
        model,
        architecture: "LlamaForCausalLM",
        model_type: "llama",
        storage,
        vocabulary,
        tower: None,
    };
    checkpoint(&spec).files
}

fn open(files: &[(String, Vec<u8>)]) -> Vec<CheckpointFile> {
    let open = |(name, contents): &(String, Vec<u8>)| {
        let mut file: File = tempfile::tempfile().expect("a temporary file");
        file.write_all(contents).expect("the file can be written");
        CheckpointFile { name: name.clone(), file }
    };
    files.iter().map(open).collect()
}

fn check(Case { what, files, error }: &Case) {
    let has_pieces = files[0].0 == "tokenizer.model";
    let mut all = llama(if has_pieces { Vocabulary::Pieces } else { Vocabulary::Bytes });
    let changes_index = files[0].0 == INDEX;
    all.retain(|(name, _)| files.iter().all(|(other, _)| other != name) && (changes_index || name != INDEX));
    all.extend(files.iter().cloned());
    let (all, began) = (open(&all), Instant::now());
    let (planned, bytes) =
        peak_bytes(|| Conversion::new(&all, FileType::F16).map(drop).map_err(|error| error.to_string()));
    let took = began.elapsed();
    let found = planned.expect_err(what);
    let size: usize = files.iter().map(|(_, contents)| contents.len()).sum();
    let start: String = found.chars().take(300).collect();
    println!("| {what} | {start} | {size} | {bytes} | {} |", took.as_millis());
    assert!(found.contains(error), "{what}: {start:?} does not contain {error:?}");
    assert!(found.len() <= MOST_ERROR_BYTES, "{what}: the error has {} bytes", found.len());
    assert!(bytes <= MOST_BYTES, "{what}: {bytes} bytes were allocated");
    assert!(took <= MOST_TIME, "{what}: it took {took:?}");
}

#[test]
fn hostile_checkpoints_are_bounded() {
    println!("| checkpoint | result | bytes of the files | most bytes allocated | ms |\n|---|---|---|---|---|");
    let mut names = HashSet::new();
    each(|case| {
        assert!(names.insert(case.what), "two cases are {}", case.what);
        check(case);
    });
}
