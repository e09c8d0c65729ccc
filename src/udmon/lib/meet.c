#include "meet.h"
#include "metric.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char sign_client[] = "client", sign_server[] = "server",
                  sign_challenge[] = "challenge";

size_t udmon_meet_header(void *message, uint8_t type, uint8_t status)
{
    struct udmon_rpc_header *header = message;

    memset(header, 0, sizeof(*header));
    header->magic = htole16(UDMON_MAGIC);
    header->version = UDMON_VERSION;
    header->type = type;
    header->status = status;
    return sizeof(*header);
}

size_t udmon_meet_hello(const uint8_t client_nonce[UDMON_NONCE_SIZE], const char *transport,
                        const struct udmon_hint *hint, uint8_t message[UDMON_HELLO_MAX])
{
    struct udmon_hello *hello = (struct udmon_hello *)message;
    struct udmon_hello_hint *follows = (struct udmon_hello_hint *)(hello + 1);

    memset(hello, 0, sizeof(*hello));
    udmon_meet_header(hello, UDMON_HELLO, UDMON_OK);
    memcpy(hello->client_nonce, client_nonce, UDMON_NONCE_SIZE);
    strncpy(hello->transport, transport, sizeof(hello->transport) - 1);
    hello->header.flags = UDMON_HINTED;
    memcpy(follows->id, hint->id, sizeof(follows->id));
    follows->node_length = strlen(hint->node);
    memcpy(follows + 1, hint->node, follows->node_length);
    return sizeof(*hello) + sizeof(*follows) + follows->node_length;
}

int udmon_meet_hint(const void *message, size_t length, struct udmon_hint *hint)
{
    const struct udmon_hello *hello = message;
    const struct udmon_hello_hint *follows = (const struct udmon_hello_hint *)(hello + 1);

    if (!(hello->header.flags & UDMON_HINTED)) {
        return 0;
    }
    if ((length < (sizeof(*hello) + sizeof(*follows))) || (follows->node_length > UDMON_NAME_MAX) ||
        (length < (sizeof(*hello) + sizeof(*follows) + follows->node_length))) {
        return -EPROTO;
    }
    memset(hint, 0, sizeof(*hint));
    memcpy(hint->id, follows->id, sizeof(hint->id));
    memcpy(hint->node, follows + 1, follows->node_length);
    return 1;
}

static size_t meet_auth_length(const struct udmon_auth *auth)
{
    return sizeof(*auth) + auth->address_length + auth->name_length;
}

long udmon_meet_auth(const struct udmon_secret *secret, const struct udmon_auth *fields,
                     const void *address, size_t address_length, const char *name, uint8_t *message,
                     size_t size)
{
    struct udmon_auth *auth = (struct udmon_auth *)message;
    size_t name_length = strlen(name);
    uint8_t mac[UDMON_MAC_SIZE], flags = fields->header.flags;
    int ret;

    if ((address_length > UINT8_MAX) || (name_length > UDMON_NAME_MAX) ||
        ((sizeof(*auth) + address_length + name_length) > size)) {
        return -EMSGSIZE;
    }
    *auth = *fields;
    udmon_meet_header(auth, UDMON_AUTH, UDMON_OK);
    auth->header.flags = flags;
    auth->address_length = address_length;
    auth->name_length = name_length;
    memset(auth->mac, 0, sizeof(auth->mac));
    memcpy(auth + 1, address, address_length);
    memcpy((uint8_t *)(auth + 1) + address_length, name, name_length);
    ret = udmon_sign(secret, sign_client, auth, meet_auth_length(auth), NULL, 0, mac);
    memcpy(auth->mac, mac, sizeof(auth->mac));
    return (ret < 0) ? ret : (long)meet_auth_length(auth);
}

int udmon_meet_type(const void *message, size_t length)
{
    static const size_t sizes[] = {
        [UDMON_HELLO] = sizeof(struct udmon_hello),
        [UDMON_CHALLENGE] = sizeof(struct udmon_challenge),
        [UDMON_AUTH] = sizeof(struct udmon_auth),
        [UDMON_WELCOME] = sizeof(struct udmon_welcome),
    };
    const struct udmon_rpc_header *header = message;

    if ((length < sizeof(*header)) || (le16toh(header->magic) != UDMON_MAGIC) ||
        (header->version != UDMON_VERSION) || (header->type < UDMON_HELLO) ||
        (header->type > UDMON_WELCOME)) {
        return 0;
    }
    if (length >= sizes[header->type]) {
        return header->type;
    }
    /* A refusal is only a header. A request cannot be a refusal. */
    return ((header->status != UDMON_OK) &&
            ((header->type == UDMON_CHALLENGE) || (header->type == UDMON_WELCOME))) ?
               header->type :
               0;
}

int udmon_meet_auth_parse(const void *message, size_t length, struct udmon_auth_view *view)
{
    const struct udmon_auth *auth = message;
    size_t name_length, i;

    if ((udmon_meet_type(message, length) != UDMON_AUTH) || (auth->header.status != UDMON_OK) ||
        (meet_auth_length(auth) > length) || (auth->name_length > UDMON_NAME_MAX)) {
        return -EPROTO; /* may be longer: RDMA CM fills up with zeros */
    }
    view->auth = auth;
    view->address = auth + 1;
    view->address_length = auth->address_length;
    name_length = auth->name_length;
    memcpy(view->name, (const uint8_t *)(auth + 1) + auth->address_length, name_length);
    view->name[name_length] = '\0';
    /* A name goes into logs, web pages and file names. */
    for (i = 0; i < name_length; ++i) {
        if (!udmon_node_name_char(view->name[i])) {
            view->name[i] = '_';
        }
    }
    memcpy(view->transport, auth->transport, sizeof(auth->transport));
    view->transport[sizeof(auth->transport)] = '\0';
    return 0;
}

bool udmon_meet_auth_check(const struct udmon_secret *secret, const struct udmon_auth_view *view)
{
    uint8_t copy[UDMON_RPC_MAX], mac[UDMON_MAC_SIZE];
    size_t length = meet_auth_length(view->auth);

    if (length > sizeof(copy)) {
        return false;
    }
    memcpy(copy, view->auth, length);
    memset(((struct udmon_auth *)copy)->mac, 0, sizeof(view->auth->mac));
    return (udmon_sign(secret, sign_client, copy, length, NULL, 0, mac) == 0) &&
           udmon_mac_equal(mac, view->auth->mac, sizeof(view->auth->mac));
}

static int meet_challenge_mac(const struct udmon_secret *secret,
                              const uint8_t client_nonce[UDMON_NONCE_SIZE],
                              const struct udmon_challenge *challenge, uint8_t mac[UDMON_MAC_SIZE])
{
    uint8_t copy[sizeof(*challenge) + UINT8_MAX];
    size_t length = sizeof(*challenge) + challenge->address_length;

    memcpy(copy, challenge, length);
    memset(((struct udmon_challenge *)copy)->mac, 0, UDMON_MAC_SIZE);
    return udmon_sign(secret, sign_challenge, client_nonce, UDMON_NONCE_SIZE, copy, length, mac);
}

int udmon_meet_challenge_sign(const struct udmon_secret *secret,
                              const uint8_t client_nonce[UDMON_NONCE_SIZE],
                              struct udmon_challenge *challenge)
{
    uint8_t mac[UDMON_MAC_SIZE];
    int ret = meet_challenge_mac(secret, client_nonce, challenge, mac);

    memcpy(challenge->mac, mac, sizeof(mac));
    return ret;
}

int udmon_meet_challenge_check(const struct udmon_secret *secret,
                               const uint8_t client_nonce[UDMON_NONCE_SIZE],
                               const struct udmon_challenge *challenge, size_t length)
{
    uint8_t mac[UDMON_MAC_SIZE];

    if ((sizeof(*challenge) + challenge->address_length) > length) {
        return -EPROTO;
    }
    return (meet_challenge_mac(secret, client_nonce, challenge, mac) == 0) &&
           udmon_mac_equal(mac, challenge->mac, UDMON_MAC_SIZE);
}

static int meet_welcome_mac(const struct udmon_secret *secret, const struct udmon_auth *auth,
                            const struct udmon_welcome *welcome, uint8_t mac[UDMON_MAC_SIZE])
{
    struct udmon_welcome copy = *welcome;

    memset(copy.mac, 0, sizeof(copy.mac));
    /* The client's signature covers both nonces and all other agreed values. */
    return udmon_sign(secret, sign_server, auth->mac, sizeof(auth->mac), &copy, sizeof(copy), mac);
}

int udmon_meet_welcome_sign(const struct udmon_secret *secret, const struct udmon_auth *auth,
                            struct udmon_welcome *welcome)
{
    uint8_t mac[UDMON_MAC_SIZE];
    int ret;

    ret = meet_welcome_mac(secret, auth, welcome, mac);
    memcpy(welcome->mac, mac, sizeof(mac));
    return ret;
}

bool udmon_meet_welcome_check(const struct udmon_secret *secret, const struct udmon_auth *auth,
                              const struct udmon_welcome *welcome)
{
    uint8_t mac[UDMON_MAC_SIZE];

    return (meet_welcome_mac(secret, auth, welcome, mac) == 0) &&
           udmon_mac_equal(mac, welcome->mac, UDMON_MAC_SIZE);
}

const char *udmon_meet_status_text(uint8_t status)
{
    switch (status) {
    case UDMON_OK:
        return "accepted";
    case UDMON_REFUSED:
        return "refused: the secret of the server is another, or is not for our name";
    case UDMON_FULL:
        return "refused: the server has no room for more clients";
    case UDMON_NO_TRANSPORT:
        return "the server does not offer this network";
    case UDMON_EXPIRED:
        return "refused: the answer came too late";
    case UDMON_NO_RELAY:
        return "refused: the server is a relay itself and takes records of agents only";
    case UDMON_UNKNOWN_RELAY:
        return "refused: the server's option relays does not list this relay, or our certificate "
               "does not name it";
    case UDMON_WRONG_NAME:
        return "refused: the server checks names, and our certificate does not name us, or our "
               "secret is not the secret of our name";
    default:
        return "refused: client and server do not understand each other (another version?)";
    }
}
