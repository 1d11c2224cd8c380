//! `cairn pull`: brings models here, and shows how far they have come.
//!
//! The daemon does the work and survives this program. Ctrl-C tells it to stop, unless somebody else waits for the same
//! model; `--detach` leaves the work to it from the start.

mod bars;
mod lines;
mod repeats;

use anyhow::anyhow;
use cairn_wire::app::{CapRequest, Download, DownloadRequest, DownloadsResponse};
use cairn_wire::ollama::{PullLine, PullRequest};
use serde::Serialize;

use crate::client::{self, BrokenOff, Client};
use crate::several::{self, Enough};
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
    let client = several::told(args.json, several::only(&args.models), prepare(setting, args).await)?;
    several::each(args.json, &args.models, "did not come", async |model| {
        if args.detach {
            return detached(&client, args, model).await;
        }
        let request = PullRequest {
            model: model.to_owned(),
            insecure: args.insecure,
            sources: args.source.clone(),
            ..PullRequest::default()
        };
        let show = show(args.json);
        match args.models.len() {
            1 => shown(&client, &request, show).await,
            _ => shown(&client, &request, Box::new(Named { model: model.to_owned(), json: args.json, show })).await,
        }
    })
    .await
}

/// The daemon, once nothing speaks against what is asked of it.
async fn prepare(setting: &Setting, args: &args::Pull) -> anyhow::Result<Client> {
    several::check_names(&args.models, "pulled")?;
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
    Ok(client)
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
    shown(client, request, show(json)).await
}

async fn shown(client: &Client, request: &PullRequest, mut show: Box<dyn Show>) -> anyhow::Result<()> {
    let model = &request.model;
    let insecure = if request.insecure { " --insecure" } else { "" };
    let gone = || {
        Enough(format!(
            "the daemon ended before {model} was here. Nothing is lost: what came is kept, and `cairn pull \
             {model}{insecure}` goes on from there"
        ))
    };
    let pulled = tokio::select! {
        pulled = follow(client.stream("/api/pull", request), show.as_mut(), "the pull ended before the model was here") => {
            pulled.and_then(|whole| if whole { Ok(()) } else { Err(gone().into()) })
        }
        _ = tokio::signal::ctrl_c() => Err(Enough(format!(
            "interrupted. Nothing is lost: what came is kept. `cairn pull {model}` goes on from there, with --detach in the \
             background; `cairn downloads discard {model}` removes it"
        )).into()),
    };
    show.end();
    pulled
}

/// Shows the steps of a pull or a push. Returns whether it was done, which it was not where the daemon ended before; `broken` is said
/// of other troubles on the way.
pub(crate) async fn follow(
    lines: impl Future<Output = anyhow::Result<client::Lines>>,
    show: &mut dyn Show,
    broken: &'static str,
) -> anyhow::Result<bool> {
    let mut lines = lines.await?;
    let mut succeeded = false;
    loop {
        match lines.next::<PullLine>().await {
            Ok(Some(line)) => {
                succeeded = line.status == "success";
                show.line(&line)?;
            }
            Ok(None) => return Ok(succeeded),
            Err(error) if error.is::<BrokenOff>() => return Ok(false),
            Err(error) => return Err(error.context(broken)),
        }
    }
}

/// One of several models: each line says which.
struct Named {
    model: String,
    json: bool,
    show: Box<dyn Show>,
}

impl Show for Named {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            model: &'a str,
            #[serde(flatten)]
            line: &'a PullLine,
        }
        match self.json {
            true => output::json(&Line { model: &self.model, line }),
            false => {
                let status = format!("{}: {}", self.model, line.status);
                self.show.line(&PullLine { status, ..line.clone() })
            }
        }
    }

    fn end(&mut self) {
        self.show.end();
    }
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
