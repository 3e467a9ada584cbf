//! `skill-pick`: skills gate tools, in two passes.
//!
//! Pass one shows the model the names and summaries of the visible skills and no tool; it picks skills. Pass two shows the
//! core tools and the tools of the picked skills. Source: the skill-gated selection that Stripe describes for its assistant
//! and `OpenBot`'s K3 design. With more than 150 visible skills BM25 over name and summary
//! keeps the pinned ones and the best of the others.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use harness::catalogue::{View, ViewSkill};
use harness::chat::{Message, ToolDef};
use harness::context::EpisodeCx;
use harness::episode::NotRunnable;
use harness::gateway::AskError;
use harness::handle::Ask;
use harness::ids::ToolId;
use harness::strategy::{Offer, OwnAnswer, Prepared, Responder, Selection, Strategy, StrategyError, StrategyMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::retrieve::bm25::Bm25Settings;
use crate::retrieve::index::Index;

/// Parameters of `skill-pick`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SkillPickParams {
    /// Skills the model may pick at once.
    #[serde(deserialize_with = "crate::positive")]
    pub max_skills: usize,
    /// Show the bodies of the picked skills in pass two.
    pub bodies: bool,
    /// Keep `select_skills` in pass two, so that the model can widen its choice.
    pub reselect: bool,
    /// Visible skills above which BM25 narrows them down.
    pub prefilter_above: usize,
}

impl Default for SkillPickParams {
    fn default() -> Self {
        Self { max_skills: 3, bodies: true, reselect: false, prefilter_above: 150 }
    }
}

/// The one function of pass one.
const SELECT_SKILLS: &str = "select_skills";

pub struct SkillPick {
    params: SkillPickParams,
}

impl SkillPick {
    pub fn new(params: SkillPickParams) -> Self {
        Self { params }
    }
}

impl Strategy for SkillPick {
    fn meta(&self) -> StrategyMeta {
        StrategyMeta {
            kind: "skill-pick".to_owned(),
            version: 1,
            params: json!(self.params),
            drives_model: true,
            ranks: false,
            own_tools: vec![SELECT_SKILLS.to_owned()],
            inner_turns: 1,
            // Skills of the catalogues seen so far load three to ten tools each.
            shown_tools: Some(self.params.max_skills * 6),
        }
    }

    fn prepare(&self, view: Arc<View>) -> BoxFuture<'_, Result<Arc<dyn Prepared>, StrategyError>> {
        let texts = view.skills().iter().map(|skill| format!("{} {}", skill.name, skill.description));
        let index = Bm25Settings::default().index(texts);
        let two_pass = TwoPass { view, index, params: self.params };
        Box::pin(std::future::ready(Ok(Arc::new(two_pass) as Arc<dyn Prepared>)))
    }
}

struct TwoPass {
    view: Arc<View>,
    index: Index,
    params: SkillPickParams,
}

impl TwoPass {
    /// The skills that pass one shows: all of them, or the pinned and the best by BM25, in the view's order.
    fn shown(&self, text: &str) -> Vec<&ViewSkill> {
        let skills = self.view.skills();
        if skills.len() <= self.params.prefilter_above {
            return skills.iter().collect();
        }
        let pinned = (0..skills.len()).filter(|&index| skills[index].pinned);
        let mut scores = self.index.scores(text);
        scores.retain(|&(index, _)| !skills[index].pinned);
        scores.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| skills[a.0].name.cmp(&skills[b.0].name)));
        let mut kept: BTreeSet<usize> = pinned.collect();
        let room = self.params.prefilter_above.saturating_sub(kept.len());
        kept.extend(scores.into_iter().take(room).map(|(index, _)| index));
        kept.into_iter().map(|index| &skills[index]).collect()
    }
}

impl Prepared for TwoPass {
    fn select<'a>(
        &'a self,
        text: &'a str,
        cx: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<Selection, StrategyError>> {
        Box::pin(async move {
            let shown = self.shown(text);
            if shown.is_empty() {
                let detail = "no skill of this catalogue holds a tool of the view".to_owned();
                return Err(AskError::NotRunnable { why: NotRunnable::Unsupported, detail }.into());
            }
            let function = select_function(&shown, self.params.max_skills);
            let messages = [Message::system(&render_pass_one(&shown, self.params.max_skills)), Message::user(text)];
            let ask = Ask::Function { function: function.clone() };
            let (_, arguments) = cx.chat("select skills", &messages, &ask).await?;
            let picked = parse_pick(arguments.as_ref(), &shown, self.params.max_skills);
            let offer = Offer {
                tools: tools_of(&picked),
                own: if self.params.reselect { vec![function] } else { Vec::new() },
                guidance: self.params.bodies.then(|| render_bodies(&picked)).flatten(),
            };
            let responder = self.params.reselect.then(|| {
                let skills = shown.iter().map(|skill| (*skill).clone()).collect();
                Box::new(Reselect { skills, params: self.params }) as Box<dyn Responder>
            });
            let skills = picked.iter().map(|skill| skill.name.clone()).collect();
            Ok(Selection { ranked: None, skills, offer: Some(offer), responder })
        })
    }
}

/// Widens the choice during pass two.
struct Reselect {
    skills: Vec<ViewSkill>,
    params: SkillPickParams,
}

impl Responder for Reselect {
    fn respond<'a>(
        &'a mut self,
        _: &'a str,
        arguments: &'a Value,
        _: &'a mut EpisodeCx<'_>,
    ) -> BoxFuture<'a, Result<OwnAnswer, StrategyError>> {
        let shown: Vec<_> = self.skills.iter().collect();
        let picked = parse_pick(Some(arguments), &shown, self.params.max_skills);
        let answer = if picked.is_empty() {
            let text = "No skill of that name. Pick from the names given for select_skills.".to_owned();
            OwnAnswer { text, define: Vec::new(), misuse: Some("no known skill named".to_owned()) }
        } else {
            let names: Vec<_> = picked.iter().map(|skill| skill.name.as_str()).collect();
            let mut text = format!("Loaded: {}. Their tools are now available.", names.join(", "));
            if self.params.bodies
                && let Some(bodies) = render_bodies(&picked)
            {
                text.push_str("\n\n");
                text.push_str(&bodies);
            }
            OwnAnswer { text, define: tools_of(&picked), misuse: None }
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

fn select_function(shown: &[&ViewSkill], max_skills: usize) -> ToolDef {
    let names: Vec<_> = shown.iter().map(|skill| skill.name.as_str()).collect();
    ToolDef {
        name: SELECT_SKILLS.to_owned(),
        description: "Loads the tools of the named skills. Give an empty list if no skill is needed.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "names": {"type": "array", "items": {"type": "string", "enum": names}, "maxItems": max_skills},
            },
            "required": ["names"],
            "additionalProperties": false,
        }),
    }
}

/// The system text of pass one.
pub fn render_pass_one(shown: &[&ViewSkill], max_skills: usize) -> String {
    let mut text = String::from("Skills you can load, each with what it is for:\n");
    for skill in shown {
        let _ = writeln!(text, "- {}: {}", skill.name, skill.description);
    }
    let _ = write!(
        text,
        "\nRead the request and call {SELECT_SKILLS} with the one skill that fits it, or with up to {max_skills} if the \
         request needs several. If none fits, call it with an empty list. Do not answer the request yet."
    );
    text
}

/// The skills named in the answer to pass one, unknown names left out, in the order named.
pub fn parse_pick<'s>(arguments: Option<&Value>, shown: &[&'s ViewSkill], max_skills: usize) -> Vec<&'s ViewSkill> {
    let names: Vec<&str> = match arguments.map(|arguments| &arguments["names"]) {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        // A single name where a list was asked for is still a choice.
        Some(Value::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let mut picked: Vec<&ViewSkill> = Vec::new();
    for name in names {
        if let Some(skill) = shown.iter().find(|skill| skill.name == name)
            && !picked.iter().any(|known| known.name == name)
            && picked.len() < max_skills
        {
            picked.push(skill);
        }
    }
    picked
}

fn tools_of(picked: &[&ViewSkill]) -> Vec<ToolId> {
    let mut seen = BTreeSet::new();
    picked.iter().flat_map(|skill| &skill.tools).filter(|tool| seen.insert((*tool).clone())).cloned().collect()
}

fn render_bodies(picked: &[&ViewSkill]) -> Option<String> {
    let bodies: Vec<_> = picked
        .iter()
        .filter(|skill| !skill.body.trim().is_empty())
        .map(|skill| format!("## Skill: {}\n{}", skill.name, skill.body.trim()))
        .collect();
    (!bodies.is_empty()).then(|| bodies.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, tools: &[&str]) -> ViewSkill {
        ViewSkill {
            name: name.to_owned(),
            description: format!("For {name}."),
            body: format!("How to do {name}."),
            pinned: false,
            tools: tools.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn pass_one_reads_as_written() {
        let (mail, desk) = (skill("mailing", &["mail/send"]), skill("desk-work", &["desk/close"]));
        let shown = [&mail, &desk];
        insta::assert_snapshot!(render_pass_one(&shown, 2), @r"
        Skills you can load, each with what it is for:
        - mailing: For mailing.
        - desk-work: For desk-work.

        Read the request and call select_skills with the one skill that fits it, or with up to 2 if the request needs several. If none fits, call it with an empty list. Do not answer the request yet.
        ");
        insta::assert_json_snapshot!(select_function(&shown, 2), @r#"
        {
          "type": "function",
          "function": {
            "name": "select_skills",
            "description": "Loads the tools of the named skills. Give an empty list if no skill is needed.",
            "parameters": {
              "type": "object",
              "properties": {
                "names": {
                  "type": "array",
                  "items": {
                    "type": "string",
                    "enum": [
                      "mailing",
                      "desk-work"
                    ]
                  },
                  "maxItems": 2
                }
              },
              "required": [
                "names"
              ],
              "additionalProperties": false
            }
          }
        }
        "#);
    }

    #[test]
    fn picks_are_known_unique_and_few() {
        let (mail, desk) = (skill("mailing", &["mail/send", "mail/find"]), skill("desk-work", &["mail/send"]));
        let shown = [&mail, &desk];
        let names = |arguments: Value, max| -> Vec<&str> {
            parse_pick(Some(&arguments), &shown, max).iter().map(|skill| skill.name.as_str()).collect()
        };
        assert_eq!(names(json!({"names": ["desk-work", "nope", "desk-work", "mailing"]}), 3), ["desk-work", "mailing"]);
        assert_eq!(names(json!({"names": ["mailing", "desk-work"]}), 1), ["mailing"]);
        assert_eq!(names(json!({"names": "mailing"}), 3), ["mailing"]);
        assert!(names(json!({"name": 7}), 3).is_empty());
        assert!(parse_pick(None, &shown, 3).is_empty());
        assert_eq!(tools_of(&[&mail, &desk]).len(), 2, "a tool in two skills is shown once");
    }
}
