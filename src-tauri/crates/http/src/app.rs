//! `/app`: the API of Cairn's own clients. Every route needs the daemon's token or a session token; see
//! [`crate::access`].

mod attend;
pub(crate) mod cache;
mod chats;
mod collections;
mod discover;
mod documents;
mod downloads;
mod gc;
mod hardware;
mod import;
mod keys;
mod libraries;
mod load;
mod log;
mod logins;
mod mirror;
mod models;
mod open;
mod remotes;
mod scan;
mod server;
mod settings;
mod speeds;
mod status;
mod stop;
mod tools;
mod updates;
mod verify;

use axum::Router;

use crate::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .merge(attend::routes())
        .merge(cache::routes())
        .merge(chats::routes())
        .merge(collections::routes())
        .merge(discover::routes())
        .merge(documents::routes())
        .merge(downloads::routes())
        .merge(gc::routes())
        .merge(hardware::routes())
        .merge(import::routes())
        .merge(keys::routes())
        .merge(libraries::routes())
        .merge(load::routes())
        .merge(log::routes())
        .merge(logins::routes())
        .merge(mirror::routes())
        .merge(models::routes())
        .merge(open::routes())
        .merge(remotes::routes())
        .merge(scan::routes())
        .merge(server::routes())
        .merge(settings::routes())
        .merge(speeds::routes())
        .merge(status::routes())
        .merge(stop::routes())
        .merge(tools::routes())
        .merge(updates::routes())
        .merge(verify::routes())
}
