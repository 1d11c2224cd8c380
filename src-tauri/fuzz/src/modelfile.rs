//! A Modelfile.
//!
//! Guarantees: no panic; errors have a text; a parsed file that is written and parsed again is unchanged.

use cairn_convert::{Modelfile, Recipe};

/// Runs this fuzz target on one input.
pub fn run(input: &[u8]) {
    let file = match Modelfile::parse(input) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error says what is wrong");
            return;
        }
    };
    let written = file.to_string();
    assert_eq!(Modelfile::parse(written.as_bytes()), Ok(file.clone()), "{written:?} is read again");
    if let Err(error) = Recipe::of(&file) {
        assert!(!error.to_string().is_empty(), "an error says what is wrong");
    }
}
