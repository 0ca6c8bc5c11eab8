-- Instants are microseconds. Keys compare byte by byte.
-- A CREATE here commits at once: a migration that was cut short has to find what it made the last time.
CREATE TABLE IF NOT EXISTS t_node (
    node_name VARCHAR(253) NOT NULL PRIMARY KEY,
    labels MEDIUMTEXT NOT NULL,
    facts MEDIUMTEXT NOT NULL,
    agent VARCHAR(255) NOT NULL,
    boot BIGINT NOT NULL,
    cordoned BOOLEAN NOT NULL,
    lost BOOLEAN NOT NULL,
    seen_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The node comes first in the key, because the placements of a node go with it.
CREATE TABLE IF NOT EXISTS t_placement (
    data_name VARCHAR(128) NOT NULL,
    node_name VARCHAR(253) NOT NULL,
    moves BIGINT NOT NULL,
    placed_at BIGINT NOT NULL,
    PRIMARY KEY (node_name, data_name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_leader (
    role VARCHAR(32) NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    holder VARCHAR(255) NOT NULL,
    address VARCHAR(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
