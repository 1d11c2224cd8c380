//! Bringing a large file into a library, under the name of its digest.
//!
//! A reflink costs no space and no time, and the two files are independent from then on; where the file system has none,
//! the file is copied and hashed in one go. A hard link costs nothing either, but then both names lead to one file: it is
//! made read-only first, and only made when asked for. How a file is moved is in [`moving`](super::moving).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use cairn_disk::{Draft, Mode};
use sha2::Digest as _;

use super::source::{ReadOnly, Source, different_devices, set_permissions};
use super::{LibraryWriter, WriteError};
use crate::{Digest, Layer, LayerKind};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// What was brought in, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// The contents, of the kind [`LayerKind::Model`].
    pub layer: Layer,
    /// How they came here.
    pub way: Way,
}

/// How contents came into a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// They were there.
    Present,
    /// They share the file's place on the disk until either is changed.
    Reflinked,
    /// They are a second name of the file. Says whether the file had to be made read-only for that.
    Linked {
        /// It could be written to before.
        made_read_only: bool,
    },
    /// They are the file itself, which has its own name until the model is there.
    Moved,
    /// They were copied, because of this.
    Copied {
        /// Why there is no reflink.
        reason: String,
    },
}

/// What is being done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its digest is computed.
    Hashing,
    /// It is copied, and its digest computed on the way.
    Copying,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// Bytes of the whole file.
    pub total_bytes: u64,
}

/// Is told how far it has come; says whether to go on.
pub(super) type Watch<'a> = dyn FnMut(Progress) -> bool + 'a;

impl LibraryWriter<'_> {
    /// Brings in the file at `path`. With `link` its contents get a second name in the library, and the file itself is
    /// made read-only; else they are shared where the file system can, or copied. `watch` is told how far it has come, and
    /// says whether to go on.
    ///
    /// # Errors
    /// When the file cannot be read, changes meanwhile, does not fit, or the disk refuses; nothing has changed then.
    pub fn bring(&self, path: &Path, link: bool, watch: &mut Watch<'_>) -> Result<Brought, WriteError> {
        let unread = |source: io::Error| WriteError::Source { path: path.to_owned(), source };
        // A link must lead to the file itself, not to another link.
        let path = path.canonicalize().map_err(unread)?;
        let source = Source::open(path)?;
        let (digest, way) = if link { self.link(&source, watch)? } else { self.share_or_copy(&source, watch)? };
        Ok(Brought { layer: Layer { kind: LayerKind::Model, digest, size_bytes: source.size_bytes() }, way })
    }

    /// Brings in contents that `fill` writes, `size_bytes` of them; `reason` says why they are no copy of one file.
    ///
    /// # Errors
    /// Those of `fill`, said of `path`, and when they do not fit or the disk refuses; nothing has changed then.
    pub fn produce(
        &self,
        path: &Path,
        size_bytes: u64,
        reason: &str,
        fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
        watch: &mut Watch<'_>,
    ) -> Result<Brought, WriteError> {
        self.check_room(size_bytes)?;
        let draft = self.draft()?;
        let hash = sha2::Sha256::new();
        let mut sink = Sink { draft, hash, done_bytes: 0, total_bytes: size_bytes, watch, failed: None };
        if let Err(source) = fill(&mut sink) {
            return Err(sink.failed.unwrap_or_else(|| WriteError::Source { path: path.to_owned(), source }));
        }
        let layer =
            Layer { kind: LayerKind::Model, digest: Digest::of_hash(sink.hash.clone()), size_bytes: sink.done_bytes };
        let Sink { draft, watch, .. } = sink;
        let present = self.keep(draft, &layer, watch)?;
        Ok(Brought { layer, way: if present { Way::Present } else { Way::Copied { reason: reason.to_owned() } } })
    }

    pub(super) fn share_or_copy(&self, source: &Source, watch: &mut Watch<'_>) -> Result<(Digest, Way), WriteError> {
        let mut draft = self.draft()?;
        let (digest, way) = match self.share(&mut *draft, source, watch)? {
            Ok(digest) => (digest, Way::Reflinked),
            Err(reason) => {
                if let Some(digest) = self.known(source, watch)? {
                    return Ok((digest, Way::Present));
                }
                (self.copy_into(&mut *draft, source, watch)?, Way::Copied { reason })
            }
        };
        let layer = Layer { kind: LayerKind::Model, digest, size_bytes: source.size_bytes() };
        let present = self.keep(draft, &layer, watch)?;
        Ok((digest, if present { Way::Present } else { way }))
    }

    /// Makes a draft share the place of a file, and returns the digest of that; or why the file system cannot.
    pub(super) fn share(
        &self,
        draft: &mut dyn Draft,
        source: &Source,
        watch: &mut Watch<'_>,
    ) -> Result<Result<Digest, String>, WriteError> {
        if let Err(refused) = draft.reflink(&source.file) {
            return Ok(Err(refused.source.to_string()));
        }
        // What is hashed is the draft, which nobody else writes to.
        let unread = |source| WriteError::Source { path: draft.path().to_owned(), source };
        let shared = File::open(draft.path()).map_err(unread)?;
        read(&shared, draft.path(), source.size_bytes(), Stage::Hashing, watch, &mut |_| Ok(())).map(Ok)
    }

    /// Copies a file into a draft, and returns the digest of what was copied.
    pub(super) fn copy_into(
        &self,
        draft: &mut dyn Draft,
        source: &Source,
        watch: &mut Watch<'_>,
    ) -> Result<Digest, WriteError> {
        self.check_room(source.size_bytes())?;
        let mut write = |bytes: &[u8]| Ok(draft.write(bytes)?);
        let digest = read(&source.file, &source.path, source.size_bytes(), Stage::Copying, watch, &mut write)?;
        source.check()?;
        Ok(digest)
    }

    /// Begins contents whose digest is not known yet: in `.cairn`, because a running Ollama removes from `blobs` what it
    /// does not know.
    pub(super) fn draft(&self) -> Result<Box<dyn Draft>, WriteError> {
        Ok(self.disk.draft(&self.library.drafts(), Mode::Shared)?)
    }

    /// The digest of a file whose contents are here already. Only where some contents have its length is it read for that.
    fn known(&self, source: &Source, watch: &mut Watch<'_>) -> Result<Option<Digest>, WriteError> {
        let same_length = fs::read_dir(self.library.blobs()).is_ok_and(|entries| {
            let lengths = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("sha256-"));
            lengths
                .flat_map(|entry| entry.metadata())
                .any(|found| found.is_file() && found.len() == source.size_bytes())
        });
        if !same_length {
            return Ok(None);
        }
        let digest = self.digest(source, watch)?;
        source.check()?;
        Ok(self.sound(digest, source.size_bytes(), watch)?.then_some(digest))
    }

    /// The digest of a file.
    pub(super) fn digest(&self, source: &Source, watch: &mut Watch<'_>) -> Result<Digest, WriteError> {
        read(&source.file, &source.path, source.size_bytes(), Stage::Hashing, watch, &mut |_| Ok(()))
    }

    /// Whether contents are here already. They are made young then: they are about to be named, and whoever clears up after
    /// programs that were killed goes by age.
    pub(super) fn present(&self, digest: Digest, size_bytes: u64) -> Result<bool, WriteError> {
        let layer = Layer { kind: LayerKind::Model, digest, size_bytes };
        let Ok(path) = self.library.blob(&layer) else { return Ok(false) };
        match self.disk.touch(&path) {
            // Somebody cleared up just now.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(false),
            // Another user's file keeps its age: that costs a second attempt at worst.
            Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => Ok(true),
            touched => Ok(touched.map(|()| true)?),
        }
    }

    /// Whether contents are here already, as [`LibraryWriter::present`] has it, and are what their name says. They are read
    /// for that, because whoever has them in another place may remove those next; damaged ones are taken out.
    pub(super) fn sound(&self, digest: Digest, size_bytes: u64, watch: &mut Watch<'_>) -> Result<bool, WriteError> {
        if !self.present(digest, size_bytes)? {
            return Ok(false);
        }
        let mut read = |done_bytes| watch(Progress { stage: Stage::Hashing, done_bytes, total_bytes: size_bytes });
        match self.library.check(&digest, Some(size_bytes), &mut read) {
            None => Err(WriteError::Cancelled),
            Some(Ok(())) => Ok(true),
            Some(Err(_)) => self.discard(&digest).map(|_| false),
        }
    }

    pub(super) fn check_room(&self, need_bytes: u64) -> Result<(), WriteError> {
        let (folder, reserve_bytes) = (self.library.blobs(), self.reserve_bytes);
        match self.disk.free_bytes(&folder)? {
            free_bytes if free_bytes < need_bytes.saturating_add(reserve_bytes) => {
                Err(WriteError::NoSpace { need_bytes, free_bytes, reserve_bytes, folder })
            }
            _ => Ok(()),
        }
    }

    /// Gives a whole draft its name. Returns whether the contents were there already.
    pub(super) fn keep(&self, draft: Box<dyn Draft>, layer: &Layer, watch: &mut Watch<'_>) -> Result<bool, WriteError> {
        if self.sound(layer.digest, layer.size_bytes, watch)? {
            return Ok(true);
        }
        draft.keep(&self.library.blob_path(&layer.digest))?;
        Ok(false)
    }

    fn link(&self, source: &Source, watch: &mut Watch<'_>) -> Result<(Digest, Way), WriteError> {
        let store = self.library.blobs();
        let two = || WriteError::TwoFileSystems { path: source.path.clone(), store: store.clone() };
        let there = fs::metadata(&store).map_err(|e| WriteError::Source { path: store.clone(), source: e })?;
        if different_devices(&source.metadata, &there) {
            return Err(two());
        }
        // Reading takes minutes, in which a program that is killed must not leave somebody's file read-only for nothing. Whether
        // it could be made so is asked before, by setting what is set.
        let permissions = source.metadata.permissions();
        if !permissions.readonly() {
            set_permissions(source, permissions)?;
        }
        let digest = self.digest(source, watch)?;
        if self.sound(digest, source.size_bytes(), watch)? {
            source.check()?;
            return Ok((digest, Way::Present));
        }
        // First no more writes, then a look whether there were any, then the second name: in another order the digest could be
        // of other contents.
        let guard = ReadOnly::make(source)?;
        source.check()?;
        match self.disk.link(&source.path, &self.library.blob_path(&digest)) {
            Ok(()) => Ok((digest, Way::Linked { made_read_only: guard.stays() })),
            Err(error) if error.source.kind() == io::ErrorKind::CrossesDevices => Err(two()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes contents that are written by somebody else's rules.
struct Sink<'a, 'w> {
    draft: Box<dyn Draft>,
    hash: sha2::Sha256,
    done_bytes: u64,
    total_bytes: u64,
    watch: &'a mut Watch<'w>,
    /// What the writer, who knows only its own errors, could not be told.
    failed: Option<WriteError>,
}

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.done_bytes += bytes.len() as u64;
        let progress = Progress { stage: Stage::Copying, done_bytes: self.done_bytes, total_bytes: self.total_bytes };
        self.hash.update(bytes);
        let written = match (self.watch)(progress) {
            true => self.draft.write(bytes).map_err(WriteError::from),
            false => Err(WriteError::Cancelled),
        };
        written.map(|()| bytes.len()).map_err(|error| {
            let told = io::Error::other(error.to_string());
            self.failed = Some(error);
            told
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The digest of a whole file. `watch` is told how many bytes were read and says whether to go on; `None` when not.
///
/// # Errors
/// When it cannot be read.
pub fn digest_of(mut file: &File, watch: &mut dyn FnMut(u64) -> bool) -> io::Result<Option<Digest>> {
    let mut hash = sha2::Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut done_bytes = 0;
    loop {
        let count = match file.read(&mut piece) {
            Ok(0) => return Ok(Some(Digest::of_hash(hash))),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(piece.get(..count).unwrap_or_default());
        done_bytes += count as u64;
        if !watch(done_bytes) {
            return Ok(None);
        }
    }
}

/// Reads a whole file, hands on its bytes, and returns their digest.
fn read(
    mut file: &File,
    path: &Path,
    total_bytes: u64,
    stage: Stage,
    watch: &mut Watch<'_>,
    take: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<Digest, WriteError> {
    use std::io::Seek;
    let unread = |source: io::Error| WriteError::Source { path: path.to_owned(), source };
    file.rewind().map_err(unread)?;
    let mut hash = sha2::Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut done_bytes = 0;
    loop {
        let count = match file.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unread(error)),
        };
        let bytes = piece.get(..count).unwrap_or_default();
        hash.update(bytes);
        take(bytes)?;
        done_bytes += count as u64;
        if !watch(Progress { stage, done_bytes, total_bytes }) {
            return Err(WriteError::Cancelled);
        }
    }
    if done_bytes != total_bytes {
        return Err(WriteError::SourceChanged(path.to_owned()));
    }
    Ok(Digest::of_hash(hash))
}
