//! Looking through folders that nobody vouches for: at most so deep, at most so many entries, each folder and each file
//! once, whatever links lead to it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How far a look goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Folders below the first one. The hub's cache has four.
    pub(super) depth: usize,
    /// Entries of a folder and all below it.
    pub(super) entries: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { depth: 8, entries: 200_000 }
    }
}

/// What was found, and what was not looked at.
#[derive(Debug, Default)]
pub(super) struct Walk {
    bounds: Bounds,
    entries: usize,
    folders: HashSet<PathBuf>,
    files: HashSet<PathBuf>,
    /// Folders that could not be read, each with the reason.
    pub(super) unread: Vec<(PathBuf, String)>,
    /// A folder that was given up because it is too deep, or there are too many entries.
    pub(super) cut: Option<PathBuf>,
}

/// A thing that may be a model, or several.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// A file that is named as models are, and the file that it leads to.
    File(PathBuf, PathBuf),
    /// A link, named as models are, that leads to nothing.
    Dangling(PathBuf),
    /// A folder with `manifests` and `blobs`.
    Library(PathBuf),
}

impl Walk {
    pub(super) fn within(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// What is in a folder and below it, in the order of names, but for what was seen before.
    pub(super) fn look(&mut self, root: &Path, go_on: &mut dyn FnMut() -> bool) -> Vec<Sight> {
        self.entries = 0;
        let mut sights = Vec::new();
        let mut waiting = vec![(root.to_owned(), 0)];
        while let Some((folder, depth)) = waiting.pop() {
            if !go_on() {
                break;
            }
            let Ok(place) = folder.canonicalize() else { continue };
            if !self.folders.insert(place) {
                continue;
            }
            if depth > self.bounds.depth || self.entries >= self.bounds.entries {
                self.cut.get_or_insert(folder);
                continue;
            }
            if folder.join("manifests").is_dir() && folder.join("blobs").is_dir() {
                sights.push(Sight::Library(folder));
                continue;
            }
            let below = self.entries(&folder, &mut sights);
            // The last one is the next.
            waiting.extend(below.into_iter().rev().map(|folder| (folder, depth + 1)));
        }
        sights
    }

    /// Looks at one folder, and returns those in it.
    fn entries(&mut self, folder: &Path, sights: &mut Vec<Sight>) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.unread.push((folder.to_owned(), error.to_string()));
                return paths;
            }
        };
        let room = self.bounds.entries - self.entries;
        paths.extend(entries.flatten().take(room + 1).map(|entry| entry.path()));
        if paths.len() > room {
            paths.pop();
            self.cut.get_or_insert_with(|| folder.to_owned());
        }
        self.entries += paths.len();
        paths.sort_unstable();
        let mut folders = Vec::new();
        for path in paths {
            let named = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
            match fs::metadata(&path) {
                Ok(found) if found.is_dir() => folders.push(path),
                Ok(_) if named => {
                    let file = path.canonicalize().unwrap_or_else(|_| path.clone());
                    if self.files.insert(file.clone()) {
                        sights.push(Sight::File(path, file));
                    }
                }
                Err(_) if named => sights.push(Sight::Dangling(path)),
                Ok(_) | Err(_) => {}
            }
        }
        folders
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(sights: &[Sight], root: &Path) -> Vec<String> {
        let text = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let name = |sight: &Sight| match sight {
            Sight::File(path, _) => text(path),
            Sight::Dangling(path) => format!("{} leads to nothing", text(path)),
            Sight::Library(path) => format!("{} is a library", text(path)),
        };
        sights.iter().map(name).collect()
    }

    #[test]
    fn each_file_once_whatever_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let put = |path: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "x").unwrap();
        };
        let files = ["a/one.gguf", "a/notes.txt", "b/TWO.GGUF", "hub/blobs/00ff"];
        files.into_iter().chain(["store/manifests/h", "store/blobs/x.gguf"]).for_each(put);
        fs::create_dir_all(root.join("hub/snapshots/r1")).unwrap();
        symlink("../../blobs/00ff", root.join("hub/snapshots/r1/three.gguf")).unwrap();
        symlink("../a", root.join("b/again")).unwrap();
        symlink("..", root.join("b/loop")).unwrap();
        symlink("nowhere", root.join("b/gone.gguf")).unwrap();
        symlink("gone-as-well", root.join("b/no-model")).unwrap();
        let mut walk = Walk::within(Bounds::default());
        let found = names(&walk.look(root, &mut || true), root);
        let expected = [
            "a/one.gguf",
            "b/TWO.GGUF",
            "b/gone.gguf leads to nothing",
            "hub/snapshots/r1/three.gguf",
            "store is a library",
        ];
        assert_eq!(found, expected, "a folder that was seen is not looked at again");
        assert!(walk.cut.is_none() && walk.unread.is_empty(), "all of it: {walk:?}");
        assert!(walk.look(&root.join("a"), &mut || true).is_empty(), "nor in a later look");
    }

    #[test]
    fn a_look_has_bounds_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut deep = folder.path().to_owned();
        for level in 0..6 {
            fs::write(deep.join(format!("{level}.gguf")), "x").unwrap();
            deep.push("d");
            fs::create_dir(&deep).unwrap();
        }
        let check = |depth: usize, entries: usize, files: usize, cut: bool| {
            let mut walk = Walk::within(Bounds { depth, entries });
            assert_eq!(walk.look(folder.path(), &mut || true).len(), files, "{depth} deep, {entries} entries");
            assert_eq!(walk.cut.is_some(), cut, "{depth} deep, {entries} entries: {:?}", walk.cut);
        };
        check(10, 1000, 6, false);
        check(2, 1000, 3, true);
        check(10, 4, 2, true);
        check(10, 1, 1, true);
        let mut walk = Walk::within(Bounds::default());
        assert!(walk.look(folder.path(), &mut || false).is_empty(), "nobody waits for it any more");
        walk.look(Path::new("/proc/self/task/0/absent"), &mut || true);
        assert!(walk.unread.is_empty(), "a folder that is not there is none that cannot be read");
    }
}
