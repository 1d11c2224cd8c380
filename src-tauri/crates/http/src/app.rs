//! `/app`: what only our own clients ask. Every route needs the daemon's token; see [`crate::access`].

mod attend;
mod import;
mod load;
mod open;
mod status;
mod stop;

use axum::Router;

use crate::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .merge(attend::routes())
        .merge(import::routes())
        .merge(load::routes())
        .merge(open::routes())
        .merge(status::routes())
        .merge(stop::routes())
}
