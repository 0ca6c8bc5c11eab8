//! Reads parameters of queries. Each error names its field.

use std::str::FromStr;

use estimand_api::access::forbidden;
use estimand_api::file::{FilePath, FilePathError};
use estimand_api::file_share::{ReadPath, ReadPathError};
use estimand_api::problem::{FieldError, Problem};
use estimand_api::registration::Sha256;
use estimand_web::parameters::whole;

use crate::home::Home;
use crate::uploads::Upload;

pub fn path(given: Option<&str>) -> Result<FilePath, Problem> {
    path_of("path", given.ok_or_else(|| missing("path"))?)
}

/// The path of something that is to be read.
pub fn read_path(given: Option<&str>) -> Result<ReadPath, Problem> {
    let given = given.ok_or_else(|| missing("path"))?;
    read_path_of("path", given)
}

pub fn read_path_of(field: &str, given: &str) -> Result<ReadPath, Problem> {
    given.parse().map_err(|error: ReadPathError| Problem::invalid_field(error.at(field)))
}

fn missing(field: &str) -> Problem {
    let error = FieldError::new(field, "is missing");
    Problem::invalid_field(error.expected("the path of a file, such as `models/mnist.onnx`"))
}

pub fn path_of(field: &str, given: &str) -> Result<FilePath, Problem> {
    given.parse().map_err(|error: FilePathError| match given.parse::<ReadPath>() {
        Ok(_) => forbidden(format!("`{given}` is in a folder of another user, in which you can only read")),
        Err(_) => Problem::invalid_field(error.at(field)),
    })
}

pub fn parsed<T: FromStr>(field: &str, given: Option<&str>, expected: &str) -> Result<Option<T>, Problem> {
    let parse = |given: &str| {
        given.parse().map_err(|_| {
            let error = FieldError::new(field, "is not right");
            Problem::invalid_field(error.given(given).expected(expected))
        })
    };
    given.map(parse).transpose()
}

pub fn upload(
    home: &Home,
    path: Option<&str>,
    size: Option<&str>,
    sha256: Option<&str>,
) -> Result<Upload, Problem> {
    let path = self::path(path)?;
    Ok(Upload {
        owner: home.owner(),
        place: home.place_to_write(&path)?,
        path,
        size: size.map(|_| whole("size", size, 0, u64::MAX)).transpose()?,
        sha256: parsed::<Sha256>("sha256", sha256, "64 hexadecimal digits")?,
    })
}
