//! Logs the health of the tiers: one line when a tier fails, with the reason, and one when it recovers.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use cairn_tier::tiers::{Event, Health};
use cairn_tier::{TierKind, Tiers};

/// Starts a thread that logs health events until the tiers are dropped.
pub(super) fn health(tiers: &Arc<Tiers>) {
    let (events, tiers) = (tiers.events(), Arc::downgrade(tiers));
    let listen = move || {
        let mut ill = HashSet::new();
        for event in events {
            let Event::Health(place, health) = event else { continue };
            let well = matches!(health, Health::Up | Health::Scanning);
            let was_ill = if well { ill.remove(&place) } else { !ill.insert(place) };
            if !well || was_ill {
                log(&tiers, place, health);
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("tier-watch".to_owned()).spawn(listen) {
        tracing::warn!(%error, "cannot log the health of the tiers");
    }
}

fn log(tiers: &Weak<Tiers>, tier: TierKind, health: Health) {
    let statuses = tiers.upgrade().map(|tiers| tiers.status().tiers).unwrap_or_default();
    let reason = statuses.into_iter().find(|found| found.kind == tier).and_then(|found| found.last_error);
    let reason = reason.unwrap_or_default();
    match health {
        Health::Up | Health::Scanning => tracing::info!(%tier, "the tier is available again"),
        Health::ReadOnly => tracing::warn!(%tier, reason, "writes to the tier are paused for a minute"),
        Health::Suspect => tracing::warn!(%tier, reason, "writes to the tier are stopped until the next start"),
        Health::Unavailable => {
            tracing::warn!(%tier, reason, "the tier is unavailable; the next attempt follows after a pause")
        }
    }
}
