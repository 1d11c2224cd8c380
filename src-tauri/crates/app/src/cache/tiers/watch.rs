//! Says in the log how the places of the tiers fare: one line when one fails, with the reason, and one when it is back.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use cairn_tier::tiers::{Event, Health};
use cairn_tier::{TierKind, Tiers};

/// Listens as long as there are the tiers.
pub(super) fn health(tiers: &Arc<Tiers>) {
    let (events, tiers) = (tiers.events(), Arc::downgrade(tiers));
    let listen = move || {
        let mut ill = HashSet::new();
        for event in events {
            let Event::Health(place, health) = event else { continue };
            let well = matches!(health, Health::Up | Health::Scanning);
            let was_ill = if well { ill.remove(&place) } else { !ill.insert(place) };
            if !well || was_ill {
                say(&tiers, place, health);
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("tier-watch".to_owned()).spawn(listen) {
        tracing::warn!(%error, "how the tiers fare is not logged");
    }
}

fn say(tiers: &Weak<Tiers>, place: TierKind, health: Health) {
    let places = tiers.upgrade().map(|tiers| tiers.status().tiers).unwrap_or_default();
    let reason = places.into_iter().find(|found| found.kind == place).and_then(|found| found.last_error);
    let reason = reason.unwrap_or_default();
    match health {
        Health::Up | Health::Scanning => tracing::info!(%place, "this tier works again"),
        Health::ReadOnly => tracing::warn!(%place, reason, "nothing is written to this tier for a minute"),
        Health::Suspect => tracing::warn!(%place, reason, "nothing more is written to this tier until the next start"),
        Health::Unavailable => tracing::warn!(%place, reason, "this tier is left alone for a while"),
    }
}
