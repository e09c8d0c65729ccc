/*
 * Values of many nodes over time, as JSON: a heat map.
 *   /api/heatmap?metric=M          {"from_ms", "step_ms", "steps", "matching", "rows": [{"name",
 *     [&function=F][&search=S]     "values": [number or null for each step]}], "next": offset}.
 *     [&sort=COLUMN][&offset=N]    Metric and function are those of /api/map, except `loss`; nodes
 *     [&descending=1][&limit=N]    and their order are those of /api/nodes. The range is that of
 *     [&seconds=T][&points=P]      /api/series. An answer has at most HEATMAP_POINTS steps and
 *     [&from=MS&until=MS]          HEATMAP_ROWS rows, and not all of the rows if they take longer
 *                                  than HEATMAP_MS. "next" is the offset of the remaining rows;
 *                                  without it there are none.
 * The values are those of the collector's own history.
 */
#ifndef UDMON_COLLECTOR_HEATMAP_H
#define UDMON_COLLECTOR_HEATMAP_H

#include "api.h"
#include "overview.h"

enum { HEATMAP_ROWS = 1000, HEATMAP_POINTS = 500, HEATMAP_MS = 200 };

struct heatmap_query {
    const char *metric, *function; /* `function`: or NULL */
    struct api_range range;
    size_t offset; /* of the first name */
};

/** NULL: no memory, or the metric or the function is unknown. */
struct json_object *heatmap_json(const struct api_reader *reader, const struct heatmap_query *query,
                                 const struct overview_names *names);

#endif
