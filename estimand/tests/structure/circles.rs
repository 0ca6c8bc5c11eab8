//! Circles of imports among the top-level modules of a crate.
//!
//! A module imports another one by `crate::name`, by a chain of `super::` that ends at the crate's root, or by a name that the
//! root takes from it. The root itself is no module of a circle: it binds all of them. Tests may import everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{is_of_tests, sources};

/// The modules of a crate, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of a crate that has its sources in a folder: each with its modules in order.
pub fn circles(folder: &Path) -> Vec<Vec<String>> {
    let imports = imports(folder);
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|module| (module, reached(&imports, module))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (module, others) in reached.iter().filter(|(module, others)| others.contains(*module)) {
        if !circles.iter().any(|circle| circle.contains(module)) {
            let with_it = others.iter().filter(|other| reached[**other].contains(module));
            circles.push(with_it.map(|other| (*other).clone()).collect());
        }
    }
    circles
}

/// The modules to which the imports of one lead.
fn reached<'i>(imports: &'i Imports, module: &str) -> BTreeSet<&'i String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = imports[module].iter().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(&imports[next]);
        }
    }
    reached
}

fn imports(folder: &Path) -> Imports {
    let files: Vec<(Vec<String>, String)> = sources(folder)
        .into_iter()
        .filter(|file| !is_of_tests(file.strip_prefix(folder).unwrap()))
        .map(|file| (place(folder, &file), code(&fs::read_to_string(&file).unwrap())))
        .collect();
    let modules: BTreeSet<String> = files.iter().filter_map(|(place, _)| place.first().cloned()).collect();
    let root: Vec<&str> =
        files.iter().filter(|(place, _)| place.is_empty()).map(|(_, text)| text.as_str()).collect();
    let taken: BTreeMap<String, String> =
        root.iter().flat_map(|text| taken_by_root(text, &modules)).collect();
    let mut imports: Imports = modules.iter().map(|module| (module.clone(), BTreeSet::new())).collect();
    for (place, text) in files.iter().filter(|(place, _)| !place.is_empty()) {
        let own = imports.get_mut(&place[0]).unwrap();
        for name in names_of_root(text, place.len()) {
            let module = modules.get(&name).or_else(|| taken.get(&name));
            own.extend(module.filter(|module| **module != place[0]).cloned());
        }
    }
    imports
}

/// The module of a file, from the root on: empty for the root.
fn place(folder: &Path, file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(folder).unwrap().with_extension("");
    let mut place: Vec<String> =
        inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    place.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    place
}

/// The code of a file without comments and without what is for tests only.
fn code(text: &str) -> String {
    let code: Vec<&str> = text.lines().filter_map(|line| line.split("//").next()).collect();
    let code = code.join("\n");
    let mut parts = code.split("#[cfg(test)]");
    let product = parts.next().unwrap_or_default().to_owned();
    parts.fold(product, |product, part| product + after_item(part))
}

/// The rest of a text behind its first item, which ends with a semicolon or a block.
fn after_item(text: &str) -> &str {
    let mut depth = 0;
    for (at, mark) in text.char_indices() {
        match mark {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(mark, ';' | '}') {
            return &text[at + 1..];
        }
    }
    ""
}

/// The names that the root has from its modules, each with its module.
fn taken_by_root(root: &str, modules: &BTreeSet<String>) -> Vec<(String, String)> {
    let mut taken = Vec::new();
    for statement in root.split(';').filter_map(|statement| statement.split_once("use ")) {
        let (module, names) = statement.1.trim().split_once("::").unwrap_or_default();
        if modules.contains(module) {
            taken.extend(last_names(names).into_iter().map(|name| (name, module.to_owned())));
        }
    }
    taken
}

/// The names that a list of imports brings, such as `B` and `c` of `{a::B, C as c}`.
fn last_names(list: &str) -> Vec<String> {
    let parts = list.split([',', '{', '}']).map(str::trim).filter(|part| !part.is_empty());
    parts.filter_map(|part| part.rsplit(|at: char| !is_of_name(at)).next().map(str::to_owned)).collect()
}

/// The names of the root that a module at this depth uses.
fn names_of_root(text: &str, depth: usize) -> Vec<String> {
    let from_below = "super::".repeat(depth);
    let mut names = Vec::new();
    for path in ["crate::", from_below.as_str()] {
        for (at, _) in text.match_indices(path) {
            let is_longer = text[..at].ends_with(is_of_name) || text[..at].ends_with("::");
            if !is_longer {
                names.extend(first_names(&text[at + path.len()..]));
            }
        }
    }
    names
}

/// The first names of the paths that stand here: one, or those of a list in braces.
fn first_names(text: &str) -> Vec<String> {
    let first = |path: &str| {
        path.trim_start().split(|at: char| !is_of_name(at)).next().unwrap_or_default().to_owned()
    };
    let Some(list) = text.strip_prefix('{') else { return vec![first(text)] };
    let mut names = Vec::new();
    let mut depth = 0;
    let mut begin = 0;
    for (at, mark) in list.char_indices() {
        match mark {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first(&list[begin..at]));
                begin = at + 1;
                if mark == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[test]
fn a_circle_is_found_by_each_way_to_import() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nmod e;\npub use c::{inner::Thing, other as Name};\n");
    write("a.rs", "use crate::{\n    b::{x, y},\n    d,\n};\n");
    write("b/mod.rs", "mod below;\n");
    write("b/below.rs", "fn f() -> super::super::c::Thing {}\n");
    write("c.rs", "// use crate::d;\nuse crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::e;\n}\n");
    write("d.rs", "use super::e;\n");
    write("e.rs", "use crate::Name;\nuse other_crate::d;\n");
    let found = circles(folder.path());
    assert_eq!(found, [["a", "b", "c", "d", "e"].map(str::to_owned).to_vec()]);
    write("e.rs", "use crate::Root;\n");
    assert_eq!(circles(folder.path()), [["a", "b", "c"].map(str::to_owned).to_vec()]);
}
