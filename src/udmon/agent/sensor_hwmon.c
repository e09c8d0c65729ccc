/*
 * Temperatures, fans, voltages, currents and power from the kernel's drivers in /sys/class/hwmon.
 * Some chips answer slowly, so an interval of a second is short enough.
 */
#include "node.h"
#include "samples.h"
#include "types.h"

#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const hwmon_options[] = {"root", NULL};

/* The first line of a file, or "". */
static void hwmon_name(const char *path, char *name, size_t size)
{
    FILE *file = samples_open(path);

    name[0] = '\0';
    if (file != NULL) {
        if (fgets(name, (int)size, file) != NULL) {
            name[strcspn(name, "\n")] = '\0';
        }
        fclose(file);
    }
}

/*
 * Adds the chip's name if the device has several chips, and the chip's number if the name does not
 * suffice.
 */
static void hwmon_tell_apart(const char *dir, char *chip, size_t size)
{
    char pattern[PATH_MAX + 32], path[PATH_MAX + 32], name[64] = "", other[64];
    size_t i, same = 0, used = strlen(chip);
    glob_t found;

    snprintf(pattern, sizeof(pattern), "%s/device/hwmon/hwmon*/name", dir);
    snprintf(path, sizeof(path), "%s/name", dir);
    if (glob(pattern, 0, NULL, &found) != 0) {
        return;
    }
    hwmon_name(path, name, sizeof(name));
    for (i = 0; i < found.gl_pathc; ++i) {
        hwmon_name(found.gl_pathv[i], other, sizeof(other));
        same += !strcmp(name, other);
    }
    if (found.gl_pathc > 1) {
        snprintf(chip + used, size - used, "-%s%s%s", name, (same > 1) ? "-" : "",
                 (same > 1) ? (strrchr(dir, '/') + 1) : "");
    }
    globfree(&found);
}

/*
 * Returns the device behind a chip, such as "coretemp.0", because the number of a chip changes from
 * boot to boot. For a second chip of a device the chip's name follows, such as "0000:01:00.0-nvme".
 */
static void hwmon_chip(const char *dir, char *chip, size_t size)
{
    char path[PATH_MAX + 16], target[PATH_MAX];

    snprintf(path, sizeof(path), "%s/device", dir);
    snprintf(chip, size, "%s", basename((realpath(path, target) != NULL) ? target : path));
    hwmon_tell_apart(dir, chip, size);
    if (!strcmp(chip, "device")) { /* a virtual one */
        snprintf(path, sizeof(path), "%s", dir);
        snprintf(chip, size, "%s", basename(path));
    }
}

static void hwmon_read(struct samples *samples, const char *path)
{
    static const struct {
        const char *kind, *name;
        double unit;
    } kinds[] = {
        {"temp", "temp_celsius", 1e-3}, {"fan", "fan_rpm", 1},          {"in", "in_volts", 1e-3},
        {"curr", "curr_amps", 1e-3},    {"power", "power_watts", 1e-6},
    };
    const char *file = strrchr(path, '/') + 1;
    int length = strcspn(file, "_"), letters = strcspn(file, "0123456789_");
    char dir[PATH_MAX], chip[100];
    double value;
    size_t i;

    snprintf(dir, sizeof(dir), "%.*s", (int)(file - 1 - path), path);
    for (i = 0; i < (sizeof(kinds) / sizeof(kinds[0])); ++i) {
        if (!strncmp(file, kinds[i].kind, letters) && (kinds[i].kind[letters] == '\0') &&
            (samples_read_number(path, &value) == 0)) {
            hwmon_chip(dir, chip, sizeof(chip));
            samples_add(samples, 0, value * kinds[i].unit,
                        "node_hwmon_%s{chip=\"%s\",sensor=\"%.*s\"}", kinds[i].name, chip, length,
                        file);
        }
    }
}

static void hwmon_tick(struct udmon_node *node, void *state)
{
    const char *root = udmon_node_option(node, "root");
    struct samples *samples = samples_begin(node);
    char pattern[PATH_MAX];
    glob_t found;
    size_t i;

    (void)state;
    snprintf(pattern, sizeof(pattern), "%s/hwmon*/*_input",
             (root != NULL) ? root : "/sys/class/hwmon");
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (i = 0; i < found.gl_pathc; ++i) {
            hwmon_read(samples, found.gl_pathv[i]);
        }
        globfree(&found);
    }
    samples_end(samples);
}

const struct udmon_node_type sensor_hwmon = {
    .name = "hwmon",
    .options = hwmon_options,
    .tick = hwmon_tick,
    .has_output = 1,
    .blocking = 1,
};
