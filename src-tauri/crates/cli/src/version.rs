//! `cairn --version`.

use cairn_app::VERSION;
use cairn_wire::ollama::VersionResponse;

use crate::{Setting, daemon};

pub(crate) async fn print(setting: &Setting) -> anyhow::Result<()> {
    println!("cairn version is {VERSION}");
    if let Some(client) = daemon::find(setting).await? {
        let server: VersionResponse = client.get("/api/version").await?;
        if server.version != VERSION {
            println!("Warning: the server's version is {}", server.version);
        }
    }
    Ok(())
}
