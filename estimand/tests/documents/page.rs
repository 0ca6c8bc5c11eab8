//! A page: the commands in its blocks marked `console`, each with the lines that it prints.
//!
//! A block is left out if the line before it is `<!-- not run: REASON -->`.

use std::fs;
use std::path::Path;

const FENCE: &str = "```";
const LEFT_OUT: &str = "<!-- not run: ";
const PROMPT: &str = "$ ";

pub struct Page {
    pub commands: Vec<Command>,
}

pub struct Command {
    /// Where it stands in the page, from 1.
    pub line: usize,
    /// As it is typed, over several lines if they end with `\`.
    pub text: String,
    pub output: Vec<String>,
}

impl Page {
    pub fn read(file: &Path) -> Page {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Page::parse(&text).unwrap_or_else(|problem| panic!("{}, {problem}", file.display()))
    }

    fn parse(text: &str) -> Result<Page, String> {
        let mut commands: Vec<Command> = Vec::new();
        let (mut block, mut before) = (Block::None, "");
        for (line, number) in text.lines().zip(1..) {
            match block {
                Block::None if line.starts_with(FENCE) => {
                    block = Block::of(line, before).map_err(|problem| format!("line {number}: {problem}"))?;
                }
                Block::None => {}
                Block::Typed | Block::LeftOut if line == FENCE => block = Block::None,
                Block::LeftOut => {}
                Block::Typed => match line.strip_prefix(PROMPT) {
                    Some(text) => {
                        commands.push(Command { line: number, text: text.to_owned(), output: Vec::new() });
                    }
                    None => {
                        let Some(command) = commands.last_mut() else {
                            return Err(format!("line {number}: a block of commands begins with `{PROMPT}`"));
                        };
                        command.go_on(line);
                    }
                },
            }
            before = line;
        }
        Ok(Page { commands })
    }
}

impl Command {
    fn go_on(&mut self, line: &str) {
        if self.text.ends_with('\\') {
            self.text.push('\n');
            self.text.push_str(line);
        } else {
            self.output.push(line.to_owned());
        }
    }
}

#[derive(PartialEq, Eq)]
enum Block {
    None,
    Typed,
    LeftOut,
}

impl Block {
    fn of(fence: &str, before: &str) -> Result<Block, String> {
        let reason = before.strip_prefix(LEFT_OUT).and_then(|rest| rest.strip_suffix(" -->"));
        match (fence.trim_start_matches('`'), reason) {
            ("console", None) => Ok(Block::Typed),
            ("console", Some(reason)) if reason.trim().is_empty() => Err("no reason is given".to_owned()),
            ("console", Some(_)) => Ok(Block::LeftOut),
            (_, None) => Ok(Block::LeftOut),
            (_, Some(_)) => Err("only blocks marked `console` are run".to_owned()),
        }
    }
}

#[test]
fn commands_are_found_with_their_output() {
    let text = "a\n```console\n$ one \\\n    more\n1\n2\n$ two\n```\n```text\n$ no\n```\n<!-- not run: slow -->\n```console\n$ no\n```\n";
    let page = Page::parse(text).unwrap();
    let found: Vec<_> =
        page.commands.iter().map(|one| (one.line, one.text.as_str(), one.output.len())).collect();
    assert_eq!(found, [(3, "one \\\n    more", 2), (7, "two", 0)]);
}
