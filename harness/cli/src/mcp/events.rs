//! Server-sent events, taken off the bytes of an answer. What is no field is passed over, as their standard says.

use std::time::Duration;

/// Reads events piece by piece.
#[derive(Default)]
pub struct Events {
    line: Vec<u8>,
    /// A line feed that follows ends no line of its own.
    after_return: bool,
    data: Vec<u8>,
    /// Not a message but a thing between server and client.
    is_other: bool,
    /// The last event that has a number: where to go on if the stream ends.
    pub last: Option<String>,
    /// When to go on.
    pub retry: Option<Duration>,
}

impl Events {
    /// The messages that end in these bytes.
    pub fn add(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => messages.extend(self.end_line()),
                _ => self.line.push(byte),
            }
        }
        messages
    }

    /// Another stream goes on where this one ended.
    pub fn go_on(&mut self) {
        *self = Self { last: self.last.take(), retry: self.retry, ..Self::default() };
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        if line.is_empty() {
            let (data, is_other) = (std::mem::take(&mut self.data), std::mem::take(&mut self.is_other));
            return Some(data).filter(|data| !is_other && !data.trim_ascii().is_empty());
        }
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || std::str::from_utf8(value).ok();
        match &line[..colon] {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.is_other = !matches!(value, b"" | b"message"),
            b"id" => self.last = text().map(str::to_owned).filter(|id| !id.is_empty() && !id.contains('\0')),
            b"retry" => self.retry = text().and_then(|text| text.parse().ok()).map(Duration::from_millis),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_wherever_the_bytes_are_cut() {
        let text = ": hello\r\ndata: one\r\n\r\nrubbish\nevent: endpoint\ndata: /x\n\nid: 7\nretry: 20\nevent: message\ndata:two\ndata: lines\n\n\rdata\r\rdata: cut";
        for size in [1, 2, 3, 1000] {
            let mut events = Events::default();
            let messages: Vec<_> = text.as_bytes().chunks(size).flat_map(|bytes| events.add(bytes)).collect();
            assert_eq!(messages, [b"one\n".to_vec(), b"two\nlines\n".to_vec()]);
            assert_eq!((events.last.as_deref(), events.retry), (Some("7"), Some(Duration::from_millis(20))));
            events.go_on();
            assert_eq!(events.add(b"data: three\n\n"), [b"three\n".to_vec()]);
            assert_eq!(events.last.as_deref(), Some("7"));
        }
    }
}
