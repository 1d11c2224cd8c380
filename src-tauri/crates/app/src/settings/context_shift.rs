//! What a context shift drops from a full context.

/// How generation continues when the context is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextShift {
    /// Drops the oldest turns of the conversation and computes the rest again.
    Turns,
    /// Drops tokens after the beginning and moves the positions of the remaining rows. Faster but inexact: the
    /// remaining rows still depend on the dropped tokens.
    Rope,
}

/// The name of no context shift.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown context_shift {0:?}: it must be turns or rope")]
pub struct UnknownContextShift(pub String);

impl ContextShift {
    /// Parses a name; case-insensitive.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn parse(name: &str) -> Result<Self, UnknownContextShift> {
        match name.to_ascii_lowercase().as_str() {
            "turns" => Ok(Self::Turns),
            "rope" => Ok(Self::Rope),
            _ => Err(UnknownContextShift(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_shift_parses_known_names_and_rejects_others() {
        assert_eq!(ContextShift::parse("Turns"), Ok(ContextShift::Turns), "the default");
        assert_eq!(ContextShift::parse("rope"), Ok(ContextShift::Rope), "the other");
        let error = ContextShift::parse("slide").expect_err("an unknown name").to_string();
        assert_eq!(error, "unknown context_shift \"slide\": it must be turns or rope", "message");
    }
}
