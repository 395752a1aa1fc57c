//! Calls at process exit, when the variables of the thread are gone.

use std::io::Write as _;
use std::process::Command;

use warpproof_driver::api;

use crate::program::{PTX, download, kernel, launch, null, out, start, upload};
use crate::{answer, ok};

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
}

/// Names the process that calls the driver at its exit.
const CHILD: &str = "WARPPROOF_TEST_AT_EXIT";

/// What a destructor does with CUDA: it uses the current context, launches, copies, frees, and pushes a context.
extern "C" fn at_exit() {
    let mut context = null();
    ok!(api::cuCtxGetCurrent(out(&mut context)));
    assert!(!context.is_null());
    let data = upload(&[1.0; 4]);
    let add = kernel(PTX, "add");
    assert_eq!(launch(add, 4, data, 2, null()), 0);
    assert_eq!(launch(add, 4, data, 2, std::ptr::without_provenance_mut(2)), 0);
    ok!(api::cuCtxSynchronize());
    assert_eq!(download(data, 4), [5.0; 4]);
    ok!(api::cuMemFree_v2(data));
    // What is below the current context on the stack is lost.
    assert_eq!(answer!(api::cuCtxPushCurrent_v2(context)), 4);
    ok!(api::cuCtxSetCurrent(context));
    ok!(api::cuCtxDestroy_v2(context));
    std::io::stdout().write_all(b"all calls at exit worked\n").unwrap();
}

#[test]
fn handlers_at_exit_can_use_the_driver() {
    if std::env::var_os(CHILD).is_some() {
        // Fill every variable of the thread, so that its destructor runs.
        let context = start();
        ok!(api::cuCtxPushCurrent_v2(context));
        let data = upload(&[1.0; 4]);
        assert_eq!(launch(kernel(PTX, "add"), 4, data, 2, std::ptr::without_provenance_mut(2)), 0);
        // SAFETY: the handler only calls the driver.
        unsafe { atexit(at_exit) };
        // The variables of this thread are destroyed before the handlers run.
        std::process::exit(0);
    }
    let program = std::env::current_exe().unwrap();
    let child = Command::new(program)
        .args(["--exact", "exit::handlers_at_exit_can_use_the_driver", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success() && text.contains("all calls at exit worked"), "{text}\n{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}
