//! The plain functions by name: the form and the number of arguments of each. `evaluate::functions`
//! evaluates them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Abs,
    Bool,
    Ceil,
    Clamp,
    Contains,
    Double,
    EndsWith,
    Exp,
    Floor,
    Ln,
    Max,
    Mean,
    Median,
    Min,
    Pow,
    Round,
    Size,
    Sqrt,
    StartsWith,
    Stddev,
    String,
    Sum,
}

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `f(x)`
    Plain,
    /// `x.f()`
    Method,
    Either,
}

/// A function, as the parser knows it. Arguments include the `x` of `x.f()`.
#[derive(Debug)]
pub struct Signature {
    pub name: &'static str,
    pub function: Function,
    pub form: Form,
    pub least: usize,
    pub most: usize,
}

const fn plain(name: &'static str, function: Function, count: usize) -> Signature {
    Signature { name, function, form: Form::Plain, least: count, most: count }
}

const fn method(name: &'static str, function: Function) -> Signature {
    Signature { name, function, form: Form::Method, least: 2, most: 2 }
}

/// As many as a text has room for.
const ANY: usize = usize::MAX;

pub const PLAIN: [Signature; 22] = [
    plain("abs", Function::Abs, 1),
    plain("bool", Function::Bool, 1),
    plain("ceil", Function::Ceil, 1),
    plain("clamp", Function::Clamp, 3),
    method("contains", Function::Contains),
    plain("double", Function::Double, 1),
    method("endsWith", Function::EndsWith),
    plain("exp", Function::Exp, 1),
    plain("floor", Function::Floor, 1),
    plain("ln", Function::Ln, 1),
    Signature { name: "max", function: Function::Max, form: Form::Plain, least: 1, most: ANY },
    plain("mean", Function::Mean, 1),
    plain("median", Function::Median, 1),
    Signature { name: "min", function: Function::Min, form: Form::Plain, least: 1, most: ANY },
    plain("pow", Function::Pow, 2),
    plain("round", Function::Round, 1),
    Signature { name: "size", function: Function::Size, form: Form::Either, least: 1, most: 1 },
    plain("sqrt", Function::Sqrt, 1),
    method("startsWith", Function::StartsWith),
    plain("stddev", Function::Stddev, 1),
    plain("string", Function::String, 1),
    plain("sum", Function::Sum, 1),
];

/// The names of special forms and macros, for hints at misspelt ones.
pub const SPECIAL: [&str; 26] = [
    "across",
    "age",
    "average",
    "count",
    "first",
    "greatest",
    "has",
    "input",
    "known",
    "last",
    "least",
    "node",
    "nodes",
    "rate",
    "state",
    "total",
    "all",
    "exists",
    "exists_one",
    "filter",
    "map",
    "transformList",
    "transformMap",
    "mean",
    "median",
    "sum",
];

/// Functions of CEL that are not here, with what to write instead.
pub const ABSENT: [(&str, &str); 10] = [
    ("matches", "there are no regular expressions here: contains, startsWith and endsWith look into strings"),
    ("int", "there is one kind of number: floor(x), ceil(x) or round(x) make it whole"),
    ("uint", "there is one kind of number: floor(x), ceil(x) or round(x) make it whole"),
    ("float", "there is one kind of number, and double(x) makes one of a string"),
    ("bytes", "there are no bytes here: write a string"),
    ("timestamp", "there are no timestamps here: age(x) is in seconds"),
    ("duration", "there are no durations here: age(x) is in seconds, and a window is a text like \"5m\""),
    ("type", "values have no type to ask for: compare them, or use has(x.y)"),
    ("dyn", "all values are dynamic here: leave it out"),
    ("avg", "mean(x, \"5m\") looks at the past of an input, average(x) across the nodes"),
];

pub fn find(name: &str) -> Option<&'static Signature> {
    PLAIN.iter().find(|signature| signature.name == name)
}
