//! All libraries of a user: one writable library, and others that are only read.
//!
//! Names are looked up in order, the writable library first. An unmounted disk is reported as a state, never as an empty list, and
//! an unreadable library does not hide the others. States are not cached, because disks are mounted and unmounted while a daemon
//! runs.

use std::path::{Path, PathBuf};

use crate::{Library, LibraryError, LibraryState, Listing, ModelRef, StoredModel};

/// Libraries in the order in which names are looked up.
#[derive(Debug, Clone)]
pub struct Libraries {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    library: Library,
    role: LibraryRole,
}

/// How Cairn uses a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LibraryRole {
    /// The writable library. It is created with the first model.
    Own,
    /// Configured by the user, read-only. If it is absent, that is reported.
    Linked,
    /// Default library of another program, read-only. If it is absent, that is not reported.
    Found,
}

/// State and models of a library at one moment.
#[derive(Debug)]
pub struct LibrarySnapshot<'a> {
    /// The library.
    pub library: &'a Library,
    /// How Cairn uses it.
    pub role: LibraryRole,
    /// Whether it exists and can be read.
    pub state: LibraryState,
    /// Models of the library. Empty unless the library is present.
    pub listing: Listing,
}

impl Libraries {
    /// Collects the library at `own` and the others. A folder that is given twice, or through a link, counts once.
    #[must_use]
    pub fn new(own: PathBuf, linked: Vec<PathBuf>, found: Option<PathBuf>) -> Self {
        let linked = linked.into_iter().map(|root| (root, LibraryRole::Linked));
        let all =
            std::iter::once((own, LibraryRole::Own)).chain(linked).chain(found.map(|root| (root, LibraryRole::Found)));
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut entries = Vec::new();
        for (root, role) in all {
            let folder = root.canonicalize().unwrap_or_else(|_| root.clone());
            if !seen.contains(&folder) {
                seen.push(folder);
                entries.push(Entry { library: Library::new(root), role });
            }
        }
        Self { entries }
    }

    /// Returns the writable library.
    #[must_use]
    pub fn own(&self) -> &Library {
        let own = self.entries.first().map(|entry| &entry.library);
        own.expect("the writable library is the first entry")
    }

    /// Returns whether `library` is the writable one.
    #[must_use]
    pub fn is_own(&self, library: &Library) -> bool {
        library.root() == self.own().root()
    }

    /// Returns the read-only libraries.
    pub fn others(&self) -> impl Iterator<Item = &Library> {
        self.entries.iter().skip(1).map(|entry| &entry.library)
    }

    /// Finds a model by name, ignoring ASCII case, and its library.
    ///
    /// # Errors
    /// If no readable library has the model and another library cannot be read.
    pub fn find(&self, name: &ModelRef) -> Result<Option<(&Library, StoredModel)>, LibraryError> {
        find_in(self.entries.iter().map(|entry| &entry.library), name)
    }

    /// Finds a model in the read-only libraries.
    ///
    /// # Errors
    /// As [`Libraries::find`].
    pub fn find_elsewhere(&self, name: &ModelRef) -> Result<Option<(&Library, StoredModel)>, LibraryError> {
        find_in(self.others(), name)
    }

    /// Returns the state and the models of every library. An absent [`LibraryRole::Found`] library is left out.
    #[must_use]
    pub fn snapshots(&self) -> Vec<LibrarySnapshot<'_>> {
        let snapshots = self.entries.iter().map(|entry| {
            let state = entry.library.state();
            let (state, listing) = match state {
                LibraryState::Present => match entry.library.list() {
                    Ok(listing) => (LibraryState::Present, listing),
                    Err(error) => (LibraryState::Unreadable(error.to_string()), Listing::default()),
                },
                state => (state, Listing::default()),
            };
            LibrarySnapshot { library: &entry.library, role: entry.role, state, listing }
        });
        snapshots.filter(|s| !is_silently_absent(s.role, &s.state, s.library.root())).collect()
    }
}

/// An absent library of another program is not reported, unless its folder is a dangling link: then its disk is probably not
/// mounted.
fn is_silently_absent(role: LibraryRole, state: &LibraryState, root: &Path) -> bool {
    role == LibraryRole::Found && matches!(state, LibraryState::Absent(_)) && !root.is_symlink()
}

fn find_in<'a>(
    libraries: impl Iterator<Item = &'a Library>,
    name: &ModelRef,
) -> Result<Option<(&'a Library, StoredModel)>, LibraryError> {
    let mut first_error = None;
    for library in libraries {
        match library.find(name) {
            Ok(Some(model)) => return Ok(Some((library, model))),
            Ok(None) => {}
            // The damaged manifest has this name. An older model of another library must not replace it silently.
            Err(error @ LibraryError::Manifest { .. }) => return Err(error),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or(Ok(None), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Creates a library with one model.
    fn create_library(root: &Path, model: &str) {
        let folder = root.join("manifests/registry.ollama.ai/library").join(model);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("latest"), "{}").unwrap();
    }

    fn states(libraries: &Libraries) -> Vec<(LibraryRole, &'static str, usize)> {
        let word = |state: &LibraryState| match state {
            LibraryState::Present => "present",
            LibraryState::Absent(_) => "absent",
            LibraryState::Unreadable(_) => "unreadable",
        };
        libraries.snapshots().iter().map(|s| (s.role, word(&s.state), s.listing.models.len())).collect()
    }

    #[test]
    fn first_library_with_a_name_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        create_library(&path("own"), "a");
        create_library(&path("linked"), "A");
        create_library(&path("linked"), "b");
        let libraries = Libraries::new(path("own"), vec![path("linked"), path("own")], Some(path("linked/.")));
        assert_eq!(libraries.others().count(), 1, "a folder counts once");
        let find = |name: &str| {
            let (library, model) = libraries.find(&name.parse().unwrap()).unwrap()?;
            Some((library.root().file_name()?.to_str()?.to_owned(), model.name.to_string()))
        };
        assert_eq!(find("A"), Some(("own".to_owned(), "a:latest".to_owned())), "the writable library is first");
        assert_eq!(find("b"), Some(("linked".to_owned(), "b:latest".to_owned())), "then the other libraries");
        assert_eq!(find("c"), None, "no library has the model");
        let elsewhere = libraries.find_elsewhere(&"a".parse().unwrap()).unwrap();
        assert_eq!(elsewhere.unwrap().1.name.to_string(), "A:latest", "a second library has the model");
    }

    #[test]
    fn absent_library_is_reported_and_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        create_library(&path("linked"), "a");
        let libraries = Libraries::new(path("own"), vec![path("gone"), path("linked")], Some(path("ollama")));
        let expected =
            [(LibraryRole::Own, "absent", 0), (LibraryRole::Linked, "absent", 0), (LibraryRole::Linked, "present", 1)];
        assert_eq!(states(&libraries), expected, "an absent default library is left out");
        assert!(libraries.find(&"a".parse().unwrap()).unwrap().is_some(), "the lookup continues");
        create_library(&path("gone"), "b");
        assert_eq!(states(&libraries)[1], (LibraryRole::Linked, "present", 1), "the disk is mounted now");
        fs::create_dir_all(path("mount")).unwrap();
        fs::write(path("file"), "").unwrap();
        let odd = Libraries::new(path("linked"), vec![path("mount"), path("file")], None);
        let odd: Vec<_> = states(&odd).into_iter().map(|(_, state, _)| state).collect();
        assert_eq!(odd, ["present", "absent", "unreadable"], "an empty mount point is absent, a file is unreadable");
    }

    #[cfg(unix)]
    #[test]
    fn dangling_link_is_reported_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink(path("unmounted/models"), path("ollama")).unwrap();
        let libraries = Libraries::new(path("own"), Vec::new(), Some(path("ollama")));
        assert_eq!(states(&libraries)[1], (LibraryRole::Found, "absent", 0), "a user created the link");
    }

    #[test]
    fn unreadable_library_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // A folder at the path of a manifest cannot be read by any user, not even root.
        fs::create_dir_all(path("own/manifests/registry.ollama.ai/library/a/latest")).unwrap();
        create_library(&path("linked"), "b");
        create_library(&path("linked"), "a");
        let libraries = Libraries::new(path("own"), vec![path("linked")], None);
        assert!(libraries.find(&"b".parse().unwrap()).unwrap().is_some(), "another model is found");
        assert!(libraries.find(&"a".parse().unwrap()).is_err(), "a damaged manifest is an error");
        let snapshots = libraries.snapshots();
        assert_eq!(snapshots[0].listing.skipped.len(), 1, "the damaged manifest is reported");
    }
}
