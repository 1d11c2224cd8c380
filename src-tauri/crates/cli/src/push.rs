//! `cairn push`: pushes a model to the registry of its name and shows the progress.

use anyhow::{anyhow, bail};
use cairn_wire::ollama::PushRequest;

use crate::{CliContext, args, daemon, output, pull, several};

pub(crate) async fn push(cli: &CliContext, args: &args::Push) -> anyhow::Result<()> {
    several::report_failure(args.json, Some(&args.model), follow_push(cli, args).await)
}

async fn follow_push(cli: &CliContext, args: &args::Push) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    let model = &args.model;
    let request = PushRequest { model: model.clone(), insecure: args.insecure, ..PushRequest::default() };
    let mut show = pull::show(args.json);
    let lines = client.stream("/api/push", &request);
    let pushed = tokio::select! {
        pushed = pull::follow(lines, show.as_mut(), "the push failed") => pushed,
        // The daemon cancels the push when the client disconnects.
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted; `cairn push {model}` resumes the push")),
    };
    show.end();
    if !pushed? {
        bail!("the daemon ended before {model} was complete; `cairn push {model}` resumes the push");
    }
    match args.json {
        true => Ok(()),
        false => {
            output::print(&format!("\nYou can find your model at:\n\n\t{}\n", cairn_app::transfers::pushed_to(model)))
        }
    }
}
