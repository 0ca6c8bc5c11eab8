-- A migration that was cut short is repeated, so the tables may be there already.
-- Studies of tuning. `document` and `progress` are JSON. The id of a study that is deleted is free at once, while its trials
-- still go; so ids are not unique here.
CREATE TABLE IF NOT EXISTS t_study (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) NOT NULL,
    user_name VARCHAR(255) NULL,
    document MEDIUMTEXT NOT NULL,
    seed BIGINT NOT NULL,
    progress MEDIUMTEXT NOT NULL,
    made_at BIGINT NOT NULL,
    made_by VARCHAR(255) NOT NULL,
    ended_at BIGINT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The trials of a study, each with the number of results that its proposal was made with. `parameters` and `progress` are JSON;
-- `progress` has the result and its place among those of the study.
CREATE TABLE IF NOT EXISTS t_trial (
    study BIGINT NOT NULL,
    number BIGINT NOT NULL,
    parameters MEDIUMTEXT NOT NULL,
    seen BIGINT NOT NULL,
    idempotency_key VARCHAR(255) NULL,
    progress MEDIUMTEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    ended_at BIGINT NULL,
    PRIMARY KEY (study, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Values that trials reported on their way.
CREATE TABLE IF NOT EXISTS t_trial_report (
    study BIGINT NOT NULL,
    trial BIGINT NOT NULL,
    step BIGINT NOT NULL,
    value DOUBLE NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (study, trial, step)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
