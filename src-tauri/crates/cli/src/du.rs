//! `cairn du`: disk usage of models.

use std::fmt::Write;

use cairn_wire::app::{LibraryRole, LibraryState, LibraryUsage, UsageResponse};

use crate::table::{render, row};
use crate::{CliContext, args, daemon, human, list, output};

pub(crate) async fn print(cli: &CliContext, args: &args::Du) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("disk usage")?;
    let usage: UsageResponse = client.get("/app/usage").await?;
    if args.json {
        return output::json(&usage);
    }
    list::note_missing(usage.libraries.iter().map(|row| &row.library));
    output::print(&text(&usage))
}

fn text(usage: &UsageResponse) -> String {
    let present: Vec<&LibraryUsage> =
        usage.libraries.iter().filter(|row| row.library.state == LibraryState::Present).collect();
    let mut text = String::new();
    for row in &present {
        library(&mut text, row);
    }
    let total = human::bytes(usage.total_bytes);
    writeln!(text, "{total} in all").expect("writing into a string does not fail");
    text
}

fn library(text: &mut String, usage: &LibraryUsage) {
    let role = match usage.library.role {
        LibraryRole::Own => "",
        LibraryRole::Linked | LibraryRole::Found => " (read-only)",
    };
    let free = usage.free_bytes.map(|free| format!(", {} free on its disk", human::bytes(free))).unwrap_or_default();
    let mut line = |line: String| writeln!(text, "{line}").expect("writing into a string does not fail");
    line(format!("{}{role}: {} of models{free}", usage.library.path, human::bytes(usage.model_bytes)));
    let mut rows = vec![row(["NAME", "OWN", "SHARED"])];
    for model in &usage.models {
        let mut cells = vec![model.model.clone(), human::bytes(model.own_bytes), human::bytes(model.shared_bytes)];
        if model.missing > 0 {
            cells.push("incomplete: pull it again".to_owned());
        }
        rows.push(cells);
    }
    if !usage.models.is_empty() {
        line(render(&rows).trim_end_matches('\n').to_owned());
    }
    if usage.shared_bytes > 0 {
        line(format!("{} shared by several models", human::bytes(usage.shared_bytes)));
    }
    if usage.unreferenced_files > 0 {
        let hint =
            if usage.library.role == LibraryRole::Own { "; `cairn gc` removes files older than an hour" } else { "" };
        let size = human::bytes(usage.unreferenced_bytes);
        line(format!("{size} in no model, in {}{hint}", human::files(usage.unreferenced_files)));
    }
    if usage.partial_files > 0 {
        let size = human::bytes(usage.partial_bytes);
        line(format!("{size} of partial downloads, in {}", human::files(usage.partial_files)));
    }
    line(String::new());
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::app::{Library, ModelUsage};

    #[test]
    fn usage_text_lists_libraries_in_order() {
        let library = |path: &str, role, state| Library {
            path: path.to_owned(),
            role,
            state,
            reason: None,
            missed: false,
            models: 0,
            skipped: Vec::new(),
        };
        let empty = |library| LibraryUsage {
            library,
            models: Vec::new(),
            model_bytes: 0,
            shared_bytes: 0,
            unreferenced_bytes: 0,
            unreferenced_files: 0,
            partial_bytes: 0,
            partial_files: 0,
            free_bytes: None,
        };
        let model =
            ModelUsage { model: "m:latest".to_owned(), own_bytes: 1_500, shared_bytes: 4_000_000_000, missing: 1 };
        let own = LibraryUsage {
            models: vec![model],
            model_bytes: 4_000_001_500,
            shared_bytes: 4_000_000_000,
            unreferenced_bytes: 20,
            unreferenced_files: 1,
            partial_bytes: 3_000_000,
            partial_files: 2,
            free_bytes: Some(5_000_000_000),
            ..empty(library("/own", LibraryRole::Own, LibraryState::Present))
        };
        let linked = empty(library("/linked", LibraryRole::Linked, LibraryState::Present));
        let absent = empty(library("/absent", LibraryRole::Linked, LibraryState::Absent));
        let usage = UsageResponse { libraries: vec![own, linked, absent], total_bytes: 4_003_001_520 };
        let expected = "/own: 4.0 GB of models, 5 GB free on its disk\n\
                        NAME        OWN       SHARED    \n\
                        m:latest    1.5 KB    4 GB      incomplete: pull it again    \n\
                        4 GB shared by several models\n\
                        20 B in no model, in 1 file; `cairn gc` removes files older than an hour\n\
                        3 MB of partial downloads, in 2 files\n\
                        \n\
                        /linked (read-only): 0 B of models\n\
                        \n\
                        4.0 GB in all\n";
        assert_eq!(text(&usage), expected, "an absent library is reported by `note_missing`");
    }
}
