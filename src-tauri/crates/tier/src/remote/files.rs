//! What a remote place must be able to do: keep whole files under names. Calls block, and may never return.

use std::ops::Range;
use std::time::Duration;

use crate::tier::TierError;

/// What a listing tells of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its length.
    pub bytes: u64,
    /// A number that is another one when the file was replaced, such as the time of its last change.
    pub stamp: u64,
}

/// A place for whole files. Names are relative, with slashes between their parts. `within` is how long the caller will wait: what can
/// end a call by then does.
pub trait Files: Send + Sync + 'static {
    /// How many calls it takes at once: at most 4, with the threads that it may have of its own.
    fn threads(&self) -> usize;

    /// Tells of every file under [`crate::format::VERSION_FOLDER`], until the callback says that it is enough.
    ///
    /// # Errors
    /// Where not all of them can be listed.
    fn list(&self, each: &mut dyn FnMut(&str, Listed) -> bool, within: Duration) -> Result<(), TierError>;

    /// Reads a part of a file, less where the file ends before; none where there is no such file. Calls `heard` as soon as the place has
    /// answered, before the bytes have come.
    ///
    /// # Errors
    /// Where it cannot be told.
    fn read(
        &self,
        name: &str,
        part: Range<u64>,
        within: Duration,
        heard: &dyn Fn(),
    ) -> Result<Option<Vec<u8>>, TierError>;

    /// Makes a file that is complete as soon as it has its name, and says whether it did: one that is there already stays. `draft` is
    /// a name that nobody else uses for what has to lie somewhere meanwhile.
    ///
    /// # Errors
    /// Where it may not be there.
    fn create(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<bool, TierError>;

    /// As [`Files::create`], in place of the file that has the name.
    ///
    /// # Errors
    /// Where the other one may still be there.
    fn replace(&self, name: &str, file: Vec<u8>, draft: &str, within: Duration) -> Result<(), TierError>;

    /// Removes a file; one that is not there is as good.
    ///
    /// # Errors
    /// Where it may still be there.
    fn remove(&self, name: &str, within: Duration) -> Result<(), TierError>;
}
