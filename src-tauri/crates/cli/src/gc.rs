//! `cairn gc`: removes files of the store that nobody needs.

use std::fmt::Write;

use cairn_wire::app::{GcRequest, GcResponse, LeftoverFile, LeftoverKind};

use crate::{Setting, args, daemon, human, output};

pub(crate) async fn collect(setting: &Setting, args: &args::Gc) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("removing what nobody needs")?;
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
        line(format!("{done} {} ({}, {})", file.path, human::bytes(file.size), what(file)));
    }
    for file in &collected.kept {
        let why = match file.kind {
            _ if file.young => "it is younger than an hour",
            LeftoverKind::Partial => "--partials removes it",
            LeftoverKind::Unreferenced => "it is needed",
        };
        line(format!("kept {} ({}, {}): {why}", file.path, human::bytes(file.size), what(file)));
    }
    let (size, files) = (human::bytes(collected.freed_bytes), human::files(collected.removed.len() as u64));
    line(match (collected.removed.is_empty(), collected.dry_run) {
        (true, _) => "nothing to remove".to_owned(),
        (_, true) => format!("{files} would be removed, and {size} freed"),
        (_, false) => format!("{files} removed, {size} freed"),
    });
    text
}

fn what(file: &LeftoverFile) -> &'static str {
    match file.kind {
        LeftoverKind::Unreferenced => "in no model",
        LeftoverKind::Partial => "left of a download",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_named() {
        let file = |path: &str, kind, young| LeftoverFile { path: path.to_owned(), size: 1_500, kind, young };
        let gone = file("/a", LeftoverKind::Unreferenced, false);
        let kept = vec![file("/b", LeftoverKind::Unreferenced, true), file("/c", LeftoverKind::Partial, false)];
        let mut collected = GcResponse { dry_run: true, freed_bytes: 1_500, removed: vec![gone], kept };
        let kept = "kept /b (1.5 KB, in no model): it is younger than an hour\n\
                    kept /c (1.5 KB, left of a download): --partials removes it\n";
        let would = "1 file would be removed, and 1.5 KB freed\n";
        assert_eq!(text(&collected), format!("would remove /a (1.5 KB, in no model)\n{kept}{would}"), "a dry run");
        collected.dry_run = false;
        let done = format!("removed /a (1.5 KB, in no model)\n{kept}1 file removed, 1.5 KB freed\n");
        assert_eq!(text(&collected), done, "a real one");
        collected.removed.clear();
        assert!(text(&collected).ends_with("nothing to remove\n"), "and none");
    }
}
