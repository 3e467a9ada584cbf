//! How fast, how repeatable, and what the server says of tokens.

use std::fmt::Write as _;

use futures::future::join;
use serde_json::Value;

use super::facts::{Facts, Rates, Sample, user};
use super::session::{Answer, Heard, Session, Stop};
use super::{Finding, Outcome, Probed, Verdict, refused};
use crate::endpoint::EndpointError;

const SENTENCE: &str = "Write one sentence about the sea.";
const SENTENCE_TOKENS: u32 = 24;
/// Providers that cache prompts begin to do so at about this length.
const CACHED_FROM: u64 = 1_024;
/// Two requests at once that take less than this many times one request share the machine well.
const SHARES_WELL: f64 = 1.6;

/// Tokens per second, from how two prompts and two answers of different length differ in time.
pub(super) async fn speed(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let long = facts.request(&user(&inventory(12)), 8);
    facts.large = answer(session.chat(&long).await?).ok().map(|answer| answer.sample);
    if let Some(large) = facts.large {
        facts.large_request = Some(long.clone());
        facts.longest = Some((long, large));
    }
    let sentence = facts.request(&user(SENTENCE), SENTENCE_TOKENS);
    if let Ok(answer) = answer(session.chat(&sentence).await?) {
        facts.written = Some(answer.sample);
        facts.sentence = Some(answer.reply.text.clone());
    }
    let Some(small) = facts.small else { return Err(Stop::Pointless("no completion to compare with")) };
    let rates = Rates::measured(small, facts.written, facts.large);
    session.set_rates(rates);
    Ok(in_words(rates, small, facts.large, facts.written))
}

fn in_words(rates: Rates, small: Sample, large: Option<Sample>, written: Option<Sample>) -> Outcome {
    let counted = if small.reported { "" } else { " (tokens by our estimate)" };
    let figure = |rate: Option<f64>, what: &str, pair: Option<(u64, u64)>| match (rate, pair) {
        (Some(rate), Some((few, many))) => format!("about {rate:.0} {what} tokens/s (from {few} and {many})"),
        (None, Some((few, many))) => format!("{what}: too quick to tell from {few} and {many} tokens"),
        (_, None) => format!("{what}: unknown"),
    };
    let prompt = figure(rates.prompt_per_s, "prompt", large.map(|large| (small.input, large.input)));
    let output = figure(rates.output_per_s, "output", written.map(|written| (small.output, written.output)));
    let verdict = if large.is_some() || written.is_some() { Verdict::Measured } else { Verdict::Unknown };
    Outcome::new(verdict, format!("{prompt}; {output}; the short request took {:.2} s{counted}", small.seconds))
}

/// A list that begins like no other prompt, so that no cache answers for the machine, and a question.
fn inventory(lines: usize) -> String {
    let mut text = String::new();
    for number in 0..lines {
        let _ = write!(text, "Shelf {number} holds {} boxes. ", (number * 37 + 11) % 91);
    }
    text + "Reply with the word yes."
}

fn answer(heard: Heard) -> Result<Box<Answer>, EndpointError> {
    match heard {
        Heard::Answer(answer) => Ok(answer),
        Heard::Refused(error) => Err(error),
    }
}

/// The same request three times, the second and third at once: do the words differ, and do two share the machine?
pub(super) async fn determinism(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let body = facts.request(&user(SENTENCE), SENTENCE_TOKENS);
    let (Some(first), Some(alone)) = (facts.sentence.clone(), facts.written) else {
        return Err(Stop::Pointless("the first of three answers is missing"));
    };
    let (second, third) = join(session.chat(&body), session.chat(&body)).await;
    let (second, third) = match (answer(second?), answer(third?)) {
        (Ok(second), Ok(third)) => (second, third),
        (Err(error), _) | (_, Err(error)) => {
            return Ok(Outcome::new(Verdict::Unknown, format!("asked again: {}", refused(&error))));
        }
    };
    let together = second.sample.seconds.max(third.sample.seconds);
    // Nothing can be told of requests that are hardly slower than the network.
    let measurable = alone.seconds > 0.05;
    facts.two_at_once = measurable.then_some(together / alone.seconds);
    let mut texts = vec![first, second.reply.text.clone(), third.reply.text.clone()];
    texts.sort();
    texts.dedup();
    let at = if facts.omit_temperature { "without a temperature" } else { "at temperature 0" };
    let detail = match texts.len() {
        1 => format!("differences: none seen in 3 equal requests {at}"),
        different => format!("differences seen: {different} different answers to 3 equal requests {at}"),
    };
    let shared = facts
        .two_at_once
        .map_or_else(String::new, |times| format!("; two at once took {times:.1} times as long as one"));
    Ok(Outcome::new(Verdict::Measured, detail + &shared))
}

/// Whether two requests at once gain anything; `None` if that was not seen.
pub(super) fn shares_well(facts: &Facts) -> Option<bool> {
    facts.two_at_once.map(|times| times < SHARES_WELL)
}

/// The largest prompt so far once more: does the server say how much of it was cached?
pub(super) async fn cached(session: &Session<'_>, facts: &mut Facts) -> Probed {
    let Some((body, first)) = facts.longest.clone() else {
        return Err(Stop::Pointless("no prompt is long enough to be worth caching"));
    };
    // Where the largest does not fit any more, a smaller one is better than none.
    let (heard, first) = match (session.chat(&body).await, &facts.large_request, facts.large) {
        (Err(Stop::Time { .. } | Stop::Tokens { .. }), Some(smaller), Some(first)) => {
            (session.chat(smaller).await?, first)
        }
        (heard, ..) => (heard?, first),
    };
    let answer = match answer(heard) {
        Ok(answer) => answer,
        Err(error) => return Ok(Outcome::new(Verdict::Unknown, format!("asked again: {}", refused(&error)))),
    };
    let usage = answer.reply.usage;
    let prompt = answer.sample.input;
    let times = format!("{:.2} s, then {:.2} s", first.seconds, answer.sample.seconds);
    Ok(match usage.and_then(|usage| usage.cache_read_tokens) {
        Some(0) if prompt < CACHED_FROM => Outcome::new(
            Verdict::Unknown,
            format!("0 of {prompt} tokens by the server's word; many servers cache from {CACHED_FROM} on ({times})"),
        ),
        Some(0) => Outcome::new(Verdict::No, format!("0 of {prompt} tokens by the server's word ({times})")),
        Some(cached) => {
            Outcome::new(Verdict::Yes, format!("{cached} of {prompt} tokens by the server's word ({times})"))
        }
        None => Outcome::new(
            Verdict::Unknown,
            format!("the server does not say; the same {prompt} tokens twice took {times}"),
        ),
    })
}

/// What needs no request of its own.
pub(super) fn free(session: &Session<'_>, facts: &Facts) -> Vec<Finding> {
    let used = session.used();
    let (verdict, mut detail) = match (used.reported, used.answers) {
        (0, answers) => (Verdict::No, format!("in none of {answers} answers; counts will be our estimates")),
        (reported, answers) if reported == answers => (Verdict::Yes, format!("in all of {answers} answers")),
        (reported, answers) => (Verdict::Partly, format!("in {reported} of {answers} answers")),
    };
    if let Some(ratio) = facts.ratio() {
        let _ = write!(detail, "; the server counts {ratio:.2} tokens where we estimate one");
    }
    vec![Finding { name: "usage", verdict, detail, evidence: Vec::new() }]
}

/// Says the speed again, from the largest fresh prompt that there was.
pub(super) fn refine(session: &Session<'_>, facts: &Facts, findings: &mut [Finding]) {
    let (Some(small), Some((_, largest))) = (facts.small, &facts.longest) else { return };
    let evidence = findings.iter().find(|finding| finding.name == "context").map(|finding| finding.evidence.clone());
    let speed = findings.iter_mut().find(|finding| finding.name == "speed");
    if let Some(speed) = speed.filter(|_| facts.large.is_none_or(|large| large.input < largest.input)) {
        let Outcome { verdict, detail } = in_words(session.rates(), small, Some(*largest), facts.written);
        (speed.verdict, speed.detail) = (verdict, detail);
        speed.evidence.extend(evidence.into_iter().flatten());
    }
}

/// What a fresh prompt showed of the speed.
pub(super) fn learn(session: &Session<'_>, facts: &mut Facts, body: &Value, sample: Sample) {
    let larger = facts.longest.as_ref().is_none_or(|(_, known)| known.input < sample.input);
    if !larger {
        return;
    }
    facts.longest = Some((body.clone(), sample));
    if let Some(small) = facts.small {
        let rates = Rates::measured(small, facts.written, Some(sample));
        session.set_rates(Rates { output_per_s: session.rates().output_per_s, ..rates });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::reach::complete;
    use super::super::testing::{Paced, completion, good, probe, question, says, session};
    use super::*;
    use crate::endpoint::WireResponse;

    async fn paced(queue: bool) -> (Facts, Vec<String>) {
        let queue = queue.then(tokio::sync::Mutex::default);
        let server = Paced { prompt_per_s: 40.0, output_per_s: 9.0, queue };
        let session = session(&server);
        let mut facts = Facts::default();
        complete(&session, &mut facts).await.unwrap();
        let speed = speed(&session, &mut facts).await.unwrap().detail;
        let determinism = determinism(&session, &mut facts).await.unwrap().detail;
        (facts, vec![speed, determinism])
    }

    #[tokio::test(start_paused = true)]
    async fn speed_is_measured_from_differences() {
        let (facts, details) = paced(false).await;
        assert!(details[0].starts_with("about 40 prompt tokens/s"), "{}", details[0]);
        assert!(details[0].contains("about 9 output tokens/s"), "{}", details[0]);
        assert_eq!(shares_well(&facts), Some(true));
        assert!(
            details[1].starts_with("differences: none seen in 3 equal requests at temperature 0"),
            "{}",
            details[1]
        );
        let (facts, details) = paced(true).await;
        assert_eq!(shares_well(&facts), Some(false), "{}", details[1]);
        assert!(details[1].ends_with("two at once took 2.0 times as long as one"), "{}", details[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_quick_is_not_measured() {
        let mut facts = Facts::default();
        let outcome = probe(good, &mut facts, async |session: &Session<'_>, facts: &mut Facts| {
            complete(session, facts).await.unwrap();
            speed(session, facts).await
        })
        .await;
        assert!(outcome.detail.contains("prompt: too quick to tell"), "{}", outcome.detail);
    }

    #[tokio::test(start_paused = true)]
    async fn differences_are_counted() {
        let number = std::sync::atomic::AtomicU32::new(0);
        let server = move |body: &Value| {
            let number = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            says(body, &format!("The sea is {number}."))
        };
        let mut facts = Facts::default();
        let outcome = probe(server, &mut facts, async |session: &Session<'_>, facts: &mut Facts| {
            complete(session, facts).await.unwrap();
            speed(session, facts).await.unwrap();
            determinism(session, facts).await
        })
        .await;
        assert!(outcome.detail.starts_with("differences seen: 3 different answers to 3"), "{}", outcome.detail);
    }

    #[tokio::test(start_paused = true)]
    async fn cached_tokens_are_the_server_s_word_or_unknown() {
        let counting = |cached: Value, prompt: u64| {
            move |body: &Value| -> WireResponse {
                let mut answer = completion(body, &json!({"content": "yes"}));
                answer["usage"]["prompt_tokens"] = json!(prompt);
                answer["usage"]["prompt_tokens_details"] = json!({"cached_tokens": cached});
                answer.into()
            }
        };
        let sample = Sample { input: 100, output: 1, estimated: 100, seconds: 1.0, reported: true };
        for (cached_tokens, prompt, verdict) in [
            (json!(96), 100, Verdict::Yes),
            (json!(0), 100, Verdict::Unknown),
            (json!(0), 2_000, Verdict::No),
            (json!(null), 2_000, Verdict::Unknown),
        ] {
            let longest = Some((json!({"messages": [], "max_tokens": 1}), sample));
            let mut facts = Facts { longest, ..Facts::default() };
            let outcome = probe(counting(cached_tokens, prompt), &mut facts, cached).await;
            assert_eq!(outcome.verdict, verdict, "{}", outcome.detail);
        }
    }

    #[tokio::test]
    async fn usage_is_counted_over_all_answers() {
        let transport = crate::endpoint::Scripted::with(|_, body| {
            let mut answer = completion(body, &json!({"content": "yes"}));
            if question(body).contains("odd") {
                answer["usage"] = json!(null);
            }
            Ok(answer.into())
        });
        let session = session(&transport);
        let facts = Facts::default();
        for (text, words) in [("even", "in all of 1 answers"), ("odd", "in 1 of 2 answers")] {
            session.chat(&facts.request(&user(text), 4)).await.unwrap();
            assert_eq!(free(&session, &facts)[0].detail, words);
        }
    }
}
