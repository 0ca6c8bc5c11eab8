-- Published images, by the name that tasks use, and the image that each task or array with a published one was given when it
-- was accepted. `labels` is JSON.
-- A migration that was cut short is repeated, so the tables may be there already.
CREATE TABLE IF NOT EXISTS t_image (
    name VARCHAR(128) NOT NULL PRIMARY KEY,
    reference VARCHAR(255) NOT NULL,
    digest VARCHAR(80) NOT NULL,
    description MEDIUMTEXT NULL,
    labels MEDIUMTEXT NOT NULL,
    published_at BIGINT NOT NULL,
    published_by VARCHAR(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_task_image (
    number BIGINT NOT NULL PRIMARY KEY,
    name VARCHAR(128) NOT NULL,
    reference VARCHAR(255) NOT NULL,
    digest VARCHAR(80) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
