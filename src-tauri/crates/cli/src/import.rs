//! `cairn import`: makes a GGUF file a model of the store, or every model in a folder.

use std::path::Path;

use anyhow::bail;
use cairn_wire::app::{FoundModel, FoundState, ImportLine, ImportRequest, ImportWay, ImportedModel, ScanRequest};
use serde::Serialize;

use crate::client::Client;
use crate::progress::Progress;
use crate::run::model;
use crate::{Setting, args, daemon, human, one_line, output, scan};

pub(crate) async fn import(setting: &Setting, args: &args::Import) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("importing a file")?;
    if args.file.is_dir() {
        return import_all(&client, args).await;
    }
    let imported = import_one(&client, args, model::absolute(&args.file)?).await?;
    tell(args, &imported, &args.file)
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
        bail!("the import broke off");
    };
    let imported = tokio::select! {
        imported = imported => imported,
        // The daemon stops when nobody reads any more, and takes out what it has written.
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted; the store is as it was")),
    };
    progress.clear();
    imported
}

/// Imports every model in a folder. One that cannot be keeps none of the others.
async fn import_all(client: &Client, args: &args::Import) -> anyhow::Result<()> {
    if args.name.is_some() {
        bail!("{} is a folder, and its models cannot all have one name", args.file.display());
    }
    let folders = vec![model::absolute(&args.file)?];
    let scanned = scan::look(client, &ScanRequest { folders, apps: false, digests: false }).await?;
    scan::notes(&scanned).iter().for_each(|line| output::note(line));
    let (mut done, mut failed) = (0, 0);
    for found in &scanned.models {
        let imported = match cannot(found) {
            Some(why) => Err(anyhow::anyhow!(why)),
            None => import_one(client, args, found.path.clone()).await,
        };
        match imported {
            Ok(imported) => {
                done += 1;
                tell(args, &imported, Path::new(&found.path))?;
            }
            Err(error) => {
                failed += 1;
                output::note(&format!("{}: {}", found.path, one_line(&error)));
            }
        }
    }
    match (done, failed) {
        (0, 0) => bail!("{} has no GGUF files in it", args.file.display()),
        (_, 0) => Ok(()),
        (done, failed) => bail!("{done} of {} models were imported", done + failed),
    }
}

/// Why what was found is nothing to import.
fn cannot(found: &FoundModel) -> Option<String> {
    match found.state {
        FoundState::New | FoundState::Here | FoundState::MaybeHere => None,
        FoundState::Projector => Some("it is part of a model that sees, and no model by itself".to_owned()),
        FoundState::Adapter => Some("it is an adapter, and no model by itself".to_owned()),
        FoundState::Broken => Some(found.reason.clone().unwrap_or_else(|| "it cannot be read".to_owned())),
    }
}

/// A line for scripts.
#[derive(Serialize)]
struct Line<'a> {
    file: String,
    #[serde(flatten)]
    imported: &'a ImportedModel,
}

fn tell(args: &args::Import, imported: &ImportedModel, file: &Path) -> anyhow::Result<()> {
    match args.json {
        true => output::json(&Line { file: file.display().to_string(), imported }),
        false => output::print(&text(imported, file)),
    }
}

fn text(imported: &ImportedModel, file: &Path) -> String {
    let (size, file) = (human::bytes(imported.size), file.display());
    let way = match imported.way {
        ImportWay::Present => format!("the {size} were in the store already: nothing was copied"),
        ImportWay::Reflinked => format!("reflinked {size}: {file} and the store share one place on the disk"),
        ImportWay::Copied => {
            let reason = imported.reason.as_deref().unwrap_or("no reason was given");
            let tried = if imported.moved || imported.kept_reason.is_some() { "moved" } else { "reflinked" };
            format!("copied {size}, because they could not be {tried}: {reason}")
        }
        ImportWay::Linked => {
            let made = if imported.made_read_only { "was made" } else { "is" };
            format!("linked {size}: {file} and the store are one file now, so it {made} read-only")
        }
        ImportWay::Moved => format!("moved {size}"),
    };
    let gone = match &imported.kept_reason {
        Some(reason) => format!("{file} is still there: {reason}\n"),
        None if imported.moved => format!("{file} is in the store now, and no longer where it was\n"),
        None => String::new(),
    };
    let name = imported.model.strip_suffix(":latest").unwrap_or(&imported.model);
    let template = match imported.chat_template {
        true => String::new(),
        false => format!("{}\n", model::NO_TEMPLATE),
    };
    format!("{way}\n{gone}{template}{} is ready: cairn run {name}\n", imported.model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_said() {
        let imported = |way| ImportedModel {
            model: "m:latest".to_owned(),
            size: 1_200_000_000,
            way,
            reason: Some("Operation not supported".to_owned()),
            made_read_only: false,
            moved: false,
            kept_reason: None,
            chat_template: true,
        };
        let check = |imported: ImportedModel, parts: &[&str]| {
            let said = text(&imported, Path::new("x.gguf"));
            for part in parts.iter().chain(&["1.2 GB", "m:latest is ready: cairn run m\n"]) {
                assert!(said.contains(part), "{part:?} is missing from {said:?}");
            }
        };
        check(imported(ImportWay::Copied), &["copied", "could not be reflinked", "Operation not supported"]);
        check(imported(ImportWay::Reflinked), &["reflinked"]);
        let linked = imported(ImportWay::Linked);
        check(ImportedModel { made_read_only: true, ..linked.clone() }, &["linked", "was made read-only"]);
        check(ImportedModel { chat_template: false, ..linked }, &["is read-only", "no chat template"]);
        check(imported(ImportWay::Present), &["already"]);
        let moved = ImportedModel { moved: true, ..imported(ImportWay::Moved) };
        check(moved, &["moved 1.2 GB\nx.gguf is in the store now"]);
        let far = ImportedModel { moved: true, ..imported(ImportWay::Copied) };
        check(far, &["could not be moved", "no longer where it was"]);
        let kept = Some("could not remove x.gguf".to_owned());
        let kept = ImportedModel { kept_reason: kept, ..imported(ImportWay::Copied) };
        check(kept, &["x.gguf is still there: could not remove"]);
    }
}
