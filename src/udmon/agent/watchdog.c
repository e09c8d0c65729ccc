/* systemd's watchdog (sd_notify(3)): the loop says that it runs. If it stops, systemd restarts the agent. */
#include "watchdog.h"
#include "node.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct {
    int fd;
    struct sockaddr_un address;
    socklen_t length;
    uint64_t period_ms;
    struct udmon_timer timer;
} watchdog;

static void watchdog_fire(struct udmon_timer *timer)
{
    static const char alive[] = "WATCHDOG=1";
    static struct udmon_log_limit limit;

    if (sendto(watchdog.fd, alive, strlen(alive), MSG_DONTWAIT | MSG_NOSIGNAL,
               (struct sockaddr *)&watchdog.address, watchdog.length) < 0) {
        udmon_warn_limited(&limit, "cannot notify systemd's watchdog at NOTIFY_SOCKET: %s",
                           strerror(errno));
    }
    udmon_timer_set(&agent_loop, timer, watchdog.period_ms);
}

void watchdog_start(void)
{
    const char *path = getenv("NOTIFY_SOCKET"), *period = getenv("WATCHDOG_USEC");

    watchdog.period_ms = (period != NULL) ? (strtoull(period, NULL, 10) / 3000) : 0;
    if ((path == NULL) || (watchdog.period_ms == 0) ||
        (strlen(path) >= sizeof(watchdog.address.sun_path))) {
        return;
    }
    watchdog.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (watchdog.fd < 0) {
        udmon_warn("no socket for systemd's watchdog: %s", strerror(errno));
        return;
    }
    watchdog.address.sun_family = AF_UNIX;
    strcpy(watchdog.address.sun_path, path);
    watchdog.length = offsetof(struct sockaddr_un, sun_path) + strlen(path);
    if (path[0] == '@') {
        watchdog.address.sun_path[0] = '\0'; /* an abstract address */
    }
    watchdog.timer.fire = watchdog_fire;
    watchdog_fire(&watchdog.timer);
}
