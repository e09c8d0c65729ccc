/* Prints descriptors and their fields, one a line as JSON: for nmp_model.py. */
#include <stdio.h>
#include <stdlib.h>

#include "common/nmp.h"

static uint64_t state = 88172645463325252ull;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void fill(struct nmp_desc *d, unsigned type)
{
    unsigned i;

    nmp_init(d, (enum nmp_type)type, (enum nmp_chip)(1 + next() % 2), (uint32_t)next() & 0xffffff);
    d->sm = next() & 1;
    d->inst = next() & 1;
    d->err = next() & 1;
    d->fence = next() & 1;
    d->lint = next() & 1;
    d->rint = next() & 1;
    d->dest_vp = (uint8_t)next();
    d->src_vp = (uint8_t)next();
    d->transaction = (uint16_t)next();
    d->forward.num = (uint8_t)(next() % 21);
    d->backward.num = (uint8_t)(next() % 21);
    for (i = 0; i < 20; i++) {
        d->forward.hop[i] = i < d->forward.num ? next() % 32 : 0;
        d->backward.hop[i] = i < d->backward.num ? next() % 32 : 0;
    }
    d->data.count = next() % 16;
    d->data.status = next() % 16;
    for (i = 0; i < 6; i++) {
        d->data.addr[i] = (uint16_t)next();
        d->data.byte[i] = (uint8_t)next();
    }
    d->data.reg[0] = next();
    d->data.reg[1] = next();
    d->data.report.event = (uint8_t)next();
    d->data.report.port = (uint8_t)next();
    d->data.report.src_type = (uint8_t)next();
    d->data.report.src_id = (uint32_t)next() & 0xffffff;
    d->data.report.seq = (uint32_t)next();
    d->data.report.value = next();
}

static void list(const char *name, const uint8_t *values, int num)
{
    int i;

    printf(",\"%s\":[", name);
    for (i = 0; i < num; i++) {
        printf("%s%u", i ? "," : "", values[i]);
    }
    printf("]");
}

int main(void)
{
    struct nmp_desc d;
    uint8_t buf[NMP_DESC_BYTES];
    int n, i;

    for (n = 0; n < 550; n++) {
        fill(&d, 1 + (unsigned)n % 11);
        nmp_encode(&d, buf);
        printf("{\"hex\":\"");
        for (i = 0; i < NMP_DESC_BYTES; i++) {
            printf("%02x", buf[i]);
        }
        printf("\",\"Head\":%u,\"Type\":%u,\"SM\":%u,\"Inst\":%u,\"Err\":%u,\"Fen\":%u,\"Lint\":%u,"
               "\"Rint\":%u,\"RtType\":%u,\"DestType\":%u,\"DestID\":%u,\"DestVP\":%u,\"SrcVP\":%u,"
               "\"TransactionID\":%u,\"NMPType\":%u,\"Count\":%u,\"Status\":%u",
               d.head, d.type, d.sm, d.inst, d.err, d.fence, d.lint, d.rint, d.rt_type, d.dest_type,
               d.dest_id, d.dest_vp, d.src_vp, d.transaction, d.nmp_type, d.data.count,
               d.data.status);
        printf(",\"FHops\":%u,\"BHops\":%u", d.forward.num, d.backward.num);
        list("F", d.forward.hop, 20);
        list("B", d.backward.hop, 20);
        list("bytes", d.data.byte, 6);
        printf(",\"addr\":[");
        for (i = 0; i < 6; i++) {
            printf("%s%u", i ? "," : "", d.data.addr[i]);
        }
        printf("],\"reg\":[%llu,%llu]", (unsigned long long)d.data.reg[0],
               (unsigned long long)d.data.reg[1]);
        printf(
            ",\"event\":%u,\"port\":%u,\"src_type\":%u,\"src_id\":%u,\"seq\":%u,\"value\":%llu}\n",
            d.data.report.event, d.data.report.port, d.data.report.src_type, d.data.report.src_id,
            d.data.report.seq, (unsigned long long)d.data.report.value);
    }
    return 0;
}
