-- Instants are microseconds. Text compares byte by byte, which is SQLite's default.
CREATE TABLE t_node (
    node_name VARCHAR(253) NOT NULL PRIMARY KEY,
    labels TEXT NOT NULL,
    facts TEXT NOT NULL,
    agent VARCHAR(255) NOT NULL,
    boot BIGINT NOT NULL,
    cordoned BOOLEAN NOT NULL,
    lost BOOLEAN NOT NULL,
    seen_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL
) WITHOUT ROWID;

-- The node comes first in the key, because the placements of a node go with it.
CREATE TABLE t_placement (
    data_name VARCHAR(128) NOT NULL,
    node_name VARCHAR(253) NOT NULL,
    moves BIGINT NOT NULL,
    placed_at BIGINT NOT NULL,
    PRIMARY KEY (node_name, data_name)
) WITHOUT ROWID;

CREATE TABLE t_leader (
    role VARCHAR(32) NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    holder VARCHAR(255) NOT NULL,
    address VARCHAR(255) NOT NULL
) WITHOUT ROWID;
