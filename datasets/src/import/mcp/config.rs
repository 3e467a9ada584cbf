//! The file that names servers, as desktop clients write it, and its `${VAR}`.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::report::Trouble;
use super::super::{ImportError, files};
use super::pieces::is_key_name;
use super::{READS, Secrets};
use crate::problem::{clean, printable, quote, suggestion};
use crate::unique::Pairs;

/// Most servers of one file.
const MOST_SERVERS: usize = 1_000;
/// From how many bytes on a variable of the environment is found again in a command line or a URL.
const RECOGNISED: usize = 8;
/// Settings that concern a client, not what a server lists.
const OF_CLIENTS: [&str; 9] =
    ["autoApprove", "alwaysAllow", "description", "disabledTools", "icon", "name", "timeout", "tools", "trust"];
/// Why a server is left out that nobody wants to be asked.
pub(super) const DISABLED: &str = "it is disabled";
const KNOWN: [&str; 8] = ["command", "args", "env", "cwd", "url", "headers", "type", "disabled"];

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Reach {
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)>, cwd: Option<PathBuf> },
    Http { url: String, headers: Vec<(String, String)> },
}

/// Arguments, variables, headers and URLs may all hold keys.
impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio { .. } => "Stdio(…)",
            Self::Http { .. } => "Http(…)",
        })
    }
}

/// A server to list.
#[derive(Clone, Debug)]
pub struct Server {
    pub name: String,
    /// The reason why it cannot be reached, safe to print.
    pub reach: Result<Reach, String>,
    pub secrets: Secrets,
    pub troubles: Vec<(Trouble, String)>,
}

impl Server {
    /// A server given on the command line instead of in a file. Nothing in it is expanded.
    pub fn new(name: &str, reach: Reach) -> Self {
        let mut secrets = Secrets::default();
        match &reach {
            Reach::Stdio { command, args, .. } => secrets.add_arguments(std::iter::once(command).chain(args)),
            Reach::Http { url, .. } => secrets.add_url(url),
        }
        Self { name: name.to_owned(), reach: Ok(reach), secrets, troubles: Vec::new() }
    }

    /// Takes the keys among these variables for secrets where they occur in the command line or the URL: a shell put them there,
    /// or somebody copied them.
    pub fn recognise(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let Ok(reach) = &self.reach else { return };
        let texts: Vec<_> = match reach {
            Reach::Stdio { command, args, .. } => std::iter::once(command).chain(args).collect(),
            Reach::Http { url, .. } => vec![url],
        };
        for (name, value) in variables {
            let is_key = is_key_name(&name) && value.len() >= RECOGNISED;
            if is_key && texts.iter().any(|text| text.contains(&value)) {
                self.secrets.add_environment(&name, &value);
            }
        }
    }
}

#[derive(Deserialize)]
struct File {
    /// `servers`: as an editor names it.
    #[serde(rename = "mcpServers", alias = "servers")]
    servers: Pairs<Value>,
}

/// Reads the file; `variable` looks a variable of the environment up.
pub fn read(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Server>, ImportError> {
    let unreadable = |reason: String| ImportError::Unreadable { path: printable(path), reason, expected: READS };
    let text = files::text(path, READS)?;
    // What a parser says may quote a value, and a value may be a key: only the place is told.
    let File { servers: Pairs(entries) } = serde_json::from_str(&text).map_err(|error| {
        let fault = match error.classify() {
            serde_json::error::Category::Data => "it holds no object `mcpServers`",
            _ => "it is no JSON",
        };
        unreadable(format!("{fault} (line {}, column {})", error.line(), error.column()))
    })?;
    if entries.is_empty() {
        return Err(unreadable("`mcpServers` is empty".to_owned()));
    }
    if entries.len() > MOST_SERVERS {
        return Err(unreadable(format!("it names {} servers, more than {MOST_SERVERS}", entries.len())));
    }
    if let Some((name, _)) = entries
        .iter()
        .enumerate()
        .find_map(|(index, entry)| entries[..index].iter().any(|(earlier, _)| *earlier == entry.0).then_some(entry))
    {
        return Err(unreadable(format!("it names server {} twice", quote(name))));
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    Ok(entries.into_iter().map(|(name, entry)| server(name, entry, parent, variable)).collect())
}

fn server(name: String, entry: Value, parent: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Server {
    let (mut secrets, mut troubles) = (Secrets::default(), Vec::new());
    let reach = match entry {
        Value::Object(entry) => {
            let known = |key: &str| KNOWN.contains(&key) || OF_CLIENTS.contains(&key);
            for key in entry.keys().filter(|key| !known(key)) {
                secrets.add_word("name", key);
                let hint = suggestion(key, KNOWN.into_iter());
                troubles.push((Trouble::UnknownSetting, format!("{key} of {name}{hint}")));
            }
            let mut expand = Expand { variable, secrets: &mut secrets };
            reach(&entry, parent, &mut expand)
        }
        _ => Err("its entry is no object".to_owned()),
    };
    let reach = reach.map_err(|reason| secrets.redact(&reason));
    for (_, example) in &mut troubles {
        *example = clean(&secrets.redact(example));
    }
    Server { name, reach, secrets, troubles }
}

fn reach(entry: &Map<String, Value>, parent: &Path, expand: &mut Expand) -> Result<Reach, String> {
    if entry.get("disabled").is_some_and(|disabled| *disabled == Value::Bool(true)) {
        return Err(DISABLED.to_owned());
    }
    let kind = match entry.get("type") {
        None | Some(Value::Null) => match (entry.contains_key("command"), entry.contains_key("url")) {
            (true, false) => "stdio",
            (false, true) => "http",
            (true, true) => return Err("it has both `command` and `url`; give it a `type`".to_owned()),
            (false, false) => return Err("it has neither `command` nor `url`".to_owned()),
        },
        Some(Value::String(kind)) => kind.as_str(),
        Some(_) => return Err("its `type` is no text".to_owned()),
    };
    match kind {
        "stdio" => {
            let command = expand.text("command", entry.get("command").ok_or("it has no `command`")?)?;
            if command.trim().is_empty() {
                return Err("its `command` is blank".to_owned());
            }
            let args = match entry.get("args") {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(args)) => {
                    args.iter().map(|arg| expand.text("args", arg)).collect::<Result<_, _>>()?
                }
                Some(_) => return Err("its `args` are no array".to_owned()),
            };
            expand.secrets.add_arguments(std::iter::once(&command).chain(&args));
            let env = expand.pairs("env", entry.get("env"))?;
            for (name, value) in &env {
                expand.secrets.add_variable(name, value);
            }
            let unfit = |(name, value): &&(String, String)| {
                name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
            };
            if let Some((name, _)) = env.iter().find(unfit) {
                return Err(format!("its `env` holds {}, which cannot be a variable", expand.quote(name)));
            }
            let cwd = match entry.get("cwd") {
                None | Some(Value::Null) => None,
                Some(cwd) => Some(parent.join(expand.text("cwd", cwd)?)),
            };
            Ok(Reach::Stdio { command, args, env, cwd })
        }
        "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {
            let url = expand.text("url", entry.get("url").ok_or("it has no `url`")?)?;
            expand.secrets.add_url(&url);
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err("its `url` begins with neither http:// nor https://".to_owned());
            }
            let headers = expand.pairs("headers", entry.get("headers"))?;
            for (name, value) in &headers {
                expand.secrets.add_header(name, value);
            }
            Ok(Reach::Http { url, headers })
        }
        "sse" => Err("its `type` is \"sse\", which is not spoken here; many such servers answer at another path as \
                      \"http\" (streamable HTTP)"
            .to_owned()),
        other => Err(format!("its `type` is {}; expected \"stdio\" or \"http\"", expand.quote(other))),
    }
}

/// Puts variables of the environment into texts and keeps their values from showing.
struct Expand<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    secrets: &'a mut Secrets,
}

impl Expand<'_> {
    fn text(&mut self, key: &str, value: &Value) -> Result<String, String> {
        match value {
            Value::String(text) => self.expand(key, text),
            // A port or a flag is often written without quotes.
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(flag) => Ok(flag.to_string()),
            _ => Err(format!("its `{key}` holds something that is no text")),
        }
    }

    fn pairs(&mut self, key: &str, value: Option<&Value>) -> Result<Vec<(String, String)>, String> {
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Object(pairs)) => pairs
                .iter()
                .map(|(name, value)| {
                    // A whole header or `NAME=value` in place of a name.
                    self.secrets.add_word("name", name);
                    Ok((name.clone(), self.text(&format!("{key}.{}", clean(name)), value)?))
                })
                .collect(),
            Some(_) => Err(format!("its `{key}` is no object")),
        }
    }

    /// `${NAME}`, `${env:NAME}` and `${NAME:-default}`; anything else stands for itself.
    fn expand(&mut self, key: &str, text: &str) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, reference)) = rest.split_once("${") {
            expanded.push_str(before);
            let Some((reference, after)) = reference.split_once('}') else {
                return Err(format!("its `{key}` opens `${{` and does not close it"));
            };
            rest = after;
            let reference = reference.strip_prefix("env:").unwrap_or(reference);
            let (name, default) = match reference.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (reference, None),
            };
            if name.is_empty() || !name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_') {
                self.secrets.add_word("name", reference);
                let name = self.quote(&format!("${{{reference}}}"));
                return Err(format!("its `{key}` refers to {name}; expected ${{NAME}} or ${{NAME:-default}}"));
            }
            match ((self.variable)(name).filter(|value| !value.is_empty()), default) {
                (Some(value), _) => {
                    self.secrets.add_environment(name, &value);
                    expanded.push_str(&value);
                }
                (None, Some(default)) => expanded.push_str(default),
                (None, None) => {
                    // A key in place of the name of its variable.
                    self.secrets.add_word("name", name);
                    return Err(format!(
                        "its `{key}` needs the environment variable {}, which is not set",
                        clean(&self.secrets.redact(name))
                    ));
                }
            }
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// Something that was written in the wrong place, and may be a key.
    fn quote(&mut self, text: &str) -> String {
        self.secrets.add_word("name", text);
        quote(&self.secrets.redact(text))
    }
}
