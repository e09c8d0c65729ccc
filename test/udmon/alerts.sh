#!/bin/bash
# shellcheck disable=SC2016 # commands for eval
# Alerts that the collector evaluates itself: states on page, API and /metrics, a webhook that is down
# for a while, a command, rules that are wrong. promtool reads the same files.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
here=$(cd "$(dirname "$0")" && pwd)
begin

# rules FILE FOR: a node that is down, and any load above -1 that a label selects
rules() {
    cat >"$1" <<-END
	groups:
	  - name: test
	    interval: 1s
	    rules:
	      - alert: Down
	        expr: udmon_node_up == 0
	        labels: {severity: critical}
	        annotations: {summary: "{{ \$labels.node }} is down, {{ \$value }}"}
	      - alert: Loaded
	        expr: node_load1{node="steady"} >= 0
	        for: $2
	      - alert: Ticking
	        expr: udmon_agent_ticks_total{sensor="sensor-load", node!="none"} > 2
	      - alert: Never
	        expr: node_load1 < 0
	END
}

# alert NAME STATE [NODE]: the API has it
alert() {
    get 0 /api/alerts | jq -e --arg name "$1" --arg state "$2" --arg node "${3:-}" \
        '.alerts | any(.name == $name and .state == $state and ($node == "" or .labels.node == $node))' >/dev/null
}

# Alertmanager's place: answers 200 and keeps each body in a line of a file.
receiver() {
    launch receiver /usr/bin/python3 - "$dir/posted" $((port + 8)) <<-'END'
	import http.server, sys
	class Handler(http.server.BaseHTTPRequestHandler):
	    def do_POST(self):
	        body = self.rfile.read(int(self.headers["Content-Length"]))
	        with open(sys.argv[1], "ab") as out:
	            out.write(self.path.encode() + b" " + self.headers["Content-Type"].encode() + b" " + body + b"\n")
	        self.send_response(200)
	        self.end_headers()
	    def log_message(self, *args):
	        pass
	http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
	END
}

# posted FILTER: an alert for which jq's filter holds has been received
posted() {
    [[ -e $dir/posted ]] && sed 's/^[^ ]* [^ ]* //' "$dir/posted" | jq -e -s "add | any($1)" >/dev/null
}

rules "$dir/rules.yml" 1h
collector 0 --rules "$dir/rules.yml" --alert-webhook "http://127.0.0.1:$((port + 8))/api/v2/alerts" \
    --alert-command "{ echo \"\$UDMON_SUBJECT\"; cat; } >>$dir/mail"
for node in steady killed; do
    agent "$node" "server = tcp://$(address 0)" < <(sensors load=0.2 agent=0.5)
done
await has 0 node_load1 steady && await has 0 node_load1 killed
check "an alert without for fires" await alert Ticking firing steady
check "for each node" await alert Ticking firing killed
check "an alert with for is pending" await alert Loaded pending steady
check "and for the selected node only" eval '! alert Loaded pending killed'
check "the API has the rules" eval 'get 0 /api/alerts | jq -e "[.rules[].name] == [\"Down\", \"Loaded\", \"Ticking\", \"Never\"]" >/dev/null'
check "a pending alert in /metrics" eval \
    'get 0 /metrics | grep -qxF "udmon_alerts{alertstate=\"pending\",alertname=\"Loaded\",node=\"steady\"} 1"'
check "/metrics with alerts pleases promtool" eval \
    '! command -v promtool >/dev/null || get 0 /metrics | promtool check metrics >"$dir/promtool.log" 2>&1'
check "messages that the receiver does not take are counted" await at_least 0 udmon_alert_messages_failed_total 1
check "and logged" grep -q 'alerts: http://127.0.0.1:[0-9]*/api/v2/alerts does not take them' "$dir/collector0.log"
check "the command is run meanwhile" await grep -q '^FIRING: Ticking node=steady sensor=sensor-load' "$dir/mail"
check "with a subject" grep -q '^udmon: [0-9]* alerts* firing, 0 resolved$' "$dir/mail"
slay killed
check "a node that is down" await alert Down firing killed
check "its other alerts are over" await alert Ticking resolved killed
receiver
check "the receiver is back: it gets what fires now" await posted \
    '.labels.alertname == "Down" and .labels.node == "killed" and .labels.severity == "critical"'
check "with annotations" posted '.annotations.summary == "killed is down, 0"'
check "but no end of an alert that it has never had" eval '! posted ".labels.node == \"killed\" and .labels.alertname == \"Ticking\""'
check "as JSON at the path" grep -q '^/api/v2/alerts application/json \[' "$dir/posted"
check "no pending alert is sent" eval '! posted ".labels.alertname == \"Loaded\""'
agent killed "server = tcp://$(address 0)" < <(sensors load=0.2 agent=0.5)
check "the node is back" await alert Down resolved killed
check "and the receiver is told the end" await posted \
    '.labels.alertname == "Down" and (.endsAt | fromdateiso8601? // (sub("\\.[0-9]+Z$"; "Z") | fromdateiso8601)) <= now'
check "so is the command" await grep -q '^RESOLVED: Down node=killed severity=critical' "$dir/mail"

# Rules are read again.
echo 'groups: [{name: test, rules: [{alert: A, expr: "rate(x[5m]) > 1"}]}]' >"$dir/rules.yml"
kill -HUP "${running[collector0]}"
check "wrong rules are refused, with file and line" await grep -q \
    "rules.yml:1: the collector cannot evaluate 'rate(x\[5m\]) > 1'.*Prometheus" "$dir/collector0.log"
check "and change nothing" alert Loaded pending steady
rules "$dir/rules.yml" 0s
kill -HUP "${running[collector0]}"
check "a changed rule is a new one" await alert Loaded firing steady
check "an unchanged rule keeps its alerts" alert Down resolved killed
if command -v promtool >/dev/null; then
    check "promtool reads these rules" eval 'promtool check rules "$dir/rules.yml" >"$dir/promtool.log"'
    check "and the rules of the package" eval \
        'promtool check rules "$here/../../src/udmon/service/udmon-alerts.yml" >"$dir/promtool.log"'
fi
stop collector0
sed -i 's/ > 2$/ > bool 2/' "$dir/rules.yml"
collector 0 --rules "$dir/rules.yml"
check "a collector with wrong rules does not start" eval '! wait "${running[collector0]}"'
check "and names the line" grep -q 'rules.yml:13: ' "$dir/collector0.log"
launch package "$bin/udmon-collector" -l "tcp://$(address 1)" -w "$(web 1)" -d "$dir/history1.db" -s "$dir/secret" \
    --rules "$here/../../src/udmon/service/udmon-alerts.yml"
check "the collector reads the rules of the package" await eval 'get 1 /api/alerts | jq -e ".rules | length > 3" >/dev/null'
check "options without rules are refused" eval \
    '! "$bin/udmon-collector" --alert-webhook http://127.0.0.1/ 2>"$dir/usage.log" && grep -q "need --rules" "$dir/usage.log"'
