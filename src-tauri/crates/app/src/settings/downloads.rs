//! Settings of what comes from registries: the way out to them, and how much of the line and the disk it may take.

use std::path::PathBuf;
use std::time::Duration;

use cairn_registry::Proxies;
use cairn_wire::go_duration;

use super::{Reader, is_true};
use crate::{Env, Places};

/// Hugging Face's index of models.
const HUB: &str = "https://huggingface.co";

/// How models are fetched.
#[derive(Debug, Clone)]
pub struct DownloadSettings {
    /// `CAIRN_PROXY`, else `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`; `NO_PROXY` in both cases.
    pub proxies: Proxies,
    /// `CAIRN_CA_FILE`.
    pub ca_file: Option<PathBuf>,
    /// `CAIRN_KEY`, a key that is another program's and only read; none for our own, which is made when it is first needed.
    pub foreign_key: Option<PathBuf>,
    /// Where our own key is.
    pub own_key: PathBuf,
    /// Where names and passwords of registries are kept.
    pub logins_file: PathBuf,
    /// `CAIRN_AUTH_FILE`, names and passwords that another program keeps.
    pub foreign_logins: Option<PathBuf>,
    /// Where the keys of mirrors are listed that were joined.
    pub joined_file: PathBuf,
    /// Where is written down what is known of sources.
    pub sources_file: PathBuf,
    /// Whether models are fetched for other machines (`CAIRN_MIRROR`, or an `OLLAMA_HOST` that they reach): no registry may lead us into our network then.
    pub for_others: bool,
    /// `CAIRN_DOWNLOAD_LIMIT`, in bytes per second.
    pub limit_bytes_per_s: Option<u64>,
    /// `CAIRN_DISK_RESERVE`, in bytes.
    pub reserve_bytes: Option<u64>,
    /// `CAIRN_MIRRORS`: hosts of registries, each with the address of a mirror, in the order in which they are asked.
    pub mirrors: Vec<(String, String)>,
    /// `CAIRN_HUB`, the index of models that is searched; none for no search outside of this machine.
    pub hub: Option<String>,
    /// `CAIRN_STALL`.
    pub stall: Option<Duration>,
    /// Whether contents that a new version of a model does not need go: not with `OLLAMA_NOPRUNE`.
    pub prunes: bool,
}

impl DownloadSettings {
    pub(super) fn load(read: &mut Reader<'_>, env: &Env, places: &Places) -> Self {
        let customary = Proxies::from_variables(|name| env.text(name).map(str::to_owned));
        let bypass = read.text("NO_PROXY").unwrap_or_default();
        Self {
            proxies: read.text("CAIRN_PROXY").map_or(customary, |url| Proxies::all(url, bypass)),
            ca_file: env.full_path("CAIRN_CA_FILE"),
            foreign_key: env.full_path("CAIRN_KEY"),
            own_key: places.config.join("id_ed25519"),
            logins_file: places.data.join("logins.json"),
            foreign_logins: env.full_path("CAIRN_AUTH_FILE"),
            joined_file: places.data.join("joined-mirrors.json"),
            sources_file: places.data.join("sources.json"),
            for_others: read.text("CAIRN_MIRROR").is_some_and(is_true),
            limit_bytes_per_s: read.parsed("CAIRN_DOWNLOAD_LIMIT", bytes).filter(|limit| *limit > 0),
            reserve_bytes: read.parsed("CAIRN_DISK_RESERVE", bytes),
            mirrors: read.parsed("CAIRN_MIRRORS", mirrors).unwrap_or_default(),
            hub: (!env.is_blank("CAIRN_HUB")).then(|| read.text("CAIRN_HUB").unwrap_or(HUB).to_owned()),
            stall: read.parsed("CAIRN_STALL", stall),
            prunes: !read.text("OLLAMA_NOPRUNE").is_some_and(is_true),
        }
    }
}

impl DownloadSettings {
    /// Bytes of the disk that are to stay free, whatever comes.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes.unwrap_or(cairn_registry::Config::default().reserve_bytes)
    }
}

/// A number of bytes as people write it: `20M`, `1.5G`, `500000`, with units of thousands.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_suffix("/s").unwrap_or(&text);
    let text = text.strip_suffix('b').unwrap_or(text).trim_end();
    let units = [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)];
    let unit = units.into_iter().find_map(|(letter, unit)| text.strip_suffix(letter).map(|number| (number, unit)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let number: f64 = number.trim_end().parse().ok()?;
    let count = number * unit;
    // More than this is no rate and no space that anybody has.
    (number.is_finite() && (0.0..1e18).contains(&count)).then_some(count as u64)
}

/// `registry.ollama.ai=http://nas:11434, hf.co=https://mirror`.
fn mirrors(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split([',', ';']).map(str::trim).filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (host, address) = pair.split_once('=')?;
        let (host, address) = (host.trim(), address.trim());
        (!host.is_empty() && address.contains("://"))
            .then(|| (host.to_owned(), address.trim_end_matches('/').to_owned()))
    };
    pairs.map(pair).collect()
}

fn stall(text: &str) -> Option<Duration> {
    let ns = go_duration::parse(text).ok()?;
    u64::try_from(ns).ok().filter(|ns| *ns > 0).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::System;
    use crate::settings::Settings;

    fn load<const N: usize>(variables: [(&str, &str); N]) -> Settings {
        let places = Places::of(&Env::of([("HOME", "/h")]), System::Xdg).unwrap();
        Settings::load(&Env::of(variables), &places)
    }

    #[test]
    fn numbers_of_bytes() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(bytes(text), expected, "{text:?}");
        check("20M", Some(20_000_000));
        check("1.5 GB", Some(1_500_000_000));
        check("300kb/s", Some(300_000));
        check("4096", Some(4096));
        check("0", Some(0));
        for wrong in ["", "M", "-1", "many", "1e400", "nan", "5 parsecs"] {
            check(wrong, None);
        }
    }

    #[test]
    fn mirrors_are_pairs() {
        let settings =
            load([("CAIRN_MIRRORS", "registry.ollama.ai=http://nas:11434/, hf.co=https://m; hf.co=https://n")]);
        let pair = |host: &str, address: &str| (host.to_owned(), address.to_owned());
        let expected =
            [pair("registry.ollama.ai", "http://nas:11434"), pair("hf.co", "https://m"), pair("hf.co", "https://n")];
        assert_eq!(settings.downloads.mirrors, expected, "in their order");
        let wrong = load([("CAIRN_MIRRORS", "http://nas")]);
        assert!(wrong.downloads.mirrors.is_empty(), "of which registry is it a mirror?");
        assert_eq!(wrong.warnings.len(), 1, "{:?}", wrong.warnings);
    }

    #[test]
    fn where_models_are_searched() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let places = Places::of(&Env::of([("HOME", "/h")]), System::Xdg).unwrap();
            let settings = Settings::load(&Env::of(variables.iter().copied()), &places);
            assert_eq!(settings.downloads.hub.as_deref(), expected, "{variables:?}");
        };
        check(&[], Some("https://huggingface.co"));
        check(&[("CAIRN_HUB", "http://hub")], Some("http://hub"));
        check(&[("HF_ENDPOINT", "https://mirror")], Some("https://mirror"));
        check(&[("HF_ENDPOINT", "https://mirror"), ("CAIRN_HUB", "http://hub")], Some("http://hub"));
        check(&[("CAIRN_HUB", " ")], None);
        check(&[("HF_ENDPOINT", "https://mirror"), ("CAIRN_HUB", "")], None);
    }

    #[test]
    fn what_holds_when_nobody_says_anything() {
        let downloads = load([]).downloads;
        assert_eq!(downloads.proxies, Proxies::none(), "straight out");
        assert_eq!(downloads.own_key, PathBuf::from("/h/.config/cairn/id_ed25519"), "beside the other settings");
        assert!(downloads.prunes && downloads.limit_bytes_per_s.is_none() && downloads.mirrors.is_empty());
    }

    #[test]
    fn our_own_proxy_goes_before_the_customary_ones() {
        let customary = load([("HTTPS_PROXY", "http://a"), ("no_proxy", "b")]).downloads.proxies;
        assert_ne!(customary, Proxies::none(), "the customary variables count");
        let own =
            load([("HTTPS_PROXY", "http://a"), ("CAIRN_PROXY", "socks5://c"), ("NO_PROXY", "b")]).downloads.proxies;
        assert_eq!(own, Proxies::all("socks5://c", "b"), "with the hosts that are reached without any");
    }
}
