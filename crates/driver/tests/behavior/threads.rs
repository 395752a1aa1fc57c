//! Many concurrent threads.

use warpproof_cuda::api;

use crate::ok;
use crate::program::{PTX, download, kernel, launch, null, out, start, upload};

#[test]
fn ten_threads_on_ten_streams_lose_no_result() {
    let context = start().expose_provenance();
    let add = kernel(PTX, "add").expose_provenance();
    std::thread::scope(|scope| {
        for number in 0u32..10 {
            scope.spawn(move || {
                ok!(api::cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
                let function = std::ptr::with_exposed_provenance_mut(add);
                let mut stream = null();
                ok!(api::cuStreamCreate(out(&mut stream), 1));
                let data = upload(&[0.0; 32]);
                for _ in 0..50 {
                    assert_eq!(launch(function, 32, data, number, stream), 0);
                }
                ok!(api::cuStreamSynchronize(stream));
                let all = download(data, 32);
                assert!(
                    all.iter().all(|value| value.to_bits() == (50.0 * number as f32).to_bits()),
                    "{all:?}"
                );
            });
        }
    });
}
