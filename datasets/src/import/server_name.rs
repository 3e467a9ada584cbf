//! Names of servers, which name files.

use harness::ids::Digest;

/// Longest server name: it names a file.
const SERVER: usize = 64;

/// The name of a server that can be a file on every system. Names in letters that no such file has keep apart.
pub(super) fn server_name(namespace: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || character == '-' { character.to_ascii_lowercase() } else { '_' }
    };
    let name: String = namespace.chars().map(plain).take(SERVER).collect();
    let name = name.trim_matches(['_', '-']);
    if name.is_empty() && is_foreign(namespace) { distinct("server", namespace) } else { name.to_owned() }
}

/// Whether a name has letters or digits that a file name cannot have everywhere.
pub(super) fn is_foreign(namespace: &str) -> bool {
    namespace.chars().any(|character| character.is_alphanumeric() && !character.is_ascii())
}

/// A server name of its own for a namespace.
pub(super) fn distinct(file: &str, namespace: &str) -> String {
    let digest = Digest::of(namespace.as_bytes());
    let digest = &digest.short()[..8];
    let head: String = file.chars().take(SERVER - 1 - digest.len()).collect();
    format!("{head}-{digest}")
}

/// The file name of the server that holds what has no place on that of `file`.
pub(super) fn numbered(file: &str, number: usize) -> String {
    let number = number.to_string();
    let head: String = file.chars().take(SERVER - 1 - number.len()).collect();
    format!("{head}_{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_no_file_has_keep_servers_apart() {
        assert_eq!(["Big Shop", "..", "Café"].map(server_name), ["big_shop", "", "caf"]);
        let [weather, news] = ["天气", "新闻"].map(server_name);
        assert!(weather.starts_with("server-") && news.starts_with("server-") && weather != news);
        assert_eq!(server_name(&weather), weather, "it is a name by itself");
        assert!(distinct(&"a".repeat(SERVER), "é").len() <= SERVER && distinct("a", "é") != distinct("a", "è"));
    }
}
