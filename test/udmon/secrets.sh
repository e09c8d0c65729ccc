#!/bin/bash
# Secrets of nodes: an agent and a relay connect under the name of their secret only. The secret changes while
# the collector and the agents run.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin

# node_secret NAME [SHARED]: writes the file NAME.secret
node_secret() {
    "$bin/udmon-collector" --secret "$dir/${2:-secret}" --node-secret "$1" >"$dir/$1.secret"
}

# bound NAME [LINE...]: an agent with the secret of NAME and without a name in its configuration
bound() {
    { sensors load=0.1 && printf '[out]\ntype = send\nserver = tcp://%s\nsecret = %s\n' "$(address 0)" "$dir/$1.secret" &&
        printf '%s\n' "${@:2}"; } >"$dir/$1.conf"
    launch "$1" "$bin/udmon-agent" -c "$dir/$1.conf"
}

# fails STATUS SAYS OPTION...: of the collector
fails() {
    local status=0
    "$bin/udmon-collector" -d "$dir/no.db" -w "$(web 4)" -l "tcp://$(address 4)" "${@:3}" >"$dir/fails.out" 2>"$dir/fails.log" ||
        status=$?
    [[ $status -eq $1 && ! -s $dir/fails.out ]] && grep -q -e "$2" "$dir/fails.log"
}

check "a secret of a node is made" node_secret node1
check "it has the name" grep -q '^udmon-node:node1:[0-9a-f]\{64\}$' "$dir/node1.secret"
node_secret node2
check "each node has another" [ "$(cut -d: -f3 "$dir"/node[12].secret | sort -u | wc -l)" -eq 2 ]
check "a name with a blank is none" fails 2 'no name of a node' --secret "$dir/secret" --node-secret 'a b'
check "no name is none" fails 2 'no name of a node' --secret "$dir/secret" --node-secret ''
check "it is made from the shared secret" fails 2 'node-secret needs --secret' --node-secret node1
check "and not from the secret of a node" \
    fails 1 'has the secret of node node1 itself' --secret "$dir/node1.secret" --node-secret node2
check "a collector needs the shared secret" \
    fails 1 'a server needs the secret from which' --secret "$dir/node1.secret"
check "checked names need a secret" fails 2 'needs a secret or certificates' --check-names
check "an old secret needs a present one" fails 2 'old-secret needs --secret' --old-secret "$dir/old"
check "an upper secret needs an upper collector" \
    fails 2 'upper-secret needs --upper' --secret "$dir/secret" --upper-secret "$dir/node1.secret"

check "a relay lets no relays in" \
    fails 2 'relays is of no use with --upper' --secret "$dir/secret" --relays a -u "tcp://$(address 0)"
for list in 'a,,b' ',a' 'a,'; do
    check "relays '$list': an empty name is refused" fails 1 "has an empty name" --secret "$dir/secret" --relays "$list"
done

node_secret relay1
collector 0 --check-names --relays relay1,relay2 --old-secret "$dir/old"
await get 0 / >/dev/null
bound node1
check "an agent has the name of its secret" await is 0 udmon_node_up 1 node1
bound node2 'name = node1'
check "an agent does not start with the secret of another node" \
    await grep -q 'has the secret of node node2, and our name is node1' "$dir/node2.log"
sed 's/node1/node3/' "$dir/node1.secret" >"$dir/node3.secret"
bound node3
check "another name in the file: the agent says so" \
    await grep -q 'the secret of the server is another' "$dir/node3.log"
check "and the collector says so" await grep -q 'refused: it does not know the secret' "$dir/collector0.log"
agent all "server = tcp://$(address 0)" 'name = node1' < <(sensors load=0.1)
check "the shared secret proves no name: the agent says so" \
    await grep -q 'our secret is not the secret of our name' "$dir/all.log"
check "and the collector says so" \
    await grep -q 'client node1 refused: it has the shared secret' "$dir/collector0.log"
check "no other agent has the name of node1" is 0 udmon_node_agents 1 node1
stop all

collector 1 -u "tcp://$(address 0)" --upper-secret "$dir/relay1.secret"
check "a relay has the name of its secret" await is 0 udmon_node_up 1 relay1
collector 2 -u "tcp://$(address 0)" -N relay2
check "a relay with the shared secret is refused" \
    await grep -q 'client relay2 refused: it has the shared secret' "$dir/collector0.log"
check "a relay with the secret of another name does not start" \
    fails 1 'has the secret of node relay1' --secret "$dir/secret" -u "tcp://$(address 0)" -N relay2 \
    --upper-secret "$dir/relay1.secret"

# As docs/udmon.md says.
cp -p "$dir/secret" "$dir/old"
echo "the next secret" >"$dir/next"
mv "$dir/next" "$dir/secret"
node_secret node4
bound node4
check "the secret changes: a node with the new secret" await is 0 udmon_node_up 1 node4
node_secret node5 old
bound node5
check "a node with the old secret" await is 0 udmon_node_up 1 node5
check "and those that were connected" is 0 udmon_node_up 1 node1
rm "$dir/old"
node_secret node6 secret
cp "$dir/node6.secret" "$dir/new6"
echo "something nobody guesses" >"$dir/before"
node_secret node6 before
bound node6
check "the old secret is removed: it opens nothing" await grep -q 'the secret of the server is another' "$dir/node6.log"
mv "$dir/new6" "$dir/node6.secret"
check "the agent gets the new one, and needs no restart" await is 0 udmon_node_up 1 node6
check "no agent has restarted" [ "$(value 0 udmon_node_up)" -ge 5 ]
