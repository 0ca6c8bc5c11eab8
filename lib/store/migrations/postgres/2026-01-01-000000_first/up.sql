-- Instants and spans are microseconds. Keys compare byte by byte, whatever the language of the database.
CREATE TABLE t_dp (
    data_name VARCHAR(128) COLLATE "C" NOT NULL PRIMARY KEY,
    cmd TEXT NOT NULL,
    time_max DOUBLE PRECISION NULL,
    spec TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE t_dp_history (
    data_name VARCHAR(128) COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    action VARCHAR(16) COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    actor VARCHAR(255) COLLATE "C" NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (data_name, version)
);

CREATE TABLE t_data (
    id VARCHAR(382) COLLATE "C" NOT NULL PRIMARY KEY,
    data_name VARCHAR(128) COLLATE "C" NOT NULL,
    node_name VARCHAR(253) COLLATE "C" NOT NULL,
    data_value TEXT NOT NULL,
    collected_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    valid_for BIGINT NULL,
    failed BOOLEAN NOT NULL,
    lost BOOLEAN NOT NULL,
    revision BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    provenance TEXT NULL
);

CREATE TABLE t_history (
    data_name VARCHAR(128) COLLATE "C" NOT NULL,
    node_name VARCHAR(253) COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    data_value TEXT NOT NULL,
    collected_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (data_name, node_name, revision)
);

CREATE TABLE t_retention (
    data_name VARCHAR(128) COLLATE "C" NOT NULL PRIMARY KEY,
    keep_us BIGINT NULL,
    max_count BIGINT NULL
);

CREATE TABLE t_binding (
    data_name VARCHAR(128) COLLATE "C" NOT NULL PRIMARY KEY,
    target VARCHAR(128) COLLATE "C" NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE t_owner (
    name VARCHAR(32) COLLATE "C" NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
