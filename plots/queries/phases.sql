-- SPDX-License-Identifier: Apache-2.0
-- Phases of one trace of `unmask profile --trace`, in Perfetto's SQL (trace_processor; paste it into
-- ui.perfetto.dev's query box): calls, time, and time without the phases inside.
SELECT s.name AS phase,
       COUNT(*) AS calls,
       SUM(s.dur) AS nanoseconds,
       SUM(s.dur - COALESCE(inside.dur, 0)) AS own_nanoseconds
FROM slice s
LEFT JOIN (SELECT parent_id, SUM(dur) AS dur FROM slice WHERE parent_id IS NOT NULL
           GROUP BY parent_id) inside ON inside.parent_id = s.id
WHERE s.category <> 'kernel'
GROUP BY s.name
ORDER BY own_nanoseconds DESC
