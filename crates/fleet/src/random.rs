//! Names and tokens that nobody can guess.

use std::fmt::Write;

/// So many random bytes, in hexadecimal.
pub(crate) fn hexadecimal<const BYTES: usize>() -> Result<String, String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random bytes: {error}"))?;
    Ok(bytes.iter().fold(String::with_capacity(2 * BYTES), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
