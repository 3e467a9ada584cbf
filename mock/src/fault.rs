//! What goes wrong with single requests, and with which.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::asked::{ApiPath, Asked};
use crate::shape::Shape;

/// One thing that goes wrong. All faults whose `when` holds apply, in the order of the script; of several answers or damages
/// the first wins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// As in the log.
    pub name: String,
    #[serde(default)]
    pub when: When,
    /// Wait before anything is sent.
    #[serde(default)]
    pub delay_ms: u64,
    /// Wait between the chunks of a stream.
    #[serde(default)]
    pub pace_ms: u64,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub retry_after: Option<RetryAfter>,
    #[serde(default)]
    pub shape: Shape,
    /// The server is not asked; this is the answer.
    pub instead: Option<Instead>,
    pub damage: Option<Damage>,
}

/// Which requests: those for which all that is given here holds. Nothing depends on the order in which different requests
/// arrive, so runs with many requests in flight can be repeated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    pub path: Option<ApiPath>,
    /// How often this very body has come, from 1; any of these.
    pub attempts: Vec<u64>,
    /// Every n-th time that this very body comes.
    pub every: Option<u64>,
    /// A share of all requests, drawn by seed, fault, body and attempt.
    pub share: Option<f64>,
    /// The text of the body contains this.
    pub contains: Option<String>,
    pub stream: Option<bool>,
    /// Tools are offered.
    pub tools: Option<bool>,
    /// The last message is the result of a tool.
    pub after_result: Option<bool>,
}

impl When {
    fn holds(&self, asked: &Asked<'_>, seed: u64, name: &str) -> bool {
        let is = |wanted: Option<bool>, found: bool| wanted.is_none_or(|wanted| wanted == found);
        let offered = asked.body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        let last = asked.body["messages"].as_array().and_then(|messages| messages.last());
        self.path.is_none_or(|path| path == asked.path)
            && (self.attempts.is_empty() || self.attempts.contains(&asked.attempt))
            && self.every.is_none_or(|every| asked.attempt.is_multiple_of(every))
            && self.contains.as_ref().is_none_or(|words| asked.text.contains(words.as_str()))
            && is(self.stream, asked.streams())
            && is(self.tools, offered)
            && is(self.after_result, last.is_some_and(|message| message["role"] == "tool"))
            && self.share.is_none_or(|share| asked.draw(seed, name) < share)
    }
}

/// The header of that name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// Any text.
    Text(String),
    Seconds(u64),
    /// The HTTP date that many seconds from now.
    DateInSeconds(u32),
}

impl RetryAfter {
    pub(crate) fn header(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Seconds(seconds) => seconds.to_string(),
            Self::DateInSeconds(seconds) => {
                let then = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(i64::from(*seconds));
                then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
            }
        }
    }
}

/// An answer from something before the server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instead {
    /// An error in the form of the dialect.
    Error(NamedError),
    /// These very bytes.
    Raw(Raw),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedError {
    pub kind: ErrorName,
    /// As usual for the kind if absent; 200 puts an error into a success.
    pub status: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorName {
    RateLimit,
    /// A limit of requests per day.
    DailyQuota,
    /// No money is left.
    SpentQuota,
    Server,
    Overloaded,
    /// A gateway's provider failed.
    Upstream,
    Unauthorized,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    pub status: u16,
    #[serde(default = "json")]
    pub content_type: String,
    pub body: String,
}

fn json() -> String {
    "application/json".to_owned()
}

/// What happens to an answer on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Damage {
    pub how: How,
    /// After that many bytes of the body. Absent: before anything is sent, the status included.
    pub after: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The answer ends there, as HTTP sees it in order.
    Truncate,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// The rest is announced as a chunk, of which half comes before the connection is closed.
    HalfChunk,
    /// Nothing more comes, and the connection stays open.
    Hang,
}

/// The faults that apply to a request, as one.
#[derive(Debug, Default)]
pub(crate) struct Applied<'a> {
    pub(crate) names: Vec<String>,
    pub(crate) delay_ms: u64,
    pub(crate) pace_ms: u64,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) shape: Shape,
    pub(crate) instead: Option<&'a Instead>,
    pub(crate) damage: Option<Damage>,
}

impl<'a> Applied<'a> {
    pub(crate) fn new(faults: &'a [Fault], asked: &Asked<'_>, seed: u64) -> Self {
        let mut applied = Self::default();
        for fault in faults.iter().filter(|fault| fault.when.holds(asked, seed, &fault.name)) {
            applied.names.push(fault.name.clone());
            applied.delay_ms += fault.delay_ms;
            applied.pace_ms = applied.pace_ms.max(fault.pace_ms);
            applied.headers.extend(fault.headers.clone());
            applied.headers.extend(fault.retry_after.iter().map(|wait| ("retry-after".to_owned(), wait.header())));
            applied.shape = applied.shape.overlaid(&fault.shape);
            applied.instead = applied.instead.or(fault.instead.as_ref());
            applied.damage = applied.damage.or(fault.damage);
        }
        applied
    }
}

impl Fault {
    /// What no answer could be made of.
    pub(crate) fn check(&self) -> Result<(), String> {
        let fail = |what: &str| Err(format!("fault {:?}: {what}", self.name));
        let status = match &self.instead {
            Some(Instead::Raw(raw)) => Some(raw.status),
            Some(Instead::Error(error)) => error.status,
            None => None,
        };
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let wait = self.retry_after.iter().map(|wait| ("retry-after", wait.header()));
        let content_type = match &self.instead {
            Some(Instead::Raw(raw)) => Some(("content-type", raw.content_type.clone())),
            _ => None,
        };
        if self.name.trim().is_empty() {
            return fail("its name is blank, expected one for the log");
        }
        if self.when.share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return fail("`share` is not between 0 and 1");
        }
        if self.when.every == Some(0) || self.when.attempts.contains(&0) {
            return fail("attempts are counted from 1, 0 never comes");
        }
        if status.is_some_and(|status| !(200..600).contains(&status)) {
            return fail("`status` is not between 200 and 599");
        }
        if let Some(damage) = self.damage
            && damage.after.is_none()
            && matches!(damage.how, How::Truncate | How::HalfChunk)
        {
            return fail("`damage.after` is missing: nothing is left of an answer that is cut before it begins");
        }
        for (name, value) in headers.chain(wait).chain(content_type) {
            if hyper::header::HeaderName::from_bytes(name.as_bytes()).is_err()
                || hyper::header::HeaderValue::from_str(&value).is_err()
            {
                return fail(&format!("{name:?}: {value:?} is no header"));
            }
            if ["content-length", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
                return fail(&format!("{name:?} is the business of `damage`"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn applies(when: When, body: &Value, attempt: u64) -> bool {
        let faults = [Fault { name: "f".to_owned(), when, ..Fault::default() }];
        let text = body.to_string();
        let asked = Asked::new(ApiPath::Chat, &text, body, attempt);
        !Applied::new(&faults, &asked, 7).names.is_empty()
    }

    #[test]
    fn attempts_are_chosen_by_number_and_by_every() {
        let body = json!({});
        let chosen = |when: &When| (1..=6).filter(|&n| applies(when.clone(), &body, n)).collect::<Vec<_>>();
        assert_eq!(chosen(&When::default()), [1, 2, 3, 4, 5, 6]);
        assert_eq!(chosen(&When { attempts: vec![1, 4], ..When::default() }), [1, 4]);
        assert_eq!(chosen(&When { every: Some(3), ..When::default() }), [3, 6]);
        assert_eq!(chosen(&When { every: Some(3), attempts: vec![1, 6], ..When::default() }), [6], "both must hold");
    }

    #[test]
    fn requests_are_chosen_by_what_they_hold() {
        let body = json!({"stream": true, "tools": [{}], "messages": [{"role": "tool", "content": "ok"}]});
        let holds = |when: When| [applies(when.clone(), &body, 1), applies(when, &json!({"tools": []}), 1)];
        assert_eq!(holds(When { path: Some(ApiPath::Chat), ..When::default() }), [true, true]);
        assert_eq!(holds(When { path: Some(ApiPath::Embeddings), ..When::default() }), [false, false]);
        assert_eq!(holds(When { contains: Some("\"ok\"".to_owned()), ..When::default() }), [true, false]);
        assert_eq!(holds(When { stream: Some(true), ..When::default() }), [true, false]);
        assert_eq!(holds(When { tools: Some(false), ..When::default() }), [false, true]);
        assert_eq!(holds(When { after_result: Some(true), ..When::default() }), [true, false]);
    }

    #[test]
    fn a_share_is_drawn_anew_for_bodies_and_attempts_and_stays_what_it_was() {
        let when = When { share: Some(0.25), ..When::default() };
        let drawn = || {
            let pairs = (0..400).flat_map(|n| [(n, 1), (n, 2)]);
            pairs.map(|(n, attempt)| applies(when.clone(), &json!({"n": n}), attempt)).collect::<Vec<_>>()
        };
        let first = drawn();
        assert_eq!(first, drawn());
        let hits = first.iter().filter(|&&hit| hit).count();
        assert!((150..250).contains(&hits), "{hits} of 800");
        assert!(first.chunks(2).any(|pair| pair[0] != pair[1]), "attempts of one body differ");
        for (share, expected) in [(0.0, false), (1.0, true)] {
            assert_eq!(applies(When { share: Some(share), ..When::default() }, &json!({}), 1), expected);
        }
    }

    #[test]
    fn several_faults_add_up_and_the_first_answer_wins() {
        let raw = |body: &str| Some(Instead::Raw(Raw { status: 200, content_type: json(), body: body.to_owned() }));
        let faults = [
            Fault { name: "a".to_owned(), delay_ms: 5, pace_ms: 3, ..Fault::default() },
            Fault { name: "b".to_owned(), delay_ms: 6, pace_ms: 2, instead: raw("b"), ..Fault::default() },
            Fault { name: "c".to_owned(), instead: raw("c"), ..Fault::default() },
        ];
        let body = json!({});
        let applied = Applied::new(&faults, &Asked::new(ApiPath::Chat, "{}", &body, 1), 0);
        assert_eq!((applied.delay_ms, applied.pace_ms, applied.names.len()), (11, 3, 3));
        assert_eq!(applied.instead, raw("b").as_ref());
    }

    #[test]
    fn dates_are_as_http_wants_them() {
        let date = RetryAfter::DateInSeconds(90).header();
        let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&date).unwrap();
        let wait = parsed.as_second() - jiff::Timestamp::now().as_second();
        assert!((85..=90).contains(&wait), "{date}");
        assert!(date.ends_with(" GMT"));
    }
}
