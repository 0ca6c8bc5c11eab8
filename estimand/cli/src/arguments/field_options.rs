//! The options of `register` and `edit` that give a field each. They are built from the declarations of the fields, so a new field
//! needs nothing here.

use clap::builder::{PossibleValuesParser, TypedValueParser as _, ValueParser};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches};
use estimand_api::declaration::{Field, Flag, Input};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::{FIELDS, Registration, TIMING_FIELDS};
use serde_json::{Map, Value};

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
    Pairs(Vec<(String, Value)>),
}

impl FieldOptions {
    /// The fields as a registration's body has them, not yet checked.
    pub fn to_map(&self) -> Result<Map<String, Value>, Problem> {
        let mut map = Map::new();
        for FieldOption { field, member, value } in &self.0 {
            let value = match value {
                OptionValue::One(value) => value.clone(),
                OptionValue::Pairs(pairs) => object_of(field, pairs)?,
            };
            match member {
                None => drop(map.insert((*field).to_owned(), value)),
                Some(member) => {
                    map.entry(*field).or_insert_with(|| Value::Object(Map::new()))[*member] = value;
                }
            }
        }
        Ok(map)
    }
}

/// The same options for a registration that is there already: none of them is needed.
#[derive(Debug, Default)]
pub struct ChangedFields(pub FieldOptions);

impl Args for ChangedFields {
    fn augment_args(command: Command) -> Command {
        options().fold(command, |command, (field, flag)| command.arg(option(field, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ChangedFields {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        FieldOptions::from_arg_matches(matches).map(ChangedFields)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Args for FieldOptions {
    fn augment_args(command: Command) -> Command {
        let options = options().map(|(field, flag)| option(field, flag).conflicts_with(FILE));
        let command = command.args(options);
        let timing = self::options().filter(|(field, _)| TIMING_FIELDS.contains(&field.name));
        // One of them is required, unless a file says it.
        command
            .group(ArgGroup::new("timing").args(timing.map(|(_, flag)| flag.name)).arg(FILE).required(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FieldOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = options().filter_map(|(field, flag)| {
            let value = given(flag, matches)?;
            Some(FieldOption { field: field.name, member: flag.member, value })
        });
        Ok(FieldOptions(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn options() -> impl Iterator<Item = (&'static Field<Registration>, &'static Flag)> {
    FIELDS.iter().flat_map(|field| field.flags.iter().map(move |flag| (field, flag)))
}

fn option(field: &Field<Registration>, flag: &'static Flag) -> Arg {
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
        Input::Text(read) => option.value_parser(ValueParser::new(read)),
        Input::List(read) => {
            option.value_parser(ValueParser::new(read)).value_delimiter(',').action(ArgAction::Append)
        }
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
        Input::Pairs(_) => {
            let pairs = matches.get_many::<(String, Value)>(flag.name)?;
            Some(OptionValue::Pairs(pairs.cloned().collect()))
        }
    }
}

/// The pairs of a repeated option as an object.
fn object_of(field: &str, pairs: &[(String, Value)]) -> Result<Value, Problem> {
    let mut map = Map::new();
    for (key, value) in pairs {
        if map.insert(key.clone(), value.clone()).is_some() {
            return Err(Problem::invalid_field(FieldError::new(format!("{field}.{key}"), "is given twice")));
        }
    }
    Ok(Value::Object(map))
}
