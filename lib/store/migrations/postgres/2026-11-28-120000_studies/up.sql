-- Studies of tuning. `document` and `progress` are JSON. The id of a study that is deleted is free at once, while its trials
-- still go; so ids are not unique here.
CREATE TABLE t_study (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) COLLATE "C" NOT NULL,
    user_name VARCHAR(255) COLLATE "C" NULL,
    document TEXT NOT NULL,
    seed BIGINT NOT NULL,
    progress TEXT NOT NULL,
    made_at BIGINT NOT NULL,
    made_by VARCHAR(255) COLLATE "C" NOT NULL,
    ended_at BIGINT NULL
);

-- The trials of a study, each with the number of results that its proposal was made with. `parameters` and `progress` are JSON;
-- `progress` has the result and its place among those of the study.
CREATE TABLE t_trial (
    study BIGINT NOT NULL,
    number BIGINT NOT NULL,
    parameters TEXT NOT NULL,
    seen BIGINT NOT NULL,
    idempotency_key VARCHAR(255) COLLATE "C" NULL,
    progress TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    ended_at BIGINT NULL,
    PRIMARY KEY (study, number)
);

-- Values that trials reported on their way.
CREATE TABLE t_trial_report (
    study BIGINT NOT NULL,
    trial BIGINT NOT NULL,
    step BIGINT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (study, trial, step)
);
