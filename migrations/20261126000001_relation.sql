-- Which database of the server, and which table `rev` in it: their OIDs. What is restored into the same server has others. NULL
-- before anybody has looked; a program that does not know the column compares `identity` alone.
ALTER TABLE server ADD COLUMN relation text;
