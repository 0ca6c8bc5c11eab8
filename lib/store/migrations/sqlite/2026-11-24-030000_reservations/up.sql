-- Reservations: work that is promised a time and a price. `document` and `progress` are JSON; `progress` has the price, the
-- start, the promise of the ledger, and what was delivered.
CREATE TABLE t_reservation (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) NOT NULL UNIQUE,
    idempotency_key VARCHAR(255) NULL UNIQUE,
    account VARCHAR(255) NOT NULL,
    document TEXT NOT NULL,
    progress TEXT NOT NULL,
    made_at BIGINT NOT NULL,
    made_by VARCHAR(255) NOT NULL,
    ended_at BIGINT NULL
);

-- The journal of credits, in microcredits. An entry without a payer is a grant. The balance of an account is the sum of what
-- was paid to it, less the sum of what it paid.
CREATE TABLE t_credit_entry (
    number BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    payer VARCHAR(255) NULL,
    payee VARCHAR(255) NOT NULL,
    amount BIGINT NOT NULL,
    reason VARCHAR(32) NOT NULL,
    reservation BIGINT NULL,
    idempotency_key VARCHAR(255) NULL UNIQUE,
    actor VARCHAR(255) NOT NULL
);

-- What was asked for and what it was said to be worth, whether it was granted or not: from this demand is predicted. The oldest
-- go when there are many. `bid` is JSON.
CREATE TABLE t_bid (
    number BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    bid TEXT NOT NULL
);
