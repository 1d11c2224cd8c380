//! `cairn scan`: finds the models of other apps on this machine and shows how to import them.

use std::path::PathBuf;

use anyhow::bail;
use cairn_wire::app::{FoundModel, FoundState, ScanLine, ScanRequest, ScannedModels, SkippedFile};

use crate::client::Client;
use crate::progress::Progress;
use crate::table::{render, row};
use crate::{CliContext, args, daemon, human, model, output};

pub(crate) async fn scan(cli: &CliContext, args: &args::Scan) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("scanning for models")?;
    let folders = args.folders.iter().map(|folder| model::absolute(folder)).collect::<Result<_, _>>()?;
    let request = ScanRequest { folders, apps: true, digests: args.digests };
    let mut scanned = request_scan(&client, &request).await?;
    if args.json {
        output::json(&scanned)?;
    }
    // A skipped folder is an error only if the command line names it. Other skipped folders are noted.
    let (named, others) = scanned.skipped.into_iter().partition(|file| request.folders.contains(&file.path));
    let named: Vec<SkippedFile> = named;
    scanned.skipped = others;
    if !args.json {
        output::print(&table(&scanned.models))?;
        notes(&scanned).iter().for_each(|line| output::note(line));
        if named.is_empty() || !scanned.models.is_empty() {
            output::print(&advice(&scanned.models, cli.home.as_ref()))?;
        }
    }
    if !named.is_empty() {
        let named: Vec<String> = named.iter().map(|file| format!("{} ({})", file.path, file.reason)).collect();
        bail!("cannot scan {}", named.join(", "));
    }
    Ok(())
}

/// Requests a scan from the daemon and shows the progress.
pub(crate) async fn request_scan(client: &Client, request: &ScanRequest) -> anyhow::Result<ScannedModels> {
    let mut progress = Progress::new();
    let scanned = async {
        let mut lines = client.stream("/app/scan", request).await?;
        while let Some(line) = lines.next::<ScanLine>().await? {
            match line {
                ScanLine::Hashing { completed, total } => progress.show("hashing", completed, total),
                ScanLine::Done(scanned) => return Ok(scanned),
            }
        }
        bail!("the daemon ended before the scan was complete");
    };
    let scanned = tokio::select! {
        scanned = scanned => scanned,
        // The daemon cancels the scan when the client disconnects.
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    progress.clear();
    scanned
}

fn table(models: &[FoundModel]) -> String {
    if models.is_empty() {
        return String::new();
    }
    let mut rows = vec![row(["NAME", "SIZE", "FROM", "PATH", "STATE"])];
    for model in models {
        let name = if model.state == FoundState::Broken { "-".to_owned() } else { model.name.clone() };
        rows.push(vec![name, human::bytes(model.size), model.app.clone(), model.path.clone(), state(model)]);
    }
    render(&rows)
}

fn state(model: &FoundModel) -> String {
    let ours = model.model.as_deref().unwrap_or_default();
    let state = match model.state {
        FoundState::New => "new".to_owned(),
        FoundState::Here => format!("already here as {ours}"),
        FoundState::MaybeHere => format!("same size as {ours}; use --digests to compare"),
        FoundState::Projector => "mmproj: part of a vision model".to_owned(),
        FoundState::Adapter => "adapter: part of a model".to_owned(),
        FoundState::Broken => format!("broken: {}", model.reason.as_deref().unwrap_or("no reason was given")),
    };
    match model.parts {
        0 | 1 => state,
        parts => format!("{state}, split in {parts} files"),
    }
}

/// Returns one note for skipped folders and one for a scan that reached its limits.
pub(crate) fn notes(scanned: &ScannedModels) -> Vec<String> {
    let mut notes = Vec::new();
    match scanned.skipped.as_slice() {
        [] => {}
        [file] => notes.push(format!("{} could not be scanned: {}.", file.path, file.reason)),
        [file, more @ ..] => {
            let (path, reason) = (&file.path, &file.reason);
            notes.push(format!("{path} and {} more could not be scanned: {reason}.", more.len()));
        }
    }
    if let Some(folder) = &scanned.cut {
        notes.push(format!(
            "The scan is incomplete: {folder} is too deep or has too many files; use `cairn scan {folder}`."
        ));
    }
    notes
}

/// Returns the last line: the next command.
fn advice(models: &[FoundModel], home: Option<&PathBuf>) -> String {
    let new = || models.iter().filter(|model| model.state == FoundState::New);
    let maybe = || models.iter().filter(|model| model.state == FoundState::MaybeHere);
    let Some(first) = new().chain(maybe()).max_by_key(|model| (model.state == FoundState::New, model.size)) else {
        return match models {
            [] => "No models of other apps were found; `cairn scan FOLDER` scans another folder.\n".to_owned(),
            _ => "Nothing to import: all complete models are here already.\n".to_owned(),
        };
    };
    // Ollama's library also has templates, parameters and names, so use it as a library instead of importing files.
    if let Some((root, _)) = first.path.split_once("/blobs/sha256-").filter(|_| first.app == "Ollama") {
        return format!("To use Ollama's models in place: CAIRN_LIBRARIES={} cairn serve\n", quoted(root, home));
    }
    format!(
        "To import a model: cairn import {}  (--link makes a hard link, --move removes the original)\n",
        quoted(&first.path, home)
    )
}

/// Quotes a path for a shell.
fn quoted(path: &str, home: Option<&PathBuf>) -> String {
    let plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "/._-+:\\".contains(c));
    let home = home.and_then(|home| home.to_str()).filter(|home| home.len() > 1);
    match home.and_then(|home| path.strip_prefix(home)).filter(|rest| rest.starts_with('/') && plain(rest)) {
        Some(rest) => format!("~{rest}"),
        None if plain(path) => path.to_owned(),
        None => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::app::SkippedFile;

    fn model(state: FoundState, path: &str, size: u64) -> FoundModel {
        FoundModel {
            name: "m:latest".to_owned(),
            size,
            app: "LM Studio".to_owned(),
            path: path.to_owned(),
            parts: 1,
            state,
            model: Some("ours:latest".to_owned()),
            reason: Some("it is cut off".to_owned()),
            digest: None,
            family: String::new(),
            parameter_size: String::new(),
            quantization_level: String::new(),
        }
    }

    #[test]
    fn scan_table_shows_state_of_found_models() {
        let models = [
            FoundModel { parts: 3, ..model(FoundState::New, "/a/new.gguf", 4_700_000_000) },
            model(FoundState::Here, "/a/here.gguf", 1_000),
            model(FoundState::Broken, "/a/cut.gguf", 1_000),
        ];
        let expected = "\
NAME        SIZE      FROM         PATH            STATE                          
m:latest    4.7 GB    LM Studio    /a/new.gguf     new, split in 3 files          
m:latest    1 KB      LM Studio    /a/here.gguf    already here as ours:latest    
-           1 KB      LM Studio    /a/cut.gguf     broken: it is cut off          
";
        assert_eq!(table(&models), expected, "one row per model");
        let check = |found, part: &str| assert!(state(&model(found, "/a", 1)).contains(part), "{part}");
        check(FoundState::MaybeHere, "--digests");
        check(FoundState::Projector, "mmproj");
        check(FoundState::Adapter, "adapter");
    }

    #[test]
    fn advice_line_shows_next_command() {
        let home = PathBuf::from("/home/a");
        let check = |models: &[FoundModel], part: &str| {
            let line = advice(models, Some(&home));
            assert!(line.contains(part) && line.lines().count() == 1, "{part:?} is missing from {line:?}");
        };
        check(&[], "`cairn scan FOLDER`");
        check(&[model(FoundState::Here, "/a", 1)], "Nothing to import");
        let (small, large) = (model(FoundState::New, "/x/b c.gguf", 1), model(FoundState::New, "/home/a/l.gguf", 2));
        check(&[small.clone(), large, model(FoundState::MaybeHere, "/m", 9)], "cairn import ~/l.gguf ");
        check(&[small], "cairn import '/x/b c.gguf' ");
        check(&[model(FoundState::MaybeHere, "/home/abc/it's", 9)], r"cairn import '/home/abc/it'\''s' ");
        let ollama = FoundModel { app: "Ollama".to_owned(), ..model(FoundState::New, "/o/blobs/sha256-0", 1) };
        check(&[ollama], "CAIRN_LIBRARIES=/o cairn serve");
    }

    #[test]
    fn notes_report_skipped_and_limited_folders() {
        let skipped = |path: &str| SkippedFile { path: path.to_owned(), reason: "no right".to_owned() };
        let mut scanned = ScannedModels { models: Vec::new(), folders: Vec::new(), skipped: Vec::new(), cut: None };
        assert!(notes(&scanned).is_empty(), "a complete scan");
        scanned.skipped = vec![skipped("/a")];
        assert_eq!(notes(&scanned), ["/a could not be scanned: no right."], "one skipped folder");
        scanned.skipped.extend([skipped("/b"), skipped("/c")]);
        scanned.cut = Some("/deep".to_owned());
        let notes = notes(&scanned);
        assert!(notes.len() == 2 && notes[0].starts_with("/a and 2 ") && notes[1].contains("/deep"), "{notes:?}");
    }
}
