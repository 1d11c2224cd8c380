//! `cairn push`: sends a model to the registry that its name belongs to, and shows how far it has come.

use anyhow::{anyhow, bail};
use cairn_wire::ollama::PushRequest;

use crate::{Setting, args, daemon, output, pull, several};

pub(crate) async fn push(setting: &Setting, args: &args::Push) -> anyhow::Result<()> {
    several::told(args.json, Some(&args.model), shown(setting, args).await)
}

async fn shown(setting: &Setting, args: &args::Push) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    let model = &args.model;
    let request = PushRequest { model: model.clone(), insecure: args.insecure, ..PushRequest::default() };
    let mut show = pull::show(args.json);
    let lines = client.stream("/api/push", &request);
    let pushed = tokio::select! {
        pushed = pull::follow(lines, show.as_mut(), "the push ended before the model was there") => pushed,
        // The daemon stops when nobody reads any more.
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted; `cairn push {model}` sends what is missing")),
    };
    show.end();
    if !pushed? {
        bail!("the daemon ended before all of {model} was sent; `cairn push {model}` sends what is missing");
    }
    match args.json {
        true => Ok(()),
        false => {
            output::print(&format!("\nYou can find your model at:\n\n\t{}\n", cairn_app::transfers::pushed_to(model)))
        }
    }
}
