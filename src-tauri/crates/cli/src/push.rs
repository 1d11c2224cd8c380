//! `cairn push`: sends a model to the registry that its name belongs to, and shows how far it has come.

use anyhow::{anyhow, bail};
use cairn_wire::ollama::{PullLine, PushRequest};

use crate::client::BrokenOff;
use crate::{Setting, args, daemon, output, pull, several};

pub(crate) async fn push(setting: &Setting, args: &args::Push) -> anyhow::Result<()> {
    several::told(args.json, Some(&args.model), shown(setting, args).await)
}

async fn shown(setting: &Setting, args: &args::Push) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    let model = &args.model;
    let request = PushRequest { model: model.clone(), insecure: args.insecure, ..PushRequest::default() };
    let mut show = pull::show(args.json);
    let pushed = async {
        let mut lines = client.stream("/api/push", &request).await?;
        let mut succeeded = false;
        loop {
            match lines.next::<PullLine>().await {
                Ok(Some(line)) => {
                    succeeded = line.status == "success";
                    show.line(&line)?;
                }
                Ok(None) if succeeded => return Ok(()),
                Err(error) if !error.is::<BrokenOff>() => {
                    return Err(error.context("the push ended before the model was there"));
                }
                _ => {
                    bail!("the daemon ended before all of {model} was sent; `cairn push {model}` sends what is missing")
                }
            }
        }
    };
    let pushed = tokio::select! {
        pushed = pushed => pushed,
        // The daemon stops when nobody reads any more.
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted; `cairn push {model}` sends what is missing")),
    };
    show.end();
    pushed?;
    match args.json {
        true => Ok(()),
        false => output::print(&format!("\nYou can find your model at:\n\n\t{}\n", cairn_app::pushed_to(model))),
    }
}
