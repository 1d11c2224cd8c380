//! `/app/mirror`: this machine as a mirror for other machines, and the mirrors that it uses.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::Error;
use cairn_app::settings::MirroredOrigin;
use cairn_app::transfers::{FoundPeer, Peer, TrustedPeer};
use cairn_wire::app::{
    AllowRequest, ForgetRequest, FoundMachine, InviteResponse, JoinMirrorRequest, KnownKey, MirrorClient,
    MirrorResponse,
};
use cairn_wire::{ErrorCode, Timestamp, excerpt};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/mirror", get(state))
        .route("/app/mirror/invite", post(invite))
        .route("/app/mirror/join", post(join))
        .route("/app/mirror/allow", post(allow))
        .route("/app/mirror/forget", post(forget))
}

async fn state(State(server): State<Server>) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &response(&server).await?))
}

async fn invite(State(server): State<Server>) -> Result<Response, ApiError> {
    let invited = server.app().transfers().invite()?;
    Ok(json(StatusCode::OK, &InviteResponse { code: invited.code, until: Timestamp(invited.until) }))
}

async fn join(State(server): State<Server>, Body(request): Body<JoinMirrorRequest>) -> Result<Response, ApiError> {
    let label = server.host_name().unwrap_or("a machine without a name");
    server.app().transfers().join(&request.address, &request.code, label).await?;
    state(State(server)).await
}

async fn allow(State(server): State<Server>, Body(request): Body<AllowRequest>) -> Result<Response, ApiError> {
    server.app().transfers().allow(&request.key).await?;
    state(State(server)).await
}

async fn forget(State(server): State<Server>, Body(request): Body<ForgetRequest>) -> Result<Response, ApiError> {
    if server.app().transfers().forget_peer(&request.which).await? == 0 {
        let text =
            format!("there is no key or mirror {:?}; run `cairn mirror peers` for a list", excerpt(&request.which));
        return Err(ApiError::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, text));
    }
    state(State(server)).await
}

async fn response(server: &Server) -> Result<MirrorResponse, Error> {
    let app = server.app();
    let (settings, counts, clients) =
        (app.settings().at_start(), app.transfers().mirror_counts(), app.transfers().peers().list());
    let key = app.transfers().peer_key().await?;
    let (trusted, joined) = app.transfers().known_peers()?;
    let nearby = app.transfers().found_peers()?;
    Ok(MirrorResponse {
        shares: settings.sharing.share,
        fetches: settings.sharing.mirror,
        origins: settings.sharing.mirror_origins.iter().map(origin).collect(),
        key: key.to_string(),
        fingerprint: key.fingerprint(),
        hits: counts.hits,
        misses: counts.misses,
        stale: counts.stale,
        fetched_bytes: counts.fetched_bytes,
        sent_bytes: clients.iter().map(|client| client.sent_bytes).sum(),
        clients: clients.into_iter().map(client).collect(),
        known: trusted.into_iter().map(trusted_key).collect(),
        joined: joined.into_iter().map(trusted_key).collect(),
        nearby: nearby.into_iter().map(found).collect(),
    })
}

fn origin(origin: &MirroredOrigin) -> String {
    match &origin.namespace {
        Some(namespace) => format!("{}/{namespace}", origin.host),
        None => origin.host.clone(),
    }
}

fn client(peer: Peer) -> MirrorClient {
    MirrorClient {
        address: peer.address.to_string(),
        requests: peer.requests,
        refused: peer.refused,
        open: peer.open.into(),
        sent_bytes: peer.sent_bytes,
        asked_at: Timestamp(peer.asked_at),
    }
}

fn found(FoundPeer { peer, joined }: FoundPeer) -> FoundMachine {
    FoundMachine {
        address: peer.info.addresses.first().map(ToString::to_string).unwrap_or_default(),
        name: peer.info.label,
        version: peer.info.version,
        fingerprint: peer.info.fingerprint,
        joined,
        dropped: peer.blocked,
        seen_at: Timestamp(peer.seen_at),
        got_bytes: peer.received_bytes,
    }
}

fn trusted_key(peer: TrustedPeer) -> KnownKey {
    KnownKey { label: peer.label, key: peer.key.to_string(), fingerprint: peer.key.fingerprint() }
}
