//! Names of models: `[scheme://][host/][namespace/]model[:tag]`.
//!
//! A name is read from its right end: the tag after the last colon that no slash follows, the model after the last
//! slash, then the namespace, and what is left is the host. Missing parts get Ollama's defaults. Spelling is kept;
//! comparison ignores the case of ASCII letters. Every part is also a folder or file in a library, hence the narrow
//! alphabets: no part can be empty, begin with a dot or contain a separator.

pub(crate) mod folder;

use std::fmt;
use std::str::FromStr;

/// Where a name points that says no host.
pub(crate) const DEFAULT_HOST: &str = "registry.ollama.ai";
/// Whose model it is when a name says no namespace.
pub(crate) const DEFAULT_NAMESPACE: &str = "library";
/// Which version a name means that says no tag.
pub(crate) const DEFAULT_TAG: &str = "latest";

/// A model's complete name.
///
/// Two names are equal when they differ in nothing but the case of letters; the scheme is not part of the identity.
#[derive(Debug, Clone)]
pub struct ModelRef {
    host: String,
    namespace: String,
    model: String,
    tag: String,
    insecure: bool,
}

/// Why a text is no model name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing but blanks.
    #[error("model is required")]
    Empty,
    /// A part is missing, too long or has characters that it cannot have.
    #[error("invalid model name")]
    Invalid {
        /// The whole name, as it was given.
        name: String,
        /// Which part of it is wrong.
        part: Part,
    },
}

/// Parts of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the part of that name")]
pub enum Part {
    Scheme,
    Host,
    Namespace,
    Model,
    Tag,
}

impl Part {
    /// Longest text of the part, in bytes.
    fn limit_bytes(self) -> usize {
        match self {
            Self::Host => 350,
            _ => 80,
        }
    }

    fn allows(self, byte: u8) -> bool {
        match byte {
            b'_' | b'-' => true,
            b'.' => self != Self::Namespace,
            b':' => self == Self::Host,
            _ => byte.is_ascii_alphanumeric(),
        }
    }

    fn accepts(self, text: &str) -> bool {
        let starts_well = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_');
        starts_well && text.len() <= self.limit_bytes() && text.bytes().all(|byte| self.allows(byte))
    }
}

impl FromStr for ModelRef {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let text = name.trim();
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let (scheme, text) = text.split_once("://").map_or(("https", text), |(scheme, rest)| (scheme, rest));
        let (path, tag) = match text.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, tag),
            _ => (text, DEFAULT_TAG),
        };
        let (above, model) = path.rsplit_once('/').map_or((None, path), |(above, model)| (Some(above), model));
        let (host, namespace) = match above.map(|above| above.rsplit_once('/').ok_or(above)) {
            None => (DEFAULT_HOST, DEFAULT_NAMESPACE),
            Some(Err(namespace)) => (DEFAULT_HOST, namespace),
            Some(Ok((host, namespace))) => (host, namespace),
        };
        let read = Self {
            host: host.to_owned(),
            namespace: namespace.to_owned(),
            model: model.to_owned(),
            tag: tag.to_owned(),
            insecure: scheme.eq_ignore_ascii_case("http"),
        };
        let wrong = read.parts().into_iter().find(|(part, text)| !part.accepts(text)).map(|(part, _)| part);
        let known_scheme = read.insecure || scheme.eq_ignore_ascii_case("https");
        match wrong.or((!known_scheme).then_some(Part::Scheme)) {
            Some(part) => Err(NameError::Invalid { name: name.to_owned(), part }),
            None => Ok(read),
        }
    }
}

impl ModelRef {
    /// Builds a name of the four parts, for instance of the four folders of a manifest's path.
    #[must_use]
    pub fn from_parts(host: &str, namespace: &str, model: &str, tag: &str) -> Option<Self> {
        let read = Self {
            host: host.to_owned(),
            namespace: namespace.to_owned(),
            model: model.to_owned(),
            tag: tag.to_owned(),
            insecure: false,
        };
        let valid = read.parts().into_iter().all(|(part, text)| part.accepts(text));
        valid.then_some(read)
    }

    /// Do both belong to one repository, whatever their tags?
    #[must_use]
    pub fn same_repository(&self, other: &Self) -> bool {
        let parts = |name: &Self| [&name.host, &name.namespace, &name.model].map(|part| part.to_ascii_lowercase());
        parts(self) == parts(other)
    }

    /// The registry's host, perhaps with a port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whose model it is.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The model's own name.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Which version of it.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Was the name written with `http://`?
    #[must_use]
    pub fn insecure(&self) -> bool {
        self.insecure
    }

    /// The complete name, `host/namespace/model:tag`.
    #[must_use]
    pub fn full(&self) -> String {
        format!("{}/{}/{}:{}", self.host, self.namespace, self.model, self.tag)
    }

    fn parts(&self) -> [(Part, &str); 4] {
        [
            (Part::Host, &self.host),
            (Part::Namespace, &self.namespace),
            (Part::Model, &self.model),
            (Part::Tag, &self.tag),
        ]
    }
}

impl PartialEq for ModelRef {
    fn eq(&self, other: &Self) -> bool {
        self.parts().iter().zip(other.parts()).all(|((_, mine), (_, theirs))| mine.eq_ignore_ascii_case(theirs))
    }
}

impl Eq for ModelRef {}

impl std::hash::Hash for ModelRef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for (_, text) in self.parts() {
            text.to_ascii_lowercase().hash(state);
        }
    }
}

/// The shortest name that still means the same: defaults of host and namespace left out, the tag always there.
impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default_host = self.host.eq_ignore_ascii_case(DEFAULT_HOST);
        if !default_host {
            write!(f, "{}/", self.host)?;
        }
        if !default_host || !self.namespace.eq_ignore_ascii_case(DEFAULT_NAMESPACE) {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}:{}", self.model, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, full: &str, shortest: &str) {
        let read: ModelRef = name.parse().unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(read.full(), full, "{name:?} in full");
        assert_eq!(read.to_string(), shortest, "{name:?} in short");
        assert_eq!(read.to_string().parse::<ModelRef>().as_ref(), Ok(&read), "the short form means the same");
        assert_eq!(read.full().parse::<ModelRef>(), Ok(read), "the full form means the same");
    }

    #[test]
    fn reads_and_prints() {
        check("llama3", "registry.ollama.ai/library/llama3:latest", "llama3:latest");
        check("llama3.2:1b", "registry.ollama.ai/library/llama3.2:1b", "llama3.2:1b");
        check(" me/Mine ", "registry.ollama.ai/me/Mine:latest", "me/Mine:latest");
        check("hf.co/bart/Qwen3-GGUF:Q4_K_M", "hf.co/bart/Qwen3-GGUF:Q4_K_M", "hf.co/bart/Qwen3-GGUF:Q4_K_M");
        check("localhost:5000/a/b", "localhost:5000/a/b:latest", "localhost:5000/a/b:latest");
        check("http://localhost:5000/a/b:c", "localhost:5000/a/b:c", "localhost:5000/a/b:c");
        check("Registry.Ollama.AI/Library/x", "Registry.Ollama.AI/Library/x:latest", "x:latest");
        check("hf.co/library/x", "hf.co/library/x:latest", "hf.co/library/x:latest");
    }

    #[test]
    fn case_is_kept_but_does_not_matter() {
        let (upper, lower): (ModelRef, ModelRef) = ("Me/Foo:V1".parse().unwrap(), "me/foo:v1".parse().unwrap());
        assert_eq!(upper, lower, "names differ in case only");
        assert_eq!(std::collections::HashSet::from([upper, lower]).len(), 1, "the hash agrees with equality");
    }

    #[test]
    fn refuses_what_could_leave_a_library() {
        let long = "a".repeat(81);
        for name in [
            "a/:b",
            "/x",
            "x:",
            ":x",
            "a//b",
            "..",
            "../x",
            "x/..",
            "../../etc/passwd",
            "x:..",
            "x:../y",
            ".hidden",
            "a/b.c/d",
            "n.s/x",
            "x@sha256:00",
            "x y",
            "x\\y",
            "x\0",
            "ü",
            "-x",
            "ftp://h/n/m",
            "://x",
            &long,
            "C:\\x",
            "/etc/passwd",
            "h/n/m/.",
            "./x",
            "x/y/z/..:t",
            "a/b:c/d",
        ] {
            let read = name.parse::<ModelRef>();
            // A host may hold further slashes nowhere: whatever is accepted must still be four plain parts.
            assert!(read.is_err(), "{name:?} was read as {read:?}");
        }
        assert_eq!("  ".parse::<ModelRef>(), Err(NameError::Empty), "blanks are no name");
        assert!(ModelRef::from_parts("h", "n", "m", "..").is_none(), "parts are held to the same rules");
    }
}
