#![no_main]
libfuzzer_sys::fuzz_target!(|octets: &[u8]| fuzz_targets::run("pseudowire", octets));
