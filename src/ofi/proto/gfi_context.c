/*
 * The contexts of an endpoint's posted receives, for fi_cancel(). The endpoint has no table of
 * contexts until fi_cancel() has searched many receives in vain. The table then exists until no
 * receive is posted. So a program without cancels, or with few receives, pays nothing. Each of many
 * cancels takes the same time.
 *
 * The table names the first receive with a context. Further receives with this context follow it in
 * a ring, in the order of posting.
 */
#include "gfi_op.h"

#define GFI_CONTEXT_WALK 32 /* receives that are searched without the table */

static struct gfi_recv *gfi_context_first(const struct gfi_ep *ep, const void *context)
{
    uint64_t value;

    return gfi_map_get(&ep->contexts, (uintptr_t)context, &value) ?
               (struct gfi_recv *)(uintptr_t)value :
               NULL;
}

void gfi_context_cleanup(struct gfi_ep *ep)
{
    gfi_map_cleanup(&ep->contexts);
    ep->has_contexts = false;
}

void gfi_context_add(struct gfi_ep *ep, struct gfi_recv *recv)
{
    struct gfi_recv *first = gfi_context_first(ep, recv->context);

    gfi_list_init(&recv->same_context);
    if (first != NULL) {
        gfi_list_add(&first->same_context, &recv->same_context);
    } else if (gfi_map_set(&ep->contexts, (uintptr_t)recv->context, (uintptr_t)recv) != 0) {
        gfi_context_cleanup(ep); /* no memory: fi_cancel() searches the lists */
    }
}

void gfi_context_remove(struct gfi_ep *ep, struct gfi_recv *recv)
{
    struct gfi_list *next = recv->same_context.next;

    if (next == &recv->same_context) {
        gfi_map_delete(&ep->contexts, (uintptr_t)recv->context);
    } else if (gfi_context_first(ep, recv->context) == recv) {
        /* the value is replaced, so no memory is needed */
        gfi_map_set(&ep->contexts, (uintptr_t)recv->context,
                    (uintptr_t)gfi_of(next, struct gfi_recv, same_context));
    }
    gfi_list_del(&recv->same_context);
    if (ep->contexts.count == 0) {
        gfi_context_cleanup(ep);
    }
}

/* Enters all receives of a list. The last gfi_context_add() may have removed the table */
static void gfi_context_add_all(struct gfi_ep *ep, const struct gfi_match *match)
{
    struct gfi_list *item;

    gfi_list_for_each(item, &match->all_recvs) {
        if (ep->has_contexts) {
            gfi_context_add(ep, gfi_of(item, struct gfi_recv, match.all));
        }
    }
}

/* `left`: receives that may be searched. Reduced by the searched ones */
static struct gfi_recv *gfi_context_walk(const struct gfi_match *match, const void *context,
                                         size_t *left)
{
    struct gfi_recv *recv;
    struct gfi_list *item;

    gfi_list_for_each(item, &match->all_recvs) {
        recv = gfi_of(item, struct gfi_recv, match.all);
        if (recv->context == context) {
            return recv;
        }
        if (--*left == 0) {
            break;
        }
    }
    return NULL;
}

struct gfi_recv *gfi_context_find(struct gfi_ep *ep, const void *context)
{
    size_t left = GFI_CONTEXT_WALK;
    struct gfi_recv *recv;

    if (!ep->has_contexts) {
        recv = gfi_context_walk(&ep->tagged, context, &left);
        if (recv == NULL && left > 0) {
            recv = gfi_context_walk(&ep->msg, context, &left);
        }
        if (recv != NULL || left > 0) {
            return recv;
        }
        ep->has_contexts = true;
        gfi_context_add_all(ep, &ep->tagged);
        gfi_context_add_all(ep, &ep->msg);
    }
    if (ep->has_contexts) {
        return gfi_context_first(ep, context);
    }
    left = SIZE_MAX; /* no memory for the table */
    recv = gfi_context_walk(&ep->tagged, context, &left);
    return recv != NULL ? recv : gfi_context_walk(&ep->msg, context, &left);
}
