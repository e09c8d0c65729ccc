// The views that are lists: alarms, devices, traffic, log, users.
"use strict";

// Elements are made from text, never from HTML: names and messages cannot become code.
function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined).map((c) => c instanceof Node ? c : String(c)));
  return e;
}

function time(seconds) {
  return seconds ? new Date(seconds * 1000).toLocaleString("sv-SE") : "";
}

function place(text) {
  return text.split(" ").flatMap((name, i) => {
    const chip = name.split(":")[0];
    const known = app.map.topology && app.map.find(chip) >= 0;
    return [i ? " " : "", known ? el("a", { onclick: () => app.open(chip) }, name) : name];
  });
}

function table(columns, rows, empty) {
  if (!rows.length) return el("p", { class: "empty" }, empty || "Nothing.");
  return el("table", {}, el("thead", {}, el("tr", {}, ...columns.map((c) => el("th", { class: c.number ? "number" : "" }, c.name)))),
    el("tbody", {}, ...rows.map((r) => el("tr", {}, ...columns.map((c) =>
      el("td", { class: c.number ? "number" : c.time ? "time" : "" }, ...[].concat(c.cell(r))))))));
}

const tag = (severity) => el("span", { class: `tag ${severity}` }, severity);

const views = {
  async alarms(root) {
    const active = app.state ? app.state.alarms : [];
    const all = (await app.get("alarms?all=1")).alarms;
    const order = { critical: 0, major: 1, warning: 2, info: 3 };
    const ack = (a) => a.acknowledged ? `by ${a.acknowledged}` : app.may("operator")
      ? el("button", { onclick: () => app.post("alarms/ack", { id: a.id }) }, "Acknowledge") : "";
    root.replaceChildren(el("h2", {}, `Active alarms: ${active.length}`),
      table([{ name: "Severity", cell: (a) => tag(a.severity) }, { name: "Cause", cell: (a) => a.cause },
        { name: "Place", cell: (a) => place(a.place) }, { name: "Since", time: true, cell: (a) => time(a.raised) },
        { name: "Folded", number: true, cell: (a) => a.folded }, { name: "What", cell: (a) => a.text },
        { name: "Acknowledged", cell: ack }],
      [...active].sort((a, b) => order[a.severity] - order[b.severity] || b.raised - a.raised), "No alarms."),
      el("h3", {}, "Before"),
      table([{ name: "Severity", cell: (a) => tag(a.severity) },
        { name: "Cause", cell: (a) => a.cause }, { name: "Place", cell: (a) => place(a.place) },
        { name: "Raised", time: true, cell: (a) => time(a.raised) }, { name: "Cleared", time: true, cell: (a) => time(a.cleared) },
        { name: "What", cell: (a) => a.text }], all.filter((a) => a.cleared).slice(0, 200), "None yet."));
  },

  async devices(root) {
    const t = app.map.topology, state = app.map.state, counts = {};
    for (let i = 0; i < t.level.length; i++) {
      const c = counts[t.level[i]] ||= { level: t.level[i], ".": 0, w: 0, h: 0, m: 0, x: 0 };
      c[state[i]]++;
    }
    const bad = [];
    for (let i = 0; i < state.length && bad.length < 500; i++) if (state[i] !== ".") bad.push(i);
    root.replaceChildren(el("h2", {}, "Devices"),
      table([{ name: "Level", cell: (c) => LEVELS[c.level] }, ...WORST.map((k) => ({ name: COLOR_NAMES[k], number: true,
        cell: (c) => el("span", { class: k === "." || !c[k] ? "" : "bad" }, c[k]) }))], Object.values(counts).reverse()),
      el("h3", {}, "Chips that are not good"),
      table([{ name: "Chip", cell: (i) => place(app.map.name(i)) }, { name: "Level", cell: (i) => LEVELS[t.level[i]] },
        { name: "State", cell: (i) => el("span", { class: "bad" }, COLOR_NAMES[state[i]]) }], bad, "All chips are good."));
  },

  async traffic(root) {
    const t = await app.get("traffic"), s = await app.get(`samples?since=${Date.now() / 1000 - 3600}`);
    const chart = el("canvas", { class: "chart", id: "chart" });
    const most = Math.max(1, ...t.levels.map((l) => l.since_poll));
    root.replaceChildren(el("h2", {}, "Traffic"),
      el("dl", {}, el("dt", {}, "Requests"), el("dd", {}, t.requests.toLocaleString("en")),
        el("dt", {}, "Responses"), el("dd", {}, t.responses.toLocaleString("en")), el("dt", {}, "Reports"),
        el("dd", {}, t.reports.toLocaleString("en")), el("dt", {}, "Management data"), el("dd", {}, `${(t.bytes / 1e6).toFixed(1)} MB`)),
      el("h3", {}, "Requests a second, last hour"), chart,
      el("h3", {}, "Link retries by level"),
      table([{ name: "Level", cell: (l) => l.level }, { name: "Chips", number: true, cell: (l) => l.chips },
        { name: "Retries", number: true, cell: (l) => l.retries }, { name: "Since the last poll", number: true, cell: (l) => l.since_poll },
        { name: "", cell: (l) => { const b = el("div", { class: "bar" }); b.style.width = `${200 * l.since_poll / most}px`; return b; } }], t.levels),
      el("h3", {}, "Chips with most new retries"),
      table([{ name: "Chip", cell: (c) => place(c.chip) }, { name: "Retries", number: true, cell: (c) => c.retries },
        { name: "Since the last poll", number: true, cell: (c) => c.since_poll }], t.top, "None."));
    drawChart(chart, s.samples.filter((x) => x.name === "requests"));
  },

  async log(root) {
    const e = (await app.get("events?limit=500")).events.reverse();
    const parts = [el("h2", {}, "Log"), el("h3", {}, "Events"),
      table([{ name: "Time", time: true, cell: (x) => time(x.time) }, { name: "Severity", cell: (x) => tag(x.severity) },
        { name: "Event", cell: (x) => x.event }, { name: "Place", cell: (x) => place(x.place) },
        { name: "Value", number: true, cell: (x) => x.value }], e, "No events yet.")];
    if (app.may("administrator")) {
      const a = (await app.get("log?kind=change")).log;
      parts.push(el("h3", {}, "Audit: who did what"), table([{ name: "Time", time: true, cell: (x) => time(x.time) },
        { name: "User", cell: (x) => x.user }, { name: "From", cell: (x) => x.address },
        { name: "Action", cell: (x) => x.text }], a));
    }
    root.replaceChildren(...parts);
  },

  async users(root) {
    const roles = ["", "viewer", "operator", "administrator"], list = (await app.get("users")).users;
    const name = el("input", { placeholder: "name", "aria-label": "name" });
    const password = el("input", { type: "password", placeholder: "password", "aria-label": "password", autocomplete: "new-password" });
    const role = el("select", { "aria-label": "role" }, ...roles.slice(1).map((r) => el("option", {}, r)));
    const done = () => views.users(root);
    root.replaceChildren(el("h2", {}, "Users"),
      table([{ name: "Name", cell: (u) => u.name }, { name: "Role", cell: (u) => roles[u.role] },
        { name: "", cell: (u) => el("button", { onclick: () => app.post("users/delete", { name: u.name }).then(done) }, "Remove") }], list, "None."),
      el("h3", {}, "Add a user, or change role and password"),
      el("div", { class: "row" }, name, password, role, el("button", { onclick: () =>
        app.post("users", { name: name.value, password: password.value, role: role.value }).then(done) }, "Save")));
  },
};

function drawChart(canvas, samples) {
  const ratio = window.devicePixelRatio || 1, w = canvas.width = canvas.clientWidth * ratio, h = canvas.height = canvas.clientHeight * ratio;
  const c = canvas.getContext("2d"), points = [];
  for (let i = 1; i < samples.length; i++) {
    const d = samples[i].time - samples[i - 1].time;
    if (d > 0) points.push([samples[i].time, Math.max(0, (samples[i].value - samples[i - 1].value) / d)]);
  }
  c.font = `${12 * ratio}px sans-serif`; c.fillStyle = "#93a2b3";
  if (points.length < 2) { c.fillText("not enough polls yet", 12 * ratio, 24 * ratio); return; }
  const from = points[0][0], to = points[points.length - 1][0], high = Math.max(...points.map((p) => p[1])) || 1;
  c.fillText(`${Math.round(high).toLocaleString("en")} /s`, 8 * ratio, 16 * ratio);
  c.fillText(time(from).slice(11), 8 * ratio, h - 6 * ratio);
  c.textAlign = "right"; c.fillText(time(to).slice(11), w - 8 * ratio, h - 6 * ratio);
  c.strokeStyle = "#5aa9ef"; c.lineWidth = 1.5 * ratio; c.beginPath();
  points.forEach(([x, y], i) => c[i ? "lineTo" : "moveTo"]((x - from) / (to - from) * w, h - 24 * ratio - y / high * (h - 48 * ratio)));
  c.stroke();
}

// One chip beside the map: what it is, and its ports, read from the chip now.
async function showChip(root, name) {
  const chip = await app.get(`chip?chip=${encodeURIComponent(name)}`);
  const parts = [el("button", { class: "close", onclick: () => app.close() }, "Close"), el("h2", {}, chip.chip),
    el("dl", {}, ...[["Place", chip.place], ["Kind", `${chip.type}, ${chip.level}`], ["Id", chip.id], ["Hops", chip.hops],
      ["Answers", el("span", { class: chip.answers === "done" ? "good" : "bad" }, chip.answers === "done" ? "yes" : chip.answers)],
      ["Temperature", chip.answers === "done" ? `${chip.temperature.toFixed(1)} °C` : "?"],
      ["Retries", `${chip.retries} (${chip.retries_since_poll} since the last poll)`]].flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]))];
  if (chip.found) {
    const ports = (await app.get(`ports?chip=${encodeURIComponent(name)}`)).ports;
    parts.push(el("h3", {}, "Ports"), table([{ name: "Port", number: true, cell: (p) => p.port },
      { name: "Link", cell: (p) => p.expected || p.peer ? el("span", { class: p.up ? "good" : "bad" }, p.up ? `up x${p.lanes}` : "down") : el("span", { class: "dim" }, "free") },
      { name: "Peer", cell: (p) => p.peer ? place(p.peer) : "" }, { name: "Retries", number: true, cell: (p) => p.retries },
      { name: "Ups", number: true, cell: (p) => p.handshakes }], ports));
    const wrong = ports.filter((p) => p.peer !== p.expected && p.peer);
    if (wrong.length) parts.push(el("h3", {}, "Wrong wires"), ...wrong.map((p) => el("p", { class: "bad" }, `port ${p.port}: ${p.peer} instead of ${p.expected}`)));
  }
  root.replaceChildren(...parts);
}
