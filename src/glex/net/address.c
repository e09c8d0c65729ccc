/*
 * The place of an endpoint on a network. The NIC id is the number of the host in the subnet of the
 * interface. The endpoint's number gives the port. So an address names the place to connect to, and
 * no directory of endpoints is needed.
 */
#include "core/device.h"
#include "base/env.h"
#include "base/fabric.h"
#include "base/log.h"
#include "common/fnv.h"
#include "net/net.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef OPENGLEX_PKGLIBDIR
#define OPENGLEX_PKGLIBDIR "/usr/local/lib/openglex"
#endif

#define ADDRESS_BACKLOG 1024
/* Programs pack the number of an endpoint above 24 bits of NIC id. */
#define ADDRESS_MIN_PREFIX 8u
/* Longer prefixes are those of point-to-point links (RFC 3021) and of single addresses. */
#define ADDRESS_MAX_PREFIX 30u

/* ---- the interface --------------------------------------------------------------------------- */

static uint32_t address_ip(const struct sockaddr *sa)
{
    struct sockaddr_in sin;

    memcpy(&sin, sa, sizeof(sin));
    return ntohl(sin.sin_addr.s_addr);
}

static bool address_is_loopback(uint32_t ip)
{
    return ip >> 24 == 127;
}

/* Whether `wanted` is a subnet, as 10.77.0.0/16, that an address is in. */
static bool address_is_in(uint32_t ip, const char *wanted)
{
    const char *slash = strchr(wanted, '/');
    char text[INET_ADDRSTRLEN] = "", *end = NULL;
    struct in_addr net;
    unsigned long bits;

    if (slash == NULL || (size_t)(slash - wanted) >= sizeof(text) ||
        !isdigit((unsigned char)slash[1])) {
        return false;
    }
    memcpy(text, wanted, (size_t)(slash - wanted));
    bits = strtoul(slash + 1, &end, 10);
    if (inet_pton(AF_INET, text, &net) != 1 || *end != '\0' || bits > 32) {
        return false;
    }
    return bits == 0 || (ip ^ ntohl(net.s_addr)) >> (32 - bits) == 0;
}

/* Whether an interface is the wanted interface, by name, address or subnet. If none is wanted, each
 * interface but a loopback is. */
static bool address_matches(const struct ifaddrs *ifa, const char *wanted)
{
    struct in_addr addr;

    if (ifa->ifa_addr == NULL || ifa->ifa_addr->sa_family != AF_INET || ifa->ifa_netmask == NULL ||
        (ifa->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING)) {
        return false;
    }
    if (wanted[0] == '\0') {
        return !(ifa->ifa_flags & IFF_LOOPBACK);
    }
    if (inet_pton(AF_INET, wanted, &addr) == 1) {
        /* All addresses of a loopback's net are its own. */
        return ntohl(addr.s_addr) == address_ip(ifa->ifa_addr) ||
               ((ifa->ifa_flags & IFF_LOOPBACK) && address_is_loopback(ntohl(addr.s_addr)));
    }
    return strcmp(ifa->ifa_name, wanted) == 0 || address_is_in(address_ip(ifa->ifa_addr), wanted);
}

/* All hosts of a subnet number themselves by the same rule, so the rule depends on the subnet alone.
 * @return Whether the host has a number in the subnet. */
static bool address_take(const struct ifaddrs *ifa, const char *wanted,
                         struct glex_net_place *place)
{
    uint32_t mask = address_ip(ifa->ifa_netmask);
    struct in_addr addr;

    place->ip =
        inet_pton(AF_INET, wanted, &addr) == 1 ? ntohl(addr.s_addr) : address_ip(ifa->ifa_addr);
    place->prefix = (uint32_t)__builtin_popcount(mask);
    /* The whole address is the number if the subnet has too many hosts for 24 bits, or is a
     * point-to-point link, whose first host would have the number 0. */
    if (place->prefix < ADDRESS_MIN_PREFIX || place->prefix > ADDRESS_MAX_PREFIX) {
        place->prefix = 0;
    }
    place->nic_id = place->prefix == 0 ? place->ip : place->ip & ~mask;
    snprintf(place->interface, sizeof(place->interface), "%s", ifa->ifa_name);
    return place->nic_id != 0;
}

static void address_say_none(const char *wanted)
{
    if (strchr(wanted, ':') != NULL) {
        glex_error("GLEX_NET: %s is an IPv6 address; the NIC id of a host is made from an IPv4 "
                   "address, so give the interface one",
                   wanted);
        return;
    }
    glex_error("GLEX_NET: there is no interface%s%s with an IPv4 address that is up; `ip -4 addr` "
               "lists them, and GLEX_NET=%s/INTERFACE chooses one by name, address or subnet",
               wanted[0] != '\0' ? " " : "", wanted, glex_env()->net_provider);
}

/* Logs the choice where the user left it open: another host may choose another network. */
static void address_say_choice(const struct ifaddrs *ifa, const struct glex_net_place *place)
{
    const struct ifaddrs *other = ifa->ifa_next;

    while (other != NULL && !address_matches(other, "")) {
        other = other->ifa_next;
    }
    if (other != NULL) {
        glex_log(GLEX_LOG_INFO,
                 "GLEX_NET: takes interface %s, and there are others, as %s; "
                 "GLEX_NET=%s/SUBNET/BITS chooses the same network on each host",
                 place->interface, other->ifa_name, glex_env()->net_provider);
    }
}

static glex_ret_t address_find(struct glex_net_place *place)
{
    const char *wanted = glex_env()->net_interface;
    struct ifaddrs *list, *ifa;
    bool has_number = true;

    if (getifaddrs(&list) != 0) {
        glex_error("cannot list the network interfaces: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    for (ifa = list; ifa != NULL && !address_matches(ifa, wanted); ifa = ifa->ifa_next) {
    }
    if (ifa == NULL) {
        address_say_none(wanted);
    } else {
        has_number = address_take(ifa, wanted, place);
        if (wanted[0] == '\0') {
            address_say_choice(ifa, place);
        }
    }
    freeifaddrs(list);
    if (!has_number) {
        glex_error("GLEX_NET: the address of %s is the number of its subnet, and no host can have "
                   "it",
                   place->interface);
    }
    return ifa != NULL && has_number ? GLEX_SUCCESS : GLEX_INVALID_PARAM;
}

static uint32_t address_mask(const struct glex_net_place *place)
{
    return place->prefix == 0 ? 0 : ~0u << (32 - place->prefix);
}

uint32_t glex_net_ip(const struct glex_net_place *place, uint32_t nic_id)
{
    uint32_t mask = address_mask(place);

    if (!place->on || nic_id == 0 || (nic_id & mask) != 0) {
        return 0;
    }
    return (place->ip & mask) | nic_id;
}

/* ---- the key --------------------------------------------------------------------------------- */

static bool address_key_digits(const char *text, struct glex_net_place *place)
{
    size_t len = strspn(text, "0123456789abcdefABCDEF"), i;
    unsigned byte;

    if (text[len] != '\0' || len % 2 != 0 || len < 32 || len > 2 * GLEX_NET_KEY_MAX) {
        return false;
    }
    for (i = 0; i < len / 2; i++) {
        sscanf(text + 2 * i, "%2x", &byte);
        place->key[i] = (uint8_t)byte;
    }
    place->key_len = (uint32_t)(len / 2);
    return true;
}

static glex_ret_t address_key_file(const char *path, struct glex_net_place *place)
{
    char text[2 * GLEX_NET_KEY_MAX + 2];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    ssize_t len;

    if (fd < 0 || fstat(fd, &st) != 0) {
        glex_error("GLEX_NET_KEY_FILE=%s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return GLEX_INVALID_PARAM;
    }
    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (st.st_mode & (S_IRWXG | S_IRWXO)) {
        glex_error("GLEX_NET_KEY_FILE=%s: others may read it (mode %03o): chmod 600", path,
                   (unsigned)st.st_mode & 0777);
        return GLEX_INVALID_PARAM;
    }
    while (len > 0 && isspace((unsigned char)text[len - 1])) {
        len--;
    }
    text[len < 0 ? 0 : len] = '\0';
    if (!address_key_digits(text, place)) {
        glex_error("GLEX_NET_KEY_FILE=%s: must hold 32 to %u hexadecimal digits", path,
                   2 * GLEX_NET_KEY_MAX);
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

/* Sets the key. A loopback interface needs a key, too: other users of the machine reach its ports. */
static glex_ret_t address_find_key(struct glex_net_place *place)
{
    const char *key = getenv("GLEX_NET_KEY"), *file = getenv("GLEX_NET_KEY_FILE");

    if (key != NULL && strcmp(key, "none") == 0) {
        glex_warn(
            "GLEX_NET_KEY=none: everybody who reaches a port of this process, other users of "
            "this machine included, can send to it, and read and write its registered memory");
        return GLEX_SUCCESS;
    }
    if (key != NULL) {
        if (!address_key_digits(key, place)) {
            glex_error("GLEX_NET_KEY: must be 32 to %u hexadecimal digits, for instance of "
                       "`openssl rand -hex 16`, or none",
                       2 * GLEX_NET_KEY_MAX);
            return GLEX_INVALID_PARAM;
        }
        return GLEX_SUCCESS;
    }
    if (file != NULL) {
        return address_key_file(file, place);
    }
    glex_error("GLEX_NET: the processes of a job need a key in common, GLEX_NET_KEY or "
               "GLEX_NET_KEY_FILE: 32 hexadecimal digits, for instance of `openssl rand -hex 16`; "
               "`glexrun mpirun` and `glexrun srun` make a key for the job. GLEX_NET_KEY=none does "
               "without a key");
    return GLEX_INVALID_PARAM;
}

/* ---- the network ----------------------------------------------------------------------------- */

/*
 * Returns a number of the network: processes that can reach each other get equal numbers. Each
 * network namespace has a loopback of its own. The key is not in the number: everybody may read the
 * number, and could compute the key from it.
 */
static uint64_t address_identity(const struct glex_net_place *place)
{
    uint32_t net = place->ip & address_mask(place), port = glex_env()->net_port;
    uint64_t hash = fnv1a(FNV_START, &net, sizeof(net));
    struct stat st;

    hash = fnv1a(hash, &place->prefix, sizeof(place->prefix));
    hash = fnv1a(hash, &port, sizeof(port));
    if (address_is_loopback(place->ip)) {
        hash = glex_fabric_hash_host(hash);
        if (stat("/proc/self/ns/net", &st) == 0) {
            hash = fnv1a(hash, &st.st_ino, sizeof(st.st_ino));
        }
    }
    return hash != 0 ? hash : 1;
}

static glex_ret_t address_load(struct glex_net_place *place)
{
    const char *path = secure_getenv("GLEX_NET_MODULE");
    char why[256];
    void *handle;

    if (path == NULL) {
        path = OPENGLEX_PKGLIBDIR "/glex-net.so";
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays: libfabric cannot be unloaded */
    place->module = handle != NULL ? dlsym(handle, "glex_net_module") : NULL;
    if (place->module == NULL || place->module->version != GLEX_NET_ENGINE_VERSION) {
        glex_error("GLEX_NET: cannot load %s: %s; it comes with openglex where it was built with "
                   "libfabric",
                   path, place->module == NULL ? dlerror() : "it is of another version of libglex");
        return GLEX_INVALID_PARAM;
    }
    if (!place->module->probe(glex_env()->net_provider, place->ip, why, sizeof(why))) {
        glex_error("GLEX_NET=%s: %s", glex_env()->net_provider, why);
        return GLEX_INVALID_PARAM;
    }
    return GLEX_SUCCESS;
}

glex_ret_t glex_net_find_place(struct glex_net_place *place)
{
    glex_ret_t ret;

    memset(place, 0, sizeof(*place));
    if (glex_env()->net_provider == NULL) {
        return GLEX_SUCCESS;
    }
    ret = address_find(place);
    if (ret == GLEX_SUCCESS) {
        ret = address_find_key(place);
    }
    if (ret == GLEX_SUCCESS) {
        ret = address_load(place);
    }
    if (ret == GLEX_SUCCESS) {
        place->on = true;
        place->identity = address_identity(place);
    }
    return ret;
}

void glex_net_describe(const struct glex_net_place *place, char *text, size_t size)
{
    struct in_addr addr = {.s_addr = htonl(place->ip)};
    char ip[INET_ADDRSTRLEN];

    text[0] = '\0';
    if (place->on) {
        inet_ntop(AF_INET, &addr, ip, sizeof(ip));
        snprintf(text, size, "%.20s/%s %s", glex_env()->net_provider, place->interface, ip);
    }
}

/* ---- ports ----------------------------------------------------------------------------------- */

uint32_t glex_net_max_num(void)
{
    return GLEX_NET_MAX_PORT - glex_env()->net_port;
}

uint16_t glex_net_port(uint32_t num)
{
    return (uint16_t)(glex_env()->net_port + num);
}

int glex_net_listen(const struct glex_net_place *place, uint32_t num)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(glex_net_port(num))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, err;

    sin.sin_addr.s_addr = htonl(place->ip);
    /* A port that an ended program's connections still linger at can be had; one in use cannot. */
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(fd, ADDRESS_BACKLOG) == 0) {
        return fd;
    }
    err = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = err;
    return -1;
}
