//! The `service_tier` of a request: `flex` gives it the priority of a batch request.
//!
//! OpenAI adds tiers, and may serve a request in another tier than the requested one, which the response reports. So an unfamiliar
//! tier is no error, and is served as `default`.

use cairn_app::inference::{Client, Inference, Priority};
use cairn_wire::openai::ServiceTier;

/// Returns the handle for a request with this tier, and the tier of its response. A response reports a tier only if the request has one.
pub(super) fn apply(requested: Option<&str>, inference: Inference) -> (Inference, Option<ServiceTier>) {
    let inference = match requested {
        Some("flex") => inference.for_client(Client { priority: Priority::Batch, ..inference.client().clone() }),
        _ => inference,
    };
    let tier = match inference.client().priority {
        Priority::Interactive => ServiceTier::Default,
        Priority::Batch => ServiceTier::Flex,
    };
    (inference, requested.map(|_| tier))
}
