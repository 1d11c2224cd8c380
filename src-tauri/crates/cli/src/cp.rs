//! `cairn cp`: a second name for a model.

use cairn_wire::app::CopyResponse;
use cairn_wire::ollama::CopyRequest;

use crate::{Setting, args, daemon, output};

pub(crate) async fn copy(setting: &Setting, args: &args::Cp) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    let args::Cp { source, destination, json } = args;
    let request = CopyRequest { source: source.clone(), destination: destination.clone() };
    let copied = if client.is_ours() {
        client.post::<_, CopyResponse>("/app/copy", &request).await?
    } else {
        client.tell("/api/copy", &request).await?;
        CopyResponse { source: source.clone(), destination: destination.clone(), copied_bytes: None }
    };
    match json {
        true => output::json(&copied),
        false => output::print(&format!("copied '{source}' to '{destination}'\n")),
    }
}
