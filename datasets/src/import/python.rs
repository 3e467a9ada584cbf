//! The literals of Python source: what `name = {…}` assigns, without running anything.

use serde_json::{Map, Number, Value};

/// Deepest nesting of a literal.
const DEPTH: usize = 32;

/// The assignments of a text, in their order. Dictionary keys become text.
pub(super) fn assignments(text: &str) -> Result<Vec<(String, Value)>, String> {
    let mut parser = Parser { text, at: 0 };
    let mut found = Vec::new();
    loop {
        parser.blank();
        if parser.rest().is_empty() {
            return Ok(found);
        }
        let name = parser.word();
        if name.is_empty() {
            return Err(parser.expected("a name"));
        }
        parser.expect('=')?;
        let value = parser.value(0)?;
        found.push((name.to_owned(), value));
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn expected(&self, what: &str) -> String {
        format!("expected {what} at character {}", self.text[..self.at].chars().count() + 1)
    }

    /// Skips blanks and comments.
    fn blank(&mut self) {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            if !rest.starts_with('#') {
                return;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn take(&mut self, wanted: &str) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.blank();
        if self.take(wanted.encode_utf8(&mut [0; 4])) { Ok(()) } else { Err(self.expected(&format!("`{wanted}`"))) }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.blank();
        if depth > DEPTH {
            return Err(self.expected("less nesting"));
        }
        let rest = self.rest();
        if self.take("{") {
            return self.dictionary(depth);
        } else if self.take("[") {
            return self.list(']', depth);
        } else if self.take("(") {
            return self.list(')', depth);
        } else if rest.starts_with(['"', '\'']) {
            let mut text = self.string()?;
            // Strings side by side are one.
            loop {
                self.blank();
                if !self.rest().starts_with(['"', '\'']) {
                    return Ok(text.into());
                }
                text += &self.string()?;
            }
        } else if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
            return self.number();
        }
        let at = self.at;
        match self.word() {
            "True" => Ok(true.into()),
            "False" => Ok(false.into()),
            "None" => Ok(Value::Null),
            _ => {
                self.at = at;
                Err(self.expected("a literal"))
            }
        }
    }

    fn dictionary(&mut self, depth: usize) -> Result<Value, String> {
        let mut entries = Map::new();
        let start = self.at;
        loop {
            self.blank();
            if self.take("}") {
                return Ok(entries.into());
            }
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                other => other.to_string(),
            };
            self.blank();
            if entries.is_empty() && self.rest().starts_with([',', '}']) {
                // Without a colon it is a set.
                self.at = start;
                return self.list('}', depth);
            }
            self.expect(':')?;
            let value = self.value(depth + 1)?;
            if entries.insert(key, value).is_some() {
                return Err(self.expected("no key that occurs before"));
            }
            self.blank();
            if !self.take(",") {
                self.expect('}')?;
                return Ok(entries.into());
            }
        }
    }

    fn list(&mut self, end: char, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        loop {
            self.blank();
            if self.take(end.encode_utf8(&mut [0; 4])) {
                return Ok(items.into());
            }
            items.push(self.value(depth + 1)?);
            self.blank();
            if !self.take(",") {
                self.expect(end)?;
                return Ok(items.into());
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
        let Some(quote) = quote else { return Err(self.expected("text in quotes")) };
        let mut text = String::new();
        let mut characters = rest[quote.len()..].char_indices();
        while let Some((at, character)) = characters.next() {
            if rest[quote.len() + at..].starts_with(quote) {
                self.at += quote.len() + at + quote.len();
                return Ok(text);
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            match characters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, '\n')) => {}
                Some((_, plain @ ('\\' | '\'' | '"'))) => text.push(plain),
                // As Python does with escapes it does not know; the numeric ones do not occur in descriptions.
                Some((_, other)) => text.extend(['\\', other]),
                None => break,
            }
        }
        Err(self.expected("the end of the text that begins"))
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-._".contains(c)).unwrap_or(rest.len());
        let digits = rest[..end].replace('_', "");
        let whole = digits.parse::<i64>().map(Number::from).ok();
        let number = whole.or_else(|| digits.parse::<f64>().ok().and_then(Number::from_f64));
        let Some(number) = number else { return Err(self.expected("a number")) };
        self.at += end;
        Ok(number.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn literals_are_read() {
        let text = "# note\nname = \"it's\" ' fine'\nargs = {\n  'a': {'type': 'int', \"x\": [1, -2.5, True, None]},\n  2: (),  # end\n}\nset = {None, 1}\nlong = '''a\n'b' \\n'''\n";
        let expected = [
            ("name", json!("it's fine")),
            ("args", json!({"a": {"type": "int", "x": [1, -2.5, true, null]}, "2": []})),
            ("set", json!([null, 1])),
            ("long", json!("a\n'b' \n")),
        ];
        let found = assignments(text).unwrap();
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn faults_name_the_place() {
        for (text, message) in [
            (".", "expected a name at character 1"),
            ("é = f(1)", "expected a literal at character 5"),
            ("a = {'b': 1 'c'}", "expected `}` at character 13"),
            ("a = {'b': 1, 'b': 2}", "expected no key that occurs before at character 20"),
            ("a = 'b", "expected the end of the text that begins at character 5"),
            ("a = 1x", "expected a number at character 5"),
        ] {
            assert_eq!(assignments(text).unwrap_err(), message, "{text}");
        }
        assert!(assignments(&format!("a = {}", "[".repeat(100_000))).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(a ?= ?)?[\\[\\]{}():,'\"\\\\#\\n a1.é_-]{0,60}") {
            let _ = assignments(&text);
        }
    }
}
