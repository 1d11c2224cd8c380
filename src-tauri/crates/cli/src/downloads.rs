//! `cairn downloads`: lists, pauses, resumes, cancels and discards downloads.

use anyhow::bail;
use cairn_wire::app::{Download, DownloadChoice, DownloadState, DownloadsResponse};

use crate::args::{DownloadSelection, DownloadsVerb};
use crate::client::Client;
use crate::{CliContext, args, daemon, human, output, table};

pub(crate) async fn downloads(cli: &CliContext, args: &args::Downloads) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("the list of downloads")?;
    let json = args.json;
    match &args.verb {
        None | Some(DownloadsVerb::Ls { json: false }) => list(&client, json).await,
        Some(DownloadsVerb::Ls { json: true }) => list(&client, true).await,
        Some(DownloadsVerb::Pause(which)) => choose(&client, "pause", which, json).await,
        Some(DownloadsVerb::Resume(which)) => choose(&client, "resume", which, json).await,
        Some(DownloadsVerb::Cancel(which)) => choose(&client, "cancel", which, json).await,
        Some(DownloadsVerb::Discard(which)) => choose(&client, "discard", which, json).await,
    }
}

async fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let response: DownloadsResponse = client.get("/app/downloads").await?;
    match json {
        true => output::json(&response),
        false => output::print(&text(&response)),
    }
}

async fn choose(client: &Client, verb: &str, which: &DownloadSelection, json: bool) -> anyhow::Result<()> {
    if which.downloads.is_empty() {
        bail!("no download is named; `cairn downloads` lists them by id and name");
    }
    let before: DownloadsResponse = client.get("/app/downloads").await?;
    let mut after = before.clone();
    for download in &which.downloads {
        let choice = DownloadChoice { download: download.clone() };
        after = client.post(&format!("/app/downloads/{verb}"), &choice).await?;
    }
    if json || which.json {
        return output::json(&after);
    }
    let held = |response: &DownloadsResponse| response.downloads.iter().map(|one| one.held_bytes).sum::<u64>();
    output::print(&match verb {
        "pause" => "paused; `cairn downloads resume` continues the download\n".to_owned(),
        "resume" => "resumed; `cairn downloads` shows the progress\n".to_owned(),
        "cancel" => "cancelled; the partial download is kept for `cairn downloads resume` or another pull\n".to_owned(),
        _ => format!("discarded; freed {}\n", human::bytes(held(&before).saturating_sub(held(&after)))),
    })
}

fn text(response: &DownloadsResponse) -> String {
    if response.downloads.is_empty() {
        return "no downloads; `cairn pull MODEL` starts one\n".to_owned();
    }
    let mut rows = vec![table::row(["ID", "NAME", "STATE", "DONE", "RATE", "LEFT", "FROM"])];
    rows.extend(response.downloads.iter().map(row));
    let mut text = table::render(&rows);
    for download in &response.downloads {
        if let Some(error) = download.error.as_ref().filter(|_| download.state == DownloadState::Failed) {
            text += &format!("{}: {error}\n", download.model);
        } else if let Some(problem) = &download.problem {
            text += &format!("{}: {problem}\n", download.model);
        }
    }
    if let Some(limit) = response.limit_bytes_per_second {
        text += &format!("limit of all downloads: at most {}/s\n", human::bytes(limit));
    }
    text
}

fn row(download: &Download) -> Vec<String> {
    let state = match download.state {
        DownloadState::Queued => "queued",
        DownloadState::Running => "running",
        DownloadState::Paused => "paused",
        DownloadState::Stopped => "stopped",
        DownloadState::Failed => "failed",
        DownloadState::Done => "done",
    };
    let percent = (download.completed as f64 / download.total.max(1) as f64 * 100.0).floor();
    let done = match download.total {
        0 => "-".to_owned(),
        total => format!("{percent:.0}% of {}", human::bytes(total)),
    };
    let rate = match download.bytes_per_second {
        0 => "-".to_owned(),
        rate => format!("{}/s", human::bytes(rate)),
    };
    let left = download.eta_seconds.map_or_else(|| "-".to_owned(), |eta| crate::progress::eta(eta as f64));
    let from = download.source.clone().unwrap_or_else(|| "-".to_owned());
    vec![download.id.to_string(), download.model.clone(), state.to_owned(), done, rate, left, from]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_table_shows_rows_errors_and_limit() {
        let download = Download {
            id: 3,
            model: "m:latest".to_owned(),
            state: DownloadState::Failed,
            total: 4_000_000_000,
            completed: 1_000_000_000,
            bytes_per_second: 0,
            eta_seconds: None,
            held_bytes: 1_000_000_000,
            source: None,
            problem: Some("old".to_owned()),
            error: Some(cairn_wire::ErrorBody::text("no route")),
            detached: true,
        };
        let response = DownloadsResponse { downloads: vec![download], limit_bytes_per_second: Some(20_000_000) };
        let table = text(&response);
        for part in ["m:latest", "failed", "25% of 4 GB", "m:latest: no route\n", "at most 20 MB/s"] {
            assert!(table.contains(part), "{part:?} is missing from {table:?}");
        }
        assert!(!table.contains("old"), "the error replaces the older problem");
        assert!(text(&DownloadsResponse::default()).contains("cairn pull"), "an empty list shows the next command");
    }
}
