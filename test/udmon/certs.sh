#!/bin/bash
# Certificates instead of the secret: who has one of the CA is let in, and nobody else; both sides
# say why. The certificates are made here.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin

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

# start CERTIFICATE [CA [OPTION...]]: a collector on all addresses, which nobody may do without proof of who
# connects
start() {
    stop_all ''
    rm -f "$dir/collector.log"
    launch collector "$bin/udmon-collector" -l "tcp://*:$port" -w "$(web 0)" -d "$dir/history.db" \
        --ca "$dir/${2:-ca}.pem" --cert "$dir/$1.pem" --key "$dir/$1.key" "${@:3}"
    await get 0 / >/dev/null
}

# connect HOST OPTION...: an agent; options are lines of the node that sends
connect() {
    agent "agent$((++agents))" "server = $1:$port" "${@:2}" < <(sensors load=0.1)
}
agents=0

# with CERTIFICATE [CA]: options of an agent
with() {
    printf 'ca = %s\ncert = %s\nkey = %s\n' "$dir/${2:-ca}.pem" "$dir/$1.pem" "$dir/$1.key"
}

up() {
    is 0 udmon_node_up 1 "agent$agents"
}

# refused WHAT AGENT_SAYS COLLECTOR_SAYS
refused() {
    check "$1: the agent says so" await grep -q "$2" "$dir/agent$agents.log"
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
    ! "$bin/udmon-collector" -w "$(web 0)" -d "$dir/no.db" "$@" \
        2>"$dir/start.log" && grep -q "$says" "$dir/start.log"
}

hosts='DNS:localhost,IP:127.0.0.1,IP:::1'
ca ca && ca strangers &&
    certificate server ca 2 serverAuth "$hosts" &&
    certificate good ca 2 clientAuth DNS:agent,DNS:agent.cluster &&
    certificate expired ca -1 clientAuth DNS:agent &&
    certificate stranger strangers 2 clientAuth DNS:agent &&
    certificate oldserver ca -1 serverAuth "$hosts" &&
    certificate othername ca 2 serverAuth DNS:elsewhere &&
    certificate both ca 2 serverAuth,clientAuth "$hosts"
check "certificates are made" [ $? -eq 0 ]

start server
connect tcp://127.0.0.1 "$(with good)"
check "a certificate of the CA is let in, by an address" await up
connect tcp://localhost "$(with good)"
check "and by a name" await up
connect localhost "$(with good)" "secret = $dir/secret"
check "a secret, too, that the collector does not have" \
    await grep -q "refused: the secret of the server is another" "$dir/agent$agents.log"

start server
connect tcp://127.0.0.1 "$(with expired)"
refused "an expired certificate" "does not accept our certificate: .*expired" \
    "refused: its certificate is not accepted: certificate has expired"
start server
connect tcp://127.0.0.1 "$(with stranger)"
refused "a certificate of another CA" "does not accept our certificate: .*unknown ca" \
    "refused: its certificate is not accepted: unable to get local issuer"
start server
connect tcp://127.0.0.1 "$(with server)"
refused "a server's certificate" "does not accept our certificate: .*" \
    "refused: its certificate is not accepted: unsuitable certificate purpose"
start server
connect tcp://127.0.0.1 "secret = $dir/secret"
refused "a secret instead of a certificate" "it shows a certificate, and we have only a secret" \
    "refused: it does not accept our certificate"
start server
openssl s_client -connect "127.0.0.1:$port" -CAfile "$dir/ca.pem" </dev/null >/dev/null 2>&1
check "no certificate: the collector says so" \
    await grep -q "refused: it has no certificate" "$dir/collector.log"

start oldserver
connect tcp://127.0.0.1 "$(with good)"
refused "an expired collector" "its certificate is not accepted: certificate has expired" \
    "does not accept our certificate: .*expired"
start server
connect tcp://127.0.0.1 "$(with stranger strangers)"
refused "a collector of another CA" \
    "its certificate is not accepted: self-signed certificate in certificate chain" \
    "does not accept our certificate: .*unknown ca"
start othername
connect tcp://127.0.0.1 "$(with good)"
refused "a collector's certificate for another host" \
    "its certificate is not accepted: IP address mismatch" "does not accept our certificate"
start othername
connect tcp://localhost "$(with good)"
refused "and by a name" "its certificate is not accepted: hostname mismatch" \
    "does not accept our certificate"
start good
connect tcp://127.0.0.1 "$(with good)"
refused "an agent's certificate is no collector's" \
    "its certificate is not accepted: unsuitable certificate purpose" \
    "does not accept our certificate"

# renew NAME CERTIFICATE: as who renews them does, one file after the other
renew() {
    cp "$dir/$2.pem" "$dir/$1.pem"
    cp "$dir/$2.key" "$dir/$1.key"
}

renew current oldserver
renew mine expired
start current
connect tcp://127.0.0.1 "$(with good)"
refused "an expired collector, once more" "its certificate is not accepted" "does not accept our certificate"
renew current server
check "it is renewed: the collector takes it without a restart" await up
connect tcp://127.0.0.1 "$(with mine)"
refused "an expired agent, once more" "does not accept our certificate" "certificate has expired"
renew mine good
check "it is renewed: the agent takes it without a restart" await up
echo nothing >"$dir/current.pem"
connect tcp://127.0.0.1 "$(with good)"
check "one that cannot be used is not taken" await up
check "and the collector says so" \
    grep -q "certificates that were read before stay in use" "$dir/collector.log"

# A relay is a server and a client. relay NAME N: on the ports of collector N
relay() {
    launch "relay-$1" "$bin/udmon-collector" -l "tcp://$(address "$2")" -w "$(web "$2")" \
        -d "$dir/$1.db" --ca "$dir/ca.pem" --cert "$dir/both.pem" --key "$dir/both.key" -N "$1" \
        -u "tcp://127.0.0.1:$port"
}
start server ca --relays other,localhost
relay other 1
relay localhost 2
check "a relay is let in if its certificate names it" await is 0 udmon_node_up 1 localhost
check "a listed name that its certificate does not have: the relay says so" \
    await grep -q 'or our certificate does not name it' "$dir/relay-other.log"
check "and the collector says so" \
    grep -q 'client other refused: .* its certificate does not name it' "$dir/collector.log"

# A node must not send under another node's name.
start server ca --check-names
connect tcp://127.0.0.1 "$(with good)" "name = agent"
check "checked names: an agent that its certificate names" await is 0 udmon_node_up 1 agent
connect tcp://127.0.0.1 "$(with good)"
refused "checked names: another agent" "our certificate does not name us" \
    "client agent$agents refused: its certificate does not name it"
connect tcp://127.0.0.1 "$(with good)" "name = AGENT"
check "checked names: capital letters make another name" \
    await grep -q "our certificate does not name us" "$dir/agent$agents.log"
connect tcp://127.0.0.1 "$(with good)" "name = .cluster"
check "checked names: the end of a name is no name" \
    await grep -q "our certificate does not name us" "$dir/agent$agents.log"
check "checked names need a proof" cannot_start "needs a secret or certificates" --check-names

stop_all ''
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
