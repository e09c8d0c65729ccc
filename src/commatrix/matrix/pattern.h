/*
 * The pattern of a matrix: which known pattern of parallel programs explains the traffic.
 *
 * A pattern is a set of pairs of ranks, for example the neighbors on a grid. The score is the
 * product of two shares: the share of the traffic between these pairs, and the share of pairs with
 * traffic.
 */
#ifndef CM_PATTERN_H
#define CM_PATTERN_H

#include <glib.h>

struct cm_pattern {
    char *name;
    guint pairs, used; /* pairs of the pattern; pairs with traffic */
    double share;      /* of the traffic */
    double score;
};

enum { CM_PATTERN_RANKS = 4096 }; /* at most */

/**
 * Scores all patterns, the best one first. `traffic` has `n` rows of `n` values. The array of
 * struct cm_pattern is to be freed by cm_patterns_free().
 */
GArray *cm_patterns_find(const double *traffic, guint n);
void cm_patterns_free(GArray *patterns);

#endif
