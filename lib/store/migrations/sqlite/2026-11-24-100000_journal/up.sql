-- Changes of t_data that are durable here first and brought into it later, in the order of `sequence`. `content` is of the
-- program's own making; `checksum` is over `revision` and `content`.
CREATE TABLE t_journal (
    sequence INTEGER NOT NULL PRIMARY KEY,
    revision BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    content BLOB NOT NULL
);
