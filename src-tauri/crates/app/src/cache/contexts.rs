//! Status of the tiers, and operations on cached contexts: list, pin, prefetch, delete.
//!
//! Deletions also clear pages of loaded models: a model must not flush deleted rows again.

use std::time::{Duration, UNIX_EPOCH};

use cairn_runtime::{ModelId, ModelMetrics, RecomputedTokens};
use cairn_tier::tiers::{Deletion, Health, Status, StoredPrefix};
use cairn_tier::{ChunkId, Owner, TierKind};

use super::error::Error;
use super::handle::KvCache;
use super::hours::{HourCounts, PromptCounts};

/// Longest wait for a deletion. After it, the rest is only counted in the result.
const DELETION: Duration = Duration::from_secs(30);
const HOUR_S: u64 = 3600;
/// Characters of a context's id, and the shortest prefix that is accepted.
const ID_CHARS: usize = 16;
const MIN_ID_CHARS: usize = 4;

/// A cached sequence.
#[derive(Debug, Clone)]
pub struct CachedContext {
    /// Id of the context, stable while it is cached.
    pub id: String,
    /// Name of the model, if this installation has used it.
    pub model: Option<String>,
    /// The stored prefix.
    pub context: StoredPrefix,
}

/// Status and counters of the tiers.
#[derive(Debug, Clone)]
pub struct CacheStatus {
    /// Sizes and counters.
    pub tiers: Status,
    /// Folder of the SSD tier.
    pub folder: Option<std::path::PathBuf>,
    /// Tokens of all prompts since the daemon started.
    pub prompt_tokens: u64,
    /// Tokens of these that were found in the cache.
    pub cached_tokens: u64,
    /// Time that restores have saved since the start of the day (UTC) or of the daemon.
    pub saved_today: Duration,
    /// Prompt tokens that were computed, by reason.
    pub recomputed: RecomputedTokens,
    /// Prompt tokens of the last 24 hours; hours without prompts are left out.
    pub hours: Vec<HourCounts>,
}

impl KvCache {
    /// Status of the tiers; `None` if there are no tiers.
    #[must_use]
    pub fn status(&self) -> Option<CacheStatus> {
        let usage = self.engine.metrics();
        let hour = self.observe(&usage);
        let hours = self.hours.lock();
        let cached = usage.iter().map(|(_, usage)| usage.page_tokens + usage.restored_tokens.iter().sum::<u64>());
        let mut recomputed = RecomputedTokens::default();
        usage.iter().for_each(|(_, usage)| recomputed += usage.recomputed);
        Some(CacheStatus {
            tiers: self.tier_status(&usage)?,
            folder: self.settings.tiers.folder.clone(),
            prompt_tokens: usage.iter().map(|(_, usage)| usage.lookup_tokens).sum(),
            cached_tokens: cached.sum(),
            saved_today: hours.saved_on_day_of(hour),
            recomputed,
            hours: hours.hours(),
        })
    }

    /// Adds the engine's counts to this hour. To be called after an answer.
    pub(crate) fn count_answer(&self) {
        self.observe(&self.engine.metrics());
    }

    /// Adds counts to this hour, which is returned.
    fn observe(&self, usage: &[(ModelId, ModelMetrics)]) -> u64 {
        let hour = self.clock.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / HOUR_S;
        self.hours.lock().observe(hour, PromptCounts::sum(usage.iter().map(|(_, usage)| usage)));
        hour
    }

    /// Status of the tiers, with hit tokens counted by answers. The tiers' own count is higher: a restored chunk may
    /// overlap rows that the model already has, and window rows count the same tokens again.
    pub(crate) fn tier_status(&self, usage: &[(ModelId, ModelMetrics)]) -> Option<Status> {
        let mut status = self.kept.as_ref()?.tiers.status();
        for tier in &mut status.tiers {
            tier.counters.hit_tokens = usage.iter().map(|(_, usage)| usage.restored_tokens[tier.kind as usize]).sum();
        }
        Some(status)
    }

    /// Returns at most `limit` cached contexts, most recently used first.
    #[must_use]
    pub fn contexts(&self, limit: usize) -> Vec<CachedContext> {
        let Some(kept) = &self.kept else { return Vec::new() };
        let named = |context: StoredPrefix| CachedContext {
            id: id(&context.last),
            model: self.metadata.model(&context.last.fingerprint),
            context,
        };
        kept.tiers.stored_prefixes(limit).into_iter().map(named).collect()
    }

    /// Pins a context, so that it is neither evicted nor expired, or removes the pin.
    ///
    /// # Errors
    /// If the context is not cached, or pins would take too much space.
    pub fn pin_context(&self, id: &str, pinned: bool) -> Result<(), Error> {
        let last = self.context(id)?;
        Ok(self.tiers()?.set_pinned(&last, pinned)?)
    }

    /// Deletes a context except for chunks that other contexts share. Clears the pages of loaded models too. Blocks.
    ///
    /// # Errors
    /// If the context is not cached.
    pub fn drop_context(&self, id: &str) -> Result<Deletion, Error> {
        let last = self.context(id)?;
        // The tokens of the context may be unknown, so its pages cannot be determined.
        self.engine.clear_caches(None);
        Ok(self.tiers()?.forget(&last, DELETION))
    }

    /// Prefetches an owner's contexts to RAM. Returns their number.
    ///
    /// # Errors
    /// If there are no tiers.
    pub fn prefetch_owner(&self, owner: &Owner) -> Result<usize, Error> {
        let tiers = self.tiers()?;
        let theirs = tiers.stored_prefixes(usize::MAX).into_iter().filter(|context| context.owners.contains(owner));
        Ok(theirs.map(|context| tiers.prefetch(&context.last)).count())
    }

    /// Deletes all rows that only this owner has, including pages of loaded models. Blocks.
    pub fn forget_owner(&self, owner: &Owner) -> Deletion {
        self.engine.clear_caches(Some(owner));
        self.kept.as_ref().map_or_else(Deletion::default, |kept| kept.tiers.forget_owner(owner, DELETION))
    }

    /// Deletes all chunks of one tier, or of all tiers and the pages of loaded models. Blocks.
    pub fn clear(&self, tier: Option<TierKind>) -> Deletion {
        if tier.is_none() {
            self.engine.clear_caches(None);
        }
        let Some(kept) = &self.kept else { return Deletion::default() };
        match tier {
            Some(tier) => kept.tiers.clear_tier(tier, DELETION),
            None => kept.tiers.clear(DELETION),
        }
    }

    pub(crate) fn tiers(&self) -> Result<&cairn_tier::Tiers, Error> {
        self.kept.as_ref().map(|kept| &*kept.tiers).ok_or(Error::Off)
    }

    /// Returns the context whose id begins with `asked`.
    fn context(&self, asked: &str) -> Result<ChunkId, Error> {
        let none = || Error::NoContext(asked.to_owned());
        if asked.len() < MIN_ID_CHARS || asked.len() > ID_CHARS {
            return Err(none());
        }
        let all = self.tiers()?.stored_prefixes(usize::MAX).into_iter();
        let mut found = all.map(|context| context.last).filter(|last| id(last).starts_with(asked));
        match (found.next(), found.next()) {
            (Some(last), None) => Ok(last),
            (Some(_), Some(_)) => Err(Error::Ambiguous(asked.to_owned())),
            (None, _) => Err(none()),
        }
    }
}

impl CacheStatus {
    /// Why a tier is not fully available, as a text for users.
    #[must_use]
    pub fn reason(health: Health) -> Option<&'static str> {
        match health {
            Health::Up => None,
            Health::Scanning => Some("its chunks are being listed"),
            Health::ReadOnly => Some("it is full, or a write failed: writes are paused"),
            Health::Suspect => Some("it returned damaged chunks: writes are stopped until the daemon restarts"),
            Health::Unavailable => Some("it does not respond: the next attempt follows after a pause"),
        }
    }
}

fn id(last: &ChunkId) -> String {
    last.hash.to_string().chars().take(ID_CHARS).collect()
}
