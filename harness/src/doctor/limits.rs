//! How tools may be named, and how many of them there may be.

use serde_json::{Value, json};

use super::facts::{Facts, Native, user};
use super::session::{Heard, Session, Stop};
use super::tools::NO_TOOLS;
use super::{Outcome, Probed, Verdict, refused};
use crate::chat::ToolDef;
use crate::endpoint::{EndpointError, ErrorKind, NameRule};

/// The largest number of tools that is tried.
const MOST_TOOLS: usize = 512;
const FEWEST_TOOLS: usize = 16;

/// A tool that says as little as possible.
fn tiny(name: &str) -> ToolDef {
    let parameters = json!({"type": "object", "properties": {}});
    ToolDef { name: name.to_owned(), description: "Does nothing".to_owned(), parameters }
}

/// A request that offers these tools and wants a single token: whether they are taken is all that matters.
pub(super) fn offering(facts: &Facts, tools: &[ToolDef]) -> Value {
    let mut body = facts.request(&user("Say hello."), 1);
    body["tools"] = json!(tools);
    body
}

/// Which of several things the server takes: all in one request, and one by one if that is refused.
pub(super) async fn taken<'n>(
    session: &Session<'_>,
    facts: &mut Facts,
    tools: &[(&'n str, ToolDef)],
) -> Result<Taken<'n>, Stop> {
    let all: Vec<_> = tools.iter().map(|(_, tool)| tool.clone()).collect();
    if session.chat(&offering(facts, &all)).await?.accepted() {
        facts.tools_accepted = facts.tools_accepted.max(all.len());
        return Ok(Taken { taken: tools.iter().map(|(name, _)| *name).collect(), refused: Vec::new() });
    }
    let mut found = Taken { taken: Vec::new(), refused: Vec::new() };
    for (name, tool) in tools {
        match session.chat(&offering(facts, std::slice::from_ref(tool))).await? {
            Heard::Refused(error) if error.kind != ErrorKind::ModelError => found.refused.push((*name, error)),
            _ => found.taken.push(*name),
        }
    }
    Ok(found)
}

/// What was taken, and what was refused with which words.
pub(super) struct Taken<'n> {
    pub(super) taken: Vec<&'n str>,
    pub(super) refused: Vec<(&'n str, EndpointError)>,
}

impl Taken<'_> {
    pub(super) fn outcome(&self) -> Outcome {
        let Some((_, error)) = self.refused.first() else {
            return Outcome::new(Verdict::Yes, format!("taken: {}", self.taken.join(", ")));
        };
        let refusals: Vec<_> = self.refused.iter().map(|(name, _)| *name).collect();
        let taken = if self.taken.is_empty() { "nothing".to_owned() } else { self.taken.join(", ") };
        let verdict = if self.taken.is_empty() { Verdict::No } else { Verdict::Partly };
        Outcome::new(verdict, format!("taken: {taken}; refused: {} ({})", refusals.join(", "), refused(error)))
    }
}

/// Within the rule that every endpoint should keep to.
const WITHIN: &str = "64 characters";
const DIGIT: &str = "a digit first";

/// Names that go beyond that rule, one way each.
pub(super) async fn names(session: &Session<'_>, facts: &mut Facts) -> Probed {
    if facts.native == Native::Refused {
        return Err(Stop::Pointless(NO_TOOLS));
    }
    let (long, longer) = ("a".repeat(64), "b".repeat(128));
    let variants = [
        (WITHIN, long.as_str()),
        (DIGIT, "2nd_probe"),
        ("128 characters", longer.as_str()),
        ("a dot", "probe.dot"),
        ("a slash", "probe/slash"),
        ("a blank", "probe blank"),
        ("other alphabets", "prüfung"),
    ];
    let tools = variants.map(|(what, name)| (what, tiny(name)));
    let found = taken(session, facts, &tools).await?;
    let outcome = found.outcome();
    if found.taken.is_empty() {
        // The same refusal of everything says nothing of names.
        return Ok(Outcome { verdict: Verdict::Unknown, ..outcome });
    }
    let is_taken = |what: &str| found.taken.contains(&what);
    facts.name_rule = Some(match (found.refused.is_empty(), is_taken(DIGIT)) {
        (true, _) => NameRule::Any,
        (false, true) => NameRule::Openai,
        (false, false) => NameRule::Identifier,
    });
    let beyond = if is_taken(WITHIN) { "" } else { "; even a name of 64 plain characters is refused" };
    Ok(Outcome { detail: outcome.detail + beyond, ..outcome })
}

/// Doubles the number of tiny tools until it is refused.
pub(super) async fn tool_limit(session: &Session<'_>, facts: &mut Facts) -> Probed {
    if facts.native == Native::Refused {
        return Err(Stop::Pointless(NO_TOOLS));
    }
    let mut count = FEWEST_TOOLS;
    let mut end = String::new();
    while count <= MOST_TOOLS {
        let tools: Vec<_> = (0..count).map(|number| tiny(&format!("probe_{number}"))).collect();
        let heard = match session.chat(&offering(facts, &tools)).await {
            Ok(heard) => heard,
            // What the smaller requests showed stands.
            Err(stop) if count > FEWEST_TOOLS => {
                end = format!("; {count} not tested: {stop}");
                break;
            }
            Err(stop) => return Err(stop),
        };
        match heard {
            Heard::Refused(error) if error.kind == ErrorKind::ContextOverflow => {
                end = format!("; the definitions of {count} do not fit the context");
                break;
            }
            Heard::Refused(error) if error.kind != ErrorKind::ModelError => {
                facts.tools_refused = Some(count);
                end = format!("; {count} are refused: {}", refused(&error));
                break;
            }
            _ => facts.tools_accepted = facts.tools_accepted.max(count),
        }
        count *= 2;
    }
    let most = facts.tools_accepted;
    let detail =
        if most >= MOST_TOOLS { format!("at least {most} at once") } else { format!("{most} at once are taken{end}") };
    Ok(Outcome::new(Verdict::Measured, detail))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{good, probe, refuses};
    use super::*;
    use crate::endpoint::WireResponse;

    fn tool_names(body: &Value) -> Vec<&str> {
        body["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }

    /// A server that takes names of which this is true.
    fn takes(fine: fn(&str) -> bool) -> impl Fn(&Value) -> WireResponse + Send + Sync + 'static {
        move |body| {
            if tool_names(body).into_iter().all(fine) {
                good(body)
            } else {
                refuses(400, "invalid tools[0].function.name")
            }
        }
    }

    #[tokio::test]
    async fn the_rule_of_names_follows_from_what_is_refused() {
        let plain = |name: &str| name.len() <= 64 && NameRule::Openai.accepts(name);
        let strict = |name: &str| NameRule::Identifier.accepts(name);
        for (server, rule, verdict) in [
            (takes(|_| true), NameRule::Any, Verdict::Yes),
            (takes(plain), NameRule::Openai, Verdict::Partly),
            (takes(strict), NameRule::Identifier, Verdict::Partly),
            (takes(|name| name.len() <= 128), NameRule::Any, Verdict::Yes),
            (takes(|name| !name.contains(' ')), NameRule::Openai, Verdict::Partly),
        ] {
            let mut facts = Facts::default();
            let outcome = probe(server, &mut facts, names).await;
            assert_eq!((facts.name_rule, outcome.verdict), (Some(rule), verdict), "{}", outcome.detail);
        }
        let mut facts = Facts::default();
        let outcome = probe(|_| refuses(400, "no"), &mut facts, names).await;
        assert_eq!((outcome.verdict, facts.name_rule), (Verdict::Unknown, None), "{}", outcome.detail);
    }

    #[tokio::test]
    async fn the_number_of_tools_is_bracketed() {
        let at_most = |most: usize, status: u16, message: &'static str| {
            move |body: &Value| if tool_names(body).len() > most { refuses(status, message) } else { good(body) }
        };
        let mut facts = Facts::default();
        let outcome = probe(at_most(128, 400, "too many tools"), &mut facts, tool_limit).await;
        assert_eq!((facts.tools_accepted, facts.tools_refused), (128, Some(256)));
        assert!(outcome.detail.starts_with("128 at once are taken; 256 are refused: tool_limit"), "{}", outcome.detail);
        let mut facts = Facts::default();
        assert_eq!(probe(good, &mut facts, tool_limit).await.detail, "at least 512 at once");
        assert_eq!(facts.tools_refused, None);
        let mut facts = Facts::default();
        let outcome = probe(at_most(40, 400, "exceeds the context size"), &mut facts, tool_limit).await;
        assert_eq!((facts.tools_accepted, facts.tools_refused), (32, None), "size is no number: {}", outcome.detail);
    }

    #[tokio::test]
    async fn without_tools_there_is_nothing_to_name() {
        let mut facts = Facts { native: Native::Refused, ..Facts::default() };
        let session_of = super::super::testing::session;
        let transport = crate::endpoint::Scripted::with(|_, body| Ok(good(body)));
        let session = session_of(&transport);
        assert!(matches!(names(&session, &mut facts).await, Err(Stop::Pointless(_))));
        assert!(matches!(tool_limit(&session, &mut facts).await, Err(Stop::Pointless(_))));
        assert_eq!(session.used().requests, 0);
    }
}
