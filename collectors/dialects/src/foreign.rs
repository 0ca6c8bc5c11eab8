//! Protocols that are no formats here, and what would be right in the place of each.

/// A sentence about the protocol that an output looks like; none if it looks like none of them. The first line decides.
pub fn recognized(output: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(&output[..output.len().min(MOST_BYTES)]);
    let text = text.or_else(|error| std::str::from_utf8(&output[..error.valid_up_to()])).unwrap_or_default();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    PROTOCOLS.iter().find(|(is_it, _)| is_it(line)).map(|(_, sentence)| *sentence)
}

/// The reason why an output could not be read, with what it looks like.
pub fn explained(reason: String, output: &[u8]) -> String {
    match recognized(output) {
        Some(sentence) => format!("{reason}; {sentence}"),
        None => reason,
    }
}

/// A first line is not longer.
const MOST_BYTES: usize = 4096;

type IsIt = fn(&str) -> bool;

const PROTOCOLS: [(IsIt, &str); 4] = [
    (
        is_graphite,
        "it looks like Graphite's plaintext protocol; right would be lines such as `load=0.5` (the format `logfmt`), or \
         InfluxDB's lines, as Telegraf's input `socket_listener` with `data_format = \"graphite\"` makes of them",
    ),
    (
        is_statsd,
        "it looks like StatsD's protocol; right would be lines such as `load=0.5` (the format `logfmt`), or InfluxDB's \
         lines, as Telegraf's input `statsd` makes of them",
    ),
    (
        is_collectd,
        "it looks like collectd's plain text protocol; right would be lines such as `load=0.5` (the format `logfmt`), or \
         InfluxDB's lines, as Telegraf makes of collectd's with `data_format = \"collectd\"`",
    ),
    (
        is_collectd_json,
        "it looks like the JSON of collectd's `write_http`; right would be InfluxDB's lines, as Telegraf's input \
         `socket_listener` with `data_format = \"collectd\"` makes of collectd's network protocol",
    ),
];

/// `servers.a.load 0.5 1700000000`
fn is_graphite(line: &str) -> bool {
    let is_path = |word: &str| {
        let (path, tags) = word.split_once(';').unwrap_or((word, ""));
        path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:/%".contains(&b))
            && tags.split(';').all(|tag| tags.is_empty() || tag.contains('='))
    };
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words.as_slice() {
        [path, value, time] => {
            is_path(path) && is_number(value) && is_number(time) && !time.contains(['e', 'E'])
        }
        _ => false,
    }
}

/// `load:0.5|g`, `hits:1|c|@0.1|#zone:a`
fn is_statsd(line: &str) -> bool {
    let Some((name, rest)) = line.split_once(':') else { return false };
    let mut parts = rest.split('|');
    let value = parts.next().unwrap_or_default();
    let kind = parts.next().unwrap_or_default();
    let is_value = kind == "s" || value.split(':').all(is_number);
    !name.is_empty() && !name.contains(char::is_whitespace) && is_value && KINDS.contains(&kind)
}

const KINDS: [&str; 6] = ["c", "g", "ms", "s", "h", "d"];

/// `PUTVAL "a/load/load" interval=10 N:0.5:0.4:0.3`
fn is_collectd(line: &str) -> bool {
    let commands = ["PUTVAL ", "PUTNOTIF "];
    commands
        .iter()
        .any(|command| line.get(..command.len()).is_some_and(|word| word.eq_ignore_ascii_case(command)))
}

fn is_collectd_json(line: &str) -> bool {
    line.starts_with("[{\"values\":") && line.contains("\"dstypes\":")
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) && word.parse::<f64>().is_ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_by_their_first_line() {
        let check = |output: &str, protocol: &str| {
            let sentence = recognized(output.as_bytes()).unwrap_or_default();
            assert!(
                sentence.contains(protocol) && sentence.contains("right would be"),
                "{output}: {sentence}"
            );
        };
        check("servers.a.load 0.5 1700000000\nservers.b.load 0.6 1700000000", "Graphite's plaintext");
        check("\n# carbon\ndisk.used;host=a;fs=/ 12 -1", "Graphite's plaintext");
        check("load:0.5|g", "StatsD's");
        check("hits:1|c|@0.1|#zone:a", "StatsD's");
        check("took:320:400|ms", "StatsD's");
        check("PUTVAL \"a/load/load\" interval=10 N:0.5:0.4:0.3", "collectd's plain text");
        check("putval a/load/load N:0.5", "collectd's plain text");
        check(r#"[{"values":[0.5],"dstypes":["gauge"],"dsnames":["value"],"host":"a"}]"#, "`write_http`");
    }

    #[test]
    fn other_lines_are_none_of_them() {
        for output in [
            "",
            "cpu,host=a usage=1.5 1700000000000000000",
            "load=0.5",
            "load 0.5",
            "a b c",
            "10 20 30 40",
            "state:all well",
            r#"{"a":"x:1|g"}"#,
            r#"[{"values":[1]}]"#,
            "node_load1{cpu=\"0\"} 0.5",
            "DISK OK - free 5 | used=1",
        ] {
            assert_eq!(recognized(output.as_bytes()), None, "{output}");
        }
        assert_eq!(recognized(&[0xff; 5000]), None);
    }
}
