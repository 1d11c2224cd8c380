//! `cairn list`: the models of all libraries.

use std::time::SystemTime;

use cairn_wire::app::{LibrariesResponse, Library, LibraryState, ListedModels};
use cairn_wire::ollama::{TagsModel, TagsResponse};

use crate::table::{render, row};
use crate::{CliContext, args, daemon, human, output};

/// Characters of a digest in a list.
const ID_CHARACTERS: usize = 12;

pub(crate) async fn print(cli: &CliContext, args: &args::List) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    let mut libraries = Vec::new();
    if client.is_own_daemon() {
        libraries = client.get::<LibrariesResponse>("/app/libraries").await?.libraries;
    }
    note_missing(&libraries);
    let mut models = client.get::<TagsResponse>("/api/tags").await?.models;
    let prefix = args.prefix.as_deref().unwrap_or_default().to_lowercase();
    models.retain(|model| model.name.to_lowercase().starts_with(&prefix));
    match args.json {
        true => output::json(&ListedModels { models, libraries }),
        false => output::print(&table(&models, cli.clock.now())),
    }
}

/// Notes absent and unreadable libraries, so that an incomplete list does not look complete.
pub(crate) fn note_missing<'a>(libraries: impl IntoIterator<Item = &'a Library>) {
    for line in libraries.into_iter().filter_map(missing) {
        output::note(&line);
    }
}

fn missing(library: &Library) -> Option<String> {
    let (path, reason) = (&library.path, library.reason.as_deref().unwrap_or("no reason was given"));
    match library.state {
        LibraryState::Absent if library.missed => Some(format!("The library {path} is absent: {reason}.")),
        LibraryState::Unreadable => Some(format!("The library {path} cannot be read: {reason}.")),
        LibraryState::Absent | LibraryState::Present => None,
    }
}

fn table(models: &[TagsModel], now: SystemTime) -> String {
    let mut rows = vec![row(["NAME", "ID", "SIZE", "MODIFIED"])];
    for model in models {
        // The built-in model has no useful modification time.
        let modified = match (&model.origin, model.remotes.as_slice()) {
            (Some(origin), []) => origin.clone(),
            (None, []) => human::relative(model.modified_at, now),
            (_, remotes) => format!("at {}", remotes.join(", ")),
        };
        let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let id = or_dash(model.digest.chars().take(ID_CHARACTERS).collect());
        // Servers of the OpenAI API report no size.
        let size = if model.size > 0 { human::bytes(model.size) } else { "-".to_owned() };
        rows.push(vec![output::escape_controls(&model.name).into_owned(), id, size, modified]);
    }
    render(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::Timestamp;
    use cairn_wire::ollama::Details;
    use std::time::Duration;

    #[test]
    fn model_table_shows_names_sizes_and_ages() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let model = |name: &str, origin: Option<&str>| TagsModel {
            name: name.to_owned(),
            model: name.to_owned(),
            modified_at: Timestamp(now - Duration::from_secs(7200)),
            size: 4_661_211_424,
            digest: "0123456789abcdef".to_owned(),
            details: Details::default(),
            capabilities: Vec::new(),
            origin: origin.map(str::to_owned),
            remotes: Vec::new(),
        };
        let at_remotes = TagsModel {
            remotes: vec!["gpu".to_owned(), "nas".to_owned()],
            size: 0,
            digest: String::new(),
            ..model("Org/M", Some("remote"))
        };
        let models = [model("Llama3:latest", None), model("pebble:latest", Some("built in")), at_remotes];
        let expected = "NAME             ID              SIZE      MODIFIED       \n\
                        Llama3:latest    0123456789ab    4.7 GB    2 hours ago    \n\
                        pebble:latest    0123456789ab    4.7 GB    built in       \n\
                        Org/M            -               -         at gpu, nas    \n";
        assert_eq!(table(&models, now), expected, "all models");
    }

    #[test]
    fn list_reports_missing_libraries() {
        let check = |state, missed, expected: Option<&str>| {
            let (path, reason) = ("/m".to_owned(), Some("gone".to_owned()));
            let role = cairn_wire::app::LibraryRole::Linked;
            let library = Library { path, role, state, reason, missed, models: 0, skipped: Vec::new() };
            assert_eq!(missing(&library).as_deref(), expected, "{state:?}");
        };
        check(LibraryState::Present, false, None);
        check(LibraryState::Absent, false, None);
        check(LibraryState::Absent, true, Some("The library /m is absent: gone."));
        check(LibraryState::Unreadable, false, Some("The library /m cannot be read: gone."));
    }
}
