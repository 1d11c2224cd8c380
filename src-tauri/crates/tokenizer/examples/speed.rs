//! Measures encoding in megabytes per second on one core, for whole texts and for parts of 4 KiB, and decoding.
//!
//! `cargo run --release -p cairn-tokenizer --example speed FILE.gguf TEXT...`

use std::hint::black_box;
use std::time::Instant;

use cairn_gguf::Gguf;
use cairn_tokenizer::{EncodeOptions, Tokenizer};

/// Rounds per item. The fastest one is used, because other load on the machine only slows it down.
const ROUNDS: usize = 7;
const PART_BYTES: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("name a GGUF file and texts")?;
    let bytes = std::fs::read(&path)?;
    let started = Instant::now();
    let tokenizer = Tokenizer::from_metadata(Gguf::parse(&bytes)?.metadata())?;
    println!("{path}: ready in {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    println!("{:>12} {:>12} {:>12} {:>14}  text", "whole MB/s", "parts MB/s", "bytes/token", "decode Mids/s");
    for path in args {
        let text = std::fs::read_to_string(&path)?;
        let parts = parts(&text);
        let ids = tokenizer.encode(&text, EncodeOptions::default());
        let megabytes = text.len() as f64 / 1e6;
        let whole = megabytes
            / best_seconds(&[&text], |text| drop(black_box(tokenizer.encode(text, EncodeOptions::default()))));
        let in_parts =
            megabytes / best_seconds(&parts, |part| drop(black_box(tokenizer.encode(part, EncodeOptions::default()))));
        let decode = ids.len() as f64 / 1e6 / best_seconds(&[&ids], |ids| drop(black_box(tokenizer.decode(ids))));
        let density = text.len() as f64 / ids.len().max(1) as f64;
        println!("{whole:12.1} {in_parts:12.1} {density:12.2} {decode:14.1}  {path}");
    }
    Ok(())
}

/// Splits the text into parts of about [`PART_BYTES`] at character boundaries.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.ceil_char_boundary(PART_BYTES));
        parts.push(part);
        rest = after;
    }
    parts
}

/// Returns the total time of the fastest rounds of all items.
fn best_seconds<T: ?Sized>(items: &[&T], work: impl Fn(&T)) -> f64 {
    let mut best = vec![f64::INFINITY; items.len()];
    for _ in 0..ROUNDS {
        for (item, best) in items.iter().zip(&mut best) {
            let started = Instant::now();
            work(item);
            *best = best.min(started.elapsed().as_secs_f64());
        }
    }
    best.iter().sum()
}
