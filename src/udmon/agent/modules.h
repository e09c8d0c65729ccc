/* Types of nodes by name: the types of the agent, and of the libraries of the configuration. */
#ifndef UDMON_AGENT_MODULES_H
#define UDMON_AGENT_MODULES_H

#include "../include/udmon_module.h"

/** The types of the agent itself. Before all other calls. */
void modules_begin(const struct udmon_module *own);
/** NULL: there is no such type. */
const struct udmon_node_type *module_type(const char *name);
/** Loads a shared library; loading it again is no error. Reports errors. */
int module_load(const char *file, const char *config_file, int line);

#endif
