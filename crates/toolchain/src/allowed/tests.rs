use super::*;

fn nvrtc(words: &[&str]) -> Result<Vec<String>, String> {
    nvrtc_options(words).map_err(|refused| refused.to_string())
}

#[test]
fn every_spelling_of_an_allowed_option_is_one_word() {
    for (words, passed) in [
        (&["--device-int128"][..], &["--device-int128"][..]),
        (&["-device-int128"], &["--device-int128"]),
        (&["--relocatable-device-code=true"], &["--relocatable-device-code=true"]),
        (&["-rdc", "true"], &["--relocatable-device-code=true"]),
        (&["-G", "-w"], &["--device-debug", "--disable-warnings"]),
        (&["-DX=1", "-D", "Y"], &["--define-macro=X=1", "--define-macro=Y"]),
        (&["-D=Z", "--define-macro=W=a<b>"], &["--define-macro=Z", "--define-macro=W=a<b>"]),
        (&["-UX"], &["--undefine-macro=X"]),
        (&["--std=c++20", "-diag-suppress=177,550"], &["--std=c++20", "--diag-suppress=177,550"]),
        (&[], &[]),
    ] {
        assert_eq!(nvrtc(words), Ok(passed.iter().map(|one| (*one).to_owned()).collect()), "{words:?}");
    }
}

#[test]
fn what_could_slip_through_is_refused() {
    for (words, reason) in [
        (
            &["--create-pch=/elsewhere/x"][..],
            "NVRTC option `--create-pch=/elsewhere/x` is refused: it writes a file",
        ),
        (&["-create-pch", "/elsewhere/x"], "`-create-pch` is refused: it writes a file"),
        (&["-I/etc"], "`-I/etc` is refused: it reads files of another directory"),
        (&["-I", "/etc"], "`-I` is refused"),
        (&["-I=/etc"], "`-I=/etc` is refused"),
        (&["-include/etc/passwd"], "is refused"),
        (&["--include-path=/etc"], "is refused"),
        (&["@/etc/passwd"], "response files are not supported"),
        (&["-Xptxas", "-o=/elsewhere/x"], "it passes arbitrary options"),
        (&["-Xcudafe=--create_pch"], "it passes arbitrary options"),
        (&["--create-pc=/elsewhere/x"], "not in the list"),
        (&["--create_pch=/elsewhere/x"], "not in the list"),
        (&["--CREATE-PCH=/elsewhere/x"], "not in the list"),
        (&[" --create-pch=/elsewhere/x"], "not in the list"),
        (&["-lineinfo --create-pch=/elsewhere/x"], "not in the list"),
        (&["--device-int128=true"], "it takes no value"),
        (&["--ftz=true --time=x"], "expected true or false, found `true --time=x`"),
        (&["--ftz", "--time=x"], "expected true or false, found `--time=x`"),
        (&["--ftz"], "expected true or false after it"),
        (&["-DX=1 --time=x"], "expected NAME or NAME=VALUE"),
        (&["-DX=\"a\""], "expected NAME or NAME=VALUE"),
        (&["-D", "--time=x"], "expected NAME or NAME=VALUE"),
        (&["-Werror=all-warnings,x"], "expected words of"),
        (&["kernel.cu"], "not in the list"),
        (&["-"], "not in the list"),
        (&[""], "not in the list"),
        (&["ä"], "not in the list"),
    ] {
        let refused = nvrtc(words).expect_err(&format!("{words:?}"));
        assert!(refused.contains(reason), "{words:?}: {refused}");
    }
    assert_eq!(
        ptxas_options(&["-lineinfo", "-o", "x"]).unwrap_err().to_string(),
        "ptxas option `-o` is refused: it writes a file"
    );
    // The value may follow -o directly; `-opt-fp-atomics` is another option and is allowed.
    assert!(ptxas_options(&["-ox"]).is_err());
    assert_eq!(
        ptxas_options(&["-opt-fp-atomics", "-O2"]).unwrap(),
        ["--optimize-float-atomics", "--opt-level=2"]
    );
}

#[test]
fn each_option_of_the_tables_is_found_by_both_spellings() {
    for table in [NVRTC_OPTIONS, PTXAS_OPTIONS] {
        for (at, option) in table.iter().enumerate() {
            for name in [option.long, option.short] {
                let found = table.iter().position(|one| one.long == name || one.short == name);
                assert_eq!(found, Some(at), "{name}");
                assert_eq!(find(table, name), Some((option, None)), "{name}");
            }
            // Options that take a path or a text are refused, because their values are not checked.
            if matches!(option.value, Value::Path | Value::Text) {
                assert_ne!(option.ruling, Ruling::Allowed, "{}", option.long);
            }
        }
    }
}

#[test]
fn the_page_of_the_book_is_what_the_tables_give() {
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/compiler-options.md");
    let page = options_page();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(&place, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&place).unwrap_or_default() == page,
        "the page is not up to date: UPDATE_PAGES=1 cargo nextest run -p warpproof-toolchain page"
    );
}
