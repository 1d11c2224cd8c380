//! How many megabytes of text a tokenizer turns into ids in a second on one core, whole and in parts of 4 KiB.
//!
//! `cargo run --release -p cairn-tokenizer --example speed FILE.gguf TEXT...`

use std::hint::black_box;
use std::time::Instant;

use cairn_gguf::Gguf;
use cairn_tokenizer::{Special, Tokenizer};

/// The best of this many rounds counts: a shared machine only ever makes a round slower.
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
        let ids = tokenizer.encode(&text, Special::default());
        let rate = |work: &dyn Fn()| text.len() as f64 / 1e6 / best_seconds(work);
        let whole = rate(&|| drop(black_box(tokenizer.encode(&text, Special::default()))));
        let in_parts = rate(&|| {
            parts.iter().for_each(|part| drop(black_box(tokenizer.encode(part, Special::default()))));
        });
        let decode = ids.len() as f64 / 1e6 / best_seconds(&|| drop(black_box(tokenizer.decode(&ids))));
        let density = text.len() as f64 / ids.len().max(1) as f64;
        println!("{whole:12.1} {in_parts:12.1} {density:12.2} {decode:14.1}  {path}");
    }
    Ok(())
}

/// The text in parts of about [`PART_BYTES`], cut between characters.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.ceil_char_boundary(PART_BYTES));
        parts.push(part);
        rest = after;
    }
    parts
}

fn best_seconds(work: &dyn Fn()) -> f64 {
    let seconds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}
