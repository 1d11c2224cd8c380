//! Applies changed settings to the parts of the running daemon.

use crate::cache::KvCache;
use crate::settings::{Apply, Row, SettingProblem, Settings};
use crate::system::SystemInfo;
use crate::transfers::Transfers;

/// The parts that settings can change while the daemon runs.
pub(crate) struct LiveParts {
    pub(crate) cache: KvCache,
    pub(crate) transfers: Transfers,
    pub(crate) system: SystemInfo,
}

impl Apply for LiveParts {
    fn check(&self, row: &Row, next: &Settings) -> Result<(), SettingProblem> {
        match (row.key, &next.engine.kernel) {
            (Some("engine.kernel"), Some(name)) => self.system.check_kernel(name),
            _ => self.cache.check_setting(row, next),
        }
    }

    fn apply(&self, row: &Row, next: &Settings) -> bool {
        match row.key {
            Some("downloads.limit") => {
                self.transfers.set_speed_limit(next.downloads.limit_bytes_per_s);
                true
            }
            _ => self.cache.apply_setting(row, next),
        }
    }

    fn older_value(&self, row: &Row) -> Option<String> {
        self.cache.older_limit(row)
    }

    fn forget_older(&self, keys: &[&str]) {
        self.cache.forget_limits(keys);
    }
}
