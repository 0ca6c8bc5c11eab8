-- Instants and spans are microseconds. Text compares byte by byte, which is SQLite's default.
CREATE TABLE t_dp (
    data_name VARCHAR(128) NOT NULL PRIMARY KEY,
    cmd TEXT NOT NULL,
    time_max DOUBLE NULL,
    spec TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE t_dp_history (
    data_name VARCHAR(128) NOT NULL,
    version BIGINT NOT NULL,
    action VARCHAR(16) NOT NULL,
    at BIGINT NOT NULL,
    actor VARCHAR(255) NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (data_name, version)
) WITHOUT ROWID;

CREATE TABLE t_data (
    id VARCHAR(382) NOT NULL PRIMARY KEY,
    data_name VARCHAR(128) NOT NULL,
    node_name VARCHAR(253) NOT NULL,
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
) WITHOUT ROWID;

CREATE TABLE t_history (
    data_name VARCHAR(128) NOT NULL,
    node_name VARCHAR(253) NOT NULL,
    revision BIGINT NOT NULL,
    data_value TEXT NOT NULL,
    collected_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (data_name, node_name, revision)
) WITHOUT ROWID;

CREATE TABLE t_retention (
    data_name VARCHAR(128) NOT NULL PRIMARY KEY,
    keep_us BIGINT NULL,
    max_count BIGINT NULL
) WITHOUT ROWID;

CREATE TABLE t_binding (
    data_name VARCHAR(128) NOT NULL PRIMARY KEY,
    target VARCHAR(128) NOT NULL,
    at BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE t_owner (
    name VARCHAR(32) NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    revision BIGINT NOT NULL
) WITHOUT ROWID;
