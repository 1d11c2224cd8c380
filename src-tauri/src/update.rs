//! New versions of the app itself. Only a build that was given a public key and an address fetches any, and only what that key's
//! owner signed; all others, those made from a checkout among them, refuse.

use anyhow::{Context, bail};
use tauri::{AppHandle, Url};
use tauri_plugin_updater::UpdaterExt;

/// The public key, in minisign's format.
const KEY: Option<&str> = option_env!("CAIRN_UPDATE_KEY");
/// Where new versions are announced.
const ADDRESS: Option<&str> = option_env!("CAIRN_UPDATE_URL");

/// What makes an update trustworthy; absent in builds that were given none.
pub(crate) fn signed() -> Option<(&'static str, &'static str)> {
    KEY.zip(ADDRESS)
}

/// Looks for a new version, and installs it. Returns its number, or `None` where this one is the newest.
///
/// # Errors
/// This build is not signed, the address cannot be asked, or the signature is not the key's.
pub(crate) async fn update(app: &AppHandle) -> anyhow::Result<Option<String>> {
    let Some((key, address)) = signed() else {
        bail!("this build is not signed, so it cannot tell a true update from a false one and fetches none");
    };
    let address = Url::parse(address).context("the address of updates is no address")?;
    let updater = app.updater_builder().pubkey(key).endpoints(vec![address])?.build()?;
    let Some(found) = updater.check().await.context("could not look for a new version")? else { return Ok(None) };
    let version = found.version.clone();
    found.download_and_install(|_, _| {}, || {}).await.with_context(|| format!("could not install {version}"))?;
    Ok(Some(version))
}
