//! Stands in for the binary under test: speaks the little that the testkit relies on, or breaks it as
//! its first argument says. It is not ready at the first look, and answers with its arguments.

use std::env;
use std::io::{Read, Write};
use std::net::TcpListener;

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let value_of = |name: &str| {
        let at = args.iter().position(|arg| arg == name).expect("the option is given");
        args[at + 1].clone()
    };
    if args[0] == "broken" {
        eprintln!("no such store");
        std::process::exit(3);
    }
    let listener = TcpListener::bind(value_of("--listen")).expect("the address is free");
    println!("listening on http://{}", listener.local_addr().expect("it is bound"));
    println!("{}", "x".repeat(200_000));
    eprintln!("ready for {}", env::var("FAKE_VARIABLE").unwrap_or_default());
    let mut looks = 0;
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let mut request = [0; 1024];
        let count = stream.read(&mut request).unwrap_or(0);
        if request[..count].starts_with(b"GET /readyz ") {
            looks += 1;
        }
        let status = if looks == 1 { "503 Not Yet" } else { "200 OK" };
        let body = args.join(" ");
        let length = body.len();
        let _ = write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
    }
}
