//! `cairn mirror`: this machine as a registry for others, and the mirrors that it uses itself.

use std::fmt::Write;
use std::time::SystemTime;

use cairn_wire::app::{
    AllowRequest, ForgetRequest, FoundMachine, InviteResponse, JoinMirrorRequest, KnownKey, MirrorResponse,
};
use serde::Serialize;

use crate::args::{Json, MirrorVerb};
use crate::table::{render, row};
use crate::{Setting, args, daemon, human, output};

pub(crate) async fn mirror(setting: &Setting, args: &args::Mirror) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("sharing models")?;
    match &args.verb {
        MirrorVerb::Serve(Json { json }) => {
            let state: MirrorResponse = client.get("/app/mirror").await?;
            let invited: InviteResponse = client.post("/app/mirror/invite", &()).await?;
            if *json {
                return output::json(&Invitation { mirror: &state, invited: &invited });
            }
            let address = format!(
                "http://{}:{}",
                setting.host_name.as_deref().unwrap_or("HOST"),
                setting.settings.server.address.port()
            );
            let beyond = !setting.settings.server.address.is_loopback();
            output::print(&served(&state, &invited, &address, beyond))
        }
        MirrorVerb::Join { address, code } => {
            let address = if address.contains("://") { address.clone() } else { format!("http://{address}") };
            let request = JoinMirrorRequest { address: address.trim_end_matches('/').to_owned(), code: code.clone() };
            let state: MirrorResponse = client.post("/app/mirror/join", &request).await?;
            let key = state.joined.iter().find(|known| known.label == request.address);
            let fingerprint = key.map_or("", |known| &known.fingerprint);
            output::print(&format!("joined {} ({fingerprint}); models come from there first now\n", request.address))
        }
        MirrorVerb::Allow { key } => {
            let _: MirrorResponse = client.post("/app/mirror/allow", &AllowRequest { key: key.clone() }).await?;
            output::print("models are fetched for the owner of that key\n")
        }
        MirrorVerb::Forget { which } => {
            let _: MirrorResponse = client.post("/app/mirror/forget", &ForgetRequest { which: which.clone() }).await?;
            output::print(&format!("forgot {which}\n"))
        }
        MirrorVerb::Peers(Json { json }) => {
            let state: MirrorResponse = client.get("/app/mirror").await?;
            if *json {
                return output::json(&Peers { known: &state.known, joined: &state.joined, nearby: &state.nearby });
            }
            output::print(&peers(&state, setting.clock.now()))
        }
        MirrorVerb::Stats(Json { json }) => {
            let state: MirrorResponse = client.get("/app/mirror").await?;
            if *json { output::json(&state) } else { output::print(&stats(&state)) }
        }
    }
}

#[derive(Serialize)]
struct Invitation<'a> {
    #[serde(flatten)]
    mirror: &'a MirrorResponse,
    #[serde(flatten)]
    invited: &'a InviteResponse,
}

#[derive(Serialize)]
struct Peers<'a> {
    known: &'a [KnownKey],
    joined: &'a [KnownKey],
    nearby: &'a [FoundMachine],
}

fn served(state: &MirrorResponse, invited: &InviteResponse, address: &str, beyond: bool) -> String {
    let mut text = match (state.shares, state.fetches) {
        (false, _) => "Only programs on this machine can pull from it now. To share its models with others, start the \
                       daemon with CAIRN_SHARE=1 and OLLAMA_HOST=0.0.0.0.\n"
            .to_owned(),
        (true, false) => {
            "Other machines can pull the models that are here. With CAIRN_MIRROR=1 the daemon fetches what is \
                          missing, too.\n"
                .to_owned()
        }
        (true, true) => {
            format!(
                "Other machines can pull models here; what is missing is fetched from {}.\n",
                state.origins.join(", ")
            )
        }
    };
    if beyond {
        text += "OLLAMA_HOST lets other machines in, and to /api too, as Ollama's does: whoever reaches this one can use, \
                 pull, make and delete its models. /v2 alone has keys.\n";
    }
    let code = &invited.code;
    write!(
        text,
        "Its key is {}.\nOn another machine, within ten minutes and once:\n\n  cairn mirror join {address} {code}\n",
        state.fingerprint
    )
    .expect("writing into a string does not fail");
    text
}

fn peers(state: &MirrorResponse, now: SystemTime) -> String {
    if state.known.is_empty() && state.joined.is_empty() && state.nearby.is_empty() {
        return "nobody; `cairn mirror serve` shows how another machine joins this one\n".to_owned();
    }
    let mut text = String::new();
    if !(state.known.is_empty() && state.joined.is_empty()) {
        let mut rows = vec![row(["NAME", "KEY", "IS"])];
        let lists = [(&state.known, "fetched for"), (&state.joined, "mirror, joined")];
        for (list, what) in lists {
            rows.extend(list.iter().map(|known| row([&output::shown(&known.label), &known.fingerprint, what])));
        }
        text += &render(&rows);
    }
    if !state.nearby.is_empty() {
        let mut rows = vec![row(["FOUND", "ADDRESS", "IS", "LAST SEEN", "BYTES GOT"])];
        rows.extend(state.nearby.iter().map(|found| {
            let is = match (found.dropped, found.joined) {
                (true, _) => "dropped: it sent wrong bytes",
                (false, true) => "joined",
                (false, false) => "blobs only",
            };
            let (seen, got) = (human::relative(found.seen_at, now), human::bytes(found.got_bytes));
            row([&output::shown(&found.name), &output::shown(&found.address), is, &seen, &got])
        }));
        text += &render(&rows);
    }
    text
}

fn stats(state: &MirrorResponse) -> String {
    let asked = state.hits + state.misses;
    let mut text = format!(
        "{} sent, {} fetched from origins; {} of {asked} answers were here already\n",
        human::bytes(state.sent_bytes),
        human::bytes(state.fetched_bytes),
        state.hits,
    );
    if state.stale > 0 {
        writeln!(text, "{} times an origin could not be asked about a name", state.stale)
            .expect("writing into a string does not fail");
    }
    if !state.clients.is_empty() {
        let mut rows = vec![row(["CLIENT", "SENT", "ANSWERS", "REFUSED", "OPEN"])];
        rows.extend(state.clients.iter().map(|client| {
            let (sent, answers) = (human::bytes(client.sent_bytes), client.requests.to_string());
            row([&client.address, &sent, &answers, &client.refused.to_string(), &client.open.to_string()])
        }));
        text += &render(&rows);
    }
    text
}

#[cfg(test)]
mod tests {
    use cairn_wire::Timestamp;

    use super::*;

    #[test]
    fn serving_says_what_else_is_open() {
        let invited = InviteResponse { code: "1".to_owned(), until: Timestamp(SystemTime::UNIX_EPOCH) };
        let state = MirrorResponse {
            shares: true,
            fetches: false,
            origins: Vec::new(),
            key: String::new(),
            fingerprint: String::new(),
            hits: 0,
            misses: 0,
            stale: 0,
            fetched_bytes: 0,
            sent_bytes: 0,
            clients: Vec::new(),
            known: Vec::new(),
            joined: Vec::new(),
            nearby: Vec::new(),
        };
        assert!(served(&state, &invited, "http://nas:1", true).contains("/api"), "to those beyond this machine");
        assert!(!served(&state, &invited, "http://nas:1", false).contains("/api"), "of which there are none");
    }
}
