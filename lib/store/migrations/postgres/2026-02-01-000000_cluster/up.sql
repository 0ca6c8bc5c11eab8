-- Instants are microseconds. Keys compare byte by byte, whatever the language of the database.
CREATE TABLE t_node (
    node_name VARCHAR(253) COLLATE "C" NOT NULL PRIMARY KEY,
    labels TEXT NOT NULL,
    facts TEXT NOT NULL,
    agent VARCHAR(255) COLLATE "C" NOT NULL,
    boot BIGINT NOT NULL,
    cordoned BOOLEAN NOT NULL,
    lost BOOLEAN NOT NULL,
    seen_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

-- The node comes first in the key, because the placements of a node go with it.
CREATE TABLE t_placement (
    data_name VARCHAR(128) COLLATE "C" NOT NULL,
    node_name VARCHAR(253) COLLATE "C" NOT NULL,
    moves BIGINT NOT NULL,
    placed_at BIGINT NOT NULL,
    PRIMARY KEY (node_name, data_name)
);

CREATE TABLE t_leader (
    role VARCHAR(32) COLLATE "C" NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    holder VARCHAR(255) COLLATE "C" NOT NULL,
    address VARCHAR(255) COLLATE "C" NOT NULL
);
