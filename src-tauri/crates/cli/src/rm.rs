//! `cairn rm`: deletes models from the store.
//!
//! Standard output has Ollama's line for each model and nothing else, because scripts read it. What was freed is told on
//! standard error, and by `--json`.

use cairn_wire::app::DeleteResponse;
use cairn_wire::ollama::DeleteRequest;

use crate::client::Client;
use crate::{Setting, args, daemon, human, output, several};

pub(crate) async fn delete(setting: &Setting, args: &args::Rm) -> anyhow::Result<()> {
    let prepared = async {
        several::check_names(&args.models, "deleted")?;
        daemon::reach(setting).await
    };
    let client = several::told(args.json, several::only(&args.models), prepared.await)?;
    several::each(args.json, &args.models, "were not deleted", async |model| one(&client, model, args.json).await).await
}

async fn one(client: &Client, model: &str, json: bool) -> anyhow::Result<()> {
    let request = DeleteRequest { model: model.to_owned(), ..Default::default() };
    let deleted = if client.is_ours() {
        client.post::<_, DeleteResponse>("/app/delete", &request).await?
    } else {
        client.delete("/api/delete", &request).await?;
        DeleteResponse { model: model.to_owned(), freed_bytes: None }
    };
    if json {
        return output::json(&deleted);
    }
    output::print(&format!("deleted '{model}'\n"))?;
    if let Some(freed_bytes) = deleted.freed_bytes {
        output::note(&format!("freed {}", human::bytes(freed_bytes)));
    }
    Ok(())
}
