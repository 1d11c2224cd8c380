//! `cairn updates`: which pulled models are newer at their registries.

use cairn_wire::app::{ModelUpdate, UpdateState, UpdatesResponse};

use crate::table::{render, row};
use crate::{CliContext, args, daemon, human, output};

pub(crate) async fn print(cli: &CliContext, args: &args::Updates) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("comparing models with their registries")?;
    let mut query = Vec::new();
    query.extend(args.model.clone().map(|model| ("model", model)));
    query.extend(args.insecure.then(|| ("insecure", "true".to_owned())));
    let updates: UpdatesResponse = client.get_with("/app/updates", &query).await?;
    if args.json {
        return output::json(&updates);
    }
    for ModelUpdate { model, problem, .. } in &updates.models {
        if let Some(problem) = problem {
            output::note(&format!("Cannot check {model}: {problem}"));
        }
    }
    output::print(&text(&updates.models))
}

fn text(models: &[ModelUpdate]) -> String {
    if models.is_empty() {
        return "no model of the library was pulled from a registry\n".to_owned();
    }
    let mut rows = vec![row(["NAME", "UPDATE", "DOWNLOAD"])];
    rows.extend(models.iter().map(|model| {
        let size = model.download_bytes.map_or_else(|| "-".to_owned(), human::bytes);
        vec![output::escape_controls(&model.model).into_owned(), label(model.state).to_owned(), size]
    }));
    let newer: Vec<&str> =
        models.iter().filter(|model| model.state == UpdateState::Newer).map(|model| model.model.as_str()).collect();
    let advice = match newer.as_slice() {
        [] => String::new(),
        names => format!("update with `cairn pull {}`\n", names.join(" ")),
    };
    render(&rows) + &advice
}

fn label(state: UpdateState) -> &'static str {
    match state {
        UpdateState::Current => "current",
        UpdateState::Newer => "newer at its registry",
        UpdateState::Removed => "no longer at its registry",
        UpdateState::MadeHere => "made on this machine",
        UpdateState::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_have_a_row_each_and_a_command() {
        let update = |model: &str, state, download_bytes| ModelUpdate {
            model: model.to_owned(),
            state,
            download_bytes,
            problem: None,
        };
        let text = text(&[
            update("a", UpdateState::Current, None),
            update("b:8b", UpdateState::Newer, Some(5_200_000_000)),
            update("c", UpdateState::Removed, None),
            update("d:1b", UpdateState::Newer, Some(0)),
        ]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        let expected: [&[&str]; 6] = [
            &["NAME", "UPDATE", "DOWNLOAD"],
            &["a", "current", "-"],
            &["b:8b", "newer at its registry", "5.2 GB"],
            &["c", "no longer at its registry", "-"],
            &["d:1b", "newer at its registry", "0 B"],
            &["update with `cairn pull b:8b d:1b`"],
        ];
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn library_without_pulled_models_is_stated() {
        assert_eq!(text(&[]), "no model of the library was pulled from a registry\n");
    }
}
