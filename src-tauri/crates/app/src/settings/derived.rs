//! Values derived from settings and the user's folders.

use std::path::PathBuf;

use cairn_registry::Proxies;
use cairn_store::ModelRef;

use super::env::Env;
use super::mirror::MirroredOrigin;
use super::places::Places;
use super::table::{CacheSettings, DownloadSettings, NetworkSettings, SharingSettings};
use super::tiers::RemoteLocation;

impl DownloadSettings {
    /// Bytes of disk space that downloads leave free.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes.unwrap_or(cairn_registry::DownloadConfig::default().reserve_bytes)
    }
}

/// The proxies for connections to registries.
pub(super) fn proxies(network: &NetworkSettings, env: &Env) -> Proxies {
    match &network.proxy {
        Some(url) => Proxies::all(url, &network.no_proxy),
        None => Proxies::from_variables(|name| env.text(name).map(str::to_owned)),
    }
}

impl SharingSettings {
    /// The mirrored origin that a name belongs to, if any.
    #[must_use]
    pub fn origin_of(&self, name: &ModelRef) -> Option<&MirroredOrigin> {
        self.mirror_origins.iter().find(|origin| {
            let namespace = origin.namespace.as_deref();
            origin.host.eq_ignore_ascii_case(name.host())
                && namespace.is_none_or(|only| only.eq_ignore_ascii_case(name.namespace()))
        })
    }
}

/// Configuration of the cache of computed prefixes: the settings, and values derived from them and from the user's
/// folders.
#[derive(Debug, Clone)]
pub struct TierSettings {
    /// The settings of the group.
    pub values: CacheSettings,
    /// The folder of the SSD tier; `None` if tiering is off or the folder's size is 0.
    pub folder: Option<PathBuf>,
    /// The remote tier; `None` if tiering is off.
    pub remote: Option<RemoteLocation>,
    /// Whether the encryption key is stored in the system's keychain.
    pub keychain: bool,
    /// The secret that names chunks and authenticates files.
    pub secret_file: PathBuf,
    /// The encryption key, if no keychain has it.
    pub key_file: PathBuf,
    /// Owners and pins of chunks.
    pub index_file: PathBuf,
    /// Digests of model files outside the libraries, by which their prefixes are found.
    pub digests_file: PathBuf,
    /// Records of the shares that were used: an unmounted share must not be taken for an empty one.
    pub shares_folder: PathBuf,
}

impl TierSettings {
    /// `keychain_by_default`: false if `CAIRN_HOME` is set, because its folder then holds the key too.
    pub(super) fn new(values: CacheSettings, places: &Places, keychain_by_default: bool) -> Self {
        let folder = values.folder.clone().unwrap_or_else(|| places.cache.join("kv"));
        Self {
            folder: (values.is_tiered && values.folder_bytes != Some(0)).then_some(folder),
            remote: values.remote.clone().filter(|_| values.is_tiered),
            keychain: values.keychain.unwrap_or(keychain_by_default),
            secret_file: places.data.join("kv-secret"),
            key_file: places.data.join("kv-key"),
            index_file: places.cache.join("kv-index.redb"),
            digests_file: places.cache.join("file-digests.json"),
            shares_folder: places.data.join("kv-shares"),
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mirror::origins;
    use super::*;

    #[test]
    fn mirrored_origin_matches_host_and_namespace() {
        let origins = origins("registry.ollama.ai/library,hf.co").unwrap();
        let settings = SharingSettings { share: false, mirror: true, mirror_origins: origins, trusted_proxies: vec![] };
        let check = |name: &str, expected: bool| {
            assert_eq!(settings.origin_of(&name.parse().unwrap()).is_some(), expected, "{name:?}");
        };
        check("llama3", true);
        check("someone/llama3", false);
        check("hf.co/anyone/m:Q4_0", true);
        check("example.org/library/m", false);
    }
}
