//! libFuzzer program of the target `chunk`, with an allocator that counts.
#![no_main]

use cairn_testkit::allocation::CountingAllocator;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fuzz_target!(|input: &[u8]| cairn_fuzz::chunk::run(input));
