//! The committed latencies of ptxas are those the model was designed with.

/// Written by `cargo xtask latencies --bless`.
const TABLE: &str = include_str!("../data/latencies.csv");

fn cycles(arch: &str, name: &str, what: &str) -> Option<String> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.map(|line| line.split(',').collect::<Vec<&str>>())
        .find(|row| row.first() == Some(&arch) && row.get(1) == Some(&name) && row.get(2) == Some(&what))
        .and_then(|row| row.last().map(|cycles| (*cycles).to_owned()))
}

#[test]
fn ada_is_as_it_was_decoded_by_hand() {
    for (name, what, expected) in [
        ("fadd", "latency", "4"),
        ("fmul", "latency", "4"),
        ("ffma", "latency", "4"),
        ("imad", "latency", "4"),
        ("iadd", "latency", "4"),
        ("lop3", "latency", "4"),
        ("shf", "latency", "4"),
        ("prmt", "latency", "4"),
        ("hfma2", "latency", "4"),
        ("fmnmx-to-fadd", "latency", "5"),
        ("fadd-to-fmnmx", "latency", "5"),
        ("setp-to-guard", "latency", "13"),
        ("hmma-16816-f32", "latency", "24"),
        ("hmma-16816-f32", "issue", "8"),
        ("qmma-16832", "latency", "24"),
        ("qmma-16832", "issue", "16"),
        ("mufu", "latency", "counter"),
        ("mufu", "issue", "8"),
        ("shfl", "issue", "4"),
        ("redux", "issue", "8"),
    ] {
        assert_eq!(cycles("sm_89", name, what).as_deref(), Some(expected), "{name} {what}");
    }
}

#[test]
fn every_architecture_is_there() {
    for arch in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"] {
        assert_eq!(cycles(arch, "ffma", "latency").as_deref(), Some("4"), "{arch}");
    }
}
