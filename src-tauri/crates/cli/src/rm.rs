//! `cairn rm`: deletes models from the store.
//!
//! Standard output has Ollama's line for each model and nothing else, because scripts read it. What was freed is told on
//! standard error, and by `--json`.

use cairn_wire::app::DeleteResponse;
use cairn_wire::ollama::DeleteRequest;

use crate::{Setting, args, daemon, human, output};

pub(crate) async fn delete(setting: &Setting, args: &args::Rm) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    for model in &args.models {
        let request = DeleteRequest { model: model.clone(), ..Default::default() };
        let deleted = if client.is_ours() {
            client.post::<_, DeleteResponse>("/app/delete", &request).await?
        } else {
            client.delete("/api/delete", &request).await?;
            DeleteResponse { model: model.clone(), freed_bytes: None }
        };
        if args.json {
            output::json(&deleted)?;
            continue;
        }
        output::print(&format!("deleted '{model}'\n"))?;
        if let Some(freed_bytes) = deleted.freed_bytes {
            output::note(&format!("freed {}", human::bytes(freed_bytes)));
        }
    }
    Ok(())
}
