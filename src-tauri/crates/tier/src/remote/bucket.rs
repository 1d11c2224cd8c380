//! A bucket: S3, Google Cloud Storage, Azure, or a WebDAV server, through `object_store`, whose runtime is hidden here.
//!
//! Calls are futures that end with their deadline, whatever the other side does, so threads that make them do not hang. The runtime
//! has one thread for sockets and one for what blocks (looking up host names); with two that call, these are the four of the design.

use std::fmt::Display;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use object_store::client::HttpError;
use object_store::path::Path;
use object_store::{
    ClientConfigKey, GetOptions, GetRange, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutPayload,
    RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use super::files::{Files, Listed};
use crate::format::VERSION_FOLDER;
use crate::tier::TierError;

/// Threads that call.
const CALLERS: usize = 2;
/// How long a connection may take to come about.
const CONNECT: &str = "5 seconds";
/// How long a request may take: longer than any deadline of ours, which are what counts.
const REQUEST: &str = "15 minutes";
/// The status of a server without room.
const INSUFFICIENT_STORAGE: u16 = 507;

/// See the module.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// What all names begin with.
    prefix: Path,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

impl Bucket {
    /// The bucket at an address such as `s3://bucket/folder`, `gs://..`, `az://..` or `https://..`, with the settings that
    /// `object_store` knows for it by name: keys, region, endpoint. Nothing is asked of it yet.
    ///
    /// # Errors
    /// Where address or settings are wrong.
    pub fn open<'a>(address: &str, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, TierError> {
        use object_store::{aws, azure, gcp, http};
        // Where another part of the program has chosen already, that is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = reqwest::Url::parse(address).map_err(|error| wrong(&error))?;
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).map_err(|error| wrong(&error))?;
        // The breaker is who tries again.
        let retry = RetryConfig { max_retries: 1, retry_timeout: Duration::from_secs(5), ..RetryConfig::default() };
        let given: Vec<(String, &str)> =
            settings.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
        let known = |name: &str| TierError::Failed(format!("a bucket of this kind has no setting {name:?}"));
        macro_rules! build {
            ($builder:expr, $client:expr) => {{
                let mut builder = $builder
                    .with_retry(retry)
                    .with_config($client(ClientConfigKey::ConnectTimeout), CONNECT)
                    .with_config($client(ClientConfigKey::Timeout), REQUEST);
                for (name, value) in given {
                    let key = name.parse().map_err(|_| known(&name))?;
                    builder = builder.with_config(key, value);
                }
                Arc::new(builder.build().map_err(|error| wrong(&error))?) as Arc<dyn ObjectStore>
            }};
        }
        let store = match scheme {
            ObjectStoreScheme::AmazonS3 => {
                build!(aws::AmazonS3Builder::new().with_url(address), aws::AmazonS3ConfigKey::Client)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                build!(gcp::GoogleCloudStorageBuilder::new().with_url(address), gcp::GoogleConfigKey::Client)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                build!(azure::MicrosoftAzureBuilder::new().with_url(address), azure::AzureConfigKey::Client)
            }
            ObjectStoreScheme::Http => {
                // Its path is the prefix of names.
                build!(http::HttpBuilder::new().with_url(url.origin().ascii_serialization()), std::convert::identity)
            }
            _ => return Err(TierError::Failed(format!("no bucket has an address like {address:?}"))),
        };
        Self::over(store, prefix)
    }

    /// A store that is open already, and what all names in it begin with.
    ///
    /// # Errors
    /// Where the system gives no threads.
    pub(crate) fn over(store: Arc<dyn ObjectStore>, prefix: Path) -> Result<Self, TierError> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(1).thread_name("tier-bucket").enable_all();
        let runtime = builder.build().map_err(|error| TierError::Failed(error.to_string()))?;
        Ok(Self { store, prefix, runtime: Some(runtime) })
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Waits for a future, but no longer than this.
    fn wait<T>(&self, within: Duration, call: impl Future<Output = object_store::Result<T>>) -> Answer<T> {
        let runtime = self.runtime.as_ref().expect("it is there until the bucket is dropped");
        match runtime.block_on(async { tokio::time::timeout(within, call).await }) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Refusal::Store(error)),
            Err(_) => Err(Refusal::Late(within)),
        }
    }

    fn put(&self, name: &str, file: Vec<u8>, mode: PutMode, within: Duration) -> Answer<()> {
        let path = self.path(name);
        let put = self.store.put_opts(&path, PutPayload::from(file), mode.into());
        self.wait(within, async { put.await.map(drop) })
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // What hangs is left behind.
            runtime.shutdown_background();
        }
    }
}

impl Files for Bucket {
    fn threads(&self) -> usize {
        CALLERS
    }

    fn list(&self, each: &mut dyn FnMut(&str, Listed) -> bool, within: Duration) -> Result<(), TierError> {
        let below = self.path(VERSION_FOLDER);
        let skip = self.prefix.as_ref().len() + usize::from(!self.prefix.as_ref().is_empty());
        let mut listing = self.store.list(Some(&below));
        let all = async {
            while let Some(found) = tokio_stream::StreamExt::next(&mut listing).await {
                let found = found?;
                let stamp = found.last_modified.timestamp_millis() as u64;
                let name = found.location.as_ref().get(skip..).unwrap_or_default();
                if !each(name, Listed { bytes: found.size, stamp }) {
                    break;
                }
            }
            Ok(())
        };
        Ok(self.wait(within, all)?)
    }

    fn read(
        &self,
        name: &str,
        part: Range<u64>,
        within: Duration,
        heard: &dyn Fn(),
    ) -> Result<Option<Vec<u8>>, TierError> {
        let path = self.path(name);
        let (first, most) = (part.start, part.end.saturating_sub(part.start));
        let options = GetOptions { range: Some(GetRange::Bounded(part)), ..GetOptions::default() };
        let get = async {
            let found = self.store.get_opts(&path, options).await?;
            heard();
            let expected = found.range.end.saturating_sub(found.range.start).min(most);
            let mut bytes = Vec::with_capacity(expected as usize);
            let mut pieces = found.into_stream();
            while let Some(piece) = tokio_stream::StreamExt::next(&mut pieces).await {
                bytes.extend_from_slice(&piece?);
                // A server may send more than it was asked for, and never stop.
                if bytes.len() as u64 > most {
                    let source = "it sends more than was asked for".into();
                    return Err(object_store::Error::Generic { store: "bucket", source });
                }
            }
            Ok(bytes)
        };
        match self.wait(within, get) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Refusal::Store(object_store::Error::NotFound { .. })) => Ok(None),
            // Stores refuse a part that begins at the end or after it, each in its own words.
            Err(Refusal::Store(_))
                if self.wait(within, self.store.head(&path)).is_ok_and(|found| found.size <= first) =>
            {
                Ok(Some(Vec::new()))
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn create(&self, name: &str, file: Vec<u8>, _draft: &str, within: Duration) -> Result<bool, TierError> {
        use object_store::Error::{AlreadyExists, NotImplemented, NotSupported, Precondition};
        match self.put(name, file.clone(), PutMode::Create, within) {
            Ok(()) => Ok(true),
            Err(Refusal::Store(AlreadyExists { .. } | Precondition { .. })) => Ok(false),
            // A server that knows no conditions. To write it once more does no harm.
            Err(Refusal::Store(NotImplemented { .. } | NotSupported { .. })) => {
                self.put(name, file, PutMode::Overwrite, within)?;
                Ok(true)
            }
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn replace(&self, name: &str, file: Vec<u8>, _draft: &str, within: Duration) -> Result<(), TierError> {
        Ok(self.put(name, file, PutMode::Overwrite, within)?)
    }

    fn remove(&self, name: &str, within: Duration) -> Result<(), TierError> {
        let path = self.path(name);
        match self.wait(within, self.store.delete(&path)) {
            Ok(()) | Err(Refusal::Store(object_store::Error::NotFound { .. })) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }
}

type Answer<T> = Result<T, Refusal>;

/// Why a call gave nothing.
enum Refusal {
    Store(object_store::Error),
    Late(Duration),
}

impl From<Refusal> for TierError {
    fn from(refusal: Refusal) -> Self {
        let error = match refusal {
            Refusal::Late(within) => return Self::Away(format!("no answer within {within:?}")),
            Refusal::Store(error) => error,
        };
        let mut why = error.to_string();
        for cause in chain(&error).skip(1).map(|cause| cause.to_string()) {
            // Most say what led to them already.
            if !why.contains(&cause) {
                why = format!("{why}: {cause}");
            }
        }
        let full = |error: &std::io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        if chain(&error).filter_map(|cause| cause.downcast_ref()).any(full) {
            return Self::Full(why);
        }
        // There was no answer at all.
        let silent = chain(&error).any(|cause| cause.is::<HttpError>());
        match status(&why) {
            Some(INSUFFICIENT_STORAGE) => Self::Full(why),
            Some(408 | 429 | 500..) => Self::Away(why),
            None if silent => Self::Away(why),
            _ => Self::Failed(why),
        }
    }
}

/// The status that an error's text tells, which has no other form. Before it there is an address at most, which has no spaces.
fn status(why: &str) -> Option<u16> {
    why.split_once("status code: ")?.1.get(..3)?.parse().ok()
}

/// An error and what led to it.
fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

fn wrong(error: &dyn Display) -> TierError {
    TierError::Failed(format!("the bucket's address or settings are wrong: {error}"))
}
