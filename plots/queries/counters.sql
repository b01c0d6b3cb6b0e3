-- SPDX-License-Identifier: Apache-2.0
-- Counter tracks of one trace: what a step held, mean and largest.
SELECT t.name AS counter,
       COUNT(*) AS steps,
       AVG(c.value) AS mean,
       MAX(c.value) AS largest
FROM counter c
JOIN counter_track t ON c.track_id = t.id
GROUP BY t.name
ORDER BY t.name
