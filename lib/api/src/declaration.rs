//! A field of a body, declared once.
//!
//! A body is a table of [`Field`]s. Its parser, its rendering, its schema, its options on the command line and its page
//! in the documentation are each one loop over that table, so none of them can forget a field.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::PartialSchema;

use crate::fields::{self, Fields};
use crate::problem::FieldError;

/// A field of the body that becomes a `T`.
pub struct Field<T: 'static> {
    /// Its name on the wire.
    pub name: &'static str,
    /// Right input in words: for error messages and the documentation.
    pub expected: &'static str,
    /// Its meaning: for the schema, the help of its option and the documentation.
    pub description: &'static str,
    /// Its schema, without the description. Optional fields may be null, which is the same as absent.
    pub schema: fn() -> Value,
    /// Takes it from the body, reports errors, and sets it in the `T`.
    pub read: fn(FieldReader<'_>, &mut T),
    /// Its value on the wire; none if it is not there or has its default.
    pub write: fn(&T) -> Option<Value>,
    /// Its name for people, where that is not its name on the wire.
    pub label: Option<&'static str>,
    /// Its value for people, where that is not its value on the wire.
    pub text: Option<fn(&T) -> String>,
    /// The options of the command line that give it.
    pub flags: &'static [Flag],
}

impl<T> Field<T> {
    /// The rest of a declaration that needs no label, no text and no option.
    pub const PLAIN: Field<T> = Field {
        name: "",
        expected: "",
        description: "",
        schema: || Value::Null,
        read: |_, _| {},
        write: |_| None,
        label: None,
        text: None,
        flags: &[],
    };

    /// The schema with the description.
    fn described(&self) -> Value {
        let description = [("description".to_owned(), Value::from(self.description))];
        let schema = (self.schema)();
        let rest = schema.as_object().into_iter().flatten().filter(|(key, _)| *key != "description");
        Value::Object(description.into_iter().chain(rest.map(|(k, v)| (k.clone(), v.clone()))).collect())
    }

    /// Its name and its value as `show` prints them; none if it has nothing to say.
    pub fn shown(&self, body: &T) -> Option<(&'static str, String)> {
        let value = (self.write)(body)?;
        let text = match (self.text, value) {
            (Some(text), _) => text(body),
            (None, Value::String(text)) => text,
            (None, other) => other.to_string(),
        };
        Some((self.label.unwrap_or(self.name), text))
    }
}

/// One field of a body, ready to be taken.
pub struct FieldReader<'f> {
    /// The whole body, for fields whose reading depends on another one.
    pub fields: &'f mut Fields,
    pub name: &'static str,
    pub expected: &'static str,
}

impl FieldReader<'_> {
    /// Where the field stands, as errors in it say.
    pub fn place(&self) -> String {
        self.fields.place(self.name)
    }

    /// See [`Fields::optional`].
    pub fn optional<V>(self, read: impl FnOnce(&Value) -> Result<V, String>) -> Option<V> {
        self.fields.optional(self.name, self.expected, read)
    }

    /// See [`Fields::required`].
    pub fn required<V>(self, read: impl FnOnce(&Value) -> Result<V, String>) -> Option<V> {
        self.fields.required(self.name, self.expected, read)
    }

    /// See [`Fields::part`].
    pub fn part<V>(self, read: impl FnOnce(&Value) -> Result<V, Vec<FieldError>>) -> Option<V> {
        self.fields.part(self.name, read)
    }

    /// One word of an enum.
    pub fn word<V: DeserializeOwned>(self) -> Option<V> {
        self.optional(fields::variant)
    }
}

/// An option of the command line that gives a field.
#[derive(Clone, Copy)]
pub struct Flag {
    /// The option without its dashes.
    pub name: &'static str,
    /// The placeholder of its value in the help.
    pub value: &'static str,
    /// The heading under which the help lists it.
    pub heading: &'static str,
    pub input: Input,
    /// Follows the field's description in the help.
    pub note: &'static str,
    /// Its help, where that is not the field's description.
    pub meaning: Option<&'static str>,
    /// The member that it gives, where the field is an object that several options fill.
    pub member: Option<&'static str>,
    /// A second spelling, which the help does not mention.
    pub alias: Option<&'static str>,
}

impl Flag {
    pub const fn new(name: &'static str, value: &'static str, heading: &'static str, input: Input) -> Self {
        Flag { name, value, heading, input, note: "", meaning: None, member: None, alias: None }
    }

    #[must_use]
    pub const fn note(self, note: &'static str) -> Self {
        Flag { note, ..self }
    }

    #[must_use]
    pub const fn meaning(self, meaning: &'static str) -> Self {
        Flag { meaning: Some(meaning), ..self }
    }

    #[must_use]
    pub const fn member(self, member: &'static str) -> Self {
        Flag { member: Some(member), ..self }
    }

    #[must_use]
    pub const fn alias(self, alias: &'static str) -> Self {
        Flag { alias: Some(alias), ..self }
    }

    /// Its help.
    pub fn help<T>(&self, field: &Field<T>) -> String {
        match (self.meaning, self.note) {
            (Some(meaning), _) => meaning.to_owned(),
            (None, "") => field.description.to_owned(),
            (None, note) => format!("{}; {note}", field.description),
        }
    }
}

/// The form of an option's value, and how it becomes JSON.
#[derive(Clone, Copy)]
pub enum Input {
    /// No value: the field becomes `true`.
    Switch,
    /// One of these words.
    Word(fn() -> Vec<String>),
    /// One text.
    Text(fn(&str) -> Result<Value, String>),
    /// An array of texts with commas between them.
    List(fn(&str) -> Result<Value, String>),
    /// An array: the option may be repeated, each time with an item.
    Repeated(fn(&str) -> Result<Value, String>),
    /// An object: the option may be repeated, each time with a `KEY=VALUE`.
    Pairs(fn(&str, &str) -> (String, Value)),
}

/// Reads the fields of a body.
pub fn read<T>(declared: &[Field<T>], fields: &mut Fields, body: &mut T) {
    for field in declared {
        (field.read)(FieldReader { fields, name: field.name, expected: field.expected }, body);
    }
}

/// Renders the fields of a body that say something.
pub fn write<T>(declared: &[Field<T>], body: &T) -> Map<String, Value> {
    declared.iter().filter_map(|field| Some((field.name.to_owned(), (field.write)(body)?))).collect()
}

/// The fields that say something, for people: `memory=1GiB, cpu=0.5`.
pub fn text<T>(declared: &[Field<T>], body: &T) -> String {
    let shown = declared.iter().filter_map(|field| field.shown(body));
    shown.map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>().join(", ")
}

/// The schemas of the fields: the `properties` of an object.
pub fn properties<T>(declared: &[Field<T>]) -> Map<String, Value> {
    declared.iter().map(|field| (field.name.to_owned(), field.described())).collect()
}

/// The words of an enum, as its schema lists them.
pub fn words<T: PartialSchema>() -> Vec<String> {
    let schema = serde_json::to_value(T::schema()).unwrap_or_default();
    let words = schema["enum"].as_array().into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The fields as a table in Markdown; the last column only if one of them has an option.
pub fn markdown<T>(declared: &[Field<T>]) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let columns = if declared.iter().any(|field| !field.flags.is_empty()) { 4 } else { 3 };
    let titles = ["Field", "Input", "Meaning", "Option"].map(str::to_owned);
    let rule = titles.clone().map(|_| "---".to_owned());
    let mut table = row(&titles[..columns]) + &row(&rule[..columns]);
    for field in declared {
        let options: Vec<String> = field.flags.iter().map(|flag| format!("`--{}`", flag.name)).collect();
        let cells = [
            format!("`{}`", field.name),
            field.expected.to_owned(),
            field.description.to_owned(),
            options.join(", "),
        ];
        table += &row(&cells[..columns]);
    }
    table
}
