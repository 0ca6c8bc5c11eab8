//! `t_user_limit`: the limits that operators have set for users, a row a user.

use diesel::prelude::*;

use crate::audit::{self, AuditRow};
use crate::backend::on;
use crate::schema::t_user_limit;
use crate::statement::{Keys, Rows, Value};
use crate::{Connection, Error};

#[derive(Clone, Debug, PartialEq, Eq, Queryable)]
pub struct UserLimitRow {
    pub user_name: String,
    /// JSON.
    pub limits: String,
}

static LIMITS: Rows = Rows { table: "t_user_limit", columns: &["user_name", "limits"], replaced_by: 1 };
static USERS: Keys = Keys { table: "t_user_limit", columns: &["user_name"] };

impl Connection {
    /// The limits of all users that have any, by name.
    pub fn load_user_limits(&mut self) -> Result<Vec<UserLimitRow>, Error> {
        self.read("loading the limits of users", |backend| {
            on!(backend, connection => t_user_limit::table.order(t_user_limit::user_name).load(connection))
        })
    }

    /// Changes the limits of a user, with the entry in the audit trail. `change` is given the stored limits and returns
    /// the new ones; without any the row goes.
    pub fn change_user_limits(
        &mut self,
        user: &str,
        change: impl Fn(Option<&str>) -> Option<String>,
        told: impl Fn(Option<&str>) -> AuditRow,
    ) -> Result<(), Error> {
        self.write("storing the limits of a user", |backend| {
            let stored: Option<String> = on!(backend, connection => t_user_limit::table
                .filter(t_user_limit::user_name.eq(user))
                .select(t_user_limit::limits)
                .first(connection)
                .optional())?;
            let limits = change(stored.as_deref());
            match &limits {
                Some(limits) => LIMITS.write(backend, &[Value::Text(user), Value::Text(limits)])?,
                None => USERS.delete(backend, &[Value::Text(user)])?,
            }
            Ok(audit::add(backend, &told(limits.as_deref()))?)
        })
    }
}
