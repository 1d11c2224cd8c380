//! Replacement for [`Bucket`] in a build without the feature `cloud`.

use std::ops::Range;
use std::time::Duration;

use super::file_store::{FileEntry, FileStore};
use crate::tier::TierError;

/// Type without values, in place of the file store in a bucket. [`Bucket::open`] always fails.
pub enum Bucket {}

impl Bucket {
    /// Rejects every address.
    ///
    /// # Errors
    /// Always.
    pub fn open<'a>(_: &str, _: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, TierError> {
        Err(TierError::Failed("this build does not support buckets: build with the feature `cloud`".to_owned()))
    }
}

impl FileStore for Bucket {
    fn threads(&self) -> usize {
        match *self {}
    }

    fn list(&self, _: &mut dyn FnMut(&str, FileEntry) -> bool, _: Duration) -> Result<(), TierError> {
        match *self {}
    }

    fn read(&self, _: &str, _: Range<u64>, _: Duration, _: &dyn Fn()) -> Result<Option<Vec<u8>>, TierError> {
        match *self {}
    }

    fn create(&self, _: &str, _: Vec<u8>, _: &str, _: Duration) -> Result<bool, TierError> {
        match *self {}
    }

    fn replace(&self, _: &str, _: Vec<u8>, _: &str, _: Duration) -> Result<(), TierError> {
        match *self {}
    }

    fn remove(&self, _: &str, _: Duration) -> Result<(), TierError> {
        match *self {}
    }
}
