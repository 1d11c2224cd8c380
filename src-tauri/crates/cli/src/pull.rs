//! `cairn pull`: pulls models and shows the progress.
//!
//! The daemon downloads and outlives this program. Ctrl-C cancels the pull unless another client waits for the same
//! model. With `--detach` the pull runs in the background.

mod bars;
mod lines;
mod repeats;

use anyhow::anyhow;
use cairn_wire::ErrorCode;
use cairn_wire::app::{CapRequest, Download, DownloadRequest, DownloadsResponse};
use cairn_wire::ollama::{PullLine, PullRequest};
use serde::Serialize;

use crate::client::{self, Client, StreamBroken};
use crate::several::{self, AbortAll};
use crate::{CliContext, args, daemon, human, output, terminal};
use bars::Bars;
use lines::Lines;

/// Output of the progress of a pull or a push.
pub(crate) trait PullOutput {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()>;
    /// Completes the output after the last line.
    fn end(&mut self);
}

pub(crate) async fn pull(cli: &CliContext, args: &args::Pull) -> anyhow::Result<()> {
    let client = several::report_failure(args.json, several::only(&args.models), prepare(cli, args).await)?;
    several::each(args.json, &args.models, "were not pulled", async |model| {
        if args.detach {
            return start_background(&client, args, model).await;
        }
        let request = PullRequest {
            model: model.to_owned(),
            insecure: args.insecure,
            sources: args.source.clone(),
            force: args.force,
            ..PullRequest::default()
        };
        match args.models.len() {
            1 if !args.json => pull_or_ask(&client, request).await,
            1 => follow_pull(&client, &request, show(args.json)).await,
            _ => {
                let show = show(args.json);
                follow_pull(
                    &client,
                    &request,
                    Box::new(PrefixedOutput { model: model.to_owned(), json: args.json, show }),
                )
                .await
            }
        }
    })
    .await
}

/// Checks the arguments, connects to the daemon and sets the limit.
async fn prepare(cli: &CliContext, args: &args::Pull) -> anyhow::Result<Client> {
    several::check_names(&args.models, "pulled")?;
    let limit = args.limit.as_deref().map(rate).transpose()?;
    let client = daemon::connect_or_start(cli).await?;
    if let Some(limit) = limit {
        client.require_own_daemon("limiting downloads")?;
        let request = CapRequest { bytes_per_second: Some(limit) };
        client.post::<_, DownloadsResponse>("/app/downloads/cap", &request).await?;
        if limit == 0 {
            output::note("downloads now have no limit");
        }
    }
    Ok(client)
}

/// Parses a rate in bytes per second; `0` and `none` mean no limit.
fn rate(text: &str) -> anyhow::Result<u64> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(0);
    }
    let rate = cairn_app::settings::bytes(text);
    rate.ok_or_else(|| anyhow!("invalid --limit {text:?}: use bytes per second, for example 20M or 500k"))
}

/// Starts a pull in the background.
async fn start_background(client: &Client, args: &args::Pull, model: &str) -> anyhow::Result<()> {
    client.require_own_daemon("a download in the background (--detach)")?;
    let (insecure, sources, force) = (args.insecure, args.source.clone(), args.force);
    let request = DownloadRequest { model: model.to_owned(), insecure, sources, force };
    let download: Download = client.post("/app/downloads", &request).await?;
    if args.json {
        return output::json(&download);
    }
    let id = download.id;
    output::print(&format!("{} is download {id}; `cairn downloads` shows its progress\n", download.model))
}

/// Pulls a model. If this version cannot run it, asks at a terminal whether to download it anyway.
async fn pull_or_ask(client: &Client, request: PullRequest) -> anyhow::Result<()> {
    let pulled = follow_pull(client, &request, show(false)).await;
    match &pulled {
        Err(error) if client::has_code(error, ErrorCode::ModelCannotRun) && terminal::is_stdin_terminal() => {
            output::note(&format!("{error:#}"));
            output::note("Download it anyway? [y/N]");
            match terminal::read_consent()? {
                true => follow_pull(client, &PullRequest { force: true, ..request }, show(false)).await,
                false => Err(anyhow!("nothing more was downloaded")),
            }
        }
        _ => pulled,
    }
}

/// Pulls a model and shows the progress.
pub(crate) async fn pull_with_progress(client: &Client, request: &PullRequest, json: bool) -> anyhow::Result<()> {
    follow_pull(client, request, show(json)).await
}

async fn follow_pull(client: &Client, request: &PullRequest, mut show: Box<dyn PullOutput>) -> anyhow::Result<()> {
    let model = &request.model;
    let insecure = if request.insecure { " --insecure" } else { "" };
    let daemon_ended = || {
        AbortAll(format!(
            "the daemon ended before {model} was complete. Nothing is lost: `cairn pull {model}{insecure}` resumes the \
             download"
        ))
    };
    let pulled = tokio::select! {
        pulled = follow(client.stream("/api/pull", request), show.as_mut(), "the pull failed") => {
            pulled.and_then(|is_complete| if is_complete { Ok(()) } else { Err(daemon_ended().into()) })
        }
        _ = tokio::signal::ctrl_c() => Err(AbortAll(format!(
            "interrupted. Nothing is lost: `cairn pull {model}` resumes the download, with --detach in the background; \
             `cairn downloads discard {model}` removes it"
        )).into()),
    };
    show.end();
    pulled
}

/// Shows the steps of a pull or a push. Returns whether it succeeded, `false` if the daemon ended before.
///
/// # Errors
/// The request failed, or the stream has an error, with `failure` as context.
pub(crate) async fn follow(
    lines: impl Future<Output = anyhow::Result<client::Lines>>,
    show: &mut dyn PullOutput,
    failure: &'static str,
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
            Err(error) if error.is::<StreamBroken>() => return Ok(false),
            Err(error) => return Err(error.context(failure)),
        }
    }
}

/// Output that prefixes each line with the model's name, for pulls of several models.
struct PrefixedOutput {
    model: String,
    json: bool,
    show: Box<dyn PullOutput>,
}

impl PullOutput for PrefixedOutput {
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

/// Selects the output: JSON for scripts, bars at a terminal, or plain lines.
pub(crate) fn show(json: bool) -> Box<dyn PullOutput> {
    match (json, Bars::new()) {
        (true, _) => Box::new(Json),
        (false, Some(bars)) => Box::new(bars),
        (false, None) => Box::new(Lines::default()),
    }
}

/// Prints every line as the daemon sent it.
struct Json;

impl PullOutput for Json {
    fn line(&mut self, line: &PullLine) -> anyhow::Result<()> {
        output::json(line)
    }

    fn end(&mut self) {}
}

/// Formats the first line of a blob: status and size.
fn first_line(line: &PullLine) -> String {
    format!("{} ({})", line.status, human::bytes(line.total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_is_parsed_with_units() {
        assert_eq!(rate("20M").unwrap(), 20_000_000, "decimal units");
        assert_eq!(rate("none").unwrap(), 0, "no limit");
        assert!(rate("fast").unwrap_err().to_string().contains("20M"), "the error has an example");
    }
}
