DROP TABLE IF EXISTS t_promise_revision;
DROP TABLE IF EXISTS t_promise;
