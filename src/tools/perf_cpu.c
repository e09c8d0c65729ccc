/*
 * Where the two processes run: on two different cores, where there are two.
 */
#include "perf.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

void perf_pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0) {
        return;
    }
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        tool_error("cannot run on core %d, figures may vary: %s", cpu, strerror(errno));
    }
}

static int topology_id(int cpu, const char *name)
{
    char path[96];
    int value = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
    file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%d", &value) != 1) {
            value = -1;
        }
        fclose(file);
    }
    return value;
}

/* Two threads of one core share its caches: nothing would cross. */
static bool same_core(int a, int b)
{
    int core = topology_id(a, "core_id");

    return core != -1 && core == topology_id(b, "core_id") &&
           topology_id(a, "physical_package_id") == topology_id(b, "physical_package_id");
}

bool perf_choose_cpus(int cpus[2])
{
    int cpu, second = -1;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        tool_error("cannot tell which cores may be used: %s", strerror(errno));
        return false;
    }
    cpus[0] = cpus[1] = -1;
    for (cpu = 0; cpu < CPU_SETSIZE && cpus[1] == -1; cpu++) {
        if (!CPU_ISSET(cpu, &set)) {
            continue;
        }
        if (cpus[0] == -1) {
            cpus[0] = cpu;
        } else if (!same_core(cpus[0], cpu)) {
            cpus[1] = cpu;
        } else if (second == -1) {
            second = cpu;
        }
    }
    if (cpus[1] == -1) {
        cpus[1] = second;
    }
    return true;
}
