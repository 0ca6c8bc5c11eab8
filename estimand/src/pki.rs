//! `estimand pki`: makes an authority and the certificates that it issues, in files.

use std::path::{Path, PathBuf};

use chrono::Utc;
use estimand_api::identity::Identity;
use estimand_api::instant::to_rfc3339;
use estimand_pki::{
    AUTHORITY, Authority, Certificate, UPLOAD_KEY, UPLOAD_PUBLIC, UploadKey, write_key, write_public,
};
use serde_json::json;

use crate::cli::pki::{InitArgs, IssueArgs, PkiArgs, PkiCommand, SignArgs, UploadKeyArgs};
use estimand_cli::credentials::{PKI_FOLDER, data_dir_or_default};
use estimand_cli::output::failure::Failure;
use estimand_cli::output::say;
use hex::encode as hex;

pub fn run(args: &PkiArgs) -> Result<(), Failure> {
    match &args.what {
        PkiCommand::Init(args) => init(args),
        PkiCommand::Issue(args) => issue(args),
        PkiCommand::UploadKey(args) => upload_key(args),
        PkiCommand::Sign(args) => sign(args),
    }
}

fn upload_key(args: &UploadKeyArgs) -> Result<(), Failure> {
    let folder = folder(args.out.as_ref());
    UploadKey::init(&folder)?;
    let (private, public) = (folder.join(UPLOAD_KEY), folder.join(UPLOAD_PUBLIC));
    if args.json {
        say(&format!("{:#}\n", json!({ "key": private, "public": public })));
        return Ok(());
    }
    say(&format!(
        "{private}\n{public}\n\n\
         The first one signs: `estimand register NAME --upload FILE --sign-with` it. Agents that are started with\n\
         `--allow-uploads --upload-key` the second one run nothing else that is uploaded.\n",
        private = private.display(),
        public = public.display(),
    ));
    Ok(())
}

fn sign(args: &SignArgs) -> Result<(), Failure> {
    let key = args.key.clone().unwrap_or_else(|| folder(None).join(UPLOAD_KEY));
    let key = UploadKey::read(&key)
        .map_err(|error| Failure::from(error).hint("`estimand pki upload-key` makes a key"))?;
    let content = std::fs::read(&args.file)
        .map_err(|source| Failure::Read { name: args.file.display().to_string(), source })?;
    let signature = hex(key.sign(&content));
    match args.json {
        true => say(&format!("{:#}\n", json!({ "signature": signature }))),
        false => say(&format!("{signature}\n")),
    }
    Ok(())
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    let folder = folder(args.dir.as_ref());
    let authority = Authority::init(&folder, Utc::now())?;
    let pin = hex(authority.pin());
    if args.json {
        let made = json!({ "folder": folder, "authority": folder.join(AUTHORITY), "pin": pin });
        say(&format!("{made:#}\n"));
        return Ok(());
    }
    say(&format!(
        "made an authority in {folder}\n\
         SHA-256 {pin}\n\n\
         authority.pem is for everybody who shall believe it. authority.key makes certificates for anybody: keep it.\n\
         Next: estimand pki issue NAME --service --address IP-OR-NAME{dir}\n",
        folder = folder.display(),
        dir = args.dir.as_ref().map(|dir| format!(" --dir {}", dir.display())).unwrap_or_default(),
    ));
    Ok(())
}

fn issue(args: &IssueArgs) -> Result<(), Failure> {
    let who = args.who().map_err(Failure::Usage)?;
    let folder = folder(args.dir.as_ref());
    let authority = Authority::open(&folder)
        .map_err(|error| Failure::from(error).hint("`estimand pki init` makes an authority"))?;
    let issued = authority.issue(&who, &args.addresses, args.valid_for.as_std(), Utc::now())?;
    let out = match (&args.out, &who) {
        (Some(out), _) => out.clone(),
        (None, Identity::Service(_)) => folder,
        (None, Identity::Node(_) | Identity::Operator(_)) => folder.join(who.name()),
    };
    estimand_runtime::files::make_private_folder(&out)
        .map_err(|source| Failure::Read { name: out.display().to_string(), source })?;
    let (certificate, key) = (file(&out, &who, "pem"), file(&out, &who, "key"));
    // The key first: a reader that comes between the two writes finds that they do not belong together, and
    // looks again.
    write_key(&key, &issued.key)?;
    write_public(&certificate, &issued.signed.chain)?;
    let trust = out.join(AUTHORITY);
    if !trust.exists() {
        write_public(&trust, authority.pem())?;
    }
    show(args, &who, &certificate, &key, &issued.signed.certificate);
    Ok(())
}

fn show(args: &IssueArgs, who: &Identity, certificate: &Path, key: &Path, made: &Certificate) {
    let until = to_rfc3339(made.not_after.timestamp_micros());
    if args.json {
        let made = json!({
            "certificate": certificate, "key": key, "identity": who.to_uri(), "expiresAt": until,
            "sha256": hex(made.digest),
        });
        say(&format!("{made:#}\n"));
        return;
    }
    let (certificate, key) = (certificate.display(), key.display());
    say(&format!("{certificate}\n{key}\nfor the {who}, until {until}\n"));
}

fn folder(given: Option<&PathBuf>) -> PathBuf {
    given.cloned().unwrap_or_else(|| data_dir_or_default(None).join(PKI_FOLDER))
}

fn file(folder: &Path, who: &Identity, ending: &str) -> PathBuf {
    folder.join(format!("{}.{ending}", who.kind()))
}
