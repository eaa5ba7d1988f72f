-- The PostgreSQL server and timeline that the history is on, NULL before anybody has looked. A program that starts on another
-- one than it finds here does not know whether commits were lost on the way.
CREATE TABLE server (
    id       int PRIMARY KEY CHECK (id = 1),
    identity text
);
INSERT INTO server (id) VALUES (1);
