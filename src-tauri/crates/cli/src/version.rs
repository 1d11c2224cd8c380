//! `cairn --version`.

use cairn_app::VERSION;
use cairn_wire::ollama::VersionResponse;

use crate::{CliContext, daemon, one_line, output};

pub(crate) async fn print(cli: &CliContext) -> anyhow::Result<()> {
    output::print(&format!("cairn version is {VERSION}\n"))?;
    let client = match daemon::connect(cli).await {
        Ok(client) => client,
        Err(error) => {
            output::note(&format!("Warning: {}", one_line(&error)));
            None
        }
    };
    if let Some(client) = client {
        let server: VersionResponse = client.get("/api/version").await?;
        // Other servers have only Ollama's version.
        let version = server.cairn.unwrap_or(server.version);
        if version != VERSION {
            output::print(&format!("Warning: the server's version is {version}\n"))?;
        }
    }
    Ok(())
}
