// The lists, and the panel beside the map.
"use strict";

// Elements are made from text, never from HTML: names and messages cannot become code.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined).map((c) => c instanceof Node ? c : String(c)));
  return e;
}

// Like replaceChildren(), without what is null.
function fill(root, ...children) { root.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined)); }

const time = (seconds) => seconds ? new Date(seconds * 1000).toLocaleString("sv-SE") : "";
const percent = (part) => part === undefined || part < 0 ? "" : `${(part * 100).toFixed(1)} %`;
const RANK = { critical: 0, major: 1, warning: 2, info: 3 };
const worstFirst = (alarms) => [...alarms].sort((a, b) => RANK[a.severity] - RANK[b.severity] || b.raised - a.raised);

function place(text) {
  return (text || "").split(" ").flatMap((name, i) => {
    const chip = name.split(":")[0], known = app.map.topology && app.map.find(chip) >= 0;
    return [i ? " " : "", known ? el("button", { type: "button", class: "link", onclick: () => app.open(chip) }, name) : name];
  });
}

function table(columns, rows, empty) {
  if (!rows.length) return el("p", { class: "empty" }, empty || "Nothing.");
  return el("div", { class: "scroll", tabindex: "0" }, el("table", {},
    el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col", class: c.number ? "number" : "" }, c.name)))),
    el("tbody", {}, rows.map((r) => el("tr", {}, columns.map((c) =>
      el("td", { class: c.number ? "number" : c.time ? "time" : c.text ? "text" : "" }, c.cell(r))))))));
}

const tag = (severity) => el("span", { class: `tag ${severity}` }, severity);
const field = (text, input) => el("label", {}, text, input);
const keys = (names) => el("div", { class: "keys" }, names.map((name, i) => {
  const mark = el("i"); mark.style.background = LINE_COLORS[i % LINE_COLORS.length];
  return el("span", {}, mark, name);
}));
const rate = (samples) => samples.slice(1).map((x, i) => [x.time, Math.max(0, (x.value - samples[i].value) / Math.max(1e-3, x.time - samples[i].time))]);

const views = {
  async alarms(root) {
    const active = worstFirst(app.state ? app.state.alarms : []), all = (await app.get("alarms?all=1")).alarms;
    const silences = (await app.get("silences")).silences;
    const ack = (a) => a.acknowledged ? a.acknowledged : app.may("operator")
      ? el("button", { onclick: () => { const comment = prompt("Comment", ""); if (comment !== null) app.post("alarms/ack", { id: a.id, comment }); } }, "Acknowledge") : "";
    const where = el("input", { placeholder: "r12", maxlength: 31 }), minutes = el("input", { type: "number", min: 1, max: 525600, value: 60 });
    const comment = el("input", { maxlength: 199 }), again = () => views.alarms(root);
    const form = app.may("operator") ? el("div", { class: "row" }, field("Place", where), field("Minutes", minutes), field("Comment", comment),
      el("button", { onclick: () => app.post("silences", { place: where.value, minutes: Number(minutes.value), comment: comment.value }).then(again) }, "Silence")) : null;
    if (root.contains(document.activeElement) && document.activeElement.matches("input")) return; // somebody types
    fill(root, el("h2", {}, `Active alarms: ${active.length}`),
      table([{ name: "Severity", cell: (a) => tag(a.severity) }, { name: "Cause", cell: (a) => a.cause.replace(/_/g, " ") },
        { name: "Place", cell: (a) => place(a.place) }, { name: "Since", time: true, cell: (a) => time(a.raised) },
        { name: "Stands for", number: true, cell: (a) => a.folded }, { name: "Explanation", text: true, cell: (a) => a.text + (a.silenced ? " (silenced)" : "") },
        { name: "Acknowledged", cell: ack }], active, "No alarms."),
      el("h3", {}, "Silences: places whose alerts are held back"),
      table([{ name: "Place", cell: (s) => place(s.place) }, { name: "Until", time: true, cell: (s) => time(s.until) },
        { name: "User", cell: (s) => s.user }, { name: "Comment", cell: (s) => s.comment },
        { name: "Action", cell: (s) => app.may("operator") ? el("button", { onclick: () => app.post("silences/delete", { id: s.id }).then(again) }, "End") : "" }], silences, "None."), form,
      el("h3", {}, "Earlier alarms"),
      table([{ name: "Severity", cell: (a) => tag(a.severity) }, { name: "Cause", cell: (a) => a.cause.replace(/_/g, " ") }, { name: "Place", cell: (a) => place(a.place) },
        { name: "Raised", time: true, cell: (a) => time(a.raised) }, { name: "Cleared", time: true, cell: (a) => time(a.cleared) },
        { name: "Explanation", text: true, cell: (a) => a.text }], all.filter((a) => a.cleared).slice(0, 200), "None yet."));
  },

  async devices(root) {
    const t = app.map.topology, state = app.map.state, counts = {};
    for (let i = 0; i < t.level.length; i++) {
      const c = counts[t.level[i]] ||= { level: t.level[i], ...Object.fromEntries(WORST.map((k) => [k, 0])) };
      c[state[i]]++;
    }
    const bad = [];
    for (let i = 0; i < state.length && bad.length < 500; i++) if (state[i] !== ".") bad.push(i);
    const differ = (await app.get("differences")).differences;
    fill(root, el("h2", {}, "Devices"),
      table([{ name: "Level", cell: (c) => LEVELS[c.level] }, ...WORST.map((k) => ({ name: COLOR_NAMES[k], number: true,
        cell: (c) => el("span", { class: k === "." || !c[k] ? "" : "bad" }, c[k]) }))], Object.values(counts).reverse()),
      el("div", { class: "two" },
        el("div", {}, el("h3", {}, "Chips that are not good"),
          table([{ name: "Chip", cell: (i) => place(app.map.name(i)) }, { name: "Level", cell: (i) => LEVELS[t.level[i]] },
            { name: "State", cell: (i) => el("span", { class: "bad" }, COLOR_NAMES[state[i]]) }], bad, "All chips are good.")),
        el("div", {}, el("h3", {}, "Links that differ from the topology"),
          table([{ name: "Port", cell: (d) => place(d.port) }, { name: "Should lead to", cell: (d) => place(d.expected || "nothing") },
            { name: "Leads to", cell: (d) => place(d.found || "nothing") }], differ, "None."))));
  },

  async load(root) {
    const now = Date.now() / 1000, [l, s, t] = await Promise.all([app.get("load"), app.get(`samples?since=${now - 3600}`), app.get("traffic")]);
    const names = [...new Set(s.samples.filter((x) => x.name.startsWith("load ")).map((x) => x.name))];
    const series = names.map((name) => ({ name, points: s.samples.filter((x) => x.name === name).map((x) => [x.time, x.value * 100]) }));
    const wait = l.seconds > 0 ? "" : l.interval_ms ? `The first values come in ${Math.max(1, Math.round(l.interval_ms / 1000))} s to ${Math.round(2 * l.interval_ms / 1000)} s: load is the difference of two polls.`
      : "The server polls only when asked: inm poll.";
    const name = el("input", { maxlength: 31 }), hosts = el("input", { placeholder: "r0f0h0-r0f0h31", maxlength: 399 });
    const again = () => views.load(root);
    fill(root, el("h2", {}, "Load of links"), wait ? el("p", { class: "dim" }, wait) : null,
      el("h3", {}, "Most loaded link of each level, last hour"),
      lineChart(series, { label: "Load of the most loaded link of each level, percent of its capacity", unit: " %", most: 100, from: now - 3600, to: now, in: root, lines: 19, empty: wait }),
      keys(names.map((n) => n.slice(5))),
      el("div", { class: "two" },
        el("div", {}, el("h3", {}, "By level"), table([{ name: "Level", cell: (v) => v.level }, { name: "Direction", cell: (v) => v.direction },
          { name: "Links", number: true, cell: (v) => v.links.toLocaleString("en") }, { name: "Mean", number: true, cell: (v) => percent(v.mean) },
          { name: "Most", number: true, cell: (v) => percent(v.most) }, { name: "Flits that wait", number: true, cell: (v) => percent(v.wait) }], l.levels, "No load yet.")),
        el("div", {}, el("h3", {}, "The ten most loaded ports"), table([{ name: "Port", cell: (p) => place(p.port) }, { name: "Leads to", cell: (p) => place(p.peer) },
          { name: "Load", number: true, cell: (p) => percent(p.use) }, { name: "Flits that wait", number: true, cell: (p) => percent(p.wait) }], l.top, "No load yet.")),
        el("div", {}, el("h3", {}, "Jobs"), table([{ name: "Job", cell: (j) => j.name }, { name: "Hosts", number: true, cell: (j) => j.number },
          { name: "Mean", number: true, cell: (j) => percent(j.mean) }, { name: "Most", number: true, cell: (j) => percent(j.most) },
          { name: "Action", cell: (j) => app.may("operator") ? el("button", { onclick: () => app.post("jobs/delete", { name: j.name }).then(again) }, "Forget") : "" }], l.jobs, "No jobs. Add one, or let the scheduler run inm job set."),
          app.may("operator") ? el("div", { class: "row" }, field("Name", name), field("Hosts", hosts), el("button", { onclick: () => app.post("jobs", { name: name.value, hosts: hosts.value }).then(again) }, "Add a job")) : null),
        el("div", {}, el("h3", {}, "Link retries by level"), table([{ name: "Level", cell: (v) => v.level }, { name: "Chips", number: true, cell: (v) => v.chips },
          { name: "Retries", number: true, cell: (v) => v.retries }, { name: "Since the last poll", number: true, cell: (v) => v.since_poll }], t.levels))),
      el("h3", {}, "Management requests a second, last hour"),
      lineChart([{ name: "requests", points: rate(s.samples.filter((x) => x.name === "requests")) }], { label: "Management requests a second", from: now - 3600, to: now, in: root, empty: wait || "The first values come with the second poll." }));
  },

  async log(root) {
    const f = app.logFilter ||= {}, query = Object.entries(f).filter(([, v]) => v).map(([k, v]) => `${k}=${encodeURIComponent(v)}`).join("&");
    const rows = (await app.get(`log?limit=300${query && "&" + query}`)).log;
    if (root.contains(document.activeElement) && document.activeElement.matches("input, select")) return; // a filter is chosen
    const set = (name) => (e) => { f[name] = e.target.type === "datetime-local" ? (e.target.value ? new Date(e.target.value).getTime() / 1000 : "") : e.target.value; e.target.blur(); views.log(root).catch((x) => app.hint(x.message)); };
    const choose = (name, list) => el("select", { onchange: set(name) }, ["", ...list].map((v) => el("option", { value: v, selected: v === (f[name] || "") }, v || "all")));
    const local = (s) => s ? new Date(s * 1000 - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16) : "";
    fill(root, el("h2", {}, "Log"), el("div", { class: "row" },
      field("Severity from", choose("severity", ["warning", "major", "critical"])), field("Kind", choose("kind", ["raised", "cleared", "acknowledged", "start", "stop", "discovery", "part", ...app.may("administrator") ? ["change"] : []])),
      field("Place", el("input", { value: f.place || "", placeholder: "r12", onchange: set("place") })), field("User", el("input", { value: f.user || "", onchange: set("user") })),
      field("From", el("input", { type: "datetime-local", value: local(f.from), onchange: set("from") })), field("To", el("input", { type: "datetime-local", value: local(f.to), onchange: set("to") })),
      el("a", { href: `api/v1/log?limit=10000&format=csv${query && "&" + query}`, class: "link" }, "CSV"), el("a", { href: `api/v1/log?limit=10000${query && "&" + query}`, class: "link" }, "JSON")),
    table([{ name: "Time", time: true, cell: (x) => time(x.time) }, { name: "Severity", cell: (x) => tag(x.severity) }, { name: "Kind", cell: (x) => x.kind },
      { name: "Place", cell: (x) => place(x.place) }, { name: "User", cell: (x) => x.user || "" }, { name: "Text", text: true, cell: (x) => x.text }], rows, "No entry fits."));
  },

  async plans(root) {
    const applied = (await app.get("plans")).applied, again = () => views.plans(root);
    const action = el("select", {}, [["drain", "Drain a place"], ["cut", "Cut a link"], ["add", "Add a link"]].map(([v, t]) => el("option", { value: v }, t)));
    const target = el("input", { placeholder: "t3b17 or r5f2n4:3", maxlength: 31 }), other = el("input", { placeholder: "only to add", maxlength: 31 }), result = el("div", { id: "plan" });
    const make = async () => {
      const body = { action: action.value, target: target.value };
      if (other.value) body.other = other.value;
      result.replaceChildren(el("p", { class: "dim" }, "The plan is computed."));
      try { this.plan(result, await app.post("plan", body), again); } catch (e) { result.replaceChildren(el("p", { class: "bad" }, e.message)); }
    };
    fill(root, el("h2", {}, "Plans"), el("p", { class: "dim" }, "A plan tells the effects of a maintenance, and does nothing until it is applied."),
      app.may("operator") ? el("div", { class: "row" }, field("Action", action), field("Place or port", target), field("Second port", other), el("button", { onclick: make }, "Make a plan")) : null, result,
      el("h3", {}, "Applied plans"), table([{ name: "Time", time: true, cell: (p) => time(p.time) }, { name: "Action", cell: (p) => p.action }, { name: "Place", cell: (p) => place(p.target) },
        { name: "Second port", cell: (p) => place(p.other) }], applied, "None."),
      applied.length && app.may("administrator") ? el("button", { onclick: () => app.post("plan/undo").then(again) }, "Undo the last one") : null);
  },

  plan(root, p, again) {
    const rows = [["Hosts that lose their connection", p.hosts_lost], ["Hosts that lose their redundancy", p.hosts_without_redundancy], ["Routers cut off from the server", p.routers_cut_off],
      ["Routes that change", p.routes_changed.toLocaleString("en")], ["Tables that change", `${p.tables_changed}, by ${p.writes} writes`],
      ["Most loaded link, pairs of hosts", `${Math.round(p.worst_load_before)} before, ${Math.round(p.worst_load_after)} after`]];
    fill(root, el("h3", {}, `Plan ${p.id}: ${p.action} ${p.target} ${p.other}`),
      el("dl", {}, rows.map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])),
      p.lost.length ? el("p", {}, "Without connection: ", place(p.lost.slice(0, 40).join(" "))) : null,
      p.without_redundancy.length ? el("p", {}, "Without redundancy: ", place(p.without_redundancy.slice(0, 40).join(" "))) : null,
      el("p", {}, el("img", { id: "picture", alt: `Load of the levels before and after plan ${p.id}`, src: `api/v1/plan/picture?id=${p.id}` })),
      app.may("administrator") ? el("button", { onclick: () => app.post("plan/apply", { id: p.id }).then(again) }, "Apply") : null);
  },

  async inventory(root) {
    const parts = (await app.get("inventory")).parts, firmware = {};
    for (const p of parts) { const k = `${p.type} ${p.firmware}`; firmware[k] = (firmware[k] || 0) + 1; }
    const filter = el("input", { placeholder: "r12f3", "aria-label": "Filter", oninput: () => list() }), rows = el("div");
    const list = () => { const found = parts.filter((p) => p.chip.startsWith(filter.value) || String(p.serial).includes(filter.value));
      rows.replaceChildren(el("p", { class: "dim" }, `${found.length.toLocaleString("en")} parts${found.length > 300 ? ", the first 300" : ""}`), table([{ name: "Chip", cell: (p) => place(p.chip) }, { name: "Kind", cell: (p) => p.type },
        { name: "Serial number", number: true, cell: (p) => p.serial }, { name: "Firmware", cell: (p) => p.firmware }, { name: "First seen", time: true, cell: (p) => time(p.first_seen) }], found.slice(0, 300), "Not read yet.")); };
    fill(root, el("h2", {}, "Inventory"), el("div", { class: "row" }, field("Chip or serial number", filter),
      app.may("operator") ? el("button", { onclick: () => app.post("inventory").then(() => views.inventory(root)) }, "Read again") : null,
      el("a", { href: "api/v1/inventory?format=csv", class: "link" }, "CSV"), el("a", { href: "api/v1/inventory?format=netbox", class: "link" }, "CSV for Netbox")),
    el("p", {}, Object.entries(firmware).map(([k, n]) => `${k}: ${n.toLocaleString("en")}`).join("; ")), rows);
    list();
  },

  async users(root) {
    const roles = ["", "viewer", "operator", "administrator"], list = (await app.get("users")).users;
    const name = el("input", { maxlength: 31 }), password = el("input", { type: "password", autocomplete: "new-password" });
    const role = el("select", {}, roles.slice(1).map((r) => el("option", {}, r))), done = () => views.users(root);
    fill(root, el("h2", {}, "Users"),
      table([{ name: "Name", cell: (u) => u.name }, { name: "Role", cell: (u) => roles[u.role] },
        { name: "Action", cell: (u) => el("button", { onclick: () => app.post("users/delete", { name: u.name }).then(done) }, "Remove") }], list, "None."),
      el("h3", {}, "Add a user, or change role and password"),
      el("div", { class: "row" }, field("Name", name), field("Password", password), field("Role", role), el("button", { onclick: () =>
        app.post("users", { name: name.value, password: password.value, role: role.value }).then(done) }, "Save")));
  },
};

// The panel beside the map: the active alarms, worst first.
function showAlarms(root) {
  const alarms = worstFirst(app.shown ? app.shown.alarms : []);
  fill(root, el("h2", {}, alarms.length ? `Active alarms: ${alarms.length}` : "No active alarms"),
    ...alarms.slice(0, 100).map((a) => el("button", { type: "button", class: `alarm ${a.severity}`, onclick: () => app.goTo(a) },
      tag(a.severity), " ", el("b", {}, a.place), el("br"), a.text, el("small", {}, `since ${time(a.raised)}${a.acknowledged ? `, acknowledged by ${a.acknowledged}` : ""}${a.silenced ? ", silenced" : ""}`))),
    alarms.length > 100 ? el("p", { class: "dim" }, `and ${alarms.length - 100} more`) : "");
}

// One chip: its alarms, values, history, and neighbours.
async function showChip(root, name) {
  const back = () => el("button", { type: "button", class: "close", onclick: () => app.close() }, "Back to the alarms");
  fill(root, back(), el("h2", {}, name), el("p", { class: "dim" }, "The chip is read."));
  const q = encodeURIComponent(name), chip = await app.get(`chip?chip=${q}`), good = chip.answers === "done";
  const alarms = worstFirst(app.shown.alarms.filter((a) => a.place.split(" ").some((p) => p.split(":")[0] === name || name.startsWith(p + "f") || name.startsWith(p + "n"))));
  const parts = [back(), el("h2", {}, chip.chip),
    ...alarms.map((a) => el("p", {}, tag(a.severity), " ", a.text)),
    el("dl", {}, [["Place", chip.place], ["Kind", `${chip.type === "NRC" ? "router (NRC)" : "interface (NIC)"}, ${chip.level}`], ["Id", chip.id], ["Hops from the server", chip.hops],
      ["Answers", el("span", { class: good ? "good" : "bad" }, good ? "yes" : chip.answers)],
      ["Temperature", good ? `${chip.temperature.toFixed(1)} °C` : "unknown"],
      ["Retries", `${chip.retries} (${chip.retries_since_poll} since the last poll)`]].map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]))];
  if (chip.type === "NRC") {
    const now = Date.now() / 1000, h = await app.get(`chip/history?chip=${q}&since=${now - 86400}`);
    const from = h.time.length ? Math.min(h.time[0], now - 600) : now - 600;
    for (const [key, title, unit] of [["temperature", "Temperature", " °C"], ["retries", "Retries between polls", ""], ["crc_errors", "CRC errors between polls", ""], ["use", "Most loaded port", " %"]]) {
      parts.push(el("h3", {}, title), lineChart([{ name: title, points: h.time.map((t, i) => [t, h[key][i]]) }], { label: `${title} of ${name}, last day`, unit, in: root, lines: 9, from, to: now, most: key === "use" ? 100 : 0, empty: "the first value comes with the next poll" }));
    }
  }
  if (!good || !chip.found) {
    const number = app.map.find(name), links = app.map.links.get(number) || [], neighbours = [];
    for (let i = 0; i < links.length; i += 2) neighbours.push({ port: number < app.map.topology.nrc ? links[i] % 24 : 0, chip: app.map.name(app.map.chipOf(links[i + 1])) });
    parts.push(el("h3", {}, "Neighbours by the topology; the chip does not answer"),
      table([{ name: "Port", number: true, cell: (n) => n.port }, { name: "Neighbour", cell: (n) => place(n.chip) }], neighbours));
  } else {
    const ports = (await app.get(`ports?chip=${q}`)).ports;
    parts.push(el("h3", {}, "Ports and neighbours"), table([{ name: "Port", number: true, cell: (p) => p.port },
      { name: "Link", cell: (p) => p.expected || p.peer ? el("span", { class: p.up ? "good" : "bad" }, p.up ? `up, ${p.lanes} lanes` : "down") : el("span", { class: "dim" }, "free") },
      { name: "Neighbour", cell: (p) => p.peer ? place(p.peer) : p.expected ? ["missing: ", ...place(p.expected)] : "" }, { name: "Retries", number: true, cell: (p) => p.retries },
      { name: "CRC", number: true, cell: (p) => p.crc_errors }], ports));
    const wrong = ports.filter((p) => p.peer !== p.expected && p.peer);
    if (wrong.length) parts.push(el("h3", {}, "Wrong wires"), ...wrong.map((p) => el("p", { class: "bad" }, `port ${p.port}: ${p.peer} instead of ${p.expected}`)));
  }
  if (app.chip === name) fill(root, ...parts);
}
