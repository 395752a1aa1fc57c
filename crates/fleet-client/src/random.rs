//! Names and tokens that cannot be guessed.

use std::fmt::Write;

/// `N` random bytes, in hexadecimal.
pub fn hexadecimal<const BYTES: usize>() -> Result<String, String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("cannot get random bytes from the system: {error}"))?;
    Ok(bytes.iter().fold(String::with_capacity(2 * BYTES), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
