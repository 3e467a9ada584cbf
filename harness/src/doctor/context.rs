//! How long a prompt may be: a code word at each end shows whether all of it was read.
//!
//! A prompt that is refused is harmless. One that is accepted and cut is not: the count that the server reports falls behind
//! what was sent, or the word at one end is lost. Where the model does not name the words for reasons of its own, that is said.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::facts::{ContextLimit, Facts, user};
use super::session::{Answer, Heard, Session, Stop};
use super::{Outcome, Probed, Verdict, refused, speed};
use crate::endpoint::{EndpointError, ErrorKind};
use crate::tokens;

/// The size that is tried unasked, in estimated tokens.
const MODERATE: u64 = 6_000;
/// Nothing smaller is worth a request, and no difference smaller than this is looked for.
const LEAST: u64 = 256;
const ANSWER_TOKENS: u32 = 32;
/// The share of the time left that the moderate prompt may take.
const SHARE_OF_TIME: f64 = 0.4;
/// A count below this share of what was sent is no matter of tokenizers.
const CUT_BELOW: f64 = 0.7;
/// Requests of a search: doubling to a million and halving to a twentieth.
const MOST_TRIES: u32 = 20;

/// What a search would take, for whoever has to agree to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SearchPlan {
    /// The largest prompt that would be sent.
    pub largest: u64,
    /// Tokens of all requests, at most.
    pub tokens: u64,
    /// Time at the measured speed, at most; `None` if no speed was measured.
    pub seconds: Option<f64>,
}

/// What became of a prompt.
#[derive(Debug)]
enum Read {
    /// By its own count the server read all of it; `named`: the model also named both words.
    Whole {
        named: bool,
    },
    Refused(EndpointError),
    /// Accepted and cut: what shows it, and how many tokens were read, if the server says so.
    Cut {
        why: String,
        read: Option<u64>,
    },
    /// Accepted and counted as a whole, but one of the words was lost.
    Suspect(String),
    /// Accepted, and nobody can tell.
    Unclear(String),
}

/// One prompt of a size that fits the time.
pub(super) async fn moderate(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let mut size = MODERATE.min(session.left_tokens() / 4);
    if let (Some(rate), Some(left)) = (session.rates().prompt_per_s, session.left_s()) {
        let fits = left * SHARE_OF_TIME * rate;
        if fits < LEAST as f64 {
            return Err(Stop::Time { needed_s: Some(LEAST as f64 / rate), left_s: left });
        }
        size = size.min(by_us(facts, fits));
    }
    if let Some(stated) = &facts.stated_context {
        size = size.min(by_us(facts, stated.tokens as f64 * 0.8));
    }
    Search::new(size.max(LEAST), size.max(LEAST)).run(session, facts, 2).await
}

/// Doubles, then halves.
pub(super) async fn search(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let (start, ceiling) = bounds(session, facts);
    let mut search = Search::new(start, ceiling);
    search.exhaustive = true;
    search.run(session, facts, MOST_TRIES).await
}

pub(super) fn plan(session: &Session<'_>, facts: &Facts) -> SearchPlan {
    let (start, ceiling) = bounds(session, facts);
    // Doubling up to the end costs twice the end, each halving at most the end once more.
    let halvings = 5;
    let tokens = if start * 2 > ceiling { start + ceiling * 3 } else { ceiling * (2 + halvings) };
    let tokens = (facts.by_server(tokens) as u64).min(session.left_tokens());
    let seconds = session.rates().seconds(tokens, 0);
    SearchPlan { largest: facts.by_server(ceiling) as u64, tokens, seconds }
}

/// Where a search begins and where it gives up. A limit that somebody states is tried from both sides.
fn bounds(session: &Session<'_>, facts: &Facts) -> (u64, u64) {
    // The largest single prompt that still leaves room for those around it.
    let affordable = by_us(facts, session.left_tokens() as f64 / 2.0).max(LEAST);
    let stated = facts.context_limit.as_ref().or(facts.stated_context.as_ref());
    if let Some(stated) = stated {
        let around = |share: f64| by_us(facts, stated.tokens as f64 * share).max(LEAST);
        if around(1.05) <= affordable {
            return (around(0.95), around(1.05));
        }
    }
    let tested = by_us(facts, facts.context_tested.unwrap_or(0) as f64);
    ((tested * 2).clamp(LEAST * 4, affordable.max(LEAST * 4)), affordable.max(LEAST * 4))
}

/// Tokens of the server as our estimate counts them.
fn by_us(facts: &Facts, by_server: f64) -> u64 {
    (by_server / facts.ratio().unwrap_or(1.0)) as u64
}

/// A search under way; all sizes are estimates of ours.
struct Search {
    size: u64,
    ceiling: u64,
    /// It was meant to find the limit, so that what it ends between is one.
    exhaustive: bool,
    /// The largest that was read whole, and whether the words were named.
    whole: Option<(u64, bool)>,
    /// The smallest that was not, and how that showed.
    beyond: Option<(u64, Read)>,
    unclear: Option<String>,
    /// A size that the server's own words suggest.
    hint: Option<u64>,
    stopped: Option<Stop>,
}

impl Search {
    fn new(size: u64, ceiling: u64) -> Self {
        let (whole, beyond, unclear, hint, stopped) = (None, None, None, None, None);
        Self { size, ceiling, exhaustive: false, whole, beyond, unclear, hint, stopped }
    }

    async fn run(mut self, session: &Session<'_>, facts: &mut Facts, tries: u32) -> Probed {
        for _ in 0..tries {
            match read(session, facts, self.size).await {
                Ok(Read::Whole { named }) => {
                    self.whole = Some((self.size, named));
                    self.unclear = None;
                }
                // Just beyond a limit the count still looks right; of twice as much it would not.
                Ok(Read::Suspect(why)) if self.exhaustive && self.unclear.is_none() => {
                    self.unclear = Some(why);
                    self.size *= 2;
                    continue;
                }
                Ok(Read::Suspect(why) | Read::Unclear(why)) => {
                    self.unclear = Some(why);
                    break;
                }
                Ok(beyond) => {
                    let suggested = match &beyond {
                        Read::Refused(error) => stated_in(&error.message, facts.by_server(self.size)),
                        Read::Cut { read, .. } => *read,
                        _ => None,
                    };
                    if matches!(beyond, Read::Cut { .. }) {
                        self.unclear = None;
                    }
                    self.hint = suggested.map(|tokens| by_us(facts, tokens as f64 * 0.95)).or(self.hint);
                    self.beyond = Some((self.size, beyond));
                }
                // What the requests before showed stands.
                Err(stop) if self.whole.is_some() || self.beyond.is_some() => {
                    self.stopped = Some(stop);
                    break;
                }
                Err(stop) => return Err(stop),
            }
            let Some(size) = self.next() else { break };
            self.size = size;
        }
        self.conclude(facts);
        Ok(self.outcome(facts))
    }

    fn next(&self) -> Option<u64> {
        let low = self.whole.map_or(0, |(size, _)| size);
        let Some((high, _)) = self.beyond else {
            return (low < self.ceiling).then(|| (low * 2).min(self.ceiling));
        };
        // A limit that was named holds from both sides as soon as a prompt just below it was read.
        let near = high.saturating_sub(low) <= LEAST.max(high / 20) || self.hint.is_some_and(|hint| low >= hint);
        let hint = self.hint.filter(|hint| *hint > low.max(LEAST) && *hint < high);
        (!near).then(|| hint.unwrap_or(low.midpoint(high)))
    }

    /// What is known of the limit now.
    fn conclude(&self, facts: &mut Facts) {
        let tested = facts.context_tested;
        let limit = match &self.beyond {
            Some((_, Read::Cut { read: Some(read), .. })) => Some(ContextLimit {
                tokens: *read,
                how: format!("the server read {read} tokens of more and said nothing of the rest"),
            }),
            Some((size, Read::Refused(error))) => {
                let sent = facts.by_server(*size);
                let stated = stated_in(&error.message, sent).map(|tokens| ContextLimit {
                    tokens,
                    how: format!("the server's own word when it refused about {sent:.0} tokens"),
                });
                stated.or_else(|| self.between(tested, sent, "were refused"))
            }
            Some((size, Read::Cut { .. })) => self.between(tested, facts.by_server(*size), "lost a code word"),
            _ => None,
        };
        facts.truncates |= matches!(self.beyond, Some((_, Read::Cut { .. })));
        if limit.is_some() {
            facts.context_limit = limit;
        }
    }

    /// The limit of a search that ended between two sizes: the smaller one is safe.
    fn between(&self, tested: Option<u64>, beyond: f64, what: &str) -> Option<ContextLimit> {
        let tested = tested.filter(|_| self.exhaustive)?;
        let how = format!("{tested} tokens of prompt were read whole, about {beyond:.0} {what}");
        Some(ContextLimit { tokens: tested + u64::from(ANSWER_TOKENS), how })
    }

    fn outcome(&self, facts: &Facts) -> Outcome {
        let mut detail = String::new();
        let mut verdict = Verdict::Measured;
        if let (Some((_, named)), Some(tested)) = (self.whole, facts.context_tested) {
            let how = if named {
                "both code words were named"
            } else {
                "by the server's count; the model named no code word"
            };
            let _ = write!(detail, "at least {tested} tokens were read whole, a tested lower bound ({how})");
        }
        let mut and = |text: String| {
            let joint = if detail.is_empty() { "" } else { "; " };
            let _ = write!(detail, "{joint}{text}");
        };
        match &self.beyond {
            Some((_, Read::Cut { why, .. })) => {
                verdict = Verdict::No;
                and(format!("SILENT TRUNCATION: {why}"));
            }
            Some((size, Read::Refused(error))) => {
                and(format!("about {:.0} tokens are refused: {}", facts.by_server(*size), refused(error)));
            }
            _ => {}
        }
        if let Some(why) = &self.unclear {
            verdict = if self.whole.is_some() { Verdict::Partly } else { Verdict::Unknown };
            and(why.clone());
        }
        if facts.truncates && !matches!(self.beyond, Some((_, Read::Cut { .. }))) {
            // An earlier, larger prompt showed it; that this search kept below does not undo it.
            verdict = Verdict::No;
            let how = facts.context_limit.as_ref().map_or("a code word was lost", |limit| limit.how.as_str());
            and(format!("SILENT TRUNCATION of a larger prompt: {how}"));
        }
        if let Some(stop) = &self.stopped {
            and(format!("looked no further: {stop}"));
        }
        if let (Some(stated), None) = (&facts.stated_context, &self.beyond) {
            and(format!("the server states {} ({})", stated.tokens, stated.how));
        }
        Outcome::new(verdict, detail)
    }
}

/// Sends a prompt of about this size and finds out how much of it was read.
async fn read(session: &Session<'_>, facts: &mut Facts, size: u64) -> Result<Read, Stop> {
    let prompt = Prompt::new(facts, size);
    let answer = match session.chat(&prompt.body).await? {
        Heard::Answer(answer) => answer,
        Heard::Refused(error) if error.kind == ErrorKind::ModelError => {
            return Ok(Read::Unclear(format!(
                "the answer to about {size} tokens could not be read: {}",
                refused(&error)
            )));
        }
        Heard::Refused(error) => return Ok(Read::Refused(error)),
    };
    let sample = answer.sample;
    let sent = facts.by_server(sample.estimated);
    if sample.reported && (sample.input as f64) < CUT_BELOW * sent {
        let why = format!("about {sent:.0} tokens were sent and accepted, the server counted {}", sample.input);
        return Ok(Read::Cut { why, read: Some(sample.input) });
    }
    let whole = |named| Read::Whole { named };
    let verdict = match prompt.named(&answer) {
        (true, true) => whole(true),
        // A model that follows no such request is no sign of a cut, if the server's count says that nothing is missing.
        (false, false) if sample.reported => whole(false),
        (false, false) => Read::Unclear(format!("of about {sent:.0} tokens the model named neither code word")),
        (first, _) => lost(session, facts, sent, first, sample.reported).await?,
    };
    if matches!(verdict, Read::Whole { .. }) {
        facts.context_tested = facts.context_tested.max(Some(sample.input));
        speed::learn(session, facts, &prompt.body, sample);
    }
    Ok(verdict)
}

/// One of the words was lost. A short prompt shows whether the model can name both at all.
async fn lost(session: &Session<'_>, facts: &Facts, sent: f64, first_named: bool, counted: bool) -> Result<Read, Stop> {
    let (lost, kept) = if first_named { ("last", "first") } else { ("first", "last") };
    let control = Prompt::new(facts, 1);
    let able = match session.chat(&control.body).await? {
        Heard::Answer(answer) => control.named(&answer) == (true, true),
        Heard::Refused(_) => false,
    };
    let what = format!("of about {sent:.0} tokens the {kept} code word was named and the {lost} one was not");
    Ok(match (able, counted) {
        (true, false) => Read::Cut { why: format!("{what}; in a short prompt both were"), read: None },
        (true, true) => Read::Suspect(format!(
            "SUSPECTED TRUNCATION: {what}; in a short prompt both were, and the server counted all tokens"
        )),
        (false, _) => Read::Unclear(format!("{what}; nor were both in a short prompt, so it is the model")),
    })
}

/// A prompt with a code word at each end.
struct Prompt {
    body: Value,
    first: String,
    last: String,
}

impl Prompt {
    fn new(facts: &Facts, size: u64) -> Self {
        // Every size begins differently, so that no cache answers for the server.
        let (first, last) = (format!("{}", 70_000 + size * 37 % 29_989), format!("{}", 40_000 + size * 53 % 29_989));
        let mut text = format!("The first code word is walnut-{first}.\n");
        let end =
            format!("\nThe last code word is cobalt-{last}.\nName the first and the last code word, nothing else.");
        let line = |number: u64| format!("Shelf {number} holds {} boxes. ", (number * 37 + 11) % 91);
        let hundred: String = (900..1_000).map(line).collect();
        let room = size.saturating_sub(tokens::count(&text) + tokens::count(&end));
        for number in 0..room * 100 / tokens::count(&hundred).max(1) {
            text.push_str(&line(number));
        }
        Self { body: facts.request(&user(&(text + &end)), ANSWER_TOKENS), first, last }
    }

    /// Whether the first and the last word occur in the answer.
    fn named(&self, answer: &Answer) -> (bool, bool) {
        let text = &answer.reply.text;
        (text.contains(&self.first), text.contains(&self.last))
    }
}

/// The context that a refusal names behind the word `context`, if it explains the refusal.
fn stated_in(message: &str, sent: f64) -> Option<u64> {
    let message = message.to_lowercase().replace(',', "");
    let (_, behind) = message.split_once("context")?;
    let numbers = behind.split(|char: char| !char.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
    let numbers: Vec<_> = numbers.filter(|number| *number >= LEAST).collect();
    let first = *numbers.first()?;
    // The limit stands before what was asked for, or behind it; it is the smaller of the two.
    let stated = if numbers.iter().any(|number| *number > first) {
        first
    } else {
        numbers.iter().copied().find(|number| *number < first).unwrap_or(first)
    };
    // Beside the prompt there is the room for the answer, thoughts included.
    ((stated as f64) <= sent * 1.2 + 1_200.0).then_some(stated)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::reach::complete;
    use super::super::testing::{code_words, completion, good, probe, question, refuses, says};
    use super::*;
    use crate::endpoint::WireResponse;

    /// The probe behind what comes before it in an examination.
    async fn examined(
        server: impl Fn(&Value) -> WireResponse + Send + Sync + 'static,
        exhaustive: bool,
    ) -> (Facts, Outcome) {
        let mut facts = Facts::default();
        let run = async |session: &Session<'_>, facts: &mut Facts| {
            complete(session, facts).await.unwrap();
            speed::speed(session, facts).await.unwrap();
            if exhaustive { search(session, facts).await } else { moderate(session, facts).await }
        };
        let outcome = probe(server, &mut facts, run).await;
        (facts, outcome)
    }

    fn sent(body: &Value) -> u64 {
        tokens::count_json(&body["messages"]) + 10
    }

    /// Refuses what is longer, naming the limit or not.
    fn refusing(limit: u64, naming: bool) -> impl Fn(&Value) -> WireResponse + Send + Sync + 'static {
        move |body| {
            let sent = sent(body);
            match (sent > limit, naming) {
                (false, _) => good(body),
                (true, true) => {
                    refuses(400, &format!("maximum context length is {limit} tokens, you requested {sent} tokens"))
                }
                (true, false) => refuses(400, "the prompt exceeds the context size"),
            }
        }
    }

    /// Reads only the last tokens of what is longer; `honest` about how many those were.
    fn cutting(limit: u64, honest: bool) -> impl Fn(&Value) -> WireResponse + Send + Sync + 'static {
        move |body| {
            if sent(body) <= limit {
                return good(body);
            }
            let mut words = code_words(&question(body));
            if let Some((_, last)) = words.split_once(' ') {
                words = last.to_owned();
            }
            let mut answer = completion(body, &json!({"content": words}));
            answer["usage"] =
                if honest { json!({"prompt_tokens": limit, "completion_tokens": 9}) } else { json!(null) };
            answer.into()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_prompt_that_is_read_whole_is_a_lower_bound() {
        let (facts, outcome) = examined(good, false).await;
        assert_eq!((outcome.verdict, facts.context_limit.is_none()), (Verdict::Measured, true));
        assert!(facts.context_tested.unwrap() > 5_500, "{facts:?}");
        assert!(outcome.detail.contains("a tested lower bound (both code words were named)"), "{}", outcome.detail);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_names_the_limit_gives_it() {
        let (facts, outcome) = examined(refusing(2_048, true), false).await;
        assert_eq!(facts.context_limit.unwrap().tokens, 2_048, "{}", outcome.detail);
        let tested = facts.context_tested.unwrap();
        assert!((1_700..=2_048).contains(&tested), "one more request shows that the limit holds: {tested}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_brackets_a_limit_that_nobody_names() {
        for limit in [3_000, 20_000, 100_000] {
            let (facts, outcome) = examined(refusing(limit, false), true).await;
            let found = facts.context_limit.unwrap().tokens;
            let close = (limit as f64 * 0.9)..=(limit as f64 + 33.0);
            assert!(close.contains(&(found as f64)), "{limit}: {found}, {}", outcome.detail);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_truncation_is_said_loudly() {
        for exhaustive in [false, true] {
            let (facts, outcome) = examined(cutting(2_048, true), exhaustive).await;
            assert_eq!(outcome.verdict, Verdict::No);
            assert!(outcome.detail.contains("SILENT TRUNCATION") && outcome.detail.contains("the server counted 2048"));
            assert!(facts.truncates);
            assert_eq!(facts.context_limit.unwrap().tokens, 2_048);
        }
        // Without an honest count the lost word shows it.
        let (facts, outcome) = examined(cutting(2_048, false), true).await;
        assert!(outcome.detail.contains("SILENT TRUNCATION: of about"), "{}", outcome.detail);
        assert!(facts.truncates && facts.context_limit.unwrap().tokens < 2_100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_that_names_no_words_is_not_taken_for_a_server_that_cuts() {
        let (facts, outcome) = examined(|body| says(body, "I cannot do that."), false).await;
        assert!(!facts.truncates);
        assert!(outcome.detail.contains("by the server's count"), "{}", outcome.detail);
        // It names the last word only, however short the prompt.
        let forgetful = |body: &Value| {
            let words = code_words(&question(body));
            says(body, words.split_once(' ').map_or("yes", |(_, last)| last))
        };
        let (facts, outcome) = examined(forgetful, false).await;
        assert!(!facts.truncates && outcome.detail.contains("so it is the model"), "{}", outcome.detail);
        assert_eq!(outcome.verdict, Verdict::Unknown);
        // Nor is it a cut if it forgets in long prompts what the server counted.
        let tired = move |body: &Value| if sent(body) > 2_048 { forgetful(body) } else { good(body) };
        let (facts, outcome) = examined(tired, false).await;
        assert!(!facts.truncates && outcome.detail.contains("SUSPECTED TRUNCATION"), "{}", outcome.detail);
    }

    #[test]
    fn the_limit_is_found_in_the_words_of_a_refusal() {
        for (message, stated) in [
            ("This model's maximum context length is 4096 tokens. However, you requested 6100 tokens", Some(4_096)),
            (
                "request (6,100 tokens) exceeds the available context size (4,096 tokens), try increasing it",
                Some(4_096),
            ),
            ("context window exceeded: 6100 tokens requested, 4096 allowed", Some(4_096)),
            ("the context holds 1048576 tokens", None),
            ("context limit", None),
            ("max_tokens must be at least 1, got -1072", None),
        ] {
            assert_eq!(stated_in(message, 6_000.0), stated, "{message}");
        }
    }
}
