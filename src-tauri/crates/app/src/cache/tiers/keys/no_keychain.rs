//! Replacement for [`SystemKeychain`] in a build without the feature `keychain`.

use super::Keychain;

const MISSING: &str = "this build does not support keychains: build with the feature `keychain`";

/// The system's keychain, which this build does not support.
pub(crate) struct SystemKeychain;

impl Keychain for SystemKeychain {
    fn get(&self) -> Result<Option<Vec<u8>>, String> {
        Err(MISSING.to_owned())
    }

    fn set(&self, _: &[u8]) -> Result<(), String> {
        Err(MISSING.to_owned())
    }
}
