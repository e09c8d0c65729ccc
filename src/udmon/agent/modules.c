#include "modules.h"
#include "../lib/base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MODULES_MAX = 64 };

static struct {
    const struct udmon_module *module;
    char file[256];
} modules[MODULES_MAX];
static unsigned module_count;

void modules_begin(const struct udmon_module *own)
{
    modules[0].module = own;
    module_count = 1;
}

const struct udmon_node_type *module_type(const char *name)
{
    const struct udmon_node_type *const *type;
    unsigned i;

    for (i = 0; i < module_count; ++i) {
        for (type = modules[i].module->types; *type != NULL; ++type) {
            if (!strcmp((*type)->name, name)) {
                return *type;
            }
        }
    }
    return NULL;
}

static int module_check(const struct udmon_module *module, const char *file, const char *config,
                        int line)
{
    const struct udmon_node_type *const *type;

    if (module->version != UDMON_MODULE_VERSION) {
        udmon_error("%s:%d: module %s is of version %u, this agent needs %d", config, line, file,
                    module->version, UDMON_MODULE_VERSION);
        return -EINVAL;
    }
    for (type = module->types; *type != NULL; ++type) {
        if (module_type((*type)->name) != NULL) {
            udmon_error("%s:%d: module %s brings type %s, which there is already", config, line,
                        file, (*type)->name);
            return -EEXIST;
        }
    }
    return 0;
}

int module_load(const char *file, const char *config, int line)
{
    const struct udmon_module *module;
    unsigned i;
    void *library;
    int ret;

    for (i = 0; i < module_count; ++i) {
        if (!strcmp(modules[i].file, file)) {
            return 0; /* a library is never unloaded: nodes may run its code */
        }
    }
    if (module_count == MODULES_MAX) {
        udmon_error("%s:%d: more than %d modules", config, line, MODULES_MAX - 1);
        return -ENOSPC;
    }
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    module = (library != NULL) ? dlsym(library, "udmon_module") : NULL;
    if (module == NULL) {
        udmon_error("%s:%d: module %s: %s", config, line, file, dlerror());
        ret = -EINVAL;
    } else {
        ret = module_check(module, file, config, line);
    }
    if (ret < 0) {
        if (library != NULL) {
            dlclose(library);
        }
        return ret;
    }
    modules[module_count].module = module;
    snprintf(modules[module_count++].file, sizeof(modules[0].file), "%s", file);
    return 0;
}
