//! libFuzzer program of the target `image`.
#![no_main]

use std::sync::Once;

use libfuzzer_sys::fuzz_target;

static HOOK: Once = Once::new();

fuzz_target!(|file: &[u8]| {
    // libFuzzer's hook ends the program at once, although `decode` catches panics of other projects' decoders. One that is not caught ends
    // it all the same.
    HOOK.call_once(|| std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
    cairn_fuzz::image::run(file);
});
