//! libFuzzer program of the target `gguf`, with an allocator that counts.
#![no_main]

use cairn_testkit::allocation::CountingAllocator;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fuzz_target!(|file: &[u8]| cairn_fuzz::gguf::run(file));
