//! How long a model stays loaded after its last request.
//!
//! JSON has two forms: a number is seconds, a string is a Go duration. Negative values mean forever.

use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::go_duration;

/// How long a model stays loaded after its last request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepAlive {
    /// The model unloads after this time without a request; at once for zero.
    For(Duration),
    /// The model stays loaded until it is unloaded by name or its memory is needed.
    Forever,
}

impl KeepAlive {
    /// Unload as soon as no request uses the model.
    pub const ZERO: Self = Self::For(Duration::ZERO);

    /// Parses the value of an environment variable: a Go duration, or a number of seconds.
    ///
    /// # Errors
    /// If the text is not a duration.
    pub fn parse_setting(text: &str) -> Result<Self, go_duration::ParseError> {
        match text.parse::<f64>() {
            Ok(seconds) => Ok(Self::from_seconds(seconds)),
            Err(_) => Self::parse(text),
        }
    }

    /// Parses a Go duration.
    ///
    /// # Errors
    /// If the text is not a duration.
    pub fn parse(text: &str) -> Result<Self, go_duration::ParseError> {
        let ns = go_duration::parse(text)?;
        Ok(u64::try_from(ns).map_or(Self::Forever, |ns| Self::For(Duration::from_nanos(ns))))
    }

    fn from_seconds(seconds: f64) -> Self {
        if seconds.is_sign_negative() && seconds != 0.0 {
            return Self::Forever;
        }
        // A value out of range or NaN means longer than any machine runs.
        Duration::try_from_secs_f64(seconds).map_or(Self::Forever, Self::For)
    }
}

impl Serialize for KeepAlive {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ns = match self {
            Self::Forever => i64::MAX,
            Self::For(duration) => i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX),
        };
        serializer.serialize_str(&go_duration::format(ns))
    }
}

impl<'de> Deserialize<'de> for KeepAlive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = KeepAlive;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("keep_alive as a number of seconds or a duration such as \"5m\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<KeepAlive, E> {
                KeepAlive::parse(text).map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<KeepAlive, E> {
                Ok(KeepAlive::from_seconds(seconds))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<KeepAlive, E> {
                Ok(u64::try_from(seconds).map_or(KeepAlive::Forever, |s| KeepAlive::For(Duration::from_secs(s))))
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<KeepAlive, E> {
                Ok(KeepAlive::For(Duration::from_secs(seconds)))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<KeepAlive, &str>) {
        let read = serde_json::from_str::<KeepAlive>(json).map_err(|error| error.to_string());
        match expected {
            Ok(value) => assert_eq!(read, Ok(value), "{json}"),
            Err(part) => assert!(read.as_ref().is_err_and(|error| error.contains(part)), "{json}: {read:?}"),
        }
    }

    #[test]
    fn keep_alive_reads_seconds_and_durations() {
        check("300", Ok(KeepAlive::For(Duration::from_secs(300))));
        check("0.5", Ok(KeepAlive::For(Duration::from_millis(500))));
        check("0", Ok(KeepAlive::ZERO));
        check("-1", Ok(KeepAlive::Forever));
        check("-0.5", Ok(KeepAlive::Forever));
        check("1e300", Ok(KeepAlive::Forever));
        check("\"1h30m\"", Ok(KeepAlive::For(Duration::from_secs(5400))));
        check("\"0\"", Ok(KeepAlive::ZERO));
        check("\"-1m\"", Ok(KeepAlive::Forever));
        check("\"-1\"", Err("time: missing unit in duration \"-1\""));
        check("\"300\"", Err("time: missing unit in duration \"300\""));
        check("true", Err("keep_alive"));
    }

    #[test]
    fn keep_alive_serialises_as_a_duration() {
        let text = serde_json::to_string(&KeepAlive::Forever).unwrap();
        assert_eq!(text, "\"2562047h47m16.854775807s\"", "forever is the longest duration");
        let text = serde_json::to_string(&KeepAlive::For(Duration::from_secs(300))).unwrap();
        assert_eq!(text, "\"5m0s\"", "minutes with seconds");
    }

    #[test]
    fn setting_accepts_a_plain_number() {
        assert_eq!(KeepAlive::parse_setting("300"), Ok(KeepAlive::For(Duration::from_secs(300))), "seconds");
        assert_eq!(KeepAlive::parse_setting("-1"), Ok(KeepAlive::Forever), "negative");
        assert!(KeepAlive::parse_setting("soon").is_err(), "no duration");
    }
}
