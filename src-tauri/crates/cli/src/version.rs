//! `cairn --version`.

use cairn_app::VERSION;
use cairn_wire::ollama::VersionResponse;

use crate::{CliContext, daemon, output};

pub(crate) async fn print(cli: &CliContext) -> anyhow::Result<()> {
    output::print(&format!("cairn version is {VERSION}\n"))?;
    if let Some(client) = daemon::connect(cli).await? {
        let server: VersionResponse = client.get("/api/version").await?;
        // Other servers have only Ollama's version.
        let version = server.cairn.unwrap_or(server.version);
        if version != VERSION {
            output::print(&format!("Warning: the server's version is {version}\n"))?;
        }
    }
    Ok(())
}
