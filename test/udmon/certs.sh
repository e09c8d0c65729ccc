#!/bin/bash
# Certificates instead of the secret: who has one of the CA is let in, and nobody else; both sides
# say why. The certificates are made here.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
bin=$abs_top_builddir/src/udmon
dir=$(mktemp -d)
failed=0 running=()
port=$((10000 + $$ % 2200 * 10)) # below those that the kernel gives to clients: 32768 and more

stop() {
    if [[ ${#running[@]} -gt 0 ]]; then
        kill "${running[@]}" 2>/dev/null
        wait "${running[@]}" 2>/dev/null
    fi
    running=()
}

finish() {
    stop
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

explain() {
    tail -n 5 "$dir"/*.log | sed 's/^/# /'
}

# ca NAME
ca() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -days 2 \
        -keyout "$dir/$1.key" -out "$dir/$1.pem" 2>>"$dir/openssl.log"
}

# certificate NAME CA DAYS USE SUBJECTS: days since when it is out of date, if negative
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$dir/$1.key" -out "$dir/$1.csr" 2>>"$dir/openssl.log" &&
        openssl x509 -req -in "$dir/$1.csr" -CA "$dir/$2.pem" -CAkey "$dir/$2.key" \
            -CAcreateserial -days "$3" -out "$dir/$1.pem" \
            -extfile <(printf 'extendedKeyUsage=%s\nsubjectAltName=%s\n' "$4" "$5") \
            2>>"$dir/openssl.log"
}

# collector CERTIFICATE [CA]: on all addresses, which nobody may do without proof of who connects
collector() {
    stop
    "$bin/udmon-collector" -l "tcp://*:$port" -w "127.0.0.1:$((port + 1))" -d "$dir/history.db" \
        --ca "$dir/${2:-ca}.pem" --cert "$dir/$1.pem" --key "$dir/$1.key" 2>"$dir/collector.log" &
    running+=($!)
    await curl -s -o /dev/null "http://127.0.0.1:$((port + 1))/"
}

# agent HOST OPTION...: options are lines of the node that sends
agent() {
    local host=$1 name=agent$((++agents))
    shift
    printf '%s\n' '[load]' 'type = load' 'interval = 0.1' 'to = out' '[out]' 'type = send' \
        "name = $name" "server = $host:$port" "$@" >"$dir/$name.conf"
    "$bin/udmon-agent" -c "$dir/$name.conf" 2>"$dir/agent.log" &
    running+=($!)
}
agents=0

# with CERTIFICATE [CA]: options of an agent
with() {
    printf 'ca = %s\ncert = %s\nkey = %s\n' "$dir/${2:-ca}.pem" "$dir/$1.pem" "$dir/$1.key"
}

up() {
    curl -s -g -m 20 "http://127.0.0.1:$((port + 1))/metrics" |
        grep -qFx "udmon_node_up{node=\"agent$agents\"} 1"
}

# refused WHAT AGENT_SAYS COLLECTOR_SAYS
refused() {
    check "$1: the agent says so" await grep -q "$2" "$dir/agent.log"
    check "$1: the collector says so" await grep -q "$3" "$dir/collector.log"
    check "$1: and does not let it in" is_not_up
}

is_not_up() {
    ! up
}

# cannot_start SAYS COLLECTOR_OPTION...
cannot_start() {
    local says=$1
    shift
    ! "$bin/udmon-collector" -w "127.0.0.1:$((port + 1))" -d "$dir/no.db" "$@" \
        2>"$dir/start.log" && grep -q "$says" "$dir/start.log"
}

umask 077
hosts='DNS:localhost,IP:127.0.0.1,IP:::1'
ca ca && ca strangers &&
    certificate server ca 2 serverAuth "$hosts" &&
    certificate good ca 2 clientAuth DNS:agent &&
    certificate expired ca -1 clientAuth DNS:agent &&
    certificate stranger strangers 2 clientAuth DNS:agent &&
    certificate oldserver ca -1 serverAuth "$hosts" &&
    certificate othername ca 2 serverAuth DNS:elsewhere &&
    certificate both ca 2 serverAuth,clientAuth "$hosts"
check "certificates are made" [ $? -eq 0 ]
echo "something nobody guesses" >"$dir/secret"

collector server
agent tcp://127.0.0.1 "$(with good)"
check "a certificate of the CA is let in, by an address" await up
agent tcp://localhost "$(with good)"
check "and by a name" await up
agent localhost "$(with good)" "secret = $dir/secret"
check "a secret, too, that the collector does not have" \
    await grep -q "the server does not know the secret" "$dir/agent.log"

collector server
agent tcp://127.0.0.1 "$(with expired)"
refused "an expired certificate" "does not accept our certificate: .*expired" \
    "refused: its certificate is not accepted: certificate has expired"
collector server
agent tcp://127.0.0.1 "$(with stranger)"
refused "a certificate of another CA" "does not accept our certificate: .*unknown ca" \
    "refused: its certificate is not accepted: unable to get local issuer"
collector server
agent tcp://127.0.0.1 "$(with server)"
refused "a server's certificate" "does not accept our certificate: .*" \
    "refused: its certificate is not accepted: unsuitable certificate purpose"
collector server
agent tcp://127.0.0.1 "secret = $dir/secret"
refused "a secret instead of a certificate" "it shows a certificate, and we have only a secret" \
    "refused: it does not accept our certificate"
collector server
openssl s_client -connect "127.0.0.1:$port" -CAfile "$dir/ca.pem" </dev/null >/dev/null 2>&1
check "no certificate: the collector says so" \
    await grep -q "refused: it has no certificate" "$dir/collector.log"

collector oldserver
agent tcp://127.0.0.1 "$(with good)"
refused "an expired collector" "its certificate is not accepted: certificate has expired" \
    "does not accept our certificate: .*expired"
collector server
agent tcp://127.0.0.1 "$(with stranger strangers)"
refused "a collector of another CA" \
    "its certificate is not accepted: self-signed certificate in certificate chain" \
    "does not accept our certificate: .*unknown ca"
collector othername
agent tcp://127.0.0.1 "$(with good)"
refused "a collector's certificate for another host" \
    "its certificate is not accepted: IP address mismatch" "does not accept our certificate"
collector othername
agent tcp://localhost "$(with good)"
refused "and by a name" "its certificate is not accepted: hostname mismatch" \
    "does not accept our certificate"
collector good
agent tcp://127.0.0.1 "$(with good)"
refused "an agent's certificate is no collector's" \
    "its certificate is not accepted: unsuitable certificate purpose" \
    "does not accept our certificate"

# A relay is a server and a client.
collector server
((++agents))
"$bin/udmon-collector" -l "tcp://127.0.0.1:$((port + 2))" -w "127.0.0.1:$((port + 3))" \
    -d "$dir/relay.db" --ca "$dir/ca.pem" --cert "$dir/both.pem" --key "$dir/both.key" \
    -N "agent$agents" -u "tcp://127.0.0.1:$port" 2>"$dir/relay.log" &
running+=($!)
check "a relay is let in by its certificate" await up

stop
good=(--ca "$dir/ca.pem" --cert "$dir/server.pem" --key "$dir/server.key")
check "certificates are of no use for datagrams" \
    cannot_start "needs a shared secret: certificates are for TLS" "${good[@]}" \
    -l "ud://127.0.0.1:$port"
check "one file of three is refused" cannot_start "needed together" --ca "$dir/ca.pem"
check "a key of another certificate is refused" cannot_start "key values mismatch" \
    "${good[@]}" --key "$dir/good.key"
check "a file that is not there is refused" cannot_start "CA file $dir/none.pem cannot be used" \
    "${good[@]}" --ca "$dir/none.pem"
chmod 640 "$dir/server.key"
check "a key that others may read is refused" cannot_start "may be read by others" "${good[@]}"
