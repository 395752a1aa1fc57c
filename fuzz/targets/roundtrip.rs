//! Text that parses without errors has the same meaning after printing, and prints the same a second time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpproof_ptx::{parse, print};

fuzz_target!(|source: &str| {
    let (module, errors) = parse(source);
    // The tree of broken text must also print without a panic.
    let printed = print(&module);
    if !errors.is_empty() {
        return;
    }
    check(source, &printed);
});

fn check(source: &str, printed: &str) {
    let (first, _) = parse(source);
    let (second, errors) = parse(printed);
    assert!(errors.is_empty(), "{errors:?} in\n{printed}");
    assert_eq!(print(&second), printed, "printing is not a fixpoint");
    assert_eq!(first.without_spans(), second.without_spans(), "printed as\n{printed}");
}
