/*
 * Completions and counts, as the provider writes them. gfi_cq.c and gfi_cntr.c have the functions by
 * which programs read them.
 */
#include "gfi.h"

#include <stdlib.h>
#include <string.h>

int gfi_cq_grow(struct gfi_cq *cq)
{
    uint32_t size = 2 * (cq->mask + 1), count = cq->tail - cq->head, i;
    struct gfi_cqe *ring = malloc(size * sizeof(*ring));

    if (ring == NULL) {
        GFI_WARN(FI_LOG_CQ, "no memory: a completion is lost\n");
        return -FI_ENOMEM;
    }
    for (i = 0; i < count; i++) {
        ring[i] = cq->ring[(cq->head + i) & cq->mask];
    }
    free(cq->ring);
    cq->ring = ring;
    cq->mask = size - 1;
    cq->head = 0;
    cq->tail = count;
    return 0;
}

void gfi_cq_free_error(struct fi_cq_err_entry *error)
{
    if (error != NULL) {
        free(error->err_data);
        free(error);
    }
}

static struct fi_cq_err_entry *gfi_cq_copy_of(const struct fi_cq_err_entry *entry)
{
    struct fi_cq_err_entry *copy = malloc(sizeof(*copy));

    if (copy == NULL) {
        return NULL;
    }
    *copy = *entry;
    copy->err_data = NULL;
    if (entry->err_data_size > 0) {
        copy->err_data = malloc(entry->err_data_size);
        if (copy->err_data == NULL) {
            free(copy);
            return NULL;
        }
        memcpy(copy->err_data, entry->err_data, entry->err_data_size);
    }
    return copy;
}

void gfi_cq_add_error(struct gfi_cq *cq, const struct fi_cq_err_entry *entry)
{
    struct fi_cq_err_entry *copy = gfi_cq_copy_of(entry);
    struct gfi_cqe *cqe;

    if (copy == NULL) {
        GFI_WARN(FI_LOG_CQ, "no memory: an error completion is lost\n");
        return;
    }
    cqe = gfi_cq_add(cq);
    if (cqe == NULL) {
        gfi_cq_free_error(copy);
        return;
    }
    memset(cqe, 0, sizeof(*cqe));
    cqe->source = FI_ADDR_NOTAVAIL;
    cqe->error = copy;
}

void gfi_cntr_wake(struct gfi_cntr *cntr)
{
    cntr->is_news = true;
    if (cntr->sleeping) {
        cntr->sleeping = false;
        gfi_wait_signal(cntr->signal_fd);
    }
}

void gfi_cntr_count(struct gfi_cntr *cntr, bool is_error)
{
    if (cntr == NULL) {
        return;
    }
    if (is_error) {
        cntr->errors++;
    } else {
        cntr->value++;
    }
    gfi_cntr_wake(cntr);
}

void gfi_ep_count_access(struct gfi_ep *ep, uint64_t access)
{
    gfi_cntr_count(
        ep->cntrs[access == FI_REMOTE_READ ? GFI_CNTR_REMOTE_READ : GFI_CNTR_REMOTE_WRITE], false);
}
