/*
 * mad/umad.c on a libibumad of the test, for kernel behaviour that ibsim lacks: requests that are
 * too long, a removed device, and answers of several segments. The packets of `umad_fake_queue` are
 * received one by one. A packet that is larger than the buffer stays the first packet.
 */
#include "mad/umad.c"

#include "umad_fake.h"

struct umad_fake umad_fake = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int umad_init(void)
{
    return 0;
}

int umad_done(void)
{
    return 0;
}

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
    (void)max;
    strcpy(cas[0], "fake0");
    return 1;
}

int umad_get_ca_portguids(const char *name, __be64 *guids, int max)
{
    (void)name;
    (void)max;
    guids[1] = htobe64(0x77);
    return 2;
}

int umad_get_issm_path(const char *name, int port, char path[], int max)
{
    (void)name;
    (void)port;
    snprintf(path, max, "/dev/null");
    return 0;
}

int umad_open_port(const char *name, int port)
{
    (void)name;
    return port;
}

int umad_close_port(int port)
{
    (void)port;
    return 0;
}

int umad_register(int port, int class, int version, uint8_t rmpp, long methods[16 / sizeof(long)])
{
    (void)port;
    (void)version;
    (void)methods;
    umad_fake.rmpp[class] = rmpp;
    return class;
}

size_t umad_size(void)
{
    return sizeof(ib_user_mad_t);
}

void *umad_get_mad(void *umad)
{
    return ((ib_user_mad_t *)umad)->data;
}

ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
    return &((ib_user_mad_t *)umad)->addr;
}

int umad_status(void *umad)
{
    return ((ib_user_mad_t *)umad)->status;
}

int umad_set_addr(void *umad, int lid, int qpn, int sl, int qkey)
{
    ib_mad_addr_t *addr = umad_get_mad_addr(umad);

    addr->lid = htobe16(lid);
    addr->qpn = htobe32(qpn);
    addr->sl = sl;
    addr->qkey = htobe32(qkey);
    return 0;
}

int umad_send(int port, int agent, void *umad, int length, int timeout, int retries)
{
    (void)port;
    (void)umad;
    pthread_mutex_lock(&umad_fake.mutex);
    umad_fake.sent_agent = agent;
    umad_fake.sent_length = length;
    umad_fake.sent_timeout = timeout;
    umad_fake.sent_retries = retries;
    pthread_mutex_unlock(&umad_fake.mutex);
    return 0;
}

int umad_recv(int port, void *umad, int *length, int timeout)
{
    int status = -ETIMEDOUT, room = *length;

    (void)port;
    pthread_mutex_lock(&umad_fake.mutex);
    umad_fake.calls++;
    if (umad_fake.broken) {
        status = -ENODEV;
    } else if (umad_fake.next < umad_fake.count) {
        *length = umad_fake.lengths[umad_fake.next];
        status = *length > room ? -ENOSPC : MCSM_CLASS_SA;
        memset(umad, 0, umad_size() + (*length > room ? room : *length));
        ((uint8_t *)umad_get_mad(umad))[MCSM_MAD_CLASS] = MCSM_CLASS_SA;
        umad_fake.next += status >= 0;
    }
    pthread_mutex_unlock(&umad_fake.mutex);
    if (status == -ETIMEDOUT && timeout > 0) {
        usleep(1000);
    }
    return status;
}
