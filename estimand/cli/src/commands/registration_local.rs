//! The parts of a registration that come from this machine: secrets out of files, and the digest of an executable.
//!
//! The value of a secret is never part of a message, also not if it is wrong.

use std::collections::BTreeSet;
use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use estimand_api::command::Command;
use estimand_api::registration::{MAX_UPLOAD_BYTES, Sha256, Upload, UploadSignature};
use estimand_pki::UploadKey;
use ring::digest;
use serde_json::{Map, Value, json};

use super::read_input;
use crate::arguments::registrations::LocalOptions;
use crate::output::failure::Failure;

const CHUNK: usize = 256 * 1024;

/// A file that goes along with a registration.
#[derive(Debug)]
pub struct UploadFile {
    /// Its name, which becomes the first word of the command.
    name: String,
    pub content: Bytes,
    upload: Upload,
}

/// The file that the options name, signed if they say so.
pub fn upload(args: &LocalOptions) -> Result<Option<UploadFile>, Failure> {
    let Some(path) = &args.upload else { return Ok(None) };
    let shown = path.display().to_string();
    let wrong = |source| Failure::Read { name: shown.clone(), source };
    let mut content = Vec::new();
    let file = File::open(path).map_err(wrong)?;
    file.take(MAX_UPLOAD_BYTES as u64 + 1).read_to_end(&mut content).map_err(wrong)?;
    if content.len() > MAX_UPLOAD_BYTES {
        return Err(Failure::Usage(format!(
            "--upload: {shown} has more than 1 MiB: install it on the nodes, and allow its folder there"
        )));
    }
    let signature = match &args.sign_with {
        Some(key) => Some(UploadSignature(UploadKey::read(key)?.sign(&content))),
        None => None,
    };
    let sha256 = Sha256::of_digest(digest::digest(&digest::SHA256, &content));
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Some(UploadFile { name, content: content.into(), upload: Upload { sha256, signature } }))
}

/// Adds what the options name to what they say.
pub fn complete(
    mut map: Map<String, Value>,
    args: &LocalOptions,
    arguments: &[String],
    upload: Option<&UploadFile>,
) -> Result<Map<String, Value>, Failure> {
    add_secrets(&mut map, args)?;
    if let Some(UploadFile { name, upload, .. }) = upload {
        let words: Vec<&str> = [name].into_iter().chain(arguments).map(String::as_str).collect();
        map.insert("cmd".to_owned(), json!(words));
        map.insert("upload".to_owned(), upload.to_json());
    }
    if args.pin {
        let cmd = map.get("cmd").map(Command::from_json);
        let word = cmd.and_then(Result::ok).and_then(|command| command.argv().into_iter().next());
        let word = word.ok_or_else(|| Failure::Usage("--pin needs a command that runs a file".to_owned()))?;
        map.insert("sha256".to_owned(), json!(digest_of(&word)?));
    }
    Ok(map)
}

fn add_secrets(map: &mut Map<String, Value>, args: &LocalOptions) -> Result<(), Failure> {
    let mut secrets: Vec<(String, String)> = args.secrets.clone();
    for (name, path) in &args.secret_files {
        secrets.push((name.clone(), read_secret(path)?));
    }
    if secrets.is_empty() {
        return Ok(());
    }
    let mut env = match map.remove("env") {
        Some(Value::Object(env)) => env,
        _ => Map::new(),
    };
    let mut names = BTreeSet::new();
    for (name, value) in secrets {
        if env.insert(name.clone(), json!(value)).is_some() {
            return Err(Failure::Usage(format!("the variable `{name}` is given twice")));
        }
        names.insert(name);
    }
    map.insert("env".to_owned(), Value::Object(env));
    map.insert("secrets".to_owned(), json!(names));
    Ok(())
}

/// The content of a file without the end of its last line, which editors put there.
pub fn read_secret(path: &str) -> Result<String, Failure> {
    let wrong = |source| Failure::Read { name: path.to_owned(), source };
    let bytes = match path {
        "-" => read_input("standard input", io::stdin())?,
        _ => read_input(path, File::open(path).map_err(wrong)?)?,
    };
    // The error says where, and not what is there.
    let text = String::from_utf8(bytes)
        .map_err(|_| wrong(io::Error::new(io::ErrorKind::InvalidData, "a secret must be UTF-8")))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

/// The digest of the file that a command's first word means here: a path, or a name in one of the folders of `PATH`.
fn digest_of(word: &str) -> Result<Sha256, Failure> {
    let path = find(word, env::var_os("PATH").as_deref().map(env::split_paths).into_iter().flatten())
        .ok_or_else(|| {
            Failure::Missing(format!(
                "--pin: there is no `{word}` on this machine; --sha256 gives its digest"
            ))
        })?;
    let wrong = |source| Failure::Read { name: path.display().to_string(), source };
    let mut file = File::open(&path).map_err(wrong)?;
    let mut context = digest::Context::new(&digest::SHA256);
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk).map_err(wrong)? {
            0 => break,
            read => context.update(&chunk[..read]),
        }
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    Ok(Sha256(bytes))
}

fn find(word: &str, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|path| path.is_file());
    }
    let word = Path::new(word);
    folders.map(|folder| folder.join(word)).find(|path| path.is_file())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{ClientCommand, CommandLine};

    fn completed(options: &[&str], cmd: &str) -> Result<Map<String, Value>, Failure> {
        let end = ["--", cmd];
        let line = ["estimand", "register", "a", "--every", "1"].iter().chain(options).chain(&end);
        let ClientCommand::Register(args) = CommandLine::try_parse_from(line).unwrap().command else {
            panic!("another command");
        };
        let map = json!({ "cmd": cmd, "env": { "A": "1" } });
        complete(map.as_object().unwrap().clone(), &args.own.local, &[], None)
    }

    #[test]
    fn secrets_are_variables_that_are_named_twice() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("key");
        std::fs::write(&file, "hush=1\n").unwrap();
        let from_file = format!("K={}", file.display());
        let map = completed(&["--secret", "T=x=y", "--secret-file", &from_file], "x").unwrap();
        assert_eq!(map["env"], json!({ "A": "1", "T": "x=y", "K": "hush=1" }));
        assert_eq!(map["secrets"], json!(["K", "T"]));
        let twice = completed(&["--secret", "A=hush"], "x").unwrap_err().to_string();
        assert_eq!(twice, "the variable `A` is given twice");
        std::fs::write(&file, [b'h', 0xff]).unwrap();
        let binary = completed(&["--secret-file", &from_file], "x").unwrap_err().to_string();
        assert!(binary.contains("must be UTF-8"), "{binary}");
    }

    #[test]
    fn a_pin_is_the_digest_of_the_file_here() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("p");
        std::fs::write(&file, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let map = completed(&["--pin"], &format!("{} --fast", file.display())).unwrap();
        assert_eq!(map["sha256"], abc);
        assert_eq!(find("p", [PathBuf::from("/no/such"), place.path().to_owned()].into_iter()), Some(file));
        assert!(completed(&["--pin"], "/no/such").unwrap_err().to_string().contains("--sha256"));
    }
}
