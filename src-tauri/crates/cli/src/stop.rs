//! `cairn stop`: takes a model out of memory, or ends the daemon.

use anyhow::{anyhow, bail};
use cairn_wire::KeepAlive;
use cairn_wire::ollama::{GenerateChunk, GenerateRequest};
use reqwest::StatusCode;

use crate::client::Refusal;
use crate::{Setting, args, daemon};

pub(crate) async fn stop(setting: &Setting, args: &args::Stop) -> anyhow::Result<()> {
    let client = daemon::find(setting).await?;
    let Some(model) = &args.model else {
        return match client {
            Some(client) if client.is_ours() => {
                client.tell("/app/stop", &()).await?;
                // Whoever starts another one next must find the lock free.
                daemon::wait_for_end(setting).await
            }
            Some(_) => bail!("the server that OLLAMA_HOST names is not Cairn's daemon"),
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

/// Did the server say that there is no such thing?
pub(crate) fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refusal>().is_some_and(|refusal| refusal.status == StatusCode::NOT_FOUND)
}
