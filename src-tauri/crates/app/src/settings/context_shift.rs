//! What a full context loses so that an answer can continue.

/// How an answer goes on when its context is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextShift {
    /// The conversation's oldest turns go, and what is left is read anew.
    Turns,
    /// Tokens after the beginning go, and what was computed of the rest is moved. Quicker and less exact: what is moved still carries
    /// what is gone.
    Rope,
}

/// No way to go on has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown context_shift {0:?}: it must be turns or rope")]
pub struct UnknownContextShift(pub String);

impl ContextShift {
    /// The one that has this name, in small letters or capitals.
    ///
    /// # Errors
    /// For any other name.
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
        let error = ContextShift::parse("slide").expect_err("it is neither").to_string();
        assert_eq!(error, "unknown context_shift \"slide\": it must be turns or rope", "what would do");
    }
}
