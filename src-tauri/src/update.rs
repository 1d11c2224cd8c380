//! Updates of the app. Only a build with a public key and an address installs updates, and only those signed with the
//! key. All other builds, for example from a checkout, refuse to update.

use anyhow::{Context, bail};
use tauri::{AppHandle, Url};
use tauri_plugin_updater::UpdaterExt;

/// The public key, in minisign's format.
const KEY: Option<&str> = option_env!("CAIRN_UPDATE_KEY");
/// Address where new versions are announced.
const ADDRESS: Option<&str> = option_env!("CAIRN_UPDATE_URL");

/// Returns the public key and the address; `None` in a build without them.
pub(crate) fn signed() -> Option<(&'static str, &'static str)> {
    KEY.zip(ADDRESS)
}

/// Checks for a new version and installs it. Returns the new version, or `None` if this one is the newest.
///
/// # Errors
/// This build has no key, the address does not answer, or the signature is invalid.
pub(crate) async fn update(app: &AppHandle) -> anyhow::Result<Option<String>> {
    let Some((key, address)) = signed() else {
        bail!("this build has no update key and cannot verify updates; install a release to get updates");
    };
    let address = Url::parse(address).context("the address of updates is invalid")?;
    let updater = app.updater_builder().pubkey(key).endpoints(vec![address])?.build()?;
    let Some(found) = updater.check().await.context("cannot check for a new version")? else { return Ok(None) };
    let version = found.version.clone();
    found.download_and_install(|_, _| {}, || {}).await.with_context(|| format!("cannot install version {version}"))?;
    Ok(Some(version))
}
