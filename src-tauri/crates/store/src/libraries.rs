//! All libraries of a user: one that is written, and others that are only read.
//!
//! The first library that has a name wins, and the written one comes first. A library may be on a disk that is not
//! mounted: that is a state of it which is told, never an empty list; and one that cannot be read keeps nobody from the
//! others. States are asked for anew each time, because disks come and go while a daemon runs.

use std::path::{Path, PathBuf};

use crate::{Library, LibraryError, Listing, ModelRef, State, StoredModel};

/// Several libraries, in the order in which names are looked up.
#[derive(Debug, Clone)]
pub struct Libraries {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    library: Library,
    role: Role,
}

/// What a library is to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// New models go there. It is made with the first of them.
    Own,
    /// The user named it: it is read, never written, and its absence is told.
    Linked,
    /// It is where another program keeps its models: as a linked one, but nobody misses it.
    Found,
}

/// A library as it is now.
#[derive(Debug)]
pub struct Surveyed<'a> {
    /// Which.
    pub library: &'a Library,
    /// What it is to its user.
    pub role: Role,
    /// Whether it is there.
    pub state: State,
    /// What it holds; nothing unless it is there.
    pub listing: Listing,
}

impl Libraries {
    /// The library at `own`, then the others. A folder that is named twice, or through a link, counts once.
    #[must_use]
    pub fn new(own: PathBuf, linked: Vec<PathBuf>, found: Option<PathBuf>) -> Self {
        let linked = linked.into_iter().map(|root| (root, Role::Linked));
        let all = std::iter::once((own, Role::Own)).chain(linked).chain(found.map(|root| (root, Role::Found)));
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

    /// The library that is written.
    #[must_use]
    pub fn own(&self) -> &Library {
        let own = self.entries.first().map(|entry| &entry.library);
        own.expect("a collection begins with the library that is written")
    }

    /// Is it the library that is written?
    #[must_use]
    pub fn is_own(&self, library: &Library) -> bool {
        library.root() == self.own().root()
    }

    /// Those that are only read.
    pub fn others(&self) -> impl Iterator<Item = &Library> {
        self.entries.iter().skip(1).map(|entry| &entry.library)
    }

    /// The model of that name in whatever spelling, and the library that has it.
    ///
    /// # Errors
    /// When no library has it that can be read, and one cannot be read that may have it.
    pub fn find(&self, name: &ModelRef) -> Result<Option<(&Library, StoredModel)>, LibraryError> {
        find_in(self.entries.iter().map(|entry| &entry.library), name)
    }

    /// The same among those that are only read.
    ///
    /// # Errors
    /// As [`Libraries::find`].
    pub fn find_elsewhere(&self, name: &ModelRef) -> Result<Option<(&Library, StoredModel)>, LibraryError> {
        find_in(self.others(), name)
    }

    /// Every library as it is now, with what it holds. One that was only looked for is left out where it is not.
    #[must_use]
    pub fn survey(&self) -> Vec<Surveyed<'_>> {
        let surveyed = self.entries.iter().map(|entry| {
            let state = entry.library.state();
            let (state, listing) = match state {
                State::Present => match entry.library.list() {
                    Ok(listing) => (State::Present, listing),
                    Err(error) => (State::Unreadable(error.to_string()), Listing::default()),
                },
                state => (state, Listing::default()),
            };
            Surveyed { library: &entry.library, role: entry.role, state, listing }
        });
        surveyed.filter(|s| !is_not_missed(s.role, &s.state, s.library.root())).collect()
    }
}

/// A library of another program that is not there is no news, unless its folder is a link that leads to nothing: to a
/// disk that is not mounted, mostly.
fn is_not_missed(role: Role, state: &State, root: &Path) -> bool {
    role == Role::Found && matches!(state, State::Absent(_)) && !root.is_symlink()
}

fn find_in<'a>(
    libraries: impl Iterator<Item = &'a Library>,
    name: &ModelRef,
) -> Result<Option<(&'a Library, StoredModel)>, LibraryError> {
    let mut unread = None;
    for library in libraries {
        match library.find(name) {
            Ok(Some(model)) => return Ok(Some((library, model))),
            Ok(None) => {}
            // A damaged manifest is this name's, and an older model of the name must not pass for it.
            Err(error @ LibraryError::Manifest { .. }) => return Err(error),
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    unread.map_or(Ok(None), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Makes a library with a model of that name.
    fn library(root: &Path, model: &str) {
        let folder = root.join("manifests/registry.ollama.ai/library").join(model);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("latest"), "{}").unwrap();
    }

    fn states(libraries: &Libraries) -> Vec<(Role, &'static str, usize)> {
        let word = |state: &State| match state {
            State::Present => "present",
            State::Absent(_) => "absent",
            State::Unreadable(_) => "unreadable",
        };
        libraries.survey().iter().map(|s| (s.role, word(&s.state), s.listing.models.len())).collect()
    }

    #[test]
    fn the_first_that_has_a_name_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        library(&path("own"), "a");
        library(&path("linked"), "A");
        library(&path("linked"), "b");
        let libraries = Libraries::new(path("own"), vec![path("linked"), path("own")], Some(path("linked/.")));
        assert_eq!(libraries.others().count(), 1, "a folder counts once, whatever it is called");
        let find = |name: &str| {
            let (library, model) = libraries.find(&name.parse().unwrap()).unwrap()?;
            Some((library.root().file_name()?.to_str()?.to_owned(), model.name.to_string()))
        };
        assert_eq!(find("A"), Some(("own".to_owned(), "a:latest".to_owned())), "the written one comes first");
        assert_eq!(find("b"), Some(("linked".to_owned(), "b:latest".to_owned())), "then the others");
        assert_eq!(find("c"), None, "nobody has it");
        let elsewhere = libraries.find_elsewhere(&"a".parse().unwrap()).unwrap();
        assert_eq!(elsewhere.unwrap().1.name.to_string(), "A:latest", "but another one has it too");
    }

    #[test]
    fn an_absent_library_is_told_and_hinders_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        library(&path("linked"), "a");
        let libraries = Libraries::new(path("own"), vec![path("gone"), path("linked")], Some(path("ollama")));
        let expected = [(Role::Own, "absent", 0), (Role::Linked, "absent", 0), (Role::Linked, "present", 1)];
        assert_eq!(states(&libraries), expected, "what was only looked for is not missed");
        assert!(libraries.find(&"a".parse().unwrap()).unwrap().is_some(), "names lead on");
        library(&path("gone"), "b");
        assert_eq!(states(&libraries)[1], (Role::Linked, "present", 1), "a disk was mounted meanwhile");
        fs::create_dir_all(path("mount")).unwrap();
        fs::write(path("file"), "").unwrap();
        let odd = Libraries::new(path("linked"), vec![path("mount"), path("file")], None);
        let odd: Vec<_> = states(&odd).into_iter().map(|(_, state, _)| state).collect();
        assert_eq!(
            odd,
            ["present", "absent", "unreadable"],
            "an empty mount point is no empty library, a file is none"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_to_nothing_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink(path("unmounted/models"), path("ollama")).unwrap();
        let libraries = Libraries::new(path("own"), Vec::new(), Some(path("ollama")));
        assert_eq!(states(&libraries)[1], (Role::Found, "absent", 0), "somebody put it there");
    }

    #[test]
    fn a_library_that_cannot_be_read_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        // A manifest that is a folder cannot be read as one, whoever runs this.
        fs::create_dir_all(path("own/manifests/registry.ollama.ai/library/a/latest")).unwrap();
        library(&path("linked"), "b");
        library(&path("linked"), "a");
        let libraries = Libraries::new(path("own"), vec![path("linked")], None);
        assert!(libraries.find(&"b".parse().unwrap()).unwrap().is_some(), "another name is found");
        assert!(libraries.find(&"a".parse().unwrap()).is_err(), "the damaged one is not passed over");
        let survey = libraries.survey();
        assert_eq!(survey[0].listing.skipped.len(), 1, "and told of");
    }
}
