//! The `think` field: whether and with which effort a model thinks before it answers.

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::excerpt;

/// The `think` field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// Yes or no.
    Switch(bool),
    /// Yes, with an effort, for models that support levels.
    Level(Level),
}

/// Reasoning effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Low effort.
    Low,
    /// The default of models.
    Medium,
    /// High effort.
    High,
    /// The model's maximum.
    Max,
}

impl Level {
    /// Returns the word for JSON and templates.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

impl Think {
    /// Whether the model thinks at all.
    #[must_use]
    pub fn is_on(self) -> bool {
        !matches!(self, Self::Switch(false))
    }

    /// Parses the word of a level.
    #[must_use]
    pub fn from_level(word: &str) -> Option<Self> {
        let level = [Level::Low, Level::Medium, Level::High, Level::Max].into_iter().find(|l| l.as_str() == word)?;
        Some(Self::Level(level))
    }
}

impl Serialize for Think {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Switch(on) => serializer.serialize_bool(*on),
            Self::Level(level) => serializer.serialize_str(level.as_str()),
        }
    }
}

impl<'de> Deserialize<'de> for Think {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = Think;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("think as \"high\", \"medium\", \"low\", \"max\", true, or false")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<Think, E> {
                Ok(Think::Switch(on))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Think, E> {
                Think::from_level(word).ok_or_else(|| {
                    E::custom(format_args!(
                        "invalid think value: {:?} (must be \"high\", \"medium\", \"low\", \"max\", true, or false)",
                        excerpt(word)
                    ))
                })
            }
        }
        deserializer.deserialize_any(Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_accepts_levels_and_booleans() {
        let check = |json: &str, expected: Option<Think>| {
            let read = serde_json::from_str::<Think>(json);
            assert_eq!(read.as_ref().ok().copied(), expected, "{json}: {read:?}");
            if let Some(think) = expected {
                assert_eq!(serde_json::to_string(&think).unwrap(), json, "serialised");
            }
        };
        check("true", Some(Think::Switch(true)));
        check("false", Some(Think::Switch(false)));
        check("\"low\"", Some(Think::Level(Level::Low)));
        check("\"max\"", Some(Think::Level(Level::Max)));
        check("\"true\"", None);
        check("1", None);
        let error = serde_json::from_str::<Think>("\"very\"").unwrap_err().to_string();
        assert!(error.contains("must be \"high\", \"medium\", \"low\", \"max\", true, or false"), "{error}");
    }
}
