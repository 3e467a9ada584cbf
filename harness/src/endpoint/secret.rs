//! Keys that do not show.

use std::fmt;

const STARS: &str = "***";

/// A key. Prints as `***` however it is printed and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// White space around a key is a slip of whoever pasted it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// The key itself, for the request header only.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with every occurrence of the key replaced, also where JSON has escaped it.
    pub fn redact(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let quoted = serde_json::Value::from(self.expose()).to_string();
        text.replace(&quoted[1..quoted.len() - 1], STARS).replace(self.expose(), STARS)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows() {
        let secret = Secret::new(" sk-1\"2\n");
        assert_eq!(secret.expose(), "sk-1\"2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.redact(r#"a sk-1"2 b sk-1\"2"#), "a *** b ***");
        assert_eq!(Secret::new("").redact("text"), "text");
    }
}
