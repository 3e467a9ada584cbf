//! Where the key of an endpoint comes from: a variable of the environment, or a file that nobody else may read.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use harness::endpoint::Secret;
use harness::run::manifest::EndpointInfo;
use harness::text::plain;

use crate::args::RunArgs;
use crate::exit::{Exit, expected};
use crate::experiment::{EndpointSection, Experiment};

/// The variable with the key where nothing else is said.
pub const DEFAULT_KEY_ENV: &str = "OPENAI_API_KEY";
/// Bytes of a file; what is longer is no key.
const LONGEST: u64 = 16 << 10;

/// The file with the key, if one is named; flags win.
pub fn file<'a>(args: &'a RunArgs, experiment: &'a Experiment) -> Option<&'a Path> {
    let named = experiment.endpoint.as_ref().and_then(|section| section.api_key_file.as_ref());
    args.api_key_file.as_ref().or(named).map(PathBuf::as_path)
}

/// The variable that a manifest is to name: none where the key comes from a file.
pub fn variable(section: &EndpointSection, file: Option<&Path>) -> anyhow::Result<Option<String>> {
    if section.api_key_env.is_some() && section.api_key_file.is_some() {
        return Err(expected(Exit::Usage, "both `api_key_env` and `api_key_file` are named; leave one of them out"));
    }
    let name = section.api_key_env.as_deref().unwrap_or(DEFAULT_KEY_ENV);
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // Some keys would do as a name. None of them is one, and names of variables without lower case are no keys.
    let is_name = !name.is_empty()
        && name.bytes().all(of_name)
        && (std::env::var_os(name).is_some() || !name.bytes().any(|byte| byte.is_ascii_lowercase()));
    if !is_name {
        let message = "`api_key_env` is the name of an environment variable, and what it is given is none (not shown, for it may be \
                       the key itself); set the variable and give its name";
        return Err(expected(Exit::Usage, message));
    }
    Ok(file.is_none().then(|| name.to_owned()))
}

/// The key itself, if there is one.
pub fn read(file: Option<&Path>, variable: Option<&str>) -> anyhow::Result<Option<Secret>> {
    if let Some(file) = file {
        return from_file(file).map(Some);
    }
    let key = variable.and_then(|name| std::env::var(name).ok()).map(|key| Secret::new(&key));
    Ok(key.filter(|key| !key.is_empty()))
}

/// The key of a run's endpoint: to be sent with its requests, and to show in nothing else. A scripted model has none.
pub fn of(endpoint: &EndpointInfo, file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    if endpoint.kind.starts_with("scripted:") {
        return Ok(None);
    }
    read(file, endpoint.api_key_env.as_deref())
}

/// A key where it does not belong would be printed and stored with the rest.
pub fn refuse_in(key: Option<&Secret>, places: &[(&str, &str)]) -> anyhow::Result<()> {
    match places.iter().find(|(_, text)| key.is_some_and(|key| key.is_in(text))) {
        Some((place, _)) => {
            let message =
                format!("{place} holds the API key, and it is written down and shown; take the key out of there");
            Err(expected(Exit::Usage, message))
        }
        None => Ok(()),
    }
}

fn from_file(path: &Path) -> anyhow::Result<Secret> {
    let shown = plain(&path.display().to_string());
    let refuse = |problem: &str| expected(Exit::Usage, format!("{shown}: {problem}"));
    // Before it is opened: that would wait for whoever writes to a pipe.
    let metadata = std::fs::metadata(path).map_err(|error| refuse(&error.to_string()))?;
    if !metadata.is_file() {
        return Err(refuse("is no file; expected one with the key in it and nothing else"));
    }
    let file = File::open(path).map_err(|error| refuse(&error.to_string()))?;
    let metadata = file.metadata().map_err(|error| refuse(&error.to_string()))?;
    if let Some(mode) = open_to_others(&metadata) {
        return Err(refuse(&format!("others may read or change this key (mode {mode:03o}); run: chmod 600 {shown}")));
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| refuse(&error.to_string()))?;
    if text.len() as u64 > LONGEST {
        return Err(refuse("is too long for a key; expected the key and nothing else"));
    }
    let key = Secret::new(&text);
    if key.is_empty() {
        return Err(refuse("is empty; expected the key"));
    }
    Ok(key)
}

/// The mode of a file that is not its owner's alone.
#[cfg(unix)]
fn open_to_others(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Who may read a file is not told by a mode here.
#[cfg(not(unix))]
fn open_to_others(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(variable: Option<&str>, file: Option<&str>) -> EndpointSection {
        let (api_key_env, api_key_file) = (variable.map(str::to_owned), file.map(Into::into));
        EndpointSection { api_key_env, api_key_file, ..EndpointSection::default() }
    }

    #[test]
    fn a_key_in_place_of_a_name_is_refused_unseen() {
        for key in ["sk-12345678", "gsk_12345678", "AIza12345678", "", "12 345678"] {
            let error = variable(&section(Some(key), None), None).unwrap_err().to_string();
            assert!(error.contains("not shown") && !error.contains("345678"), "{error}");
        }
        assert_eq!(variable(&section(Some("NOT_SET_12"), None), None).unwrap().as_deref(), Some("NOT_SET_12"));
        assert_eq!(variable(&section(None, None), None).unwrap().as_deref(), Some(DEFAULT_KEY_ENV));
        assert_eq!(variable(&section(Some("NAME"), None), Some(Path::new("flag"))).unwrap(), None);
        assert!(variable(&section(Some("NAME"), Some("file")), None).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let with = |text: &[u8], mode: u32| {
            // Nobody writes to a file that is read-only.
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read(Some(&path), Some("NOT_SET")).map_err(|error| error.to_string())
        };
        assert_eq!(with(b"sk-12345678\n", 0o600).unwrap(), Some(Secret::new("sk-12345678")));
        assert_eq!(with(b"sk-12345678", 0o400).unwrap(), Some(Secret::new("sk-12345678")));
        for mode in [0o644, 0o640, 0o604, 0o620, 0o666] {
            let error = with(b"sk-12345678", mode).unwrap_err();
            assert!(error.contains(&format!("(mode {mode:o}); run: chmod 600 ")) && !error.contains("sk-1"), "{error}");
        }
        let long = vec![b'a'; 17 << 10];
        for (text, problem) in [(&b" \n"[..], "is empty"), (&[0xff; 9][..], "UTF-8"), (&long[..], "too long")] {
            let error = with(text, 0o600).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(read(Some(dir.path()), None).unwrap_err().to_string().contains("is no file"));
        assert!(read(Some(&dir.path().join("none")), None).unwrap_err().to_string().contains("none: "));
    }

    #[test]
    fn a_key_where_it_does_not_belong_is_refused_unseen() {
        let key = Secret::new("sk-12345678");
        let places = [("the model", "m"), ("the base URL", "https://h/sk%2d12345678/v1")];
        let error = refuse_in(Some(&key), &places).unwrap_err().to_string();
        assert!(error.starts_with("the base URL holds") && !error.contains("345678"), "{error}");
        assert!(refuse_in(Some(&key), &places[..1]).is_ok() && refuse_in(None, &places).is_ok());
        assert!(refuse_in(Some(&Secret::new("lm-studio")), &[("the model", "lm-studio/m")]).is_ok());
    }
}
