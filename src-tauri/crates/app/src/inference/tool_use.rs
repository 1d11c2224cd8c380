//! Which calls of tools a request wants.

/// Which calls of tools an answer has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolUse {
    /// Whether the answer is a call, not text.
    pub is_required: bool,
    /// Whether the answer ends after its first call.
    pub is_single: bool,
}
