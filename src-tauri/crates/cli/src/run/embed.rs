//! `cairn run` with an embedding model: prints the vector of the prompt as a JSON array, as `ollama run` does.

use anyhow::Context;
use cairn_wire::KeepAlive;
use cairn_wire::ollama::{EmbedRequest, EmbedResponse};

use crate::client::Client;
use crate::{args, output};

/// Prints the vector of a text. An empty text only loads the model, or unloads it with a keep-alive of zero.
pub(super) async fn embed(
    client: &Client,
    model: &str,
    text: &str,
    args: &args::Run,
    keep_alive: Option<KeepAlive>,
) -> anyhow::Result<()> {
    let request = EmbedRequest {
        model: model.to_owned(),
        input: text.into(),
        truncate: args.truncate,
        dimensions: args.dimensions.map(i64::from),
        keep_alive,
        ..EmbedRequest::default()
    };
    let response: EmbedResponse = client.post("/api/embed", &request).await?;
    if text.is_empty() {
        return Ok(());
    }
    output::json(response.embeddings.first().context("the server sent no vector")?)
}
