//! The tree of an expression, which the parser builds and the evaluator walks.
//!
//! A chain in the text (`a + b + c`, `a.b.c`, `a ? b : c ? d : e`) is a list here, so that the tree is only as high as
//! brackets make it. Invariant: no tree is higher than [`MOST_HEIGHT`], which bounds every
//! recursion over it, dropping included.

use std::time::Duration;

use crate::{functions::Function, reads::PastPart};

/// Brackets, prefixes, branches and arguments within each other.
pub const MOST_NESTING: usize = 32;
/// The same, with every operator in between counted.
pub const MOST_HEIGHT: u8 = 64;

#[derive(Debug)]
pub struct Node {
    /// Where an error of it is: its operator, or the name of its function, or its first letter.
    pub at: u32,
    pub height: u8,
    pub kind: NodeKind,
}

#[derive(Debug)]
pub enum NodeKind {
    Null,
    Bool(bool),
    Number(f64),
    Text(Box<str>),
    /// The latest value of an input.
    Input(Box<str>),
    Param(Box<str>),
    HasParam(Box<str>),
    /// A variable of a comprehension, by how many there are around it.
    Local(usize),
    /// `node()`
    Here,
    Path(Box<Node>, Box<[Step]>),
    /// True if the last step of a path can be taken.
    Has(Box<Node>, Box<[Step]>),
    Not(Box<Node>),
    Negate(Box<Node>),
    /// Operators of one precedence, from the left.
    Chain(Box<Node>, Box<[Link]>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    /// Conditions with what each leads to, and what is left.
    Choice(Box<[(Node, Node)]>, Box<Node>),
    List(Box<[Node]>),
    Map(Box<[(Node, Node)]>),
    Call(Function, Box<[Node]>),
    Each(Box<Each>),
    Ask(Question, Box<Subject>),
    Window(Box<Window>),
    Across(Box<Across>),
}

#[derive(Debug)]
pub enum Step {
    Field(u32, Box<str>),
    Index(Node),
}

#[derive(Debug)]
pub struct Link {
    pub operator: Operator,
    pub at: u32,
    pub node: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A comprehension: its body is evaluated for each element.
#[derive(Debug)]
pub struct Each {
    pub what: Macro,
    pub over: Node,
    /// The place of the first variable among those around it.
    pub slot: usize,
    /// True if there is a variable for the key and one for the value.
    pub pairs: bool,
    pub filter: Option<Node>,
    pub body: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
}

/// An input and where in it, of a special form.
#[derive(Debug)]
pub struct Subject {
    pub input: Box<str>,
    pub steps: Box<[Step]>,
    /// As it is named in messages.
    pub text: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    Age,
    State,
    Known,
}

/// An aggregate over an input's past.
#[derive(Debug)]
pub struct Window {
    pub what: Statistic,
    pub subject: Subject,
    /// The part of the subject's past that the scope shows; its further steps are taken in it.
    pub part: PastPart,
    pub window: Duration,
    pub text: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    Mean,
    Min,
    Max,
    Sum,
    Count,
    Stddev,
    Median,
    First,
    Last,
    Rate,
}

/// An aggregate over the nodes.
#[derive(Debug)]
pub struct Across {
    pub what: Over,
    pub subject: Subject,
    /// Where a round keeps it; none if it depends on more than the nodes' values.
    pub kept: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Total,
    Average,
    Least,
    Greatest,
    Nodes,
    Each,
}

impl Node {
    /// A node on top of others.
    pub fn new(at: u32, below: u8, kind: NodeKind) -> Node {
        Node { at, height: below.saturating_add(1), kind }
    }
}

/// How high the highest of them is.
pub fn highest<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> u8 {
    nodes.into_iter().map(|node| node.height).max().unwrap_or(0)
}

/// How high the highest index is.
pub fn highest_step(steps: &[Step]) -> u8 {
    highest(steps.iter().filter_map(|step| match step {
        Step::Index(node) => Some(node),
        Step::Field(..) => None,
    }))
}
