-- Changes of t_data that are durable here first and brought into it later, in the order of `sequence`. `content` is of the
-- program's own making; `checksum` is over `revision` and `content`.
-- A migration that was cut short is repeated, so the table may be there already.
CREATE TABLE IF NOT EXISTS t_journal (
    sequence BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    revision BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    content MEDIUMBLOB NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
