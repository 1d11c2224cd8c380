//! Compares quantised models with llama.cpp's: `cargo xtask quantise [--record] [--speed]`.
//!
//! Both programs quantise each source to each file type. Heads must be equal, that is metadata and tensor types. If
//! tensor bytes differ, Cairn's error, weighted by the squares of the values, may be at most 1 % larger. `--record`
//! writes hashes of llama.cpp's files to `tests/fixtures`, which another test compares with Cairn's. `--speed`
//! measures both with one thread and 100 MB of weights.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use cairn_convert::{FileType, Quantisation};
use cairn_gguf::{DType, Gguf, Tensor};
use cairn_testkit::{ModelSpec, Types, tiny_llama};
use it::peer::Peer;
use it::quantised::{self, Record, Source};
use serde_json::json;

/// Largest allowed ratio of our error to that of llama.cpp.
const MAX_RATIO: f64 = 1.01;

fn main() -> anyhow::Result<()> {
    let mut folder = PathBuf::from("target/quantise");
    let mut python = None;
    let (mut record, mut speed) = (false, false);
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let mut value = || args.next().with_context(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--folder" => folder = value()?.into(),
            "--python" => python = Some(PathBuf::from(value()?)),
            "--record" => record = true,
            "--speed" => speed = true,
            _ => bail!("unknown option {flag}; options: --folder, --python, --record, --speed"),
        }
    }
    let python = python.context("--python PATH is needed; `cargo xtask quantise` sets it up and passes it")?;
    std::fs::create_dir_all(&folder)?;
    let mut peer = Peer::start(&python, "quantise/llama.py")?;
    if speed {
        return measure(&folder, &mut peer);
    }
    println!("{:8} {:10} {:>12} {:>22} {:>9}", "model", "type", "tensors", "bytes equal", "error");
    let mut records = Vec::new();
    let mut failed = 0;
    for source in quantised::sources() {
        let path = folder.join(format!("{}.gguf", source.name));
        source.write(&path)?;
        for target in quantised::targets() {
            let theirs = quantise(&mut peer, &path, target, 2)?.0;
            let holds = compare(&source, &path, target, &theirs)?;
            failed += usize::from(!holds);
            records.push(Record::of(&source, target, &theirs)?.to_string());
        }
    }
    ensure!(failed == 0, "{failed} files failed");
    if record {
        std::fs::write(quantised::recording(), records.join("\n") + "\n")?;
    }
    Ok(())
}

/// Quantises the model at `path` with llama.cpp. Returns the file, and the duration in seconds.
fn quantise(peer: &mut Peer, path: &Path, target: FileType, threads: usize) -> anyhow::Result<(Vec<u8>, f64)> {
    let job = json!({ "model": path, "file_type": target.number(), "threads": threads });
    let (answer, bytes) = peer.ask_for_file(job, &path.with_extension("llama.gguf"))?;
    ensure!(answer["done"] == true, "llama.cpp cannot make {target} of {}", path.display());
    Ok((bytes, answer["seconds"].as_f64().context("llama.py reports no time")?))
}

/// Prints the comparison of one file. Returns whether it passes.
fn compare(source: &Source, path: &Path, target: FileType, theirs: &[u8]) -> anyhow::Result<bool> {
    let original = std::fs::read(path)?;
    let ours = quantised::quantise(path, target)?;
    let (head, our_head, their_head) = (Gguf::parse(&original)?, Gguf::parse(&ours)?, Gguf::parse(theirs)?);
    let mut holds = ours[..our_head.data_offset as usize] == theirs[..their_head.data_offset as usize];
    if !holds {
        println!("{} {target}: the heads differ", source.name);
    }
    let (mut equal, mut equal_bytes, mut all_bytes, mut worst) = (0, 0, 0, 1.0f64);
    for tensor in our_head.tensors() {
        let name = &tensor.name;
        let theirs_of = their_head.tensor(name).with_context(|| format!("llama.cpp has no {name}"))?;
        all_bytes += tensor.bytes;
        if tensor.dtype != theirs_of.dtype {
            println!("{} {target}: {name} is {}, llama.cpp's {}", source.name, tensor.dtype, theirs_of.dtype);
            holds = false;
        } else if bytes(&ours, tensor) == bytes(theirs, theirs_of) {
            equal += 1;
            equal_bytes += tensor.bytes;
        } else {
            let exact = values(&original, head.tensor(name).context("nothing is added")?);
            let error = |file, tensor| weighted_error(&exact, &values(file, tensor));
            worst = worst.max(error(&ours, tensor) / error(theirs, theirs_of));
        }
    }
    let tensors = our_head.tensors().len();
    println!(
        "{:8} {:10} {equal:>5} of {tensors:>3} {equal_bytes:>10} of {all_bytes:>8} {worst:>9.5}",
        source.name,
        target.name()
    );
    Ok(holds && worst <= MAX_RATIO)
}

fn bytes<'a>(file: &'a [u8], tensor: &Tensor) -> &'a [u8] {
    &file[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize]
}

fn values(file: &[u8], tensor: &Tensor) -> Vec<f32> {
    let mut values = vec![0.0; tensor.elements() as usize];
    tensor.dtype.decode(bytes(file, tensor), &mut values);
    values
}

fn weighted_error(exact: &[f32], values: &[f32]) -> f64 {
    let errors = exact.iter().zip(values).map(|(&x, &q)| (f64::from(x) * f64::from(x - q)).powi(2));
    errors.sum::<f64>()
}

/// Prints the speed of both with one thread for some types.
fn measure(folder: &Path, peer: &mut Peer) -> anyhow::Result<()> {
    // 50 million weights, nearly all in layers.
    let spec = ModelSpec { width: 2048, heads: 32, kv_heads: 8, ffn: 6912, layers: 1, ..tiny_llama() };
    let path = folder.join("speed.gguf");
    cairn_testkit::write_file(&ModelSpec { types: Types::All(DType::F16), ..spec }, &path)?;
    let size = std::fs::metadata(&path)?.len() as f64 / 1e6;
    let source = std::fs::read(&path)?;
    let head = Gguf::parse(&source)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    println!("MB of F16 a second, of {size:.0} MB, on one thread, the better of two runs\n");
    println!("{:10} {:>8} {:>10} {:>8}", "type", "ours", "llama.cpp", "ratio");
    for target in quantised::targets().filter(|target| !target.is_float()) {
        let mut best = (f64::INFINITY, f64::INFINITY);
        for _ in 0..2 {
            let started = Instant::now();
            let quantisation = Quantisation::new(&head, target)?;
            let file = File::open(&path)?;
            let mut out = File::create(folder.join("speed.ours"))?;
            pool.install(|| quantisation.write_to(&[file], &mut out, &mut |_| ()))?;
            best.0 = best.0.min(started.elapsed().as_secs_f64());
            best.1 = best.1.min(quantise(peer, &path, target, 1)?.1);
        }
        let (ours, theirs) = (size / best.0, size / best.1);
        println!("{:10} {ours:>8.1} {theirs:>10.1} {:>8.2}", target.name(), ours / theirs);
    }
    Ok(())
}
