#include "base/env.h"
#include "base/env_names.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <openglex.h>

#define ENV_MAX_NAME 64

static struct glex_env env;

/* A number in a range, decimal or 0x. */
static bool env_number(const char *name, uint64_t min, uint64_t max, uint32_t *value_p)
{
    const char *text = getenv(name);
    unsigned long long value;
    char *end;

    if (text == NULL) {
        return true;
    }

    errno = 0;
    value = strtoull(text, &end, 0);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < min ||
        value > max) {
        glex_error("%s=%s: must be a number from %llu to %llu", name, text, (unsigned long long)min,
                   (unsigned long long)max);
        return false;
    }
    *value_p = (uint32_t)value;
    return true;
}

/* The name of a directory: without '/', and not hidden. */
static bool env_fabric(void)
{
    const char *text = getenv("GLEX_FABRIC");
    size_t len;

    if (text == NULL) {
        return true;
    }

    len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (len == 0 || text[len] != '\0' || len > ENV_MAX_NAME || text[0] == '.') {
        glex_error("GLEX_FABRIC=%s: must be 1 to %d letters, digits, '.', '_' or '-', and not "
                   "begin with '.'",
                   text, ENV_MAX_NAME);
        return false;
    }
    env.fabric = text;
    return true;
}

static bool env_shm_dir(void)
{
    const char *text = getenv("GLEX_SHM_DIR");

    if (text == NULL) {
        return true;
    }
    if (text[0] != '/') {
        glex_error("GLEX_SHM_DIR=%s: must be the absolute path of a directory", text);
        return false;
    }
    env.shm_dir = text;
    return true;
}

static bool env_yes_no(const char *name, bool *value_p)
{
    const char *text = getenv(name);

    if (text != NULL && strcmp(text, "y") != 0 && strcmp(text, "n") != 0) {
        glex_error("%s=%s: must be y or n", name, text);
        return false;
    }
    *value_p = text == NULL || text[0] == 'y';
    return true;
}

/* The vendor's variable: any value but an empty one and 0 says yes. */
static bool env_single_threaded(void)
{
    const char *text = getenv("LIB_GLEX_SINGLE_THREADED");

    return text != NULL && text[0] != '\0' && strcmp(text, "0") != 0;
}

static bool env_log_level(void)
{
    static const char *const names[] = {
        [GLEX_LOG_NONE] = "none",
        [GLEX_LOG_ERROR] = "error",
        [GLEX_LOG_WARN] = "warn",
        [GLEX_LOG_INFO] = "info",
    };
    const char *text = getenv("GLEX_LOG");
    size_t i;

    if (text == NULL) {
        return true;
    }
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            glex_log_set_level((enum glex_log_level)i);
            return true;
        }
    }
    glex_error("GLEX_LOG=%s: must be none, error, warn or info", text);
    return false;
}

/* PROVIDER[/INTERFACE]. A network has one NIC on each host, and the address gives the NIC's id. */
static bool env_net(void)
{
    const char *text = getenv("GLEX_NET");
    char *copy, *slash;

    if (text == NULL || text[0] == '\0') {
        return true;
    }
    copy = strdup(text); /* for as long as the process lives */
    if (copy == NULL) {
        glex_error("no memory");
        return false;
    }
    slash = strchr(copy, '/');
    env.net_provider = copy;
    env.net_interface = "";
    if (slash != NULL) {
        *slash = '\0';
        env.net_interface = slash + 1;
    }
    if (env.num_nics > 1 || env.nic_id != 0) {
        glex_error("GLEX_NET=%s: a network is one NIC with an id of its own: GLEX_NUM_NICS and "
                   "GLEX_NIC_ID do not go with it",
                   text);
        return false;
    }
    return true;
}

#ifdef OPENGLEX_FAULT_INJECTION

#define FAULT_ALLOWED                                                                              \
    "mp_loss=P, mp_delay=P:N, mp_reorder=P, mpq_full=P, eq_full=P, busy=P, kill=N, nomap, "        \
    "noprivate, far, seed=N (P: a probability from 0 to 1)"

static bool parse_probability(const char *text, char **end, double *p)
{
    *p = strtod(text, end);
    return (isdigit((unsigned char)text[0]) || text[0] == '.') && *p >= 0.0 && *p <= 1.0;
}

static bool parse_number(const char *text, char **end, uint64_t *n)
{
    errno = 0;
    *n = strtoull(text, end, 0);
    return isdigit((unsigned char)text[0]) && errno == 0;
}

static bool parse_delay(const char *text, char **end, struct glex_fault_spec *spec)
{
    uint64_t posts;

    if (!parse_probability(text, end, &spec->mp_delay) || **end != ':' ||
        !parse_number(*end + 1, end, &posts) || posts == 0 || posts > 1000000) {
        return false;
    }
    spec->mp_delay_posts = (uint32_t)posts;
    return true;
}

/* One `name` or `name=value`; `end` is set behind the value. */
static bool parse_item(const char *name, size_t len, const char *value, char **end,
                       struct glex_fault_spec *spec)
{
    const struct {
        const char *name;
        double *p;
    } probabilities[] = {
        {"mp_loss", &spec->mp_loss},   {"mp_reorder", &spec->mp_reorder},
        {"mpq_full", &spec->mpq_full}, {"eq_full", &spec->eq_full},
        {"busy", &spec->busy},
    };
    size_t i;

#define NAME_IS(s) (len == strlen(s) && memcmp(name, s, len) == 0)
    if (value == NULL) {
        *end = (char *)(uintptr_t)(name + len);
        spec->nomap |= NAME_IS("nomap");
        spec->noprivate |= NAME_IS("noprivate");
        spec->far |= NAME_IS("far");
        return NAME_IS("nomap") || NAME_IS("noprivate") || NAME_IS("far");
    }
    for (i = 0; i < sizeof(probabilities) / sizeof(probabilities[0]); i++) {
        if (NAME_IS(probabilities[i].name)) {
            return parse_probability(value, end, probabilities[i].p);
        }
    }
    if (NAME_IS("mp_delay")) {
        return parse_delay(value, end, spec);
    }
    if (NAME_IS("kill")) {
        return parse_number(value, end, &spec->kill) && spec->kill != 0;
    }
    return NAME_IS("seed") && parse_number(value, end, &spec->seed);
#undef NAME_IS
}

static bool env_fault(const char *text, struct glex_fault_spec *spec)
{
    const char *item = text;
    size_t len;
    char *end;

    memset(spec, 0, sizeof(*spec));
    while (*item != '\0') {
        len = strcspn(item, "=,");
        end = NULL;
        if (!parse_item(item, len, item[len] == '=' ? item + len + 1 : NULL, &end, spec) ||
            (*end != ',' && *end != '\0') || (*end == ',' && end[1] == '\0')) {
            glex_error("GLEX_FAULT=%s: wrong at '%s'; allowed: " FAULT_ALLOWED, text, item);
            return false;
        }
        spec->on = true;
        item = *end == ',' ? end + 1 : end;
    }
    if (spec->far && env.net_provider == NULL) {
        glex_error("GLEX_FAULT=%s: far leaves neighbours to the network, and GLEX_NET is not set",
                   text);
        return false;
    }
    return true;
}

#else

static bool env_fault(const char *text, struct glex_fault_spec *spec)
{
    (void)spec;
    glex_error("GLEX_FAULT=%s: this libglex was built without fault injection "
               "(configure --enable-fault-injection)",
               text);
    return false;
}

#endif

/* The rank that the launcher gave to this process, for messages. mpirun's rank comes before Slurm's:
 * Slurm's variable in a batch script is about the script. */
static int32_t env_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    const char *text;
    size_t i;
    char *end;
    long rank;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        text = getenv(names[i]);
        if (text != NULL) {
            rank = strtol(text, &end, 10);
            return isdigit((unsigned char)text[0]) && *end == '\0' && rank <= INT32_MAX ?
                       (int32_t)rank :
                       -1;
        }
    }
    return -1;
}

/* Reads all variables even after a mistake, so the user sees all mistakes at once. */
static void env_read(void)
{
    const char *fault = getenv("GLEX_FAULT");
    bool ok;

    env.shm_dir = "/dev/shm";
    env.fabric = "default";
    env.num_nics = 1;
    env.net_port = GLEX_NET_DEFAULT_PORT;
    env.net_timeout = GLEX_NET_DEFAULT_TIMEOUT;
    env.stats = secure_getenv("GLEX_STATS"); /* names a file to write, so a setuid program ignores
                                              * it */
    env.single_threaded = env_single_threaded();
    env.capture = secure_getenv("GLEX_CAPTURE"); /* like GLEX_STATS */

    env.rank = env_rank();

    ok = env_log_level();
    glex_env_check_names();
    ok &= env_shm_dir();
    ok &= env_fabric();
    ok &= env_number("GLEX_NIC_ID", 1, UINT32_MAX - GLEX_MAX_NICS, &env.nic_id);
    ok &= env_number("GLEX_NUM_NICS", 1, GLEX_MAX_NICS, &env.num_nics);
    ok &= env_number("GLEX_NET_PORT", 1024, GLEX_NET_MAX_PORT - 1, &env.net_port);
    ok &= env_number("GLEX_NET_TIMEOUT", 2, 3600, &env.net_timeout);
    ok &= env_net();
    ok &= env_yes_no("GLEX_PRIVATE_RDMA", &env.private_rdma);
    ok &= env_yes_no("GLEX_COPY_HELP", &env.copy_help);
    ok &= fault == NULL || env_fault(fault, &env.fault);
    env.valid = ok;
}

const struct glex_env *glex_env(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, env_read);
    return &env;
}
