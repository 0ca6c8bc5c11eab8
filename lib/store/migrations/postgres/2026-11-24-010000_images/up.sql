-- Published images, by the name that tasks use, and the image that each task or array with a published one was given when it
-- was accepted. `labels` is JSON.
CREATE TABLE t_image (
    name VARCHAR(128) COLLATE "C" NOT NULL PRIMARY KEY,
    reference VARCHAR(255) COLLATE "C" NOT NULL,
    digest VARCHAR(80) COLLATE "C" NOT NULL,
    description TEXT NULL,
    labels TEXT NOT NULL,
    published_at BIGINT NOT NULL,
    published_by VARCHAR(255) COLLATE "C" NOT NULL
);

CREATE TABLE t_task_image (
    number BIGINT NOT NULL PRIMARY KEY,
    name VARCHAR(128) COLLATE "C" NOT NULL,
    reference VARCHAR(255) COLLATE "C" NOT NULL,
    digest VARCHAR(80) COLLATE "C" NOT NULL
);
