#!/bin/sh
# What glex_info says of nobody, the living, the dead, and of what is no endpoint at all.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"

look()
{
    expect 0 "$glex_info" --json
}

# The table of the interface: that of docs/nic.md, with every function and flag of glex.h.
expect 0 "$glex_info" --api
sed -n '/^| function or flag /,/^$/p' "$srcdir/../../docs/nic.md" | sed '/^$/d' > "$work/in_docs"
diff "$work/in_docs" "$work/out" || fail "docs/nic.md and glex_info --api differ"
sed -n -e 's/^\(static inline \)\{0,1\}\(const char \*\|glex_ret_t \)\(glex_[a-z_]*\)(.*/\3/p' \
    -e 's/^ *\(GLEX_\(EP_TYPE\|MPQ_TYPE\|EQ_TYPE\|MEM\|FLAG\)_[A-Z_]*\) *=.*/\1/p' \
    "$srcdir/../../src/glex/glex.h" | sort -u > "$work/names"
# shellcheck disable=SC2016 # Markdown
sed -n 's/^| `\([^`]*\)`.*/\1/p' "$work/out" | sort > "$work/in_table"
diff "$work/names" "$work/in_table" || fail "glex_info --api and glex.h differ"

# Nobody there: no error, and nothing is made by looking.
look
json '.fabric.exists == false and .endpoints == [] and (.devices | length) == 1'
json '.devices[0].capabilities.map == true and .devices[0].max_imm_mp_data_len == 112'
expect 0 "$glex_info"
says 'does not exist: nobody has an endpoint'
says '^no endpoints$'
expect 0 "$glex_info" --clean
says '^nothing to remove'
[ ! -e "$GLEX_SHM_DIR/glex-$(id -u)" ] || fail "looking has made a directory"

# What is not available, and why.
expect 0 env GLEX_FAULT=noprivate,nomap "$glex_info" --json
json '.devices[0] | .capabilities == {"map": false, "private_rdma": false, "sleep": true,
                                          "coll": true}
    and (.missing | test("private memory: .*; mapping: "))'
expect 0 env GLEX_FAULT=noprivate "$glex_info"
says 'RDMA to private memory +no$'
says 'why not +RDMA to private memory: forbidden by GLEX_FAULT'

# The living.
start_owner one
look
pid=$(cat "$work/one.pid")
# shellcheck disable=SC2016 # jq's variables
json --arg pid "$pid" --arg address "$(cat "$work/one.addresses")" '.endpoints | length == 1
    and (.[0] | .state == "alive" and .owned and .pid == ($pid | tonumber)
    and .address == $address and .command == "ep_owner" and .type == "normal")'
json '.endpoints[0] | .mpq.used == 5 and .mpq.capacity == 64 and .eq.used == 3
    and .eq.capacity == 128 and .mpq.tail - .mpq.head == 5'
json '.endpoints[0] | .registrations == 2 and .registered_bytes == 1048576 + 10000
    and .memory_bytes > 1048576 and .peers == 1'
json '.endpoints[0].counters | .mp_tx == 5 and .imm_put_tx == 3 and .imm_put_bytes == 24'
json '.endpoints[0].nic_id == .devices[0].nic_id and .fabric.exists and .other_files == []'
expect 0 "$glex_info"
says "alive +normal +$pid ep_owner .* 5/64 +3/128 +2 "
says 'mp_tx 5, .*imm_put_tx 3'
expect 0 "$glex_info" --verbose
says "address $(cat "$work/one.addresses"), posts to 1 peers"
says 'MPQ 5 of 64 in use: head 0, tail 5'

# The dead: seen, not removed by looking, removed and named by --clean; the living stay.
start_owner two 2
kill_owner two
look
json '[.endpoints[].state] | sort == ["alive", "dead", "dead"]'
look
json '[.endpoints[] | select(.state == "dead")] | length == 2'
expect 0 "$glex_info"
says 'dead +normal'
expect 0 "$glex_info" --clean --json
json '(.removed | length) == 2 and all(.removed[]; .state == "dead" and .command == "ep_owner")
    and (.endpoints | length) == 1 and .endpoints[0].state == "alive"'
[ "$(find "$fabric_dir" -type f | wc -l)" = 1 ] || fail "--clean left or took too much"
expect 0 "$glex_info" --clean
says '^nothing to remove'
start_owner three
kill_owner three
expect 0 "$glex_info" --clean
says '^removed n[0-9a-f]{8}\.e[0-9a-f]{4}, .*: its owner ep_owner \(pid [0-9]+\) is dead$'
stop_owner one
assert_no_segments
[ ! -e "$fabric_dir" ] || fail "the fabric is empty and still there"

# Other fabrics.
start_owner four
expect 0 "$glex_info" --json --fabric elsewhere
json '.fabric.name == "elsewhere" and .endpoints == []'
expect 2 "$glex_info" --fabric ../up
complains 'GLEX_FABRIC'
expect 0 env GLEX_FABRIC=elsewhere "$glex_info" --json --fabric glex_info
json '.endpoints | length == 1'

# What is no endpoint: told apart, and no harm.
segment=$(find "$fabric_dir" -type f)
evil=$(printf 'a"\\\033[31mb')
echo text > "$fabric_dir/junk"
echo text > "$fabric_dir/$evil"
echo text > "$fabric_dir/n00000001.e0001"
: > "$fabric_dir/n00000001.e0002"
head -c 8192 "$segment" > "$fabric_dir/n00000001.e0003"
cp "$segment" "$fabric_dir/n00000001.e0004"
cp "$segment" "$fabric_dir/n00000001.e0005"
printf '\377\377' | dd of="$fabric_dir/n00000001.e0005" bs=1 seek=8 conv=notrunc status=none
ln -s /etc/passwd "$fabric_dir/n00000001.e0006"
mkdir "$fabric_dir/n00000001.e0007"
mkfifo "$fabric_dir/n00000001.e0008"
look
json '(.other_files | length) == 2 and (.endpoints | length) == 9'
json '[.endpoints[] | select(.nic_id == 1) | .state] | length == 8 and all(.[]; . == "damaged")'
json '[.endpoints[] | select(.nic_id == 1) | .problem] ==
    ["too short for a segment", "too short for a segment", "a segment with a damaged header",
     "a segment with a damaged header", "a segment of another version of libglex",
     "a symbolic link", "not a regular file", "not a regular file"]'
expect 0 "$glex_info"
says '^not of libglex, left alone: junk$'
says 'damaged +a symbolic link'
! grep -q "$(printf '\033')" "$work/out" || fail "a file's name reaches the terminal"
expect 1 "$glex_info" --clean
complains 'n00000001.e0006 could not be removed: it is a symbolic link'
complains 'n00000001.e0007 could not be removed: it is not a regular file'
[ -e "$fabric_dir/junk" ] || fail "--clean took too much"
[ -L "$fabric_dir/n00000001.e0006" ] || fail "--clean took too much"
[ ! -e "$fabric_dir/n00000001.e0001" ] || fail "--clean left what nobody owns"
[ ! -e "$fabric_dir/n00000001.e0005" ] || fail "--clean left what nobody owns"
rm -rf "$fabric_dir"/n00000001.* "$fabric_dir/junk" "${fabric_dir:?}/$evil"

# --all: each fabric, whatever GLEX_FABRIC says, and for root the fabrics of other users. In a
# directory of its own: --clean removes what other tests have left to look at.
all_dir=$work/all
mkdir -m 1777 "$all_dir"
(
    export GLEX_SHM_DIR="$all_dir"
    expect 0 "$glex_info" --all
    says '^no fabrics$'
    expect 0 "$glex_info" --all --json
    json '. == []'
    GLEX_FABRIC=first start_owner all1
    GLEX_FABRIC=second start_owner all2
    GLEX_FABRIC=third start_owner all3
    kill_owner all1
    kill_owner all2
    expect 0 "$glex_info" --all --json
    json 'length == 3 and ([.[].endpoints[].state] | sort == ["alive", "dead", "dead"])'
    expect 0 "$glex_info" --clean --all
    says '^fabric first of user '
    [ "$(grep -c '^removed ' "$work/out")" = 2 ] || fail "--clean --all did not remove two"
    [ "$(find "$all_dir" -type f | wc -l)" = 1 ] || fail "--clean --all left or took too much"
    [ ! -e "$all_dir/glex-$(id -u)/first" ] || fail "the directory of an empty fabric is still there"
    stop_owner all3
    # What the name of a directory says of its owner must be true.
    mkdir -p "$all_dir/glex-12345/trap" "$all_dir/glex-x/trap"
    expect 0 "$glex_info" --clean --all
    says '^no fabrics$'
)
if [ "$(id -u)" = 0 ]; then
    chmod 755 "$work"
    mkfifo "$work/foreign.in"
    sleep 60 > "$work/foreign.in" &
    foreign_holder=$!
    GLEX_SHM_DIR=$all_dir GLEX_FABRIC=foreign setpriv --reuid 65534 --regid 65534 --clear-groups \
        ./ep_owner 1 < "$work/foreign.in" > /dev/null 2> "$work/foreign.err" &
    foreign=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ "$(find "$all_dir/glex-65534" -type f 2> /dev/null | wc -l)" = 1 ] && break
        sleep 0.2
    done
    kill -9 $foreign $foreign_holder
    wait $foreign 2> /dev/null || :
    expect 0 env GLEX_SHM_DIR="$all_dir" "$glex_info" --clean --all
    says '^fabric foreign of user 65534:$'
    says '^removed '
    [ ! -e "$all_dir/glex-65534/foreign" ] || fail "--clean --all left another user's fabric"
fi

# Names of the libfabric provider: without a lock they are removed, and with the last one the directory.
# What is locked or no regular file stays.
names_dir=$work/shm
mkdir -p "$names_dir/glex-$(id -u)/glex_info" "$names_dir/glex-$(id -u)/a-b"
chmod -R go-w "$names_dir"
name=$names_dir/glex-$(id -u)/a-b/name
: > "$names_dir/glex-$(id -u)/glex_info/name.dead"
: > "$name.dead"
: > "$name.living"
ln -s /etc/passwd "$name.link"
mkfifo "$name.fifo"
(
    flock 9
    exec sleep 300
) 9< "$name.living" &
pid_name=$!
# shellcheck disable=SC2034 # read by clean_up_owners
holder_name=
owners="$owners name"
while flock -n "$name.living" true; do
    sleep 0.1
done
expect 0 env GLEX_SHM_DIR="$names_dir" "$glex_info" --json
json '.other_files == []'
expect 0 env GLEX_SHM_DIR="$names_dir" "$glex_info" --clean --json
json '.removed == [] and .removed_names == ["name.dead"]'
[ ! -e "$names_dir/glex-$(id -u)/glex_info" ] || fail "--clean left the directory of the last name"
expect 0 env GLEX_SHM_DIR="$names_dir" "$glex_info" --clean
says '^nothing to remove$'
expect 0 env GLEX_SHM_DIR="$names_dir" "$glex_info" --clean --all
says '^removed name.dead: the owner of this name is dead$'
[ "$(find "$name".* | wc -l)" = 3 ] || fail "--clean removed the wrong names"
kill "$pid_name"
wait "$pid_name" || pid_name=
expect 0 env GLEX_SHM_DIR="$names_dir" "$glex_info" --clean --all --json
json '[.[].removed_names[]] | length == 1'

# Random headers never bring it down.
for seed in 1 2 3 4 5 6 7 8; do
    cp "$segment" "$fabric_dir/${segment##*/}.copy"
    head -c 512 /dev/urandom |
        dd of="$fabric_dir/${segment##*/}.copy" bs=1 seek=$((seed * 8)) conv=notrunc status=none
    mv "$fabric_dir/${segment##*/}.copy" "$fabric_dir/n0000000$seed.e0001"
done
look
json '[.endpoints[] | select(.nic_id <= 8)] | length == 8 and all(.[]; .state == "damaged")'
rm "$fabric_dir"/n0000000?.e0001

# Again and again, until a signal. Not by timeout(1), which sends SIGCONT after it: that takes away
# the stop for which LeakSanitizer waits where the program ends, and both hang.
"$glex_info" --watch 0.1 --json > "$work/out" < /dev/null &
watching=$!
tries=0
until [ "$(grep -c '"endpoints"' "$work/out")" -ge 2 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail "--watch does not look again"
    sleep 0.1
done
kill "$watching"
wait "$watching" || fail "--watch does not end well"
json -s 'length >= 2 and all(.[]; .endpoints | length == 1)'
stop_owner four

# A fabric that is no directory; output that cannot be written; wrong usage.
mkdir -p "${fabric_dir%/*}"
: > "$fabric_dir"
expect 1 "$glex_info"
complains 'cannot read the fabric'
rm "$fabric_dir"
expect 1 sh -c "$glex_info > /dev/full"
complains 'cannot write'
expect 2 "$glex_info" --nonsense
expect 2 "$glex_info" operand
expect 2 "$glex_info" --watch 0
expect 2 "$glex_info" --watch nan
expect 2 "$glex_info" --watch 1 --clean
expect 2 "$glex_info" --watch 1 --all
expect 2 env GLEX_NUM_NICS=0 "$glex_info"
expect 0 "$glex_info" --help
says '--clean'
expect 0 "$glex_info" --version
says '^glex_info [0-9]+\.[0-9]+'
expect 0 env GLEX_NUM_NICS=3 "$glex_info" --json
json '[.devices[].nic_id] | length == 3 and (unique | length) == 3'
