//! `cairn stop`: unloads a model, or shuts the daemon down.

use anyhow::{anyhow, bail};
use cairn_wire::KeepAlive;
use cairn_wire::ollama::{GenerateChunk, GenerateRequest};

use crate::client::is_not_found;
use crate::{CliContext, args, daemon};

pub(crate) async fn stop(cli: &CliContext, args: &args::Stop) -> anyhow::Result<()> {
    let client = daemon::connect(cli).await?;
    let Some(model) = &args.model else {
        return match client {
            Some(client) if client.is_own_daemon() => {
                client.post_without_response("/app/stop", &()).await?;
                // The lock must be free for the next daemon when this verb returns.
                daemon::wait_for_end(cli).await
            }
            Some(_) => bail!("cannot stop the server of OLLAMA_HOST: it is not this user's Cairn daemon"),
            None => Ok(()),
        };
    };
    let unknown = || anyhow!("couldn't find model {model:?} to stop");
    let client = client.ok_or_else(unknown)?;
    let request = GenerateRequest { model: model.clone(), keep_alive: Some(KeepAlive::ZERO), ..Default::default() };
    match client.post::<_, GenerateChunk>("/api/generate", &request).await {
        Err(error) if is_not_found(&error) => Err(unknown()),
        stopped => stopped.map(drop),
    }
}
