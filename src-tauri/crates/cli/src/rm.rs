//! `cairn rm`: deletes models from the store.

use cairn_wire::ollama::DeleteRequest;

use crate::{Setting, args, daemon, output};

pub(crate) async fn delete(setting: &Setting, args: &args::Rm) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    for model in &args.models {
        let request = DeleteRequest { model: model.clone(), ..Default::default() };
        client.delete("/api/delete", &request).await?;
        output::print(&format!("deleted '{model}'\n"))?;
    }
    Ok(())
}
