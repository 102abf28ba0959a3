#![no_main]
libfuzzer_sys::fuzz_target!(|octets: &[u8]| fuzz_targets::run("aal2_packets", octets));
