//! `cairn gguf FILE`: what is in a GGUF file. No daemon is needed.

use cairn_app::Head;
use cairn_gguf::describe;

use crate::{args, output};

pub(crate) fn describe(args: &args::Gguf) -> anyhow::Result<()> {
    let Head { gguf, file_bytes, .. } = cairn_app::read_head(&args.file)?;
    let text = if args.json { describe::json(&gguf, file_bytes) } else { describe::text(&gguf, file_bytes) };
    output::print(&format!("{}\n", text.trim_end()))
}
