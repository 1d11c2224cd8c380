//! `cairn import`: imports a GGUF file, or all models of a folder, into the library.

use std::path::Path;

use anyhow::bail;
use cairn_wire::app::{FoundModel, FoundState, ImportLine, ImportRequest, ImportWay, ImportedModel, ScanRequest};
use serde::Serialize;

use crate::client::Client;
use crate::progress::Progress;
use crate::{CliContext, args, daemon, human, model, one_line, output, scan};

pub(crate) async fn import(cli: &CliContext, args: &args::Import) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("importing a file")?;
    if args.file.is_dir() {
        return import_all(&client, args).await;
    }
    let imported = import_one(&client, args, model::absolute(&args.file)?).await?;
    print_imported(args, &imported, &args.file)
}

async fn import_one(client: &Client, args: &args::Import, path: String) -> anyhow::Result<ImportedModel> {
    let (name, link, moving, force) = (args.name.clone(), args.link, args.moving, args.force);
    let request = ImportRequest { path, name, link, moving, force };
    let mut progress = Progress::new();
    let imported = async {
        let mut lines = client.stream("/app/import", &request).await?;
        while let Some(line) = lines.next::<ImportLine>().await? {
            match line {
                ImportLine::Hashing { completed, total } => progress.show("hashing", completed, total),
                ImportLine::Copying { completed, total } => progress.show("copying", completed, total),
                ImportLine::Success(imported) => return Ok(imported),
            }
        }
        bail!("the daemon ended before the import was complete");
    };
    let imported = tokio::select! {
        imported = imported => imported,
        // The daemon cancels the import when the client disconnects, and removes its partial files.
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted; the library is unchanged")),
    };
    progress.clear();
    imported
}

/// Imports every model in a folder. Continues after a failed import.
async fn import_all(client: &Client, args: &args::Import) -> anyhow::Result<()> {
    if args.name.is_some() {
        bail!("cannot give the models of folder {} one name; leave the name out", args.file.display());
    }
    let folders = vec![model::absolute(&args.file)?];
    let scanned = scan::request_scan(client, &ScanRequest { folders, apps: false, digests: false }).await?;
    scan::notes(&scanned).iter().for_each(|line| output::note(line));
    let (mut done, mut failed) = (0, 0);
    for found in &scanned.models {
        let imported = match refusal_reason(found) {
            Some(reason) => Err(anyhow::anyhow!(reason)),
            None => import_one(client, args, found.path.clone()).await,
        };
        match imported {
            Ok(imported) => {
                done += 1;
                print_imported(args, &imported, Path::new(&found.path))?;
            }
            Err(error) => {
                failed += 1;
                output::note(&format!("{}: {}", found.path, one_line(&error)));
            }
        }
    }
    match (done, failed) {
        (0, 0) => bail!("folder {} has no GGUF files", args.file.display()),
        (_, 0) => Ok(()),
        (done, failed) => bail!("{done} of {} models were imported", done + failed),
    }
}

/// Returns the reason why a found file cannot be imported.
fn refusal_reason(found: &FoundModel) -> Option<String> {
    match found.state {
        FoundState::New | FoundState::Here | FoundState::MaybeHere => None,
        FoundState::Projector => Some("the file is a projector of a vision model, not a complete model".to_owned()),
        FoundState::Adapter => Some("the file is an adapter, not a complete model".to_owned()),
        FoundState::Broken => Some(found.reason.clone().unwrap_or_else(|| "the file cannot be read".to_owned())),
    }
}

/// A line for scripts.
#[derive(Serialize)]
struct Line<'a> {
    file: String,
    #[serde(flatten)]
    imported: &'a ImportedModel,
}

fn print_imported(args: &args::Import, imported: &ImportedModel, file: &Path) -> anyhow::Result<()> {
    match args.json {
        true => output::json(&Line { file: file.display().to_string(), imported }),
        false => output::print(&text(imported, file)),
    }
}

fn text(imported: &ImportedModel, file: &Path) -> String {
    let (size, file) = (human::bytes(imported.size), file.display());
    let way = match imported.way {
        ImportWay::Present => format!("the {size} were in the library already: nothing was copied"),
        ImportWay::Reflinked => format!("reflinked {size}: {file} and the library share their disk space"),
        ImportWay::Copied => {
            let reason = imported.reason.as_deref().unwrap_or("no reason was given");
            let attempt = if imported.moved || imported.kept_reason.is_some() { "moved" } else { "reflinked" };
            format!("copied {size}, because the file could not be {attempt}: {reason}")
        }
        ImportWay::Linked => {
            let made = if imported.made_read_only { "was made" } else { "is" };
            format!("linked {size}: {file} is now a hard link to the library and {made} read-only")
        }
        ImportWay::Moved => format!("moved {size}"),
    };
    let original = match &imported.kept_reason {
        Some(reason) => format!("{file} is still there: {reason}\n"),
        None if imported.moved => format!("{file} was moved into the library and is no longer where it was\n"),
        None => String::new(),
    };
    let name = imported.model.strip_suffix(":latest").unwrap_or(&imported.model);
    let template = match (&imported.template_problem, imported.chat_template) {
        (Some(problem), _) => format!("warning: chats will fail: {problem}; `cairn create` can replace the template\n"),
        (None, true) => String::new(),
        (None, false) => format!("{}\n", model::NO_TEMPLATE),
    };
    format!("{way}\n{original}{template}{} is ready: cairn run {name}\n", imported.model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_text_describes_every_method() {
        let imported = |way| ImportedModel {
            model: "m:latest".to_owned(),
            size: 1_200_000_000,
            way,
            reason: Some("Operation not supported".to_owned()),
            made_read_only: false,
            moved: false,
            kept_reason: None,
            chat_template: true,
            template_problem: None,
        };
        let check = |imported: ImportedModel, parts: &[&str]| {
            let text = text(&imported, Path::new("x.gguf"));
            for part in parts.iter().chain(&["1.2 GB", "m:latest is ready: cairn run m\n"]) {
                assert!(text.contains(part), "{part:?} is missing from {text:?}");
            }
        };
        check(imported(ImportWay::Copied), &["copied", "could not be reflinked", "Operation not supported"]);
        check(imported(ImportWay::Reflinked), &["reflinked"]);
        let linked = imported(ImportWay::Linked);
        check(ImportedModel { made_read_only: true, ..linked.clone() }, &["linked", "was made read-only"]);
        check(ImportedModel { chat_template: false, ..linked }, &["is read-only", "no chat template"]);
        check(imported(ImportWay::Present), &["already"]);
        let problem = Some("the chat template is not valid: line 1".to_owned());
        let broken = ImportedModel { template_problem: problem, ..imported(ImportWay::Present) };
        check(broken, &["warning: chats will fail: the chat template is not valid: line 1; `cairn create`"]);
        let moved = ImportedModel { moved: true, ..imported(ImportWay::Moved) };
        check(moved, &["moved 1.2 GB\nx.gguf was moved into the library"]);
        let other_disk = ImportedModel { moved: true, ..imported(ImportWay::Copied) };
        check(other_disk, &["could not be moved", "no longer where it was"]);
        let kept = Some("cannot remove x.gguf".to_owned());
        let kept = ImportedModel { kept_reason: kept, ..imported(ImportWay::Copied) };
        check(kept, &["x.gguf is still there: cannot remove"]);
    }
}
