//! Texts that programs really wrote, and the line that explains each. Long lists are shortened.

use super::explanation;

const OUTPUTS: [(&str, &str); 36] = [
    ("", ""),
    ("\n  \n", ""),
    ("no sensor\n", "no sensor"),
    // Perl
    (
        "Can't locate Foo/Bar.pm in @INC (you may need to install the Foo::Bar module) at a.pl line 1.\n\
         BEGIN failed--compilation aborted at a.pl line 1.\n",
        "Can't locate Foo/Bar.pm in @INC (you may need to install the Foo::Bar module) at a.pl line 1.",
    ),
    (
        "Global symbol \"$x\" requires explicit package name (did you forget to declare \"my $x\"?) at b.pl line 2.\n\
         Global symbol \"$y\" requires explicit package name (did you forget to declare \"my $y\"?) at b.pl line 3.\n\
         Execution of b.pl aborted due to compilation errors.\n",
        "Global symbol \"$x\" requires explicit package name (did you forget to declare \"my $x\"?) at b.pl line 2.",
    ),
    ("no sensor at b3.pl line 1.\n\tmain::f(1) called at b3.pl line 1\n", "no sensor at b3.pl line 1."),
    // Python
    (
        "Traceback (most recent call last):\n  File \"b.py\", line 2, in <module>\n    open(\"/nope\")\n\
         FileNotFoundError: [Errno 2] No such file or directory: '/nope'\n\n\
         The above exception was the direct cause of the following exception:\n\n\
         Traceback (most recent call last):\n  File \"b.py\", line 4, in <module>\n    raise E from e\n\
         RuntimeError: cannot measure\n",
        "RuntimeError: cannot measure",
    ),
    (
        "Traceback (most recent call last):\n  File \"c2.py\", line 2, in <module>\n    \
         raise E(\"first line\\nsecond line\")\nE: first line\nsecond line\n",
        "E: first line",
    ),
    (
        "  File \"c.py\", line 1\n    print(\n         ^\nSyntaxError: '(' was never closed\n",
        "SyntaxError: '(' was never closed",
    ),
    (
        "usage: d.py [-h] host\nd.py: error: the following arguments are required: host\n",
        "d.py: error: the following arguments are required: host",
    ),
    // Java
    (
        "Exception in thread \"main\" java.lang.RuntimeException: cannot read the sensor\n\tat A.f(A.java:1)\n\
         \tat A.main(A.java:1)\nCaused by: java.lang.NumberFormatException: For input string: \"x\"\n\
         \tat java.base/java.lang.Integer.parseInt(Integer.java:668)\n\t... 12 more\n",
        "Caused by: java.lang.NumberFormatException: For input string: \"x\"",
    ),
    ("Error: Unable to access jarfile nosuch.jar\n", "Error: Unable to access jarfile nosuch.jar"),
    // Node.js
    (
        "/srv/a.js:1\nfoo()\n^\n\nReferenceError: foo is not defined\n    at Object.<anonymous> (/srv/a.js:1:1)\n    \
         at Module._compile (node:internal/modules/cjs/loader:1521:14)\n\nNode.js v20.20.2\n",
        "ReferenceError: foo is not defined",
    ),
    (
        "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module 'nosuch'\n\
         Require stack:\n- /srv/b.js\n    at require (node:internal/modules/helpers:182:18) {\n  \
         code: 'MODULE_NOT_FOUND',\n}\n\nNode.js v20.20.2\n",
        "Error: Cannot find module 'nosuch'",
    ),
    // Go, Rust, C++
    (
        "panic: assignment to entry in nil map\n\ngoroutine 1 [running]:\nmain.main()\n\t/srv/a.go:2 +0x28\n\
         exit status 2\n",
        "panic: assignment to entry in nil map",
    ),
    (
        "\nthread 'main' (4711) panicked at src/main.rs:2:5:\nno sensor\n\
         note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
        "no sensor",
    ),
    (
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no sensor\n\
         Aborted (core dumped)\n",
        "what():  no sensor",
    ),
    // Ruby, Lua, Tcl, PHP, R
    (
        "a.rb:1:in `f': no sensor (RuntimeError)\n\tfrom a.rb:3:in `<main>'\n",
        "a.rb:1:in `f': no sensor (RuntimeError)",
    ),
    (
        "lua: a.lua:1: no sensor\nstack traceback:\n\t[C]: in function 'error'\n\ta.lua:1: in main chunk\n",
        "lua: a.lua:1: no sensor",
    ),
    (
        "no sensor\n    while executing\n\"error \"no sensor\" \"\n    (procedure \"f\" line 1)\n    \
         invoked from within\n\"f\"\n    (file \"a.tcl\" line 2)\n",
        "no sensor",
    ),
    (
        "PHP Fatal error:  Uncaught Exception: no sensor in /srv/a.php:3\nStack trace:\n#0 {main}\n  \
         thrown in /srv/a.php on line 3\n",
        "PHP Fatal error:  Uncaught Exception: no sensor in /srv/a.php:3",
    ),
    ("Error in f() : no sensor\nCalls: f\nExecution halted\n", "Error in f() : no sensor"),
    // Shells
    (
        "a.sh: line 2: syntax error near unexpected token `fi'\na.sh: line 2: `fi fi'\n",
        "a.sh: line 2: syntax error near unexpected token `fi'",
    ),
    (
        "+ x=1\n+ ls /nope\nls: cannot access '/nope': No such file or directory\n+ echo over\n",
        "ls: cannot access '/nope': No such file or directory",
    ),
    ("b.sh: line 1: foo: command not found\n", "b.sh: line 1: foo: command not found"),
    // Programs that say how they want to be called
    (
        "df: unrecognized option '--nosuch'\nTry 'df --help' for more information.\n",
        "df: unrecognized option '--nosuch'",
    ),
    (
        "ss: unrecognized option '--frob'\nUsage: ss [ OPTIONS ]\n       ss [ OPTIONS ] [ FILTER ]\n   \
         -h, --help          this message\n",
        "ss: unrecognized option '--frob'",
    ),
    (
        "Usage: grep [OPTION]... PATTERNS [FILE]...\nTry 'grep --help' for more information.\n",
        "Usage: grep [OPTION]... PATTERNS [FILE]...",
    ),
    (
        "error: unexpected argument '--frob' found\n\n  tip: to pass '--frob' as a value, use '-- --frob'\n\n\
         Usage: probe [OPTIONS]\n\nFor more information, try '--help'.\n",
        "error: unexpected argument '--frob' found",
    ),
    // Others
    (
        "tar: /nope.tar: Cannot open: No such file or directory\ntar: Error is not recoverable: exiting now\n",
        "tar: /nope.tar: Cannot open: No such file or directory",
    ),
    (
        "gawk: cmd. line:1: {print\ngawk: cmd. line:1:       ^ unexpected newline or end of string\n",
        "gawk: cmd. line:1:       ^ unexpected newline or end of string",
    ),
    (
        "  % Total    % Received % Xferd  Average Speed\n                                 Dload  Upload\n\
         \r  0     0    0     0    0     0\ncurl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms\n",
        "curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms",
    ),
    // Braces, rules and numbers say nothing.
    ("{\n  \"error\": \"no such device\"\n}\n", "\"error\": \"no such device\""),
    ("no sensor\n-----\n", "no sensor"),
    ("{}\n42\n", ""),
    // Nothing but repetitions: the last line is better than none.
    ("  at A.f\n  at A.main\n", "at A.main"),
];

#[test]
fn the_line_that_explains_a_failure_is_found() {
    for (output, expected) in OUTPUTS {
        assert_eq!(explanation(output).unwrap_or_default(), expected, "of\n{output}");
    }
}
