//! `cairn extract-document`: the text of the document at standard input, as JSON lines at standard output.
//!
//! The daemon starts this process for each document, because a parser may crash, hang or exhaust memory on a hostile file. The
//! process limits itself before it reads the first byte: memory, computing time, and no new files, sockets or processes.

use std::io::{self, BufWriter, Read, Write};

use anyhow::Context;
use cairn_documents::{Limits, Line};

use crate::args;

/// Largest address space: the file, its inflated contents and their text fit several times.
#[cfg(unix)]
const ADDRESS_BYTES: u64 = 3 << 30;
/// Most computing time. The daemon also limits the time on the clock.
#[cfg(unix)]
const CPU_SECONDS: u64 = 60;

pub(crate) fn extract(args: &args::ExtractDocument) -> anyhow::Result<()> {
    #[cfg(unix)]
    limit_process()?;
    let limits = Limits::default();
    let mut bytes = Vec::new();
    io::stdin().lock().take(limits.file_bytes + 1).read_to_end(&mut bytes).context("cannot read the document")?;
    let lines = Line::of(cairn_documents::extract(&bytes, &args.extension, &limits));
    let mut output = BufWriter::new(io::stdout().lock());
    for line in &lines {
        serde_json::to_writer(&mut output, line)?;
        output.write_all(b"\n")?;
    }
    output.flush()?;
    Ok(())
}

/// Limits the resources of this process for ever.
#[cfg(unix)]
fn limit_process() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = |resource, most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    limit(Resource::Cpu, CPU_SECONDS)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    // Standard input and output are open already.
    limit(Resource::Nofile, 0)?;
    // macOS refuses a limit below the size of its shared libraries.
    match limit(Resource::As, ADDRESS_BYTES) {
        Err(error) if cfg!(target_os = "linux") => Err(error.into()),
        _ => Ok(()),
    }
}
