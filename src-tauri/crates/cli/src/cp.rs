//! `cairn cp`: gives a model a second name.

use anyhow::bail;
use cairn_wire::app::{CopyLine, CopyResponse};
use cairn_wire::ollama::CopyRequest;

use crate::client::Client;
use crate::progress::Progress;
use crate::{CliContext, args, daemon, output};

pub(crate) async fn copy(cli: &CliContext, args: &args::Cp) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    let args::Cp { source, destination, json } = args;
    let request = CopyRequest { source: source.clone(), destination: destination.clone() };
    let copied = if client.is_own_daemon() {
        let mut progress = Progress::new();
        let copied = tokio::select! {
            copied = copy_with_progress(&client, &request, &mut progress) => copied,
            // The daemon cancels the copy when the client disconnects.
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted; nothing was copied")),
        };
        progress.clear();
        copied?
    } else {
        client.post_without_response("/api/copy", &request).await?;
        CopyResponse { source: source.clone(), destination: destination.clone(), copied_bytes: None }
    };
    match json {
        true => output::json(&copied),
        false => output::print(&format!("copied '{source}' to '{destination}'\n")),
    }
}

/// Copies a model and shows the progress: a model of another library may be large, and its disk slow.
async fn copy_with_progress(
    client: &Client,
    request: &CopyRequest,
    progress: &mut Progress,
) -> anyhow::Result<CopyResponse> {
    let mut lines = client.stream("/app/copy", request).await?;
    while let Some(line) = lines.next::<CopyLine>().await? {
        match line {
            CopyLine::Hashing { completed, total } => progress.show("hashing", completed, total),
            CopyLine::Copying { completed, total } => progress.show("copying", completed, total),
            CopyLine::Success(copied) => return Ok(copied),
        }
    }
    bail!("the daemon ended before the model was copied")
}
