//! Commands, as a line and as words: words that are shown as a line are the same words.

#![no_main]

use estimand_api::command::{Command, MAX_COMMAND_BYTES};
use estimand_fuzz::{assert_line, text};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(text) = text(data) else { return };
    let words = text.split('\n').map(str::to_owned).collect();
    for command in [Command::line(text), Command::words(words)] {
        let command = match command {
            Ok(command) => command,
            Err(error) => {
                assert_line(&error.to_string());
                continue;
            }
        };
        let argv = command.argv();
        assert!(argv.first().is_some_and(|program| !program.is_empty()));
        let json = serde_json::to_value(&command).unwrap_or_default();
        assert_eq!(Command::from_json(&json).as_ref(), Ok(&command));
        let shown = command.to_string();
        if shown.len() <= MAX_COMMAND_BYTES {
            assert_eq!(Command::line(shown).map(|line| line.argv()), Ok(argv));
        }
        command.shell_hint().as_deref().into_iter().for_each(assert_line);
    }
});
