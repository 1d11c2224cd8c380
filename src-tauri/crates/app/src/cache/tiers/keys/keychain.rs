//! The system's keychain. Only this module uses the crate `keyring`.

use std::sync::mpsc;
use std::time::Duration;

use super::Keychain;

/// Name of the key in the keychain.
const SERVICE: &str = "app.cairn";
const ACCOUNT: &str = "prefix cache";
/// Timeout of the keychain. It may be asking the user for a password.
const KEYCHAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The system's keychain: macOS Keychain, Windows Credential Manager, or the Secret Service.
pub(crate) struct SystemKeychain;

impl SystemKeychain {
    /// Calls the keychain on a separate thread. The thread is abandoned after the timeout.
    fn ask<T: Send + 'static>(
        call: impl FnOnce(&keyring::v1::Entry) -> Result<T, keyring::v1::Error> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let request = move || {
            let answer = keyring::v1::Entry::new(SERVICE, ACCOUNT).and_then(|entry| call(&entry));
            // The receiver is dropped after the timeout; that is not an error.
            let _ = sender.send(answer.map_err(|error| error.to_string()));
        };
        let spawned = std::thread::Builder::new().name("keychain".to_owned()).spawn(request);
        spawned.map_err(|error| error.to_string())?;
        receiver
            .recv_timeout(KEYCHAIN_TIMEOUT)
            .map_err(|_| format!("no answer within {} s", KEYCHAIN_TIMEOUT.as_secs()))?
    }
}

impl Keychain for SystemKeychain {
    fn get(&self) -> Result<Option<Vec<u8>>, String> {
        Self::ask(|entry| match entry.get_secret() {
            Ok(key) => Ok(Some(key)),
            Err(keyring::v1::Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn set(&self, key: &[u8]) -> Result<(), String> {
        let key = key.to_owned();
        Self::ask(move |entry| entry.set_secret(&key))
    }
}
