//! `cairn gguf FILE`: describes a GGUF file; `cairn gguf verify FILE`: checks that its numbers are finite. Both work
//! without the daemon.

use std::path::Path;

use anyhow::bail;
use cairn_app::library::Head;
use cairn_gguf::describe;

use crate::progress::Progress;
use crate::{args, human, output};

/// Most damaged tensors that are listed.
const LISTED: usize = 20;

pub(crate) fn gguf(args: &args::Gguf) -> anyhow::Result<()> {
    match (&args.verb, &args.file) {
        (Some(args::GgufVerb::Verify { file }), _) => verify(file),
        (None, Some(file)) => describe(file, args.json),
        (None, None) => bail!("no file is named"),
    }
}

fn describe(file: &Path, json: bool) -> anyhow::Result<()> {
    let Head { gguf, file_bytes, .. } = cairn_app::library::read_head(file)?;
    let text = if json { describe::json(&gguf, file_bytes) } else { describe::text(&gguf, file_bytes) };
    output::print(&format!("{}\n", text.trim_end()))
}

fn verify(file: &Path) -> anyhow::Result<()> {
    let mut progress = Progress::new();
    let verified = cairn_app::library::verify(file, &mut |done, total| progress.show("reading", done, total));
    progress.clear();
    let verified = verified?;
    for damaged in verified.damaged.iter().take(LISTED) {
        output::print(&format!("{damaged}\n"))?;
    }
    let (tensors, size) = (verified.tensors, human::bytes(verified.bytes));
    match verified.damaged.len() {
        0 => output::print(&format!("{tensors} tensors, {size}: every number is finite\n")),
        damaged => bail!("{damaged} of {tensors} tensors contain numbers that are not finite"),
    }
}
