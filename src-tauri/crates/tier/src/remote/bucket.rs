//! A bucket in S3, Google Cloud Storage, Azure or WebDAV, through `object_store` and a private async runtime.
//!
//! Calls are futures with a timeout, so the calling threads never hang. The runtime has one worker thread and one
//! blocking thread (for DNS lookups). With two calling threads these are the four threads of [`FileStore::threads`].

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

use super::file_store::{FileEntry, FileStore};
use crate::format::VERSION_FOLDER;
use crate::tier::TierError;

/// Number of calling threads.
const CALLERS: usize = 2;
/// Connection timeout.
const CONNECT: &str = "5 seconds";
/// Request timeout: longer than any timeout of a call, which takes precedence.
const REQUEST: &str = "15 minutes";
/// HTTP status of a server without space.
const INSUFFICIENT_STORAGE: u16 = 507;

/// File store in a bucket of S3, Google Cloud Storage, Azure or WebDAV.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// Common prefix of all names.
    prefix: Path,
    /// `Some` until drop.
    runtime: Option<Runtime>,
}

impl Bucket {
    /// Opens the bucket at an address such as `s3://bucket/folder`, `gs://..`, `az://..` or `https://..`. `settings`
    /// are `object_store`'s options by name: keys, region, endpoint. Makes no call yet.
    ///
    /// # Errors
    /// If the address or a setting is invalid.
    pub fn open<'a>(address: &str, settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, TierError> {
        use object_store::{aws, azure, gcp, http};
        // Fails if another part of the program has installed a provider, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = reqwest::Url::parse(address).map_err(|error| invalid(&error))?;
        let (scheme, prefix) = ObjectStoreScheme::parse(&url).map_err(|error| invalid(&error))?;
        // Retries are left to the circuit breaker.
        let retry = RetryConfig { max_retries: 1, retry_timeout: Duration::from_secs(5), ..RetryConfig::default() };
        let lowercase_settings: Vec<(String, &str)> =
            settings.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
        let unknown_setting = |name: &str| TierError::Failed(format!("unknown bucket setting {name:?}"));
        macro_rules! build {
            ($builder:expr, $client:expr) => {{
                let mut builder = $builder
                    .with_retry(retry)
                    .with_config($client(ClientConfigKey::ConnectTimeout), CONNECT)
                    .with_config($client(ClientConfigKey::Timeout), REQUEST);
                for (name, value) in lowercase_settings {
                    let key = name.parse().map_err(|_| unknown_setting(&name))?;
                    builder = builder.with_config(key, value);
                }
                Arc::new(builder.build().map_err(|error| invalid(&error))?) as Arc<dyn ObjectStore>
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
                // The path of the address is the prefix of names.
                build!(http::HttpBuilder::new().with_url(url.origin().ascii_serialization()), std::convert::identity)
            }
            _ => return Err(TierError::Failed(format!("unknown kind of bucket address {address:?}"))),
        };
        Self::over(store, prefix)
    }

    /// Wraps an open store, with a common prefix of all names.
    ///
    /// # Errors
    /// If no threads can be created.
    pub(crate) fn over(store: Arc<dyn ObjectStore>, prefix: Path) -> Result<Self, TierError> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(1).thread_name("tier-bucket").enable_all();
        let runtime = builder.build().map_err(|error| TierError::Failed(error.to_string()))?;
        Ok(Self { store, prefix, runtime: Some(runtime) })
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Waits for a future with a timeout.
    fn wait<T>(&self, within: Duration, call: impl Future<Output = object_store::Result<T>>) -> Answer<T> {
        let runtime = self.runtime.as_ref().expect("the runtime exists until the bucket is dropped");
        match runtime.block_on(async { tokio::time::timeout(within, call).await }) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(CallError::Store(error)),
            Err(_) => Err(CallError::Late(within)),
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
            // Hanging calls are abandoned.
            runtime.shutdown_background();
        }
    }
}

impl FileStore for Bucket {
    fn threads(&self) -> usize {
        CALLERS
    }

    fn list(&self, each: &mut dyn FnMut(&str, FileEntry) -> bool, within: Duration) -> Result<(), TierError> {
        let below = self.path(VERSION_FOLDER);
        let skip = self.prefix.as_ref().len() + usize::from(!self.prefix.as_ref().is_empty());
        let mut listing = self.store.list(Some(&below));
        let all = async {
            while let Some(found) = tokio_stream::StreamExt::next(&mut listing).await {
                let found = found?;
                let stamp = found.last_modified.timestamp_millis() as u64;
                let name = found.location.as_ref().get(skip..).unwrap_or_default();
                if !each(name, FileEntry { bytes: found.size, stamp }) {
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
                // A server may send more than requested, without end.
                if bytes.len() as u64 > most {
                    let source = "the server sends more than was requested".into();
                    return Err(object_store::Error::Generic { store: "bucket", source });
                }
            }
            Ok(bytes)
        };
        match self.wait(within, get) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(CallError::Store(object_store::Error::NotFound { .. })) => Ok(None),
            // Stores reject a range that starts at or after the end with various errors.
            Err(CallError::Store(_))
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
            Err(CallError::Store(AlreadyExists { .. } | Precondition { .. })) => Ok(false),
            // The server does not support conditional writes. Overwriting an equivalent file is harmless.
            Err(CallError::Store(NotImplemented { .. } | NotSupported { .. })) => {
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
            Ok(()) | Err(CallError::Store(object_store::Error::NotFound { .. })) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }
}

type Answer<T> = Result<T, CallError>;

/// Error of a call.
enum CallError {
    Store(object_store::Error),
    Late(Duration),
}

impl From<CallError> for TierError {
    fn from(refusal: CallError) -> Self {
        let error = match refusal {
            CallError::Late(within) => return Self::Unavailable(format!("no response within {within:?}")),
            CallError::Store(error) => error,
        };
        let mut why = error.to_string();
        for cause in chain(&error).skip(1).map(|cause| cause.to_string()) {
            // Many errors already include their cause.
            if !why.contains(&cause) {
                why = format!("{why}: {cause}");
            }
        }
        let full = |error: &std::io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        if chain(&error).filter_map(|cause| cause.downcast_ref()).any(full) {
            return Self::Full(why);
        }
        // The server sent no response.
        let silent = chain(&error).any(|cause| cause.is::<HttpError>());
        match status(&why) {
            Some(INSUFFICIENT_STORAGE) => Self::Full(why),
            Some(408 | 429 | 500..) => Self::Unavailable(why),
            None if silent => Self::Unavailable(why),
            _ => Self::Failed(why),
        }
    }
}

/// Returns the HTTP status in an error's text; the error has no other representation. Only an address, which has no
/// spaces, can precede it.
fn status(why: &str) -> Option<u16> {
    why.split_once("status code: ")?.1.get(..3)?.parse().ok()
}

/// An error and its causes.
fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

fn invalid(error: &dyn Display) -> TierError {
    TierError::Failed(format!("invalid bucket address or settings: {error}"))
}
