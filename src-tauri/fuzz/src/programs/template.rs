//! libFuzzer program of the target `template`.
//!
//! libFuzzer's crate ends the process at the first panic, also at one that is caught. The template engine has panics of
//! its own, which `cairn-prompt` catches, so here they are let through as far as that; one that gets further still
//! counts.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |input: &[u8]| cairn_fuzz::template::run(input)
);
