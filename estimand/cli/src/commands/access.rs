//! `token` and `audit`: who may do what, and who did.

use estimand_api::access::{AuditEntry, TokenState, TokenView};
use estimand_pki::Certificate;
use serde_json::Value;

use super::Session;
use crate::arguments::access::{AuditArgs, CreateArgs, RevokeArgs, TokenArgs, TokenCommand};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

pub async fn token(session: &mut Session, args: &TokenArgs) -> Result<(), Failure> {
    match &args.what {
        TokenCommand::Create(args) => create(session, &args.own).await,
        TokenCommand::List(_) => list(session).await,
        TokenCommand::Revoke(args) => {
            let view = session.client.revoke_token(&revoked_id(&args.own)?).await?;
            match session.out.json {
                true => session.out.pretty(&view)?,
                false => session.out.line(&format!("`{}` lets nobody in any more", view.name))?,
            }
            Ok(())
        }
    }
}

/// The name or id that is given, or what a certificate is known by.
fn revoked_id(args: &RevokeArgs) -> Result<String, Failure> {
    let Some(file) = &args.of_certificate else { return Ok(args.which.clone().unwrap_or_default()) };
    let text = std::fs::read_to_string(file)
        .map_err(|source| Failure::Read { name: file.display().to_string(), source })?;
    let key = Certificate::first_in(&text)?.key;
    Ok(format!("sha256:{}", hex::encode(key)))
}

/// The token alone goes to standard output, so that a script can take it.
async fn create(session: &mut Session, args: &CreateArgs) -> Result<(), Failure> {
    let issued = session.client.create_token(&args.asked()).await?;
    if session.out.json {
        return Ok(session.out.pretty(&issued)?);
    }
    let until = match issued.view.expires_at {
        Some(end) => format!("until {}", words::instant(end)),
        None => "until it is revoked".to_owned(),
    };
    remark(&format!(
        "the token `{}`, role {}, {until}; it is shown this once:",
        issued.view.name, issued.view.role
    ));
    // A joining node knows the service by its authority, whose digest therefore goes along.
    let pin = issued.pin.map(|pin| format!(".{pin}")).unwrap_or_default();
    Ok(session.out.line(&format!("{}{pin}", issued.token))?)
}

async fn list(session: &mut Session) -> Result<(), Failure> {
    let tokens = session.client.tokens().await?;
    if session.out.json {
        return Ok(session.out.pretty(&tokens)?);
    }
    if tokens.is_empty() {
        remark("there are no tokens but those that services were given when they were started");
        return Ok(());
    }
    let mut table = Table::new(["NAME", "ID", "ROLE", "STATE", "CREATED", "BY", "EXPIRES"], 5);
    for token in &tokens {
        table.row([
            Cell::from(&token.name),
            Cell::from(&token.id),
            Cell::from(role(token)),
            Cell::from(state(token)),
            Cell::from(words::instant(token.created_at)),
            Cell::from(&token.created_by),
            Cell::from(token.expires_at.map_or("never".to_owned(), words::instant)),
        ]);
    }
    Ok(session.out.table(&table)?)
}

fn role(token: &TokenView) -> String {
    let mut text = token.role.to_string();
    if let Some(bound) = token.node.as_ref().or(token.user.as_ref()) {
        text = format!("{text} {bound}");
    }
    let labels: Vec<String> = token.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if labels.is_empty() { text } else { format!("{text} ({})", labels.join(",")) }
}

fn state(token: &TokenView) -> &'static str {
    match token.state {
        TokenState::Live => "live",
        TokenState::Expired => "expired",
        TokenState::Revoked => "revoked",
    }
}

pub async fn audit(session: &mut Session, args: &AuditArgs) -> Result<(), Failure> {
    let entries = session.client.audit(usize::from(args.limit), args.before.as_deref()).await?;
    if session.out.json {
        return Ok(session.out.pretty(&entries)?);
    }
    if entries.is_empty() {
        remark("nothing was ever changed");
        return Ok(());
    }
    let mut table = Table::new(["AT", "BY", "FROM", "WHAT", "NAME", "ACTION", "DETAIL"], 6);
    for entry in &entries {
        table.row([
            Cell::from(words::instant(entry.at)),
            Cell::from(entry.by.clone().unwrap_or_default()),
            Cell::from(entry.from.clone().unwrap_or_default()),
            Cell::from(&entry.kind),
            Cell::from(&entry.subject),
            Cell::from(&entry.action),
            Cell::from(detail(entry)),
        ]);
    }
    Ok(session.out.table(&table)?)
}

fn detail(entry: &AuditEntry) -> String {
    let Some(Value::Object(fields)) = &entry.detail else { return String::new() };
    let said = fields.iter().filter(|(_, value)| !value.is_null());
    said.map(|(name, value)| format!("{name} {}", words::bare(value))).collect::<Vec<_>>().join(", ")
}
