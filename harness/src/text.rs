//! Small things about words.

/// The name occurs as a whole word.
pub fn mentions(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(name).any(|(at, found)| {
        !text[..at].chars().next_back().is_some_and(word) && !text[at + found.len()..].chars().next().is_some_and(word)
    })
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn names_are_found_as_whole_words() {
        assert!(mentions("use `mail_send`.", "mail_send"));
        assert!(!mentions("use mail_send_draft", "mail_send"));
        assert!(!mentions("gmail_send", "mail_send"));
    }
}
