//! `bind`, `unbind` and `bindings`.

use super::Session;
use crate::cli::data::{BindArgs, BindingsArgs, UnbindArgs};
use crate::output::failure::Failure;
use crate::output::table::{Cell, Table};
use crate::output::{remark, words};

pub async fn bind(session: &mut Session, args: &BindArgs) -> Result<(), Failure> {
    let binding = session.client.bind(&args.name, &args.target).await?;
    if session.out.json {
        return Ok(session.out.pretty(&binding)?);
    }
    Ok(session.out.line(&format!("`{}` serves the values of `{}`", binding.data_name, binding.to))?)
}

pub async fn unbind(session: &mut Session, args: &UnbindArgs) -> Result<(), Failure> {
    session.client.unbind(&args.name).await?;
    if !session.out.json {
        session.out.line(&format!("`{}` serves its own values", args.name))?;
    }
    Ok(())
}

pub async fn list(session: &mut Session, _: &BindingsArgs) -> Result<(), Failure> {
    let bindings = session.client.bindings().await?;
    if session.out.json {
        return Ok(session.out.pretty(&bindings)?);
    }
    if bindings.is_empty() {
        remark("nothing is bound");
        return Ok(());
    }
    let mut table = Table::new(["NAME", "SERVES", "SINCE"], 1);
    for binding in &bindings {
        table.row([
            Cell::from(binding.data_name.as_str()),
            Cell::from(binding.to.as_str()),
            Cell::from(words::instant(binding.since)),
        ]);
    }
    Ok(session.out.table(&table)?)
}
