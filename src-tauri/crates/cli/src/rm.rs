//! `cairn rm`: deletes models from the library.
//!
//! Standard output has only Ollama's line for each model, because scripts parse it. The freed bytes are printed to
//! standard error and with `--json`.

use cairn_app::library::local_name;
use cairn_wire::app::DeleteResponse;
use cairn_wire::ollama::DeleteRequest;

use crate::client::Client;
use crate::{CliContext, args, daemon, human, output, several};

pub(crate) async fn delete(cli: &CliContext, args: &args::Rm) -> anyhow::Result<()> {
    let prepared = async {
        let unmarked = args.models.iter().map(|model| local_name(model).unwrap_or(model).to_owned());
        several::check_names(&unmarked.collect::<Vec<_>>(), "deleted")?;
        daemon::connect_or_start(cli).await
    };
    let client = several::report_failure(args.json, several::only(&args.models), prepared.await)?;
    several::each(args.json, &args.models, "were not deleted", async |model| {
        delete_one(&client, model, args.json).await
    })
    .await
}

async fn delete_one(client: &Client, model: &str, json: bool) -> anyhow::Result<()> {
    let request = DeleteRequest { model: model.to_owned(), ..Default::default() };
    let deleted = if client.is_own_daemon() {
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
