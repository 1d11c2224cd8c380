//! `cairn import`: makes a GGUF file a model of the store.

use std::path::Path;

use anyhow::bail;
use cairn_wire::app::{ImportLine, ImportRequest, ImportWay, ImportedModel};

use crate::progress::Progress;
use crate::run::model;
use crate::{Setting, args, daemon, human, output};

pub(crate) async fn import(setting: &Setting, args: &args::Import) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("importing a file")?;
    let path = model::absolute(&args.file)?;
    let request = ImportRequest { path, name: args.name.clone(), link: args.link, force: args.force };
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
    output::print(&text(&imported?, &args.file))
}

fn text(imported: &ImportedModel, file: &Path) -> String {
    let (size, file) = (human::bytes(imported.size), file.display());
    let way = match imported.way {
        ImportWay::Present => format!("the {size} were in the store already: nothing was copied"),
        ImportWay::Reflinked => format!("reflinked {size}: {file} and the store share one place on the disk"),
        ImportWay::Copied => {
            let reason = imported.reason.as_deref().unwrap_or("no reason was given");
            format!("copied {size}, because they could not be reflinked: {reason}")
        }
        ImportWay::Linked => {
            let made = if imported.made_read_only { "was made" } else { "is" };
            format!("linked {size}: {file} and the store are one file now, so it {made} read-only")
        }
    };
    let name = imported.model.strip_suffix(":latest").unwrap_or(&imported.model);
    let template = match imported.chat_template {
        true => String::new(),
        false => format!("{}\n", model::NO_TEMPLATE),
    };
    format!("{way}\n{template}{} is ready: cairn run {name}\n", imported.model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_said() {
        let check = |way, made_read_only, chat_template, parts: &[&str]| {
            let imported = ImportedModel {
                model: "m:latest".to_owned(),
                size: 1_200_000_000,
                way,
                reason: Some("Operation not supported".to_owned()),
                made_read_only,
                chat_template,
            };
            let said = text(&imported, Path::new("x.gguf"));
            for part in parts.iter().chain(&["1.2 GB", "m:latest is ready: cairn run m\n"]) {
                assert!(said.contains(part), "{part:?} is missing from {said:?}");
            }
        };
        check(ImportWay::Copied, false, true, &["copied", "Operation not supported"]);
        check(ImportWay::Reflinked, false, true, &["reflinked"]);
        check(ImportWay::Linked, true, true, &["linked", "was made read-only"]);
        check(ImportWay::Linked, false, false, &["is read-only", "no chat template"]);
        check(ImportWay::Present, false, true, &["already"]);
    }
}
