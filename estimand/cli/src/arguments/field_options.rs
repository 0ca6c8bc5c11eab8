//! The options that give a field of a registration or a task each. They are built from the declarations of the fields, so a new
//! field needs nothing here.

use clap::builder::{PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches};
use estimand_api::declaration::{Field, Flag, Input};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{self, TIMING_FIELDS};
use estimand_api::task_document;
use serde_json::{Map, Value, json};

use super::parse;

/// The option that gives whole registrations and excludes all of these.
const FILE: &str = "file";

/// The fields that were given, each as far as its option's text tells.
#[derive(Debug, Default)]
pub struct FieldOptions(Vec<FieldOption>);

/// An option that was given.
#[derive(Debug)]
struct FieldOption {
    field: &'static str,
    member: Option<&'static str>,
    value: OptionValue,
}

#[derive(Debug)]
enum OptionValue {
    One(Value),
    /// Items of an array, which several options may fill.
    Items(Vec<Value>),
    Pairs(Vec<(String, Value)>),
}

impl FieldOptions {
    /// The fields as a body has them, not yet checked.
    pub fn to_map(&self) -> Result<Map<String, Value>, Problem> {
        let mut map = Map::new();
        self.add_to(&mut map)?;
        Ok(map)
    }

    /// Gives these fields to a body. Members of an object that it has already stay beside those of the options; the body's parser says
    /// what is wrong with a field that is no object.
    pub fn add_to(&self, map: &mut Map<String, Value>) -> Result<(), Problem> {
        let mut lists: Map<String, Value> = Map::new();
        for FieldOption { field, member, value } in &self.0 {
            match (value, member) {
                (OptionValue::One(value), None) => drop(map.insert((*field).to_owned(), value.clone())),
                (OptionValue::One(value), Some(member)) => {
                    add_members(map, field, [((*member).to_owned(), value.clone())]);
                }
                (OptionValue::Items(items), _) => {
                    if let Value::Array(all) = lists.entry(*field).or_insert_with(|| json!([])) {
                        all.extend(items.iter().cloned());
                    }
                }
                (OptionValue::Pairs(pairs), _) => add_members(map, field, object_of(field, pairs)?),
            }
        }
        map.extend(lists);
        Ok(())
    }

    fn of_matches<T>(fields: &'static [Field<T>], matches: &ArgMatches) -> Self {
        let taken = |flag: &Flag| matches.try_contains_id(flag.name).is_ok();
        let given = flags(fields).filter(|(_, flag)| taken(flag)).filter_map(|(field, flag)| {
            let value = given(flag, matches)?;
            Some(FieldOption { field: field.name, member: flag.member, value })
        });
        FieldOptions(given.collect())
    }
}

/// Options that give fields of a body, as a command takes them.
macro_rules! field_options {
    ($(#[$about:meta])* $name:ident, $fields:expr, $augment:expr) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub struct $name(pub FieldOptions);

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                $augment(command)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok($name(FieldOptions::of_matches($fields, matches)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

field_options!(
    /// The fields of a new registration. A file may give all of them instead.
    RegistrationFields,
    registration::FIELDS,
    |command: Command| {
        let command = command.args(options(registration::FIELDS).map(|option| option.conflicts_with(FILE)));
        let timing = flags(registration::FIELDS).filter(|(field, _)| TIMING_FIELDS.contains(&field.name));
        // One of them is required, unless a file says it.
        command
            .group(ArgGroup::new("timing").args(timing.map(|(_, flag)| flag.name)).arg(FILE).required(true))
    }
);

field_options!(
    /// The fields of a registration that is there already: none of them is needed.
    ChangedFields,
    registration::FIELDS,
    |command: Command| command.args(options(registration::FIELDS))
);

field_options!(
    /// The fields of a task, or of an array of tasks.
    TaskFields,
    task_document::FIELDS,
    |command: Command| command.args(options(task_document::FIELDS))
);

field_options!(
    /// The fields of one task: it is no array.
    SingleTaskFields,
    task_document::FIELDS,
    |command: Command| command.args(options(task_document::FIELDS).filter(|option| option.get_id() != "count"))
);

fn flags<T>(fields: &'static [Field<T>]) -> impl Iterator<Item = (&'static Field<T>, &'static Flag)> {
    fields.iter().flat_map(|field| field.flags.iter().map(move |flag| (field, flag)))
}

fn options<T>(fields: &'static [Field<T>]) -> impl Iterator<Item = Arg> {
    flags(fields).map(|(field, flag)| option(field, flag))
}

fn option<T>(field: &Field<T>, flag: &'static Flag) -> Arg {
    let option = Arg::new(flag.name).long(flag.name).help(flag.help(field)).help_heading(flag.heading);
    let option = option.aliases(flag.alias);
    if matches!(flag.input, Input::Switch) {
        return option.action(ArgAction::SetTrue);
    }
    let option = option.value_name(flag.value);
    match flag.input {
        Input::Switch => option,
        Input::Word(words) => {
            option.value_parser(ValueParser::new(PossibleValuesParser::new(words()).map(Value::from)))
        }
        Input::Text(read) => option.value_parser(ValueParser::new(read)).allow_negative_numbers(true),
        Input::List(read) => {
            option.value_parser(ValueParser::new(read)).value_delimiter(',').action(ArgAction::Append)
        }
        Input::Repeated(read) => option.value_parser(ValueParser::new(read)).action(ArgAction::Append),
        Input::Pairs(read) => {
            let pair = move |text: &str| parse::pair(text).map(|(key, text)| read(&key, &text));
            option.value_parser(ValueParser::new(pair)).action(ArgAction::Append)
        }
    }
}

/// The value of an option; none if it was not given.
fn given(flag: &Flag, matches: &ArgMatches) -> Option<OptionValue> {
    match flag.input {
        Input::Switch => matches.get_flag(flag.name).then_some(OptionValue::One(Value::Bool(true))),
        Input::Word(_) | Input::Text(_) => matches.get_one::<Value>(flag.name).cloned().map(OptionValue::One),
        Input::List(_) => {
            let items = matches.get_many::<Value>(flag.name)?;
            Some(OptionValue::One(Value::Array(items.cloned().collect())))
        }
        Input::Repeated(_) => {
            let items = matches.get_many::<Value>(flag.name)?;
            Some(OptionValue::Items(items.cloned().collect()))
        }
        Input::Pairs(_) => {
            let pairs = matches.get_many::<(String, Value)>(flag.name)?;
            Some(OptionValue::Pairs(pairs.cloned().collect()))
        }
    }
}

/// Adds members to an object of the body, if it is one.
fn add_members(
    map: &mut Map<String, Value>,
    field: &str,
    members: impl IntoIterator<Item = (String, Value)>,
) {
    if let Value::Object(object) = map.entry(field).or_insert_with(|| json!({})) {
        object.extend(members);
    }
}

/// The pairs of a repeated option as an object.
fn object_of(field: &str, pairs: &[(String, Value)]) -> Result<Map<String, Value>, Problem> {
    let mut map = Map::new();
    for (key, value) in pairs {
        if map.insert(key.clone(), value.clone()).is_some() {
            return Err(Problem::invalid_field(FieldError::new(format!("{field}.{key}"), "is given twice")));
        }
    }
    Ok(map)
}
