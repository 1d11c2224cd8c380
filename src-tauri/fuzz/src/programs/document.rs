//! libFuzzer program of the target `document`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| cairn_fuzz::document::run(file));
