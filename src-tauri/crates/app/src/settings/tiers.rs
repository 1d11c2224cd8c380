//! Parsers for the cache settings: remote tiers, compression, encryption, times to live.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::values::go_duration;

use super::downloads::bytes;
use super::env::Env;

/// URL schemes of buckets, and the kind of credentials that each needs.
const BUCKETS: [(&str, &str); 9] = [
    ("s3", "s3"),
    ("s3a", "s3"),
    ("gs", "gs"),
    ("az", "az"),
    ("azure", "az"),
    ("abfs", "az"),
    ("abfss", "az"),
    ("http", "dav"),
    ("https", "dav"),
];
/// Credentials that the usual programs of these clouds read from the environment, under the setting names of
/// `object_store`.
const CREDENTIALS: &[(&str, &[Credential])] = &[
    (
        "s3",
        &[
            ("access_key_id", &["AWS_ACCESS_KEY_ID"]),
            ("secret_access_key", &["AWS_SECRET_ACCESS_KEY"]),
            ("token", &["AWS_SESSION_TOKEN"]),
            ("region", &["AWS_REGION", "AWS_DEFAULT_REGION"]),
            ("endpoint", &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
        ],
    ),
    (
        "gs",
        &[
            ("application_credentials", &["GOOGLE_APPLICATION_CREDENTIALS"]),
            ("service_account", &["GOOGLE_SERVICE_ACCOUNT"]),
            ("service_account_key", &["GOOGLE_SERVICE_ACCOUNT_KEY"]),
        ],
    ),
    (
        "az",
        &[
            ("account_name", &["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"]),
            ("access_key", &["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"]),
            ("sas_token", &["AZURE_STORAGE_SAS_TOKEN"]),
            ("client_id", &["AZURE_CLIENT_ID"]),
            ("client_secret", &["AZURE_CLIENT_SECRET"]),
            ("tenant_id", &["AZURE_TENANT_ID"]),
            ("endpoint", &["AZURE_STORAGE_ENDPOINT"]),
        ],
    ),
];

/// A setting of a bucket, and its variables in order of precedence.
type Credential = (&'static str, &'static [&'static str]);

/// Compression of stored rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compress {
    /// No compression.
    Off,
    /// Lossless compression.
    On,
    /// Rounded to 8 bits.
    Compact,
}

/// Location of the remote tier.
#[derive(Clone, PartialEq, Eq)]
pub enum RemoteLocation {
    /// A folder, at which a share is mounted.
    Folder(PathBuf),
    /// A bucket.
    Bucket {
        /// URL, for example `s3://bucket/folder`.
        address: String,
        /// Keys, region and endpoint, under `object_store`'s names. Secret.
        settings: Vec<(&'static str, String)>,
    },
}

impl fmt::Display for RemoteLocation {
    /// Omits secrets: logs and screens show this, and a URL may contain passwords and signatures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self {
            Self::Folder(folder) => return folder.display().fmt(f),
            Self::Bucket { address, .. } => address,
        };
        let place = address.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = place.split_once("://").unwrap_or(("", place));
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // A user name alone is not a secret: it is the container's name in URLs of Azure.
        let host = host.rsplit_once('@').filter(|(user, _)| user.contains(':')).map_or(host, |(_, host)| host);
        write!(f, "{scheme}://{host}{path}")
    }
}

impl fmt::Debug for RemoteLocation {
    /// Omits secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteLocation({self})")
    }
}

/// Which chunk files are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encrypt {
    /// Files of the SSD tier.
    pub folder: bool,
    /// Files of the remote tier.
    pub remote: bool,
}

impl Encrypt {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("remote") {
            return Some(Self { folder: false, remote: true });
        }
        switch(text).map(|on| Self { folder: on, remote: on })
    }
}

impl Compress {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "compact" => Some(Self::Compact),
            "lossless" => Some(Self::On),
            word => switch(word).map(|on| if on { Self::On } else { Self::Off }),
        }
    }
}

/// Parses a word for yes or no. Other words are errors, because a typo here could cost privacy or exactness.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "on" | "yes" => Some(true),
        "0" | "f" | "false" | "off" | "no" => Some(false),
        _ => None,
    }
}

pub(super) fn gib(text: &str) -> Option<u64> {
    let gib: f64 = text.parse().ok()?;
    // Larger numbers are typos.
    (0.0..1e9).contains(&gib).then_some((gib * f64::from(1 << 30)) as u64)
}

/// Parses a number of bytes; `Some(None)` means no limit.
pub(super) fn daily(text: &str) -> Option<Option<u64>> {
    if text.eq_ignore_ascii_case("none") { Some(None) } else { bytes(text).map(Some) }
}

/// Parses a time to live such as `30d` or `12h30m`; `Some(None)` means no expiry.
pub(super) fn ttl(text: &str) -> Option<Option<Duration>> {
    const DAY: u64 = 24 * 3600;
    if text.eq_ignore_ascii_case("never") || text.starts_with('-') {
        return Some(None);
    }
    let days = text.strip_suffix('d').map(|days| days.parse::<u64>().ok()?.checked_mul(DAY).map(Duration::from_secs));
    let ttl = match days {
        Some(ttl) => ttl?,
        None => Duration::from_nanos(u64::try_from(go_duration::parse(text).ok()?).ok()?),
    };
    (!ttl.is_zero()).then_some(Some(ttl))
}

/// Parses a folder, or a bucket's URL, to which it adds the credentials from the environment.
pub(super) fn remote(text: &str, env: &Env) -> Option<RemoteLocation> {
    let Some((scheme, rest)) = text.split_once("://") else {
        // Absolute, because the daemon and its clients have different working directories.
        return std::path::absolute(text).ok().map(RemoteLocation::Folder);
    };
    let &(_, kind) = BUCKETS.iter().find(|(bucket, _)| scheme.eq_ignore_ascii_case(bucket))?;
    let credentials = CREDENTIALS.iter().find(|(of, _)| *of == kind).map(|(_, list)| *list).unwrap_or_default();
    let value = |names: &[&str]| names.iter().find_map(|name| env.text(name)).map(str::to_owned);
    let mut settings: Vec<(&str, String)> =
        credentials.iter().filter_map(|(name, variables)| Some((*name, value(variables)?))).collect();
    // An explicit endpoint without TLS is intended.
    if settings.iter().any(|(name, value)| *name == "endpoint" && value.starts_with("http://")) {
        settings.push(("allow_http", "true".to_owned()));
    }
    (!rest.trim_matches('/').is_empty()).then(|| RemoteLocation::Bucket { address: text.to_owned(), settings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{CacheSettings, Places, Settings, System};

    fn load(variables: &[(&str, &str)]) -> Settings {
        let places = Places::of(&Env::of([("HOME", "/h")]), System::Xdg).unwrap();
        Settings::load(&Env::of(variables.iter().copied()), &places)
    }

    /// Checks the value read from a variable, and whether a warning names the variable.
    fn check<T: PartialEq + fmt::Debug>(name: &str, field: fn(&CacheSettings) -> T, cases: &[(&str, T, bool)]) {
        for (value, expected, warns) in cases {
            let settings = load(&[(name, value)]);
            assert_eq!(field(&settings.tiers.values), *expected, "{name}={value}");
            let warned = settings.warnings.iter().any(|warning| warning.contains(name));
            assert_eq!(warned, *warns, "{name}={value}: {:?}", settings.warnings);
        }
    }

    #[test]
    fn ssd_tier_is_on_by_default_and_can_be_turned_off() {
        let folder = |variables: &[(&str, &str)]| load(variables).tiers.folder;
        assert_eq!(folder(&[]), Some("/h/.cache/cairn/kv".into()), "cache folder by default");
        assert_eq!(folder(&[("OLLAMA_KV_TIER_LOCAL", "/k")]), Some("/k".into()), "explicit folder");
        assert_eq!(folder(&[("OLLAMA_KV_TIERING", "0"), ("OLLAMA_KV_TIER_LOCAL", "/k")]), None, "tiering is off");
        for word in ["off", "OFF", "no", "False", "f"] {
            assert_eq!(folder(&[("OLLAMA_KV_TIERING", word)]), None, "{word:?}");
        }
        assert_eq!(folder(&[("OLLAMA_KV_TIER_LOCAL_GB", "0")]), None, "size 0");
        let off = load(&[("OLLAMA_KV_TIERING", "0"), ("OLLAMA_KV_TIER_REMOTE", "/k")]).tiers;
        assert_eq!(off.remote, None, "remote tier");
    }

    #[test]
    fn cache_values_are_parsed_and_invalid_values_warn() {
        const DAY: u64 = 24 * 3600;
        let ttl = |days| Some(Duration::from_secs(days * DAY));
        check("OLLAMA_KV_TIER_LOCAL_GB", |tiers| tiers.folder_bytes, &[("2", Some(2 << 30), false), ("x", None, true)]);
        let half = Some(1 << 29);
        check("OLLAMA_KV_TIER_REMOTE_GB", |tiers| tiers.remote_bytes, &[("0.5", half, false), ("-1", None, true)]);
        check(
            "OLLAMA_KV_TIER_COMPRESS",
            |tiers| tiers.compress,
            &[
                ("on", Some(Compress::On), false),
                ("0", Some(Compress::Off), false),
                ("Compact", Some(Compress::Compact), false),
                ("compcat", None, true),
            ],
        );
        check(
            "CAIRN_KV_TTL",
            |tiers| tiers.ttl,
            &[
                ("7d", ttl(7), false),
                ("48h", ttl(2), false),
                ("never", None, false),
                ("0", ttl(30), true),
                ("soon", ttl(30), true),
            ],
        );
        check(
            "CAIRN_KV_ENCRYPT",
            |tiers| [tiers.encrypt.folder, tiers.encrypt.remote],
            &[
                ("on", [true, true], false),
                ("off", [false, false], false),
                ("remote", [false, true], false),
                ("fo", [false, true], true),
            ],
        );
        check(
            "CAIRN_KV_RESERVE",
            |tiers| tiers.reserve_bytes,
            &[("1G", Some(1_000_000_000), false), ("", None, false)],
        );
        let cap = Some(54_000_000_000);
        check(
            "CAIRN_KV_DAILY_WRITE",
            |tiers| tiers.daily_write_bytes,
            &[("2G", Some(2_000_000_000), false), ("none", None, false), ("much", cap, true)],
        );
        assert!(load(&[]).tiers.keychain && !load(&[("CAIRN_HOME", "/x")]).tiers.keychain, "default");
        assert!(load(&[("CAIRN_HOME", "/x"), ("CAIRN_KV_KEYCHAIN", "1")]).tiers.keychain, "explicit");
    }

    #[test]
    fn remote_tier_is_a_folder_or_a_bucket_with_credentials() {
        let remote = |variables: &[(&str, &str)]| load(variables).tiers.remote;
        let place = |value| ("OLLAMA_KV_TIER_REMOTE", value);
        assert_eq!(remote(&[place("/mnt/nas")]), Some(RemoteLocation::Folder("/mnt/nas".into())), "a folder");
        for wrong in ["s3://", "ftp://host/x", "://"] {
            assert_eq!(remote(&[place(wrong)]), None, "{wrong}");
            assert_eq!(load(&[place(wrong)]).warnings.len(), 1, "{wrong} warns");
        }
        let bucket = remote(&[
            place("s3://b/f"),
            ("AWS_ACCESS_KEY_ID", "me"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_DEFAULT_REGION", "eu-1"),
            ("AWS_ENDPOINT_URL", "http://nas:9000"),
            ("AZURE_CLIENT_ID", "another cloud's"),
        ]);
        let Some(RemoteLocation::Bucket { address, settings }) = &bucket else { panic!("{bucket:?} is a bucket") };
        assert_eq!(address, "s3://b/f", "URL");
        let expected = [
            ("access_key_id", "me"),
            ("secret_access_key", "hush"),
            ("region", "eu-1"),
            ("endpoint", "http://nas:9000"),
            ("allow_http", "true"),
        ];
        assert_eq!(*settings, expected.map(|(name, value)| (name, value.to_owned())), "credentials of S3 only");
        assert!(!format!("{bucket:?}").contains("hush"), "secrets are hidden");
        for (address, shown) in [
            ("https://me:hush@nas/dav", "https://nas/dav"),
            ("https://me:hush@@nas:8443/dav/x@y", "https://nas:8443/dav/x@y"),
            ("az://container/x?sv=1&sig=hush", "az://container/x"),
            ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
            ("s3://bucket", "s3://bucket"),
        ] {
            let place = remote(&[place(address)]).expect("a bucket");
            assert_eq!(place.to_string(), shown, "secrets in URLs are hidden");
        }
        let all = [
            ("gs://b", "GOOGLE_APPLICATION_CREDENTIALS", "application_credentials"),
            ("az://b", "AZURE_STORAGE_ACCOUNT", "account_name"),
        ];
        for (address, variable, name) in all {
            let Some(RemoteLocation::Bucket { settings, .. }) = remote(&[place(address), (variable, "v")]) else {
                panic!("{address} is a bucket")
            };
            assert_eq!(settings, [(name, "v".to_owned())], "{address}");
        }
    }
}
