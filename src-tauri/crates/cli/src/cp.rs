//! `cairn cp`: a second name for a model.

use anyhow::bail;
use cairn_wire::app::{CopyLine, CopyResponse};
use cairn_wire::ollama::CopyRequest;

use crate::client::Client;
use crate::progress::Progress;
use crate::{Setting, args, daemon, output};

pub(crate) async fn copy(setting: &Setting, args: &args::Cp) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    let args::Cp { source, destination, json } = args;
    let request = CopyRequest { source: source.clone(), destination: destination.clone() };
    let copied = if client.is_ours() {
        let mut progress = Progress::new();
        let copied = tokio::select! {
            copied = watched(&client, &request, &mut progress) => copied,
            // The daemon stops when nobody waits for it any more.
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted; nothing was copied")),
        };
        progress.clear();
        copied?
    } else {
        client.tell("/api/copy", &request).await?;
        CopyResponse { source: source.clone(), destination: destination.clone(), copied_bytes: None }
    };
    match json {
        true => output::json(&copied),
        false => output::print(&format!("copied '{source}' to '{destination}'\n")),
    }
}

/// Copies, and shows how far it has come: a model of another library may be large, and its disk slow.
async fn watched(client: &Client, request: &CopyRequest, progress: &mut Progress) -> anyhow::Result<CopyResponse> {
    let mut lines = client.stream("/app/copy", request).await?;
    while let Some(line) = lines.next::<CopyLine>().await? {
        match line {
            CopyLine::Hashing { completed, total } => progress.show("hashing", completed, total),
            CopyLine::Copying { completed, total } => progress.show("copying", completed, total),
            CopyLine::Success(copied) => return Ok(copied),
        }
    }
    bail!("the daemon went away before the model was copied")
}
