//! Packages of Office documents: ZIP archives with XML inside.
//!
//! Specification: ECMA-376 part 2, Open Packaging Conventions. Only entries of the archive are read: a relationship with an
//! external target is ignored.

use std::collections::HashMap;
use std::io::{self, BufReader, Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::xml::{Node, Xml, attribute};
use crate::{DocumentFormat, Error, Limits};

/// An archive and the bytes that it may still inflate.
pub(crate) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    limits: &'a Limits,
    left_bytes: u64,
}

/// Returns the format of a ZIP archive, by the main part of each format.
pub(crate) fn format(bytes: &[u8]) -> Result<DocumentFormat, Error> {
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(Error::damaged)?;
    let has = |name: &str| archive.index_for_name(name).is_some();
    match () {
        () if has("word/document.xml") => Ok(DocumentFormat::Docx),
        () if has("xl/workbook.xml") => Ok(DocumentFormat::Xlsx),
        () if has("ppt/presentation.xml") => Ok(DocumentFormat::Pptx),
        () => Err(Error::UnknownFormat),
    }
}

impl<'a> Package<'a> {
    pub(crate) fn open(bytes: &'a [u8], limits: &'a Limits) -> Result<Self, Error> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(Error::damaged)?;
        match archive.len() > limits.entries {
            true => Err(Error::too_many("files inside", limits.entries)),
            false => Ok(Self { archive, limits, left_bytes: limits.inflated_bytes }),
        }
    }

    /// Reads the XML of an entry, one node after another. Returns whether the archive has the entry.
    pub(crate) fn read(
        &mut self,
        name: &str,
        mut visit: impl FnMut(Node<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let entry = match self.archive.by_name(name) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(false),
            Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => return Err(Error::Encrypted),
            Err(error) => return Err(Error::damaged(error)),
        };
        let mut bounded = Bounded { entry, left_bytes: &mut self.left_bytes, is_exceeded: false };
        let limit_bytes = self.limits.inflated_bytes;
        let read = Xml::new(BufReader::new(&mut bounded), self.limits.depth).read(&mut visit);
        match bounded.is_exceeded {
            true => Err(Error::InflatesTooMuch { limit_bytes }),
            false => read.map(|()| true),
        }
    }

    /// Returns the internal targets of an entry's relationships, as names of entries, by id.
    pub(crate) fn relationships(&mut self, entry: &str) -> Result<HashMap<String, Relationship>, Error> {
        let (folder, file) = entry.rsplit_once('/').unwrap_or(("", entry));
        let mut found = HashMap::new();
        self.read(&format!("{folder}/_rels/{file}.rels"), |node| {
            if let Node::Start(element) = node
                && element.local_name().as_ref() == "Relationship"
                && attribute(element, "TargetMode").as_deref() != Some("External")
                && let (Some(id), Some(target)) = (attribute(element, "Id"), attribute(element, "Target"))
            {
                let kind = attribute(element, "Type").unwrap_or_default();
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                found.insert(id, Relationship { kind, entry: resolve(folder, &target) });
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// A relationship between entries of a package.
pub(crate) struct Relationship {
    /// Last part of the type's address, such as `slide`.
    pub(crate) kind: String,
    /// Name of the entry that it points to.
    pub(crate) entry: String,
}

/// Resolves a target relative to a folder of the archive.
fn resolve(folder: &str, target: &str) -> String {
    let mut path: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => folder.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

/// Reader that fails when the package has inflated too many bytes.
struct Bounded<'a, R> {
    entry: R,
    left_bytes: &'a mut u64,
    is_exceeded: bool,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.entry.read(buffer)?;
        match self.left_bytes.checked_sub(read as u64) {
            Some(left) => {
                *self.left_bytes = left;
                Ok(read)
            }
            None => {
                self.is_exceeded = true;
                Err(io::Error::other("too many inflated bytes"))
            }
        }
    }
}
