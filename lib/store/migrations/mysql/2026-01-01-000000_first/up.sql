-- Instants and spans are microseconds. Keys compare byte by byte.
-- A CREATE here commits at once: a migration that was cut short has to find what it made the last time.
CREATE TABLE IF NOT EXISTS t_dp (
    data_name VARCHAR(128) NOT NULL PRIMARY KEY,
    cmd MEDIUMTEXT NOT NULL,
    time_max DOUBLE NULL,
    spec MEDIUMTEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_dp_history (
    data_name VARCHAR(128) NOT NULL,
    version BIGINT NOT NULL,
    action VARCHAR(16) NOT NULL,
    at BIGINT NOT NULL,
    actor VARCHAR(255) NOT NULL,
    spec MEDIUMTEXT NOT NULL,
    PRIMARY KEY (data_name, version)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_data (
    id VARCHAR(382) NOT NULL PRIMARY KEY,
    data_name VARCHAR(128) NOT NULL,
    node_name VARCHAR(253) NOT NULL,
    data_value MEDIUMTEXT NOT NULL,
    collected_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    valid_for BIGINT NULL,
    failed BOOLEAN NOT NULL,
    lost BOOLEAN NOT NULL,
    revision BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    provenance MEDIUMTEXT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_history (
    data_name VARCHAR(128) NOT NULL,
    node_name VARCHAR(253) NOT NULL,
    revision BIGINT NOT NULL,
    data_value MEDIUMTEXT NOT NULL,
    collected_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (data_name, node_name, revision)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_retention (
    data_name VARCHAR(128) NOT NULL PRIMARY KEY,
    keep_us BIGINT NULL,
    max_count BIGINT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_binding (
    data_name VARCHAR(128) NOT NULL PRIMARY KEY,
    target VARCHAR(128) NOT NULL,
    at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_owner (
    name VARCHAR(32) NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    revision BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
