//! Made-up tools and skills in any number, for load: a catalogue without queries.
//!
//! Their words are drawn from lists, so they resemble one another in ways that real tools do not and real queries never
//! mean one of them. What a strategy costs against 50,000 of them can be measured, how well it finds anything cannot.

mod skills;
mod words;

use std::collections::HashSet;

use harness::catalogue::Annotations;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use super::foreign::{Foreign, ForeignServer, ForeignTool};
use super::{ImportError, ImportOptions, Importer, Read};
use words::{ARGUMENTS, ENDS, FACTS, Kind, NOUNS, OBJECTS, STARTS, VERBS, Verb};

const READS: &str = "nothing: makes --tools synthetic tools and --skills skills from --seed, for load tests only";

pub(super) const IMPORTER: Importer =
    Importer { name: "synth", reads: READS, server: "synth", licence: "CC0-1.0", read: Read::Options(make) };

const TOOLS: usize = 1_000;
/// Most tools that are made: a gigabyte at the most.
const MOST: usize = 500_000;

/// Most skills that are made.
const MOST_SKILLS: usize = 100_000;

/// Tools per server; one in a hundred lists many more.
const FEW: std::ops::RangeInclusive<usize> = 3..=40;
const MANY: std::ops::RangeInclusive<usize> = 80..=200;

fn make(options: &ImportOptions) -> Result<Foreign, ImportError> {
    let (count, seed) = (options.tools.unwrap_or(TOOLS), options.seed.unwrap_or(1));
    if !(1..=MOST).contains(&count) {
        return Err(ImportError::UnfitOption {
            option: "tools",
            value: count.to_string(),
            expected: "a number from 1 to 500000",
        });
    }
    let skills = options.skills.unwrap_or(0);
    if skills > MOST_SKILLS {
        return Err(ImportError::UnfitOption {
            option: "skills",
            value: skills.to_string(),
            expected: "a number from 0 to 100000",
        });
    }
    let mut maker = Maker { random: ChaCha8Rng::seed_from_u64(seed), vendors: HashSet::new() };
    let with_skills = if skills == 0 { String::new() } else { format!(" and {skills} skills") };
    let description = format!(
        "{count} synthetic tools{with_skills} drawn from word lists with seed {seed}: distractors for load and latency tests. Unfit for any \
         claim about quality, since no person wrote them and no query means them."
    );
    let mut foreign = Foreign { description: Some(description), ..Foreign::default() };
    while foreign.tools.len() < count {
        let sizes = if maker.chance(1) { MANY } else { FEW };
        let size = maker.random.random_range(sizes);
        let left = count - foreign.tools.len();
        maker.server(size, left, &mut foreign);
    }
    foreign.skills = maker.skills(skills, &foreign.tools);
    Ok(foreign)
}

/// How a server writes names.
#[derive(Clone, Copy)]
enum Style {
    /// `vendor_verb_noun`
    Prefixed,
    /// `verb_noun`
    Snake,
    /// `verbNoun`
    Camel,
    /// `verb-noun`
    Kebab,
    /// `noun.verb`
    Dotted,
}

struct Maker {
    random: ChaCha8Rng,
    vendors: HashSet<String>,
}

impl Maker {
    /// True in that many of a hundred cases.
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        *list.choose(&mut self.random).expect("the lists are constants with entries")
    }

    /// A server of `size` tools, or of those that are `left` to make.
    fn server(&mut self, size: usize, left: usize, foreign: &mut Foreign) {
        let vendor = self.vendor();
        let style =
            self.pick(&[Style::Prefixed, Style::Prefixed, Style::Snake, Style::Camel, Style::Kebab, Style::Dotted]);
        let nouns: Vec<_> = (0..2 + size / 6).map(|_| self.pick(NOUNS)).collect();
        let title = capitalised(&vendor);
        let description = format!("{title} keeps {}.", plural(nouns[0]));
        foreign.servers.push(ForeignServer {
            namespace: vendor.clone(),
            title: Some(title),
            description,
            ..ForeignServer::default()
        });
        let mut names = HashSet::new();
        for _ in 0..size.min(left) {
            let (verb, mut noun) = (self.pick(VERBS), self.pick(&nouns));
            let mut name = name(style, &vendor, verb.plain, noun, None);
            let mut number = 1;
            // Another noun first, then a part of it, then numbers: names repeat on a large server.
            while !names.insert(name.clone()) {
                number += 1;
                noun = self.pick(NOUNS);
                let part = (number > 2).then(|| self.pick(OBJECTS));
                name = self::name(style, &vendor, verb.plain, noun, part);
                if number > 6 {
                    name = format!("{name}{number}");
                }
            }
            let (schema, arguments) = self.schema();
            foreign.tools.push(ForeignTool {
                namespace: Some(vendor.clone()),
                key: Some(format!("{vendor}/{name}")),
                name,
                title: self.chance(30).then(|| capitalised(&format!("{} {noun}", verb.plain))),
                description: self.description(&vendor, &verb, noun, &arguments),
                schema: Some(schema),
                annotations: self.annotations(&verb),
                ..ForeignTool::default()
            });
        }
    }

    /// A name that no other server has.
    fn vendor(&mut self) -> String {
        let base = format!("{}{}", self.pick(STARTS), self.pick(ENDS));
        let mut name = base.clone();
        let mut number = 1;
        while !self.vendors.insert(name.clone()) {
            number += 1;
            name = format!("{base}{number}");
        }
        name
    }

    fn annotations(&mut self, verb: &Verb) -> Option<Annotations> {
        self.chance(60).then(|| Annotations {
            title: None,
            read_only_hint: Some(verb.reads),
            destructive_hint: (!verb.reads).then_some(verb.destroys),
            idempotent_hint: self.chance(40).then_some(verb.reads),
            open_world_hint: self.chance(20).then_some(true),
        })
    }

    fn description(&mut self, vendor: &str, verb: &Verb, noun: &str, arguments: &[&str]) -> String {
        if self.chance(2) {
            return String::new();
        }
        let many = plural(noun);
        let object = self.pick(OBJECTS);
        let mut text = match self.random.random_range(0..5) {
            0 => format!("{} a {noun}.", capitalised(verb.third)),
            1 => format!("{} the {object} of a {noun} in {}.", capitalised(verb.plain), capitalised(vendor)),
            2 => format!("{} {many} by {object}.", capitalised(verb.third)),
            3 => format!("Use this to {} {many} by their {object}.", verb.plain),
            _ => format!("{} one {noun} or several {many} at once.", capitalised(verb.third)),
        };
        // Most are short; some go on for a page.
        let sentences = match self.random.random_range(0..100) {
            0..45 => self.random.random_range(0..2),
            45..90 => self.random.random_range(2..7),
            _ => self.random.random_range(7..40),
        };
        for _ in 0..sentences {
            let (fact, other) = (self.pick(FACTS), self.pick(OBJECTS));
            let argument = arguments.choose(&mut self.random).copied().unwrap_or("request");
            text.push(' ');
            let fact = fact
                .replace("{noun}", noun)
                .replace("{many}", &many)
                .replace("{object}", other)
                .replace("{argument}", argument);
            text += &capitalised(&fact);
        }
        text
    }

    /// A schema and the names of its arguments.
    fn schema(&mut self) -> (Value, Vec<&'static str>) {
        let count = match self.random.random_range(0..100) {
            0..6 => 0,
            6..70 => self.random.random_range(1..5),
            70..95 => self.random.random_range(5..10),
            _ => self.random.random_range(10..25),
        };
        self.object(count, 0)
    }

    fn object(&mut self, count: usize, depth: usize) -> (Value, Vec<&'static str>) {
        let (mut properties, mut required, mut names) = (Map::new(), Vec::new(), Vec::new());
        for place in 0..count {
            let argument = self.pick(ARGUMENTS);
            if properties.contains_key(argument.name) {
                continue;
            }
            if self.chance(if place == 0 { 80 } else { 25 }) {
                required.push(argument.name);
            }
            let mut schema = self.argument(argument.kind, depth);
            if let (true, Value::Object(schema)) = (self.chance(85), &mut schema) {
                schema.insert("description".to_owned(), argument.about.into());
            }
            names.push(argument.name);
            properties.insert(argument.name.to_owned(), schema);
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if let Value::Object(schema) = &mut schema {
            if !required.is_empty() {
                schema.insert("required".to_owned(), json!(required));
            }
            if self.chance(45) {
                schema.insert("additionalProperties".to_owned(), false.into());
            }
        }
        (schema, names)
    }

    fn argument(&mut self, kind: Kind, depth: usize) -> Value {
        match kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Id => json!({"type": "string", "pattern": "^[a-z0-9_-]{4,40}$"}),
            Kind::Time => json!({"type": "string", "format": "date-time"}),
            Kind::Flag => json!({"type": "boolean", "default": self.chance(50)}),
            Kind::Number => json!({"type": "number"}),
            Kind::Count => {
                json!({"type": "integer", "minimum": 1, "maximum": self.pick(&[10, 50, 100, 1000]), "default": 10})
            }
            Kind::Choice(values) => json!({"type": "string", "enum": values}),
            Kind::List if self.chance(70) || depth > 3 => json!({"type": "array", "items": {"type": "string"}}),
            Kind::List => {
                let count = self.random.random_range(1..4);
                json!({"type": "array", "items": self.object(count, depth + 1).0})
            }
            Kind::Object if depth > 3 => json!({"type": "object"}),
            Kind::Object => {
                let count = self.random.random_range(1..5);
                self.object(count, depth + 1).0
            }
            Kind::Either => {
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "default": null})
            }
        }
    }
}

fn name(style: Style, vendor: &str, verb: &str, noun: &str, part: Option<&str>) -> String {
    let noun = part.map_or_else(|| noun.to_owned(), |part| format!("{noun} {part}"));
    let joined = |by: &str| noun.replace(' ', by);
    match style {
        Style::Prefixed => format!("{vendor}_{verb}_{}", joined("_")),
        Style::Snake => format!("{verb}_{}", joined("_")),
        Style::Camel => format!("{verb}{}", noun.split(' ').map(capitalised).collect::<String>()),
        Style::Kebab => format!("{verb}-{}", joined("-")),
        Style::Dotted => format!("{}.{verb}", joined("_")),
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use harness::dataset::Dataset;
    use insta::assert_snapshot;

    use super::super::find;
    use super::*;
    use crate::testing::{folder, lines};

    fn made(tools: usize, seed: u64) -> Dataset {
        let dir = tempfile::tempdir().unwrap();
        let options = ImportOptions { tools: Some(tools), seed: Some(seed), ..ImportOptions::default() };
        let report = find("synth").unwrap().generate(&dir.path().join("t"), &options).unwrap();
        assert!(report.findings.is_empty(), "{report}");
        assert_eq!(report.tools, tools);
        crate::load(&dir.path().join("t")).unwrap()
    }

    #[test]
    fn the_same_seed_makes_the_same_tools() {
        assert_eq!(made(300, 7).revision, made(300, 7).revision);
        assert_ne!(made(300, 7).revision, made(300, 8).revision);
        let first = |tools, seed| made(tools, seed).catalogue.tools[0].id.clone();
        assert_eq!(first(1, 7), first(300, 7), "fewer tools are the first of more");
    }

    #[test]
    fn tools_vary() {
        let dataset = made(3_000, 1);
        let tools = &dataset.catalogue.tools;
        let distinct = |of: &dyn Fn(&harness::catalogue::Tool) -> String| {
            tools.iter().map(|tool| of(tool)).collect::<HashSet<_>>().len()
        };
        assert!(distinct(&|tool| tool.description.clone()) > 2_700);
        assert!(distinct(&|tool| tool.input_schema.to_string()) > 2_500);
        assert!(dataset.catalogue.servers.len() > 80);
        assert!(tools.iter().any(|tool| tool.description.is_empty()));
        assert!(tools.iter().any(|tool| tool.description.len() > 2_000));
        assert_snapshot!(lines(tools.iter().take(5).map(|tool| format!("{}: {} {}", tool.id, tool.description, tool.input_schema))), @r#"
        zephyrfield/zephyrfield_cancel_venue: Cancels a venue. When items is left out, the default of the workspace applies. Fails if the venue is locked or its owner is missing. Not for venues that were imported from elsewhere. Values of items are case-sensitive. The items must belong to the caller. The priority is computed again afterwards. Values of status are case-sensitive. Returns the attachment of each venue. Example: the category of the first venue of the month. Fails if the venue is locked or its currency is missing. Venues without a summary are skipped. Administrators may also see the currency of other teams. Fails if the venue is locked or its summary is missing. Deleted venues are included only on request. Prefer the search if you do not know the items. {"type":"object","properties":{"items":{"type":"array","items":{"type":"string"}},"status":{"type":"string","enum":["draft","open","closed","archived"],"description":"Only those in this state"}},"required":["items"]}
        zephyrfield/zephyrfield_expire_field_trial: Use this to expire field trials by their version. Fails if the field trial is locked or its language is missing. Times are in UTC. {"type":"object","properties":{"dry_run":{"type":"boolean","default":false,"description":"Only report what would happen"},"id":{"type":"string","pattern":"^[a-z0-9_-]{4,40}$","description":"Identifier as returned by the list"},"cursor":{"type":"string","description":"Where the page before ended"}}}
        zephyrfield/zephyrfield_send_appointment: Use this to send appointments by their owner. Large appointments are processed in the background; ask for the label later. Results come in pages, newest appointment first. Large appointments are processed in the background; ask for the reference later. At most 100 appointments are handled at a time. Deleted appointments are included only on request. {"type":"object","properties":{"idempotency_key":{"type":"string","pattern":"^[a-z0-9_-]{4,40}$"},"email":{"type":"string","description":"Mail address"},"language":{"type":"string","description":"BCP 47 tag of the answer"},"tags":{"type":"array","items":{"type":"string"},"description":"Labels, all of which must be present"}}}
        zephyrfield/zephyrfield_validate_venue: Validate the permission of a venue in Zephyrfield. The region must belong to the caller. Call it once per venue; repeated calls change nothing. Values of since are case-sensitive. When region is left out, the default of the workspace applies. Returns the currency of each venue. {"type":"object","properties":{"since":{"type":"string","format":"date-time","description":"Only what changed after this time"},"cursor":{"type":"string","description":"Where the page before ended"},"description":{"type":"string","description":"Longer text, Markdown allowed"},"longitude":{"type":"number"},"title":{"type":"string"},"region":{"type":"string","enum":["eu","us","apac","latam","mea"],"description":"Region that holds the data"}},"required":["since","longitude"]}
        zephyrfield/zephyrfield_start_table:  {"type":"object","properties":{"options":{"type":"object","properties":{"weight":{"type":"number","description":"Weight in kilograms"}},"required":["weight"],"additionalProperties":false,"description":"Rarely needed settings"},"due":{"type":"string","format":"date-time","description":"When it has to be done"},"id":{"type":"string","pattern":"^[a-z0-9_-]{4,40}$","description":"Identifier as returned by the list"},"workspace_id":{"type":"string","pattern":"^[a-z0-9_-]{4,40}$","description":"Workspace to look in"},"force":{"type":"boolean","default":false,"description":"Go on despite warnings"},"dry_run":{"type":"boolean","default":true,"description":"Only report what would happen"},"until":{"type":"string","format":"date-time","description":"Only what changed before this time"},"version":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}],"default":null,"description":"Version to work on; the latest without it"},"timezone":{"type":"string","description":"IANA name, for example Europe/Lisbon"},"latitude":{"type":"number","description":"Degrees north"},"pattern":{"type":"string","description":"Glob that names must match"},"parent":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}],"default":null,"description":"What it belongs to"}},"required":["options"],"additionalProperties":false}
        "#);
    }

    #[test]
    fn skills_hold_tools_that_are_there_and_change_none_of_them() {
        let with = |skills| {
            let dir = tempfile::tempdir().unwrap();
            let options = ImportOptions { tools: Some(400), skills: Some(skills), ..ImportOptions::default() };
            let report = find("synth").unwrap().generate(&dir.path().join("t"), &options).unwrap();
            assert!(report.findings.is_empty(), "{report}");
            crate::load(&dir.path().join("t")).unwrap()
        };
        let (none, many) = (with(0), with(1_000));
        assert_eq!((none.catalogue.skills.len(), many.catalogue.skills.len()), (0, 1_000));
        assert_eq!(none.catalogue.tools, many.catalogue.tools);
        let held: Vec<_> = many.catalogue.skills.iter().map(|skill| skill.allowed_tools.len()).collect();
        assert!(held.iter().all(|count| (3..=11).contains(count)), "{held:?}");
        let texts: HashSet<_> = many.catalogue.skills.iter().map(|skill| &skill.description).collect();
        assert!(texts.len() > 800, "{} of 1000 descriptions differ", texts.len());
        let first = &many.catalogue.skills[0];
        assert_snapshot!(format!("{}: {}\n{}", first.name, first.description, first.body), @r"
        tag-chapter-house-deadline: Tags chapter houses by their deadline. Use when somebody asks for the deadline of a chapter house.
        # Tag chapter houses

        1. Call `resetOptionChain`. Administrators may also see the deadline of other teams.
        2. Call `lockExperiment`. Example: the deadline of the first chapter house of the month.
        3. Call `enrolColumn`. Administrators may also see the deadline of other teams.
        4. Call `summariseShipment`. Values of deadline are case-sensitive.
        5. Call `startShipment`. Not for chapter houses that were imported from elsewhere.
        6. Call `publishVolume`. Values of deadline are case-sensitive.
        7. Call `scheduleColumn`. Large chapter houses are processed in the background; ask for the deadline later.
        8. Call `restoreOptionChain`. Times are in UTC.
        9. Call `juniperport_retry_mortgage`. Chapter houses without a deadline are skipped.
        ");
        assert_eq!(with(10).catalogue.skills[..], many.catalogue.skills[..10], "fewer skills are the first of more");
    }

    #[test]
    fn the_description_says_what_they_are_unfit_for() {
        let dir = tempfile::tempdir().unwrap();
        find("synth").unwrap().generate(&dir.path().join("t"), &ImportOptions::default()).unwrap();
        let manifest = std::fs::read_to_string(dir.path().join("t/dataset.toml")).unwrap();
        assert_snapshot!(manifest, @r#"
        format = 1
        name = "synth"
        revision = "4d3184d6fa77"
        licence = "CC0-1.0"
        description = "1000 synthetic tools drawn from word lists with seed 1: distractors for load and latency tests. Unfit for any claim about quality, since no person wrote them and no query means them."
        "#);
    }

    #[test]
    fn sources_and_options_are_refused_where_they_do_not_belong() {
        let dir = folder(&[("tools.json", "[]")]);
        let (source, target) = (dir.path().join("tools.json"), dir.path().join("t"));
        let synth = find("synth").unwrap();
        let other = find("openai-tools").unwrap();
        let none = ImportOptions::default();
        let tools = |tools| ImportOptions { tools: Some(tools), ..ImportOptions::default() };
        let skills = |skills| ImportOptions { skills: Some(skills), ..ImportOptions::default() };
        let seed = ImportOptions { seed: Some(1), ..ImportOptions::default() };
        let errors = [
            synth.import(&source, &target, &none).unwrap_err(),
            other.generate(&target, &none).unwrap_err(),
            other.import(&source, &target, &tools(3)).unwrap_err(),
            other.import(&source, &target, &seed).unwrap_err(),
            synth.generate(&target, &tools(0)).unwrap_err(),
            synth.generate(&target, &tools(MOST + 1)).unwrap_err(),
            other.import(&source, &target, &skills(3)).unwrap_err(),
            synth.generate(&target, &skills(MOST_SKILLS + 1)).unwrap_err(),
        ];
        assert_snapshot!(lines(errors), @r#"
        importer synth makes what it writes and reads nothing, but a source was given; leave it out
        importer openai-tools needs a source; expected a JSON file: an array of {"type": "function", "function": {…}}, or an object with that as `tools`
        option tools does not apply to importer openai-tools; it belongs to synth, openai-tools has no option of its own
        option seed does not apply to importer openai-tools; it belongs to synth, openai-tools has no option of its own
        option tools: 0 is unfit; expected a number from 1 to 500000
        option tools: 500001 is unfit; expected a number from 1 to 500000
        option skills does not apply to importer openai-tools; it belongs to synth, openai-tools has no option of its own
        option skills: 100001 is unfit; expected a number from 0 to 100000
        "#);
        assert!(!target.exists());
    }
}
