//! `cairn gc`: removes files of the library that no model needs.

use std::fmt::Write;

use cairn_wire::app::{GcRequest, GcResponse, LeftoverFile, LeftoverKind};

use crate::{CliContext, args, daemon, human, output};

pub(crate) async fn collect(cli: &CliContext, args: &args::Gc) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("garbage collection")?;
    let request = GcRequest { dry_run: args.dry_run, partials: args.partials };
    let collected: GcResponse = client.post("/app/gc", &request).await?;
    match args.json {
        true => output::json(&collected),
        false => output::print(&text(&collected)),
    }
}

fn text(collected: &GcResponse) -> String {
    let done = if collected.dry_run { "would remove" } else { "removed" };
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("writing into a string does not fail");
    for file in &collected.removed {
        line(format!("{done} {} ({}, {})", file.path, human::bytes(file.size), kind(file)));
    }
    for file in &collected.kept {
        let reason = match file.kind {
            _ if file.young => "younger than an hour",
            LeftoverKind::Partial => "--partials removes it",
            LeftoverKind::Unreferenced => "in use",
        };
        line(format!("kept {} ({}, {}): {reason}", file.path, human::bytes(file.size), kind(file)));
    }
    let (size, files) = (human::bytes(collected.freed_bytes), human::files(collected.removed.len() as u64));
    line(match (collected.removed.is_empty(), collected.dry_run) {
        (true, _) => "nothing to remove".to_owned(),
        (_, true) => format!("{files} would be removed, {size} freed"),
        (_, false) => format!("{files} removed, {size} freed"),
    });
    text
}

fn kind(file: &LeftoverFile) -> &'static str {
    match file.kind {
        LeftoverKind::Unreferenced => "in no model",
        LeftoverKind::Partial => "partial download",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gc_text_lists_every_file() {
        let file = |path: &str, kind, young| LeftoverFile { path: path.to_owned(), size: 1_500, kind, young };
        let gone = file("/a", LeftoverKind::Unreferenced, false);
        let kept = vec![file("/b", LeftoverKind::Unreferenced, true), file("/c", LeftoverKind::Partial, false)];
        let mut collected = GcResponse { dry_run: true, freed_bytes: 1_500, removed: vec![gone], kept };
        let kept = "kept /b (1.5 KB, in no model): younger than an hour\n\
                    kept /c (1.5 KB, partial download): --partials removes it\n";
        let would = "1 file would be removed, 1.5 KB freed\n";
        assert_eq!(text(&collected), format!("would remove /a (1.5 KB, in no model)\n{kept}{would}"), "a dry run");
        collected.dry_run = false;
        let done = format!("removed /a (1.5 KB, in no model)\n{kept}1 file removed, 1.5 KB freed\n");
        assert_eq!(text(&collected), done, "not a dry run");
        collected.removed.clear();
        assert!(text(&collected).ends_with("nothing to remove\n"), "an empty list");
    }
}
