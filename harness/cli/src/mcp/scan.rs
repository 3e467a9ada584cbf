//! The pieces of JSON that as a whole is none: a number that JSON does not know, half a character, a nesting too deep for a
//! reader. Only quotes and brackets are heeded.

/// The pieces between the brackets of a list, and whether it is closed.
pub fn items(bytes: &[u8]) -> Option<(Vec<&[u8]>, bool)> {
    split(bytes, b'[', b']')
}

/// A name as it is written, and its value.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// The fields of an object, and whether it is closed. Of an open one, the last value is cut.
pub fn fields(bytes: &[u8]) -> Option<(Vec<Field<'_>>, bool)> {
    let (pieces, closed) = split(bytes, b'{', b'}')?;
    Some((pieces.into_iter().filter_map(field).collect(), closed))
}

fn field(piece: &[u8]) -> Option<Field<'_>> {
    let rest = piece.strip_prefix(b"\"")?;
    let end = rest.iter().position(|&byte| byte == b'"')?;
    let value = rest[end + 1..].trim_ascii_start().strip_prefix(b":")?;
    Some((&rest[..end], value.trim_ascii()))
}

fn split(bytes: &[u8], open: u8, close: u8) -> Option<(Vec<&[u8]>, bool)> {
    let inner = bytes.trim_ascii().strip_prefix(&[open])?;
    let (mut pieces, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in inner.iter().enumerate() {
        let is_end = !quoted && depth == 0 && (byte == close || byte == b',');
        if is_end {
            let piece = inner[start..at].trim_ascii();
            if !piece.is_empty() {
                pieces.push(piece);
            }
            start = at + 1;
            if byte == close {
                return Some((pieces, start == inner.len()));
            }
        } else if quoted {
            (quoted, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
        } else {
            match byte {
                b'"' => quoted = true,
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    pieces.push(inner[start..].trim_ascii());
    Some((pieces, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    #[test]
    fn pieces_are_found_whatever_is_in_them() {
        let text = br#" {"a": NaN, "b" : ["x,]\"}", {"c": [1, 2]}], "d":"\ud800"} "#;
        let (found, closed) = fields(text).unwrap();
        let found: Vec<_> = found.into_iter().map(|(name, value)| (shown(name), shown(value))).collect();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(closed);
        assert_eq!(found, [field("a", "NaN"), field("b", r#"["x,]\"}", {"c": [1, 2]}]"#), field("d", r#""\ud800""#)]);
        let (found, closed) = items(found[1].1.as_bytes()).unwrap();
        assert!(closed);
        assert_eq!(found.into_iter().map(shown).collect::<Vec<_>>(), [r#""x,]\"}""#, r#"{"c": [1, 2]}"#]);
        assert_eq!(items(b"[]").unwrap(), (Vec::new(), true));
        assert!(items(b"{}").is_none() && fields(b"[]").is_none() && fields(b"text").is_none());
    }

    #[test]
    fn what_is_cut_or_goes_on_is_not_closed() {
        let (found, closed) = fields(br#"{"id": 1, "result": {"tools": [{"na"#).unwrap();
        assert_eq!((found.len(), closed), (2, false));
        assert_eq!(shown(found[1].0), "result");
        assert!(!fields(b"{} trailing").unwrap().1);
        assert!(!items(b"[1, 2").unwrap().1);
    }
}
