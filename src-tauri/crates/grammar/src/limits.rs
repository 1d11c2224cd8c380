//! Limits of constraints. They stop hostile input, and are far above what published schemas need.

use llguidance::api::ParserLimits;

use crate::error::Error;

/// Maximum size of a JSON Schema, serialised without white space.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// Maximum size of a Lark grammar.
pub const MAX_GRAMMAR_BYTES: usize = 64 << 10;
/// Maximum size of a regular expression, also of one in a schema.
pub const MAX_REGEX_BYTES: usize = 16 << 10;

/// Maximum nesting of a schema, with the schemas that it references, and of brackets in a grammar. `llguidance` recurses.
pub(crate) const MAX_DEPTH: usize = 400;
/// Maximum number of properties of one object, and of members of one list of schemas. `llguidance` recurses over properties.
pub(crate) const MAX_PROPERTIES: usize = 2000;
/// Maximum of a count in a schema: of characters, items or properties. Each takes a state of the lexer or a rule of the grammar.
pub(crate) const MAX_COUNT: u64 = 100_000;
/// Maximum number of schemas that a schema is rewritten to.
pub(crate) const MAX_DEFINITIONS: usize = 20_000;
/// Maximum number of alternatives for one value.
pub(crate) const MAX_ALTERNATIVES: usize = 20_000;
/// Maximum number of steps of combining schemas for the same value: comparisons of shapes and of their properties.
pub(crate) const MAX_SHAPE_STEPS: usize = 1_000_000;
/// Maximum of the least common multiple of all `multipleOf`, where two of them may apply to one number. Its square fits into 32
/// bits, in which `llguidance` computes.
pub(crate) const MAX_COMMON_MULTIPLE: u64 = 65_535;
/// Numbers up to here are exact in `f64`, which `llguidance` computes with.
pub(crate) const MAX_NUMBER: f64 = 9_007_199_254_740_992.0;

/// Stack of the thread that compiles a constraint: for recursion up to [`MAX_DEPTH`] or [`MAX_PROPERTIES`] without optimisation.
pub(crate) const COMPILE_STACK_BYTES: usize = 64 << 20;

/// Limits of the parser. Work is counted, not timed, so that equal answers have equal limits on every machine.
pub(crate) fn parser() -> ParserLimits {
    ParserLimits {
        // Four for each optional property of an object.
        max_items_in_row: 4 * MAX_PROPERTIES + 2000,
        // About 20 ms of work.
        initial_lexer_fuel: 1_000_000,
        // About 14 ms for a mask.
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        // At 1 to 2 KB for a state, at most 100 MB for an answer.
        max_lexer_states: 50_000,
        max_grammar_size: 200_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// Checks the size of a constraint. `unit` is the unit of the counts, in the plural.
///
/// # Errors
/// When it is larger than its limit.
pub(crate) fn at_most(what: &'static str, unit: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit { Err(Error::TooLarge { what, unit, size, limit }) } else { Ok(()) }
}

/// Checks the size of a part of a JSON schema.
///
/// # Errors
/// As for [`at_most`].
pub(crate) fn schema_at_most(unit: &'static str, size: usize, limit: usize) -> Result<(), Error> {
    at_most("the JSON schema", unit, size, limit)
}
