//! `cairn pull`: brings models here, and shows how far they have come.
//!
//! The daemon does the work and survives this program. Ctrl-C tells it to stop, unless somebody else waits for the same
//! model; `--detach` leaves the work to it from the start.

mod bars;
mod lines;
mod repeats;

use anyhow::{Context, anyhow, bail};
use cairn_wire::app::{CapRequest, Download, DownloadRequest, DownloadsResponse};
use cairn_wire::ollama::{PullLine, PullRequest};

use crate::client::Client;
use crate::{Setting, args, daemon, human, output};
use bars::Bars;
use lines::Lines;

/// How somebody is told how far it has come.
pub(crate) trait Show {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()>;
    /// Nothing more comes.
    fn end(&mut self);
}

pub(crate) async fn pull(setting: &Setting, args: &args::Pull) -> anyhow::Result<()> {
    let limit = args.limit.as_deref().map(rate).transpose()?;
    let client = daemon::reach(setting).await?;
    if let Some(limit) = limit {
        client.must_be_ours("limiting downloads")?;
        let request = CapRequest { bytes_per_second: Some(limit) };
        client.post::<_, DownloadsResponse>("/app/downloads/cap", &request).await?;
        if limit == 0 {
            output::note("downloads have no limit now");
        }
    }
    for model in &args.models {
        match args.detach {
            true => detached(&client, args, model).await?,
            false => {
                let request = PullRequest {
                    model: model.clone(),
                    insecure: args.insecure,
                    sources: args.source.clone(),
                    ..PullRequest::default()
                };
                watched(&client, &request, args.json).await?;
            }
        }
    }
    Ok(())
}

/// A number of bytes per second; `0` and `none` for no limit.
fn rate(text: &str) -> anyhow::Result<u64> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(0);
    }
    let rate = cairn_app::settings::bytes(text);
    rate.ok_or_else(|| anyhow!("--limit {text:?} is no number of bytes per second; 20M or 500k for instance"))
}

/// Leaves a model to the daemon.
async fn detached(client: &Client, args: &args::Pull, model: &str) -> anyhow::Result<()> {
    client.must_be_ours("leaving a download to the daemon (--detach)")?;
    let request = DownloadRequest { model: model.to_owned(), insecure: args.insecure, sources: args.source.clone() };
    let download: Download = client.post("/app/downloads", &request).await?;
    if args.json {
        return output::json(&download);
    }
    let id = download.id;
    output::print(&format!("{} is download {id}; `cairn downloads` shows how far it has come\n", download.model))
}

/// Fetches a model and shows how far it has come.
pub(crate) async fn watched(client: &Client, request: &PullRequest, json: bool) -> anyhow::Result<()> {
    let mut show = show(json);
    let pulled = async {
        let mut lines = client.stream("/api/pull", request).await?;
        let mut succeeded = false;
        while let Some(line) = lines.next::<PullLine>().await.context("the pull ended before the model was here")? {
            succeeded = line.status == "success";
            show.line(&line)?;
        }
        if !succeeded {
            bail!(
                "the daemon went away before {model} was here; what came is kept, and `cairn pull {model}` goes on",
                model = request.model
            );
        }
        Ok(())
    };
    let pulled = tokio::select! {
        pulled = pulled => pulled,
        _ = tokio::signal::ctrl_c() => Err(anyhow!(
            "interrupted. Nothing is lost: what came is kept. `cairn pull {0}` goes on from there, with --detach in the \
             background; `cairn downloads discard {0}` removes it",
            request.model
        )),
    };
    show.end();
    pulled
}

/// How it is told: for scripts, at a terminal, or in a pipe.
pub(crate) fn show(json: bool) -> Box<dyn Show> {
    match (json, Bars::new()) {
        (true, _) => Box::new(Json),
        (false, Some(bars)) => Box::new(bars),
        (false, None) => Box::new(Lines::default()),
    }
}

/// Every line as the daemon sent it, for scripts.
struct Json;

impl Show for Json {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        output::json(line)
    }

    fn end(&mut self) {}
}

/// `pulling 6a0746a1ec1a`, its size.
fn begun(line: &PullLine) -> String {
    format!("{} ({})", line.status, human::bytes(line.total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("20M").unwrap(), 20_000_000, "units of thousands");
        assert_eq!(rate("none").unwrap(), 0, "no limit");
        assert!(rate("fast").unwrap_err().to_string().contains("20M"), "an example is given");
    }
}
