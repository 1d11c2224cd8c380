//! `cairn key`: API keys of other programs.

use std::time::SystemTime;

use cairn_wire::app::{CreateKeyRequest, CreateKeyResponse, KeyScope, KeysResponse, RevokeKeyRequest};

use crate::args::Json;
use crate::args::key::{Key, KeyVerb};
use crate::table::{render, row};
use crate::{CliContext, daemon, human, output};

pub(crate) async fn key(cli: &CliContext, args: &Key) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("an API key")?;
    match &args.verb {
        KeyVerb::Create { name, scopes, json } => {
            let request = CreateKeyRequest { name: name.clone(), scopes: scopes.clone() };
            let created: CreateKeyResponse = client.post("/app/keys", &request).await?;
            match json {
                true => output::json(&created),
                // The key alone is on standard output, so that a script can store it.
                false => {
                    output::note("Store this key now: it is not shown again.");
                    output::print(&format!("{}\n", created.key))
                }
            }
        }
        KeyVerb::List(Json { json }) => {
            let listed: KeysResponse = client.get("/app/keys").await?;
            if *json { output::json(&listed) } else { output::print(&table(&listed, cli.clock.now())) }
        }
        KeyVerb::Revoke { name, json } => {
            let left: KeysResponse = client.post("/app/keys/revoke", &RevokeKeyRequest { name: name.clone() }).await?;
            if *json { output::json(&left) } else { output::print("revoked the key\n") }
        }
    }
}

fn table(listed: &KeysResponse, now: SystemTime) -> String {
    if listed.keys.is_empty() {
        return "no API keys; `cairn key create NAME` creates one\n".to_owned();
    }
    let mut rows = vec![row(["NAME", "SCOPES", "CREATED", "LAST USED"])];
    rows.extend(listed.keys.iter().map(|key| {
        let scopes = key.scopes.iter().map(|scope| KeyScope::name(*scope)).collect::<Vec<_>>().join(", ");
        let used = key.last_used_at.map_or("never".to_owned(), |at| human::relative(at, now));
        row([&key.name, &scopes, &human::relative(key.created_at, now), &used])
    }));
    render(&rows)
}
