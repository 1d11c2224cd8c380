//! `/v1/messages`: the Anthropic API, as an adapter over the use cases of `cairn-app`.

mod ending;
mod messages;
mod request;
mod stream;

use axum::Router;

use crate::Server;

pub(crate) fn routes() -> Router<Server> {
    messages::routes()
}
