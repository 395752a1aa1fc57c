//! The header has the structs of `abi.rs`: a C compiler verifies sizes and offsets.

use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use warpproof_attention::abi::{CArguments, CRequest, CTensor, Status};

macro_rules! offsets {
    ($type:ty, $name:literal: $($field:ident),* $(,)?) => {
        {
            let mut lines = vec![format!("_Static_assert(sizeof({}) == {}, \"size\");", $name, size_of::<$type>())];
            $(lines.push(format!(
                "_Static_assert(offsetof({}, {}) == {}, \"offset\");",
                $name,
                stringify!($field),
                offset_of!($type, $field)
            ));)*
            lines
        }
    };
}

#[test]
#[expect(clippy::as_conversions, reason = "the numbers of an enum")]
fn the_header_has_the_structs_of_the_library() {
    let mut lines = vec!["#include \"warpproof_attention.h\"".to_owned()];
    lines.extend(offsets!(CRequest, "wpa_request":
        size, batch, heads, kv_heads, head_dim, queries, keys, input, scales, causal, lengths_on_device, lse, softmax_scale, output,
        smooth_keys, window, window_left, window_right, softcap, sinks, alibi, page_size,
    ));
    lines.extend(offsets!(CTensor, "wpa_tensor": data, batch_stride, head_stride, row_stride));
    lines.extend(offsets!(CArguments, "wpa_arguments":
        size, q, k, v, o, q_scales, k_scales, v_scales, lse, query_starts, key_starts, workspace, workspace_bytes, sinks,
        slopes, pages, pages_per_sequence,
    ));
    lines.push(format!("_Static_assert(WPA_VERSION == {}, \"version\");", warpproof_attention::VERSION));
    for (name, status) in [
        ("WPA_OK", Status::Ok),
        ("WPA_INVALID", Status::Invalid),
        ("WPA_UNSUPPORTED", Status::Unsupported),
        ("WPA_DRIVER", Status::Driver),
        ("WPA_INTERNAL", Status::Internal),
    ] {
        let number = status as i32;
        lines.push(format!("_Static_assert({name} == {number}, \"status\");"));
    }
    let folder = std::env::temp_dir().join(format!("warpproof-header-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for (language, extension) in [("c", "c"), ("c++", "cc")] {
        let file = folder.join("offsets").with_extension(extension);
        let mut text = lines.join("\n");
        if language == "c++" {
            text = text.replace("_Static_assert", "static_assert");
        }
        fs::write(&file, format!("#include <stddef.h>\n{text}\n")).unwrap();
        let done = Command::new("cc")
            .args(["-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
            .args([&include, &file])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    fs::remove_dir_all(&folder).unwrap();
}
