//! `cairn gguf FILE`: what is in a GGUF file. No daemon is needed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use cairn_gguf::{Error, Gguf, describe};

use crate::args;

/// The first piece of a file that is read; most heads fit.
const FIRST_BYTES: u64 = 8 << 20;

pub(crate) fn describe(args: &args::Gguf) -> anyhow::Result<()> {
    let (head, file_bytes) = head(&args.file).with_context(|| args.file.display().to_string())?;
    let text = if args.json { describe::json(&head, file_bytes) } else { describe::text(&head, file_bytes) };
    let mut out = io::stdout().lock();
    match out.write_all(text.trim_end().as_bytes()).and_then(|()| out.write_all(b"\n")) {
        // Whoever reads only the beginning has what they wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("could not write the description"),
    }
}

fn head(path: &Path) -> anyhow::Result<(Gguf, u64)> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        bail!("it is not a file");
    }
    let (mut file, file_bytes) = (File::open(path)?, found.len());
    let (mut bytes, mut wanted) = (Vec::new(), FIRST_BYTES);
    loop {
        let missing = wanted.min(file_bytes).saturating_sub(bytes.len() as u64);
        Read::by_ref(&mut file).take(missing).read_to_end(&mut bytes)?;
        match Gguf::parse_header(&bytes, file_bytes) {
            Err(Error::Truncated { .. }) if wanted < file_bytes => wanted *= 4,
            parsed => return Ok((parsed?, file_bytes)),
        }
    }
}
