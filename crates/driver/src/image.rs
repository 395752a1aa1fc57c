//! What a program hands over as code.

/// Why an image cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// It is no PTX, fatbin or cubin.
    Unknown,
}

impl std::fmt::Display for ImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("neither PTX nor a fatbin")
    }
}

/// The PTX of an image.
pub fn ptx_of(image: &[u8], _sm: u32) -> Result<String, ImageError> {
    let end = image.iter().position(|byte| *byte == 0).unwrap_or(image.len());
    String::from_utf8(image[..end].to_vec()).map_err(|_| ImageError::Unknown)
}

/// How many bytes an image has, from its first bytes; `None` for text.
pub fn length_of(_header: &[u8]) -> Option<usize> {
    None
}
