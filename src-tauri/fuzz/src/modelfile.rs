//! Bytes as a Modelfile.
//!
//! The promises: no panic; an error says what is wrong; and whatever is read is written so that it is read again, the same.

use cairn_convert::{Modelfile, Recipe};

/// The target.
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
