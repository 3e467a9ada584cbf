//! What a value of a configuration is made of: the password in a URL, the token after `Bearer`, a line of a certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// How much of a secret a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// It was given as a key.
    Key,
    /// A variable of a server: a key, for all that can be known.
    Setting,
    /// A part of one of these, or of a URL: perhaps of a key, perhaps the name of a host.
    Part,
    /// An argument: no key, unless it looks like one.
    Word,
}

impl Rank {
    /// From how many characters on it is taken out of what is shown. Shorter ones (`true`, `8080`) would make messages unreadable.
    pub(super) fn hidden_from(self) -> Option<usize> {
        match self {
            Self::Key => Some(4),
            Self::Setting | Self::Part => Some(6),
            Self::Word => None,
        }
    }

    /// From how many characters on it may not be stored. Shorter ones occur by chance.
    pub(super) fn refused_from(self) -> Option<usize> {
        match self {
            Self::Key => Some(6),
            Self::Setting => Some(8),
            Self::Part | Self::Word => None,
        }
    }

    fn of_part(self) -> Self {
        if self == Self::Word { Self::Word } else { Self::Part }
    }
}

/// Words in the name of what is a key.
const KEY_NAMES: [&str; 11] =
    ["key", "token", "secret", "pass", "pwd", "auth", "cred", "cookie", "bearer", "jwt", "signature"];
/// How keys of well-known makers begin.
const KEY_HEADS: [&str; 16] = [
    "sk-",
    "sk_",
    "pk-",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "hf_",
    "npm_",
    "AKIA",
    "AIza",
];
/// Shortest key of such a maker.
const HEADED: usize = 12;
/// Letters and digits in a row that no word, version or date has.
const ROW: usize = 20;
/// Hexadecimal digits that only a key or an identifier has.
const HEXADECIMAL: usize = 32;
/// What precedes a key in a header.
const SCHEMES: [&str; 5] = ["basic", "bearer", "token", "apikey", "digest"];

/// Whether what has this name is a key.
pub(super) fn is_key_name(name: &str) -> bool {
    let name = name.to_lowercase();
    KEY_NAMES.iter().any(|word| name.contains(word))
}

/// Whether a text is a key, as far as one can see.
fn looks_like_key(text: &str) -> bool {
    let row = |part: &str| {
        part.len() >= ROW
            && part.bytes().any(|byte| byte.is_ascii_digit())
            && part.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let hexadecimal = || {
        text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
            && text.bytes().filter(u8::is_ascii_hexdigit).count() >= HEXADECIMAL
    };
    !text.contains(char::is_whitespace)
        && (text.len() >= HEADED && KEY_HEADS.iter().any(|head| text.starts_with(head))
            || text.split(|char: char| !char.is_ascii_alphanumeric()).any(row)
            || hexadecimal())
}

/// A value and all that it is made of, each with its rank.
pub(super) fn ranked(value: &str, rank: Rank) -> Vec<(Rank, String)> {
    let mut found = Vec::new();
    add(value.trim(), rank, &mut found);
    found
}

/// The pieces of a URL alone: the whole of it may be shown without them.
pub(super) fn ranked_url(url: &str) -> Vec<(Rank, String)> {
    let mut found = Vec::new();
    for (kind, piece) in pieces(url.trim()) {
        add(piece.trim(), kind.rank(Rank::Part), &mut found);
    }
    found
}

fn add(value: &str, rank: Rank, found: &mut Vec<(Rank, String)>) {
    if value.is_empty() {
        return;
    }
    found.push((if looks_like_key(value) { Rank::Key } else { rank }, value.to_owned()));
    // Every piece is shorter than the whole.
    for (kind, piece) in pieces(value) {
        add(piece.trim(), kind.rank(rank), found);
    }
}

/// What a piece is to the whole.
enum Kind {
    /// A key whatever the whole is.
    Key,
    /// As secret as the whole.
    Same,
    Named(String),
    Other,
}

impl Kind {
    fn rank(&self, whole: Rank) -> Rank {
        match self {
            Self::Key => Rank::Key,
            Self::Same => whole,
            Self::Named(name) if is_key_name(name) => Rank::Key,
            Self::Named(_) | Self::Other => whole.of_part(),
        }
    }
}

/// The pieces of a value at the first level at which it has any.
fn pieces(value: &str) -> Vec<(Kind, String)> {
    if let Ok(json @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(value) {
        let mut leaves = Vec::new();
        add_leaves("", &json, &mut leaves);
        return leaves;
    }
    if value.contains(['\n', '\r']) {
        return value.lines().flat_map(|line| line.split('\r')).map(|line| (Kind::Same, line.to_owned())).collect();
    }
    if let Some((scheme, key)) = value.split_once(' ')
        && SCHEMES.contains(&scheme.to_lowercase().as_str())
    {
        return of_credentials(scheme, key);
    }
    if let Some((_, rest)) = value.split_once("://").filter(|_| !value.contains(char::is_whitespace)) {
        return of_url(rest);
    }
    if let Some((name, value)) = value.split_once(": ") {
        return vec![(Kind::Named(name.to_owned()), value.to_owned())];
    }
    let between = |char: char| char.is_whitespace() || ";,&".contains(char);
    if value.contains(between) {
        return value.split(between).map(|piece| (Kind::Other, piece.to_owned())).collect();
    }
    // More of `=` alone is the end of base64.
    let pair = value.split_once('=').filter(|(_, value)| value.contains(|char: char| char != '='));
    pair.map(|(name, value)| (Kind::Named(name.to_owned()), value.to_owned())).into_iter().collect()
}

fn add_leaves(name: &str, json: &Value, leaves: &mut Vec<(Kind, String)>) {
    match json {
        Value::String(text) => leaves.push((Kind::Named(name.to_owned()), text.clone())),
        Value::Number(number) => leaves.push((Kind::Named(name.to_owned()), number.to_string())),
        Value::Array(items) => {
            for item in items {
                add_leaves(name, item, leaves);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                add_leaves(name, item, leaves);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The key of a header, and the name and password that it says in another way.
fn of_credentials(scheme: &str, key: &str) -> Vec<(Kind, String)> {
    let mut pieces = vec![(Kind::Key, key.to_owned())];
    let decoded = BASE64.decode(key.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(said) = decoded.filter(|_| scheme.eq_ignore_ascii_case("basic")) {
        pieces.extend(said.split_once(':').map(|(_, password)| (Kind::Key, password.to_owned())));
        pieces.push((Kind::Key, said));
    }
    pieces
}

/// The pieces of a URL after its scheme: all but the host.
fn of_url(rest: &str) -> Vec<(Kind, String)> {
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut pieces: Vec<_> =
        path.split('/').chain([query, fragment]).map(|piece| (Kind::Other, piece.to_owned())).collect();
    if let Some((user, _)) = authority.rsplit_once('@') {
        // As it travels.
        pieces.push((Kind::Key, BASE64.encode(user)));
        pieces.extend(user.split_once(':').map(|(_, password)| (Kind::Key, password.to_owned())));
        pieces.push((Kind::Key, user.to_owned()));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(value: &str, rank: Rank) -> Vec<String> {
        ranked(value, rank).into_iter().filter(|(rank, _)| *rank == Rank::Key).map(|(_, piece)| piece).collect()
    }

    #[test]
    fn keys_are_found_within_values() {
        for (value, key) in [
            ("postgres://app:correct@db.host/orders", "correct"),
            ("Bearer correct", "correct"),
            ("Basic YXBwOmNvcnJlY3Q=", "correct"),
            (r#"{"Authorization": "Bearer correct", "Version": "2022-06-28"}"#, "correct"),
            (r#"[{"deep": {"api_token": "correct"}}]"#, "correct"),
            ("host=db user=app password=correct", "correct"),
            ("Server=db;Pwd=correct;Timeout=3", "correct"),
            ("theme=dark; auth=correct", "correct"),
            ("https://host/mcp?v=1&api_key=correct", "correct"),
            ("https://host/mcp#token=correct", "correct"),
            ("https://host/v1/sk-correct-12345/mcp", "sk-correct-12345"),
            ("--api-key=correct", "correct"),
            ("X-Api-Key: correct", "correct"),
            ("run with AKIACORRECT12345678", "AKIACORRECT12345678"),
            ("id 123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ] {
            assert!(keys(value, Rank::Word).contains(&key.to_owned()), "{value}: {:?}", ranked(value, Rank::Word));
        }
    }

    #[test]
    fn words_versions_paths_and_hosts_are_no_keys() {
        for value in [
            "-y",
            "@modelcontextprotocol/server-everything@2026.8.31",
            "mcp-server-fetch==2026.10.24",
            "/srv/data/reports-2024/final-version-2",
            "https://mcp.example.com/v1/customers?toolsets=repositories",
            "gpt-4o-2024-08-06",
            "America/Argentina/Buenos_Aires",
            "--local-timezone=UTC",
        ] {
            assert_eq!(keys(value, Rank::Word), [""; 0], "{value}");
        }
    }

    #[test]
    fn lines_are_as_secret_as_the_whole() {
        let lines: Vec<_> = ranked("first line\r\nsecond\n", Rank::Setting).into_iter().collect();
        assert!(lines.contains(&(Rank::Setting, "first line".to_owned())), "{lines:?}");
        assert!(lines.contains(&(Rank::Setting, "second".to_owned())), "{lines:?}");
    }

    #[test]
    fn a_url_is_shown_without_its_pieces() {
        let pieces = ranked_url("https://me:hunter2@host/mcp?key=k1&v=2");
        let texts: Vec<_> = pieces.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(
            texts,
            ["mcp", "key=k1&v=2", "key=k1", "k1", "v=2", "2", "bWU6aHVudGVyMg==", "hunter2", "me:hunter2"]
        );
    }
}
