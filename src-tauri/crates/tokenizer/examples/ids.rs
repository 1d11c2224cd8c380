//! Prints the ids of texts. Each input line is a text as a JSON string. Each output line has the ids of plain text,
//! with special tokens parsed, with BOS and EOS added too, and the text decoded from the first ids.
//! `tests/differential.py` compares this with other implementations.
//!
//! `cargo run --release -p cairn-tokenizer --example ids FILE.gguf < texts.jsonl`

use std::io::{BufRead, BufWriter, Write};

use cairn_gguf::Gguf;
use cairn_tokenizer::{EncodeOptions, Tokenizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a GGUF file")?;
    let bytes = std::fs::read(path)?;
    let tokenizer = Tokenizer::from_metadata(Gguf::parse(&bytes)?.metadata())?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let ids = |add, parse| tokenizer.encode(&text, EncodeOptions { add_special: add, parse_special: parse });
        let plain = ids(false, false);
        let decoded = tokenizer.decode(&plain);
        writeln!(out, "{}", serde_json::json!([plain, ids(false, true), ids(true, true), decoded]))?;
    }
    Ok(())
}
