//! Model names: `[scheme://][host/][namespace/]model[:tag]`.
//!
//! A name is parsed from right to left: the tag follows the last colon without a later slash, the model follows the last slash,
//! then come the namespace and the host. Missing parts get Ollama's defaults. Spelling is preserved; comparison ignores ASCII
//! case. Every part is also a folder or file in a library, so no part can be empty, begin with a dot or contain a separator.

pub(crate) mod folder;

use std::fmt;
use std::str::FromStr;

/// Host of a name without one.
pub(crate) const DEFAULT_HOST: &str = "registry.ollama.ai";
/// Namespace of a name without one.
pub(crate) const DEFAULT_NAMESPACE: &str = "library";
/// Tag of a name without one.
pub(crate) const DEFAULT_TAG: &str = "latest";

/// Complete name of a model.
///
/// Names that differ only in ASCII case are equal. The scheme is not part of the identity.
#[derive(Debug, Clone)]
pub struct ModelRef {
    host: String,
    namespace: String,
    model: String,
    tag: String,
    insecure: bool,
}

/// Reason why a text is not a model name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty or only white space.
    #[error("model is required")]
    Empty,
    /// A part is missing, too long or has invalid characters.
    #[error("invalid model name")]
    Invalid {
        /// The whole name as given.
        name: String,
        /// The invalid part.
        part: NamePart,
    },
}

/// Part of a model name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the part of that name")]
pub enum NamePart {
    Scheme,
    Host,
    Namespace,
    Model,
    Tag,
}

impl NamePart {
    /// Returns the maximum length of the part.
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
        let name_ref = Self {
            host: host.to_owned(),
            namespace: namespace.to_owned(),
            model: model.to_owned(),
            tag: tag.to_owned(),
            insecure: scheme.eq_ignore_ascii_case("http"),
        };
        let valid_scheme = name_ref.insecure || scheme.eq_ignore_ascii_case("https");
        match name_ref.invalid_part().or((!valid_scheme).then_some(NamePart::Scheme)) {
            Some(part) => Err(NameError::Invalid { name: name.to_owned(), part }),
            None => Ok(name_ref),
        }
    }
}

impl ModelRef {
    /// Builds a name from its four parts, such as the folders of a manifest's path.
    ///
    /// # Errors
    /// [`NameError::Invalid`] with the first invalid part.
    pub fn from_parts(host: &str, namespace: &str, model: &str, tag: &str) -> Result<Self, NameError> {
        let name_ref = Self {
            host: host.to_owned(),
            namespace: namespace.to_owned(),
            model: model.to_owned(),
            tag: tag.to_owned(),
            insecure: false,
        };
        match name_ref.invalid_part() {
            Some(part) => Err(NameError::Invalid { name: name_ref.full(), part }),
            None => Ok(name_ref),
        }
    }

    /// Returns whether both names differ only in the tag and in case.
    #[must_use]
    pub fn same_repository(&self, other: &Self) -> bool {
        let parts = |name: &Self| [&name.host, &name.namespace, &name.model].map(|part| part.to_ascii_lowercase());
        parts(self) == parts(other)
    }

    /// Returns the registry's host, with its port if the name has one.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the model part.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the tag.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns whether the name was written with `http://`.
    #[must_use]
    pub fn insecure(&self) -> bool {
        self.insecure
    }

    /// Returns the complete name, `host/namespace/model:tag`.
    #[must_use]
    pub fn full(&self) -> String {
        format!("{}/{}/{}:{}", self.host, self.namespace, self.model, self.tag)
    }

    fn invalid_part(&self) -> Option<NamePart> {
        self.parts().into_iter().find(|(part, text)| !part.accepts(text)).map(|(part, _)| part)
    }

    fn parts(&self) -> [(NamePart, &str); 4] {
        [
            (NamePart::Host, &self.host),
            (NamePart::Namespace, &self.namespace),
            (NamePart::Model, &self.model),
            (NamePart::Tag, &self.tag),
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

/// Writes the shortest equivalent name: without the default host and namespace, with the tag.
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
        let parsed: ModelRef = name.parse().unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(parsed.full(), full, "full form of {name:?}");
        assert_eq!(parsed.to_string(), shortest, "short form of {name:?}");
        assert_eq!(parsed.to_string().parse::<ModelRef>().as_ref(), Ok(&parsed), "the short form is equivalent");
        assert_eq!(parsed.full().parse::<ModelRef>(), Ok(parsed), "the full form is equivalent");
    }

    #[test]
    fn names_are_parsed_and_formatted() {
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
    fn comparison_ignores_case() {
        let (upper, lower): (ModelRef, ModelRef) = ("Me/Foo:V1".parse().unwrap(), "me/foo:v1".parse().unwrap());
        assert_eq!(upper, lower, "names differ in case only");
        assert_eq!(std::collections::HashSet::from([upper, lower]).len(), 1, "equal names have equal hashes");
    }

    #[test]
    fn names_that_could_leave_a_library_are_rejected() {
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
            let parsed = name.parse::<ModelRef>();
            assert!(parsed.is_err(), "{name:?} was parsed as {parsed:?}");
        }
        assert_eq!("  ".parse::<ModelRef>(), Err(NameError::Empty), "white space is not a name");
        assert!(ModelRef::from_parts("h", "n", "m", "..").is_err(), "parts follow the same rules");
    }
}
