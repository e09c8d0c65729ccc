/* Makes a topology from the name of a built-in topology or of a file: topo.h. */
#include "topo.h"

#include <string.h>

struct inm_topo *inm_topo_make(const char *what, char *error, size_t size)
{
    /* Paper, section 2: 143 racks with hosts, and room for one more that brings 576 switches. */
    static const struct inm_tree th2 = {.racks = 143,
                                        .service_racks = 1,
                                        .racks_a_group = 3,
                                        .frames = 4,
                                        .hosts = 32,
                                        .bottom_edges = 4,
                                        .bottom_spines = 2,
                                        .bottom_links = 3,
                                        .leaves = 20,
                                        .leaf_uplinks = 12,
                                        .sets_a_cabinet = 3,
                                        .root_edges = 4,
                                        .root_spines = 2,
                                        .root_links = 6,
                                        .roots_a_cabinet = 30};
    static const struct inm_tree small = {.racks = 2,
                                          .racks_a_group = 1,
                                          .frames = 2,
                                          .hosts = 8,
                                          .bottom_edges = 4,
                                          .bottom_spines = 2,
                                          .bottom_links = 1,
                                          .leaves = 4,
                                          .leaf_uplinks = 2,
                                          .sets_a_cabinet = 2,
                                          .root_edges = 2,
                                          .root_spines = 2,
                                          .root_links = 2,
                                          .roots_a_cabinet = 4};

    if (strcmp(what, "th2") == 0) {
        return inm_topo_tree("th2", &th2, error, size);
    }
    if (strcmp(what, "small") == 0) {
        return inm_topo_tree("small", &small, error, size);
    }
    return inm_topo_read(what, error, size);
}
