#!/bin/bash
# No sensor stops the agent: a FIFO among the textfiles, a file system whose server never answers, an endpoint that
# never answers. The other sensors go on, the stuck one is reported, SIGHUP and SIGTERM are heard.
# The mounts that the filesystem sensor shows are the host's, whatever the service manager shows the agent.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
agent=$bin/udmon-agent

# run COMMAND...: the agent, in the background; $pid
run() {
    : >"$dir/out"
    "$@" "$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/agent.log" &
    pid=$!
}

# printed TEXT TIMES
printed() {
    [[ $(grep -cF -- "$1" "$dir/out") -ge $2 ]]
}

# reaches TEXT: the agent prints it, and 20 more samples of the sensor load
reaches() {
    await printed "$1" 1 && await printed 'node_load1 ' $(($(grep -c 'node_load1 ' "$dir/out") + 20))
}

# ends SIGNAL: within two seconds
ends() {
    kill -s "$1" $pid
    timeout 2 tail --pid=$pid -f /dev/null || { kill -9 $pid; return 1; }
    wait $pid
}

# A process of the agent must not wait for the server of the file system when it has ended.
alive() {
    kill -0 $pid
}

others="
[load]
type = load
interval = 0.05
to = print
[self]
type = agent
interval = 0.1
to = print
[print]
type = print"

mkdir "$dir/prom"
echo 'good 1' >"$dir/prom/good.prom"
mkfifo "$dir/prom/pipe.prom"
cat >"$dir/conf" <<END
[files]
type = textfile
directory = $dir/prom
interval = 0.05
to = print
$others
END
watched() {
    exec /usr/bin/python3 -c '
import os, socket, subprocess, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1])
agent = subprocess.Popen(sys.argv[2:], env={**os.environ, "NOTIFY_SOCKET": sys.argv[1], "WATCHDOG_USEC": "300000"})
s.settimeout(20)
good = all(s.recv(100) == b"WATCHDOG=1" for i in range(10))
agent.terminate(); agent.wait()
sys.exit(not good)' "$dir/notify" "$@"
}
run watched
check "systemd's watchdog hears of the agent" wait $pid
run env
check "a FIFO among the textfiles: the other files are read" reaches 'good 1 '
check "and the FIFO is named" grep -q "cannot read $dir/prom/pipe.prom" "$dir/agent.log"
check "and SIGTERM ends the agent" ends TERM

# A server that accepts and never answers.
/usr/bin/python3 -c '
import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
open(sys.argv[1], "w").write(str(s.getsockname()[1]))
time.sleep(1000)' "$dir/silent" &
await test -s "$dir/silent"
cat >"$dir/conf" <<END
[scrape]
type = prometheus
url = http://127.0.0.1:$(cat "$dir/silent")/metrics
timeout = 60
deadline = 0.2
interval = 0.05
to = print
$others
END
run env
check "a silent endpoint is reported as stuck" reaches 'udmon_agent_sensor_stuck{sensor="scrape"} 1 '
await grep -q 'node scrape: the sensor has been blocked' "$dir/agent.log"
check "and in the log, once" [ "$(grep -c 'node scrape: the sensor has been blocked' "$dir/agent.log")" -eq 1 ]
reload() {
    local before
    sed -i 's/interval = 0.05/interval = 0.04/' "$dir/conf"
    kill -HUP $pid
    sleep 0.3
    before=$(grep -c 'node_load1 ' "$dir/out")
    await printed 'node_load1 ' $((before + 5)) && ! grep -q wrong "$dir/agent.log"
}
check "and SIGHUP is heard" reload
check "and SIGTERM ends the agent" ends TERM

# In mounts of its own the agent finds a FUSE file system without a server.
cat >"$dir/hang" <<'END'
#!/usr/bin/python3
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('/dev/fuse', os.O_RDWR)
os.set_inheritable(fd, True)
options = b'fd=%d,rootmode=40000,user_id=0,group_id=0' % fd
if libc.mount(b'/dev/gpfs0', sys.argv[1].encode(), b'fuse', 0, options):
    sys.exit(77)
os.execvp(sys.argv[2], sys.argv[2:])
END
chmod +x "$dir/hang"
mkdir "$dir/mount"
cat >"$dir/conf" <<END
[filesystem]
type = filesystem
network = yes
mounts = /proc/self/mountinfo
interval = 0.05
to = print
$others
END
if unshare -m "$dir/hang" "$dir/mount" true 2>/dev/null; then
    # LeakSanitizer stops all threads at the end, and would wait for the thread in the file system.
    run env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0" unshare -m "$dir/hang" \
        "$dir/mount"
    check "a file system that never answers is reported" \
        reaches "node_filesystem_device_error{device=\"/dev/gpfs0\",fstype=\"fuse\",mountpoint=\"$dir/mount\"} 1 "
    check "and named in the log, once" [ "$(grep -c "the file system at $dir/mount does not answer" "$dir/agent.log")" -eq 1 ]
    check "and the others are read" [ "$(grep 'node_filesystem_device_error' "$dir/out" | grep -vc gpfs0)" -gt 0 ]
    check "and the sensor goes on" await printed 'node_filesystem_device_error{device="/dev/gpfs0"' 3
    check "and SIGTERM ends the agent" ends TERM
else
    echo "skip: no FUSE file system can be mounted here"
fi

# As ProtectSystem=strict does: all of the agent's mounts are read-only, the host's are not.
sandbox() {
    # shellcheck disable=SC2016 # expanded there
    exec unshare -rm sh -c 'mount -o remount,bind,ro / && exec "$@"' sh "$@"
}
cat >"$dir/conf" <<END
[filesystem]
type = filesystem
interval = 0.05
to = print
$others
END
root='mountpoint="/"}'
if unshare -rm sh -c 'mount -o remount,bind,ro /' 2>/dev/null && grep -q ' / / rw' /proc/1/mountinfo; then
    run sandbox
    check "a sandbox hides no file system" reaches "$root"
    check "and makes none read-only" [ "$(grep -F "$root" "$dir/out" | grep -c '^node_filesystem_readonly.* 1 [0-9]*$')" -eq 0 ]
    check "and SIGTERM ends the agent" ends TERM
else
    echo "skip: no mount namespaces here"
fi

# A bind mount is no second file system.
bound() {
    # shellcheck disable=SC2016 # expanded there
    exec unshare -rm sh -c 'mkdir "$1/bound" && mount --rbind / "$1/bound" && shift && exec "$@"' sh "$dir" "$@"
}
echo 'mounts = /proc/self/mountinfo' >"$dir/mounts"
sed -i "/type = filesystem/r $dir/mounts" "$dir/conf"
if unshare -rm sh -c 'mount --rbind / /mnt' 2>/dev/null; then
    run bound
    check "the file system of a bind mount" reaches "$root"
    check "counts once" [ "$(grep -c "mountpoint=\"$dir/bound" "$dir/out")" -eq 0 ]
    check "and SIGTERM ends the agent" ends TERM
fi
