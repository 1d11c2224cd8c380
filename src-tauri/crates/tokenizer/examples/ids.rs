//! What the tokenizer of a GGUF file makes of texts: for each line of the input, a text as JSON, one line with the ids as plain
//! text, with special tokens read, with those and BOS and EOS, and the text that the first ids decode to.
//! `tests/differential.py` holds this against other implementations.
//!
//! `cargo run --release -p cairn-tokenizer --example ids FILE.gguf < texts.jsonl`

use std::io::{BufRead, BufWriter, Write};

use cairn_gguf::Gguf;
use cairn_tokenizer::{Special, Tokenizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a GGUF file")?;
    let bytes = std::fs::read(path)?;
    let tokenizer = Tokenizer::from_metadata(Gguf::parse(&bytes)?.metadata())?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let ids = |add, parse| tokenizer.encode(&text, Special { add, parse });
        let plain = ids(false, false);
        let decoded = tokenizer.decode(&plain);
        writeln!(out, "{}", serde_json::json!([plain, ids(false, true), ids(true, true), decoded]))?;
    }
    Ok(())
}
