/* Routing tables as runs; see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

static uint32_t run_end(const struct inm_run *run)
{
    return (uint32_t)run->first + run->num;
}

/* Append to a list, joining with the last run where it goes on. Zero-length runs are left out. */
static uint32_t append(struct inm_run *list, uint32_t num, uint32_t first, uint32_t end,
                       uint32_t ports)
{
    if (end <= first || ports == 0) {
        return num;
    }
    if (num > 0 && run_end(&list[num - 1]) == first && list[num - 1].ports == ports &&
        end - list[num - 1].first <= UINT16_MAX) {
        list[num - 1].num = (uint16_t)(end - list[num - 1].first);
        return num;
    }
    list[num] = (struct inm_run){(uint16_t)first, (uint16_t)(end - first), ports};
    return num + 1;
}

/* Behind all others: the usual case, as tables are loaded in order. */
static bool append_last(struct inm_table *table, uint32_t first, uint32_t end, uint32_t ports)
{
    struct inm_run *more;

    if (table->num == table->room) {
        more = realloc(table->runs, (table->room * 2 + 4) * sizeof(*more));
        if (more == NULL) {
            return false;
        }
        table->runs = more;
        table->room = table->room * 2 + 4;
    }
    table->num = append(table->runs, table->num, first, end, ports);
    return true;
}

bool inm_table_set(struct inm_table *table, uint32_t first, uint32_t num, uint32_t ports)
{
    uint32_t end = first + num, n = 0, i;
    bool placed = false;
    struct inm_run *list;

    if (table->num == 0 || run_end(&table->runs[table->num - 1]) <= first) {
        return append_last(table, first, end, ports);
    }
    list = malloc((table->num + 3) * sizeof(*list));

    if (list == NULL) {
        return false;
    }
    for (i = 0; i < table->num; i++) {
        const struct inm_run *run = &table->runs[i];

        if (run->first < first) {
            n = append(list, n, run->first, run_end(run) < first ? run_end(run) : first,
                       run->ports);
        }
        if (!placed && run_end(run) > first) {
            n = append(list, n, first, end, ports);
            placed = true;
        }
        if (run_end(run) > end) {
            n = append(list, n, run->first > end ? run->first : end, run_end(run), run->ports);
        }
    }
    if (!placed) {
        n = append(list, n, first, end, ports);
    }
    free(table->runs);
    table->runs = list;
    table->room = table->num + 3;
    table->num = n;
    return true;
}

uint32_t inm_table_get(const struct inm_table *table, uint32_t nic)
{
    uint32_t low = 0, high = table->num, mid;

    while (low < high) {
        mid = (low + high) / 2;
        if (run_end(&table->runs[mid]) <= nic) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < table->num && table->runs[low].first <= nic ? table->runs[low].ports : 0;
}

bool inm_table_equal(const struct inm_table *a, const struct inm_table *b)
{
    return a->num == b->num &&
           (a->num == 0 || memcmp(a->runs, b->runs, a->num * sizeof(a->runs[0])) == 0);
}

void inm_table_clear(struct inm_table *table)
{
    free(table->runs);
    memset(table, 0, sizeof(*table));
}
