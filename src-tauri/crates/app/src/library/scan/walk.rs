//! Walks untrusted folders: with limits of depth and entries, and visits each folder and file once, even if links lead
//! to it several times.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Limits of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Most folder levels below the root. The hub's cache has four.
    pub(super) depth: usize,
    /// Most entries of a root and all folders below it.
    pub(super) entries: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { depth: 8, entries: 200_000 }
    }
}

/// State of a walk over several roots.
#[derive(Debug, Default)]
pub(super) struct Walk {
    bounds: Bounds,
    entries: usize,
    folders: HashSet<PathBuf>,
    files: HashSet<PathBuf>,
    /// Folders that could not be read, each with the reason.
    pub(super) unread: Vec<(PathBuf, String)>,
    /// First folder that was skipped because of a limit.
    pub(super) cut: Option<PathBuf>,
}

/// A file or folder that may have models.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// A file named as a model, and its canonical path.
    File(PathBuf, PathBuf),
    /// A dangling link named as a model.
    Dangling(PathBuf),
    /// A folder with `manifests` and `blobs`.
    Library(PathBuf),
}

impl Walk {
    pub(super) fn with_bounds(bounds: Bounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Returns candidates in a folder and below, in order of names, without those of earlier walks.
    pub(super) fn look(&mut self, root: &Path, should_continue: &mut dyn FnMut() -> bool) -> Vec<Candidate> {
        self.entries = 0;
        let mut candidates = Vec::new();
        let mut waiting = vec![(root.to_owned(), 0)];
        while let Some((folder, depth)) = waiting.pop() {
            if !should_continue() {
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
                candidates.push(Candidate::Library(folder));
                continue;
            }
            let below = self.entries(&folder, &mut candidates);
            // The stack is last in, first out.
            waiting.extend(below.into_iter().rev().map(|folder| (folder, depth + 1)));
        }
        candidates
    }

    /// Reads one folder: adds its candidates and returns its subfolders.
    fn entries(&mut self, folder: &Path, candidates: &mut Vec<Candidate>) -> Vec<PathBuf> {
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
                        candidates.push(Candidate::File(path, file));
                    }
                }
                Err(_) if named => candidates.push(Candidate::Dangling(path)),
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

    fn names(candidates: &[Candidate], root: &Path) -> Vec<String> {
        let text = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let name = |candidate: &Candidate| match candidate {
            Candidate::File(path, _) => text(path),
            Candidate::Dangling(path) => format!("{} leads to nothing", text(path)),
            Candidate::Library(path) => format!("{} is a library", text(path)),
        };
        candidates.iter().map(name).collect()
    }

    #[test]
    fn walk_visits_each_file_once_despite_links() {
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
        let mut walk = Walk::with_bounds(Bounds::default());
        let found = names(&walk.look(root, &mut || true), root);
        let expected = [
            "a/one.gguf",
            "b/TWO.GGUF",
            "b/gone.gguf leads to nothing",
            "hub/snapshots/r1/three.gguf",
            "store is a library",
        ];
        assert_eq!(found, expected, "each folder is visited once");
        assert!(walk.cut.is_none() && walk.unread.is_empty(), "no folder was skipped: {walk:?}");
        assert!(walk.look(&root.join("a"), &mut || true).is_empty(), "nothing new in a second walk");
    }

    #[test]
    fn walk_stops_at_its_limits_and_reports_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut deep = folder.path().to_owned();
        for level in 0..6 {
            fs::write(deep.join(format!("{level}.gguf")), "x").unwrap();
            deep.push("d");
            fs::create_dir(&deep).unwrap();
        }
        let check = |depth: usize, entries: usize, files: usize, cut: bool| {
            let mut walk = Walk::with_bounds(Bounds { depth, entries });
            assert_eq!(walk.look(folder.path(), &mut || true).len(), files, "{depth} deep, {entries} entries");
            assert_eq!(walk.cut.is_some(), cut, "{depth} deep, {entries} entries: {:?}", walk.cut);
        };
        check(10, 1000, 6, false);
        check(2, 1000, 3, true);
        check(10, 4, 2, true);
        check(10, 1, 1, true);
        let mut walk = Walk::with_bounds(Bounds::default());
        assert!(walk.look(folder.path(), &mut || false).is_empty(), "a cancelled walk returns nothing");
        walk.look(Path::new("/proc/self/task/0/absent"), &mut || true);
        assert!(walk.unread.is_empty(), "a missing folder is not unreadable");
    }
}
