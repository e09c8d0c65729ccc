// The map: all chips on a canvas, physical or logical, with names where there is room and bundles of links.
"use strict";

const COLOR_NAMES = { ".": "good", w: "link alarm", p: "in maintenance", u: "unknown", h: "hot", m: "no answer", x: "dead" };
const WORST = [".", "u", "p", "w", "h", "m", "x"];
const LEVELS = ["hosts", "bottom edge", "bottom spine", "leaf", "root edge", "root spine"];
const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SEGMENTS = 24; // of a level, between which bundles are drawn

class NetworkMap {
  constructor(canvas, onPick, onTip) {
    this.canvas = canvas; this.base = null;
    this.context = canvas.getContext("2d");
    this.onPick = onPick; this.onTip = onTip;
    this.kind = "physical"; this.colour = "state";
    this.moved = {};       // cabinet: [x, y], edited by people
    this.editing = false; this.selected = -1; this.hold = null;
    this.scale = 1; this.left = 0; this.top = 0; this.drawMs = 0; this.frames = [];
    this.readColors();
    this.listen();
    new ResizeObserver(() => { if (this.topology) this.relayout(); }).observe(canvas);
  }

  readColors() {
    const s = getComputedStyle(document.documentElement), c = (n) => s.getPropertyValue(n).trim();
    this.colors = { ".": c("--chip-good"), w: c("--chip-w"), h: c("--chip-h"), m: c("--chip-m"), x: c("--chip-x"), p: c("--chip-p"),
      u: c("--chip-u"), back: c("--back"), box: c("--box"), text: c("--text"), dim: c("--dim"), accent: c("--accent"), on: c("--chip-text"), line: c("--line") };
    this.redraw();
  }

  // ---- the network ---------------------------------------------------------------------------

  setTopology(t) {
    this.topology = t;
    this.chips = t.level.length;
    this.state = ".".repeat(this.chips); this.down = []; this.use = "";
    this.numbers = new Map();
    for (let i = 0; i < this.chips; i++) this.numbers.set(this.name(i), i);
    this.links = new Map();
    for (let i = 0; i < t.links.length; i += 2) {
      for (const [a, b] of [[t.links[i], t.links[i + 1]], [t.links[i + 1], t.links[i]]]) {
        const chip = this.chipOf(a);
        if (!this.links.has(chip)) this.links.set(chip, []);
        this.links.get(chip).push(a, b);
      }
    }
    this.relayout();
  }

  chipOf(port) {
    const nrc = this.topology.nrc * 24;
    return port < nrc ? Math.floor(port / 24) : this.topology.nrc + port - nrc;
  }

  setState(state) {
    this.state = state.chips; this.down = state.down; this.isDown = new Set(state.down);
    this.bundles = null;
    this.redraw();
  }

  setUse(use) { this.use = use; this.bundles = null; this.redraw(); }
  setKind(kind) { this.kind = kind; if (this.topology) this.relayout(); }

  load(port) { const c = this.use[port]; return c && c !== "-" ? BASE64.indexOf(c) / 63 : -1; }
  chipLoad(chip) {
    let most = -1;
    if (chip < this.topology.nrc) for (let p = chip * 24; p < chip * 24 + 24; p++) most = Math.max(most, this.load(p));
    return most;
  }
  loadColor(part) { return part < 0 ? this.colors.u : `hsl(${210 - 210 * Math.min(1, part)} 75% ${this.dark() ? 52 : 46}%)`; }
  fontSize() { return parseFloat(getComputedStyle(document.documentElement).fontSize) - 1; }
  dark() { return document.documentElement.dataset.theme === "dark"; }

  // ---- places --------------------------------------------------------------------------------

  relayout() {
    const w = this.canvas.clientWidth || 800, h = this.canvas.clientHeight || 500;
    this.layout = this.kind === "physical" ? this.physical(w, h) : this.logical(w, h);
    this.bundles = null;
    this.fit();
  }

  newLayout() {
    const n = this.chips;
    return { x: new Float32Array(n), y: new Float32Array(n), w: new Float32Array(n).fill(0.88), h: new Float32Array(n).fill(0.88),
      block: new Int32Array(n), blocks: [], rows: [] };
  }

  // Within a cabinet: frames below each other, the switch above its hosts.
  inCabinet(i) {
    const t = this.topology, wide = this.frameWidth;
    if (!t.tree) return [i < t.nrc ? i % 8 : i % 8 + 9, Math.floor((i < t.nrc ? i : i - t.nrc) / 8)];
    if (t.level[i] === 0) return [t.slot[i] % wide, this.frameHeight * t.frame[i] + 1.2 + Math.floor(t.slot[i] / wide)];
    if (t.level[i] <= 2) return [t.slot[i] * wide / this.bottomNrcs, this.frameHeight * t.frame[i]];
    if (t.level[i] === 3) return [t.index[i] % 20, t.frame[i] * 1.3 + Math.floor(t.index[i] / 20)];
    return [(t.index[i] % 2) * (this.rootNrcs + 1) + t.slot[i], Math.floor(t.index[i] / 2) * 1.3];
  }

  physical(w, h) {
    const t = this.topology, l = this.newLayout();
    let hosts = 0;
    this.bottomNrcs = this.rootNrcs = 1;
    for (let i = 0; i < this.chips; i++) {
      if (t.level[i] === 0) hosts = Math.max(hosts, t.slot[i] + 1);
      else if (t.level[i] <= 2) this.bottomNrcs = Math.max(this.bottomNrcs, t.slot[i] + 1);
      else if (t.level[i] >= 4) this.rootNrcs = Math.max(this.rootNrcs, t.slot[i] + 1);
    }
    this.frameWidth = Math.max(Math.min(16, hosts), this.bottomNrcs);
    this.frameHeight = 1.2 + Math.ceil(hosts / this.frameWidth) + 0.5;
    for (let i = 0; i < this.chips; i++) {
      const c = t.cabinet[i], k = !t.tree ? "r" : t.level[i] <= 2 ? "r" : t.level[i] === 3 ? "l" : "t", [x, y] = this.inCabinet(i);
      l.block[i] = c;
      const b = l.blocks[c] ||= { kind: k, name: k + t.number[i], w: 0, h: 0 };
      b.w = Math.max(b.w, x + 1.4); b.h = Math.max(b.h, y + 1.6);
      l.x[i] = x + 0.25; l.y[i] = y + 0.4;
      if (t.tree && t.level[i] >= 1 && t.level[i] <= 2) l.w[i] = this.frameWidth / this.bottomNrcs - 0.12;
    }
    let best = null;
    for (let width = 20; width < 4000; width *= 1.06) {
      const [x, y] = this.flow(l.blocks, width, false), scale = Math.min((w - 24) / x, (h - 24) / y);
      if (!best || scale > best.scale) best = { scale, width };
    }
    this.flow(l.blocks, best.width, true);
    l.blocks.forEach((b, c) => { if (this.moved[c]) [b.x, b.y] = this.moved[c]; });
    this.base = { x: l.x.slice(), y: l.y.slice() };
    this.placeChips(l);
    return l;
  }

  placeChips(l) {
    for (let i = 0; i < this.chips; i++) {
      l.x[i] = this.base.x[i] + l.blocks[l.block[i]].x; l.y[i] = this.base.y[i] + l.blocks[l.block[i]].y;
    }
  }

  // Cabinets in rows: racks, then leaf cabinets, then root cabinets. Returns the size.
  flow(blocks, width, place) {
    let x = 0, y = 0, high = 0, most = 0, last = "";
    for (const k of ["r", "l", "t"]) {
      for (const b of blocks) {
        if (!b || b.kind !== k) continue;
        if (last && (x + b.w > width || last !== k)) { y += high + (last !== k ? 3.5 : 2.4); x = 0; high = 0; }
        if (place) { b.x = x; b.y = y + 1.6; }
        x += b.w + 1.2; high = Math.max(high, b.h); most = Math.max(most, x - 1.2); last = k;
      }
    }
    return [most, y + high + 1.6];
  }

  // Levels of the tree, the roots above, in the size of the canvas; between them room for the bundles.
  logical(w, h) {
    const t = this.topology, l = this.newLayout(), per = LEVELS.map(() => []);
    for (let i = 0; i < this.chips; i++) per[t.level[i]].push(i);
    const used = per.filter((p) => p.length), gap = Math.max(34, h / (used.length * 3));
    const room = h - 20 - gap * (used.length - 1) - 18 * used.length, wide = Math.max(100, w - 24);
    const high = (s) => used.reduce((sum, p) => sum + Math.ceil(p.length / Math.floor(wide / s)) * s, 0);
    let low = 0.6, top = h / used.length;
    for (let i = 0; i < 40; i++) { const s = (low + top) / 2; if (Math.floor(wide / s) > 0 && high(s) <= room) low = s; else top = s; }
    let y = 8;
    for (let level = 5; level >= 0; level--) {
      const chips = per[level];
      if (!chips.length) continue;
      const rows = Math.ceil(chips.length / Math.floor(wide / low)), columns = Math.ceil(chips.length / rows), step = wide / columns;
      l.rows.push({ level, number: chips.length, y, top: y + 16, bottom: y + 16 + rows * low });
      chips.forEach((chip, n) => {
        const column = Math.floor(n / rows);
        l.x[chip] = 12 + column * step; l.y[chip] = y + 16 + (n % rows) * low;
        l.w[chip] = step * 0.9; l.h[chip] = low * 0.88; l.block[chip] = level * SEGMENTS + Math.floor(column / columns * SEGMENTS);
      });
      y += 16 + rows * low + gap;
    }
    return l;
  }

  // Links between the segments of two levels: number, links down, load.
  makeBundles() {
    const t = this.topology, l = this.layout, lines = new Map(), levels = new Map();
    for (let i = 0; i < t.links.length; i += 2) {
      let a = t.links[i], b = t.links[i + 1];
      if (t.level[this.chipOf(a)] < t.level[this.chipOf(b)]) [a, b] = [b, a];
      const x = this.chipOf(a), y = this.chipOf(b), upper = t.level[x], lower = t.level[y], key = l.block[x] * 1000 + l.block[y];
      const bad = this.isDown && this.isDown.has(t.links[i]) ? 1 : 0, load = Math.max(this.load(a), this.load(b));
      for (const [map, k] of [[lines, key], [levels, upper * 10 + lower]]) {
        let s = map.get(k);
        if (!s) map.set(k, s = { upper, lower, from: 0, to: 0, num: 0, down: 0, load: 0, known: 0, most: -1 });
        s.num++; s.down += bad; s.from += l.x[x] + l.w[x] / 2; s.to += l.x[y] + l.w[y] / 2;
        if (load >= 0) { s.known++; s.load += load; s.most = Math.max(s.most, load); }
      }
    }
    this.bundles = { lines: [...lines.values()], levels: [...levels.values()] };
  }

  // ---- drawing -------------------------------------------------------------------------------

  fit() {
    const l = this.layout, w = this.canvas.clientWidth || 800, h = this.canvas.clientHeight || 500;
    if (!l) return;
    if (this.kind === "logical") { this.scale = 1; this.left = this.top = 0; this.redraw(); return; }
    let x1 = 1e9, y1 = 1e9, x2 = -1e9, y2 = -1e9;
    for (const b of l.blocks) {
      if (!b) continue;
      x1 = Math.min(x1, b.x); y1 = Math.min(y1, b.y - 1.6); x2 = Math.max(x2, b.x + b.w); y2 = Math.max(y2, b.y + b.h);
    }
    this.scale = Math.min((w - 24) / (x2 - x1), (h - 16) / (y2 - y1));
    this.left = (w - (x2 - x1) * this.scale) / 2 - x1 * this.scale;
    this.top = (h - (y2 - y1) * this.scale) / 2 - y1 * this.scale;
    this.redraw();
  }

  redraw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  size() {
    const canvas = this.canvas, ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); this.picture = null;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return [w, h, ratio];
  }

  // While the map is dragged or zoomed the last picture moves; it is drawn again when the hand rests.
  draw() {
    const begin = performance.now(), c = this.context, [w, h] = this.size();
    if (!this.layout || !w || !h) return;
    if (this.moving && this.picture) {
      const p = this.picture, f = this.scale / p.scale;
      c.fillStyle = this.colors.back; c.fillRect(0, 0, w, h);
      c.drawImage(p.canvas, this.left - p.left * f, this.top - p.top * f, w * f, h * f);
      this.frames.push(begin);
    } else this.drawAll(c, w, h);
    this.drawMs = performance.now() - begin;
  }

  drawAll(c, w, h) {
    c.fillStyle = this.colors.back; c.fillRect(0, 0, w, h);
    if (this.kind === "logical") this.drawBundles(c); else this.drawBlocks(c, w, h);
    this.drawChips(c, w, h);
    this.drawLinks(c);
    this.drawSelected(c);
    if (this.kind === "logical") this.drawRows(c);
  }

  move() {
    if (!this.moving) {
      const copy = document.createElement("canvas");
      copy.width = this.canvas.width; copy.height = this.canvas.height;
      copy.getContext("2d").drawImage(this.canvas, 0, 0);
      this.picture = { canvas: copy, scale: this.scale, left: this.left, top: this.top };
      this.moving = true; this.frames = [];
    }
    clearTimeout(this.rest);
    const end = () => {
      if (this.hold && this.hold.moved) { this.rest = setTimeout(end, 120); return; } // the hand still holds the map
      this.moving = false; this.redraw();
    };
    this.rest = setTimeout(end, 120);
  }

  drawBlocks(c, w, h) {
    const s = this.scale;
    c.textBaseline = "bottom";
    this.layout.blocks.forEach((b) => {
      if (!b) return;
      const x = b.x * s + this.left, y = b.y * s + this.top;
      if (x > w || y > h || x + b.w * s < 0 || y + b.h * s < 0) return;
      c.fillStyle = this.colors.box; c.fillRect(x, y, b.w * s, b.h * s);
      if (b.w * s > 22 && 2.4 * s >= 8) { // the name has to fit between two rows of cabinets
        c.fillStyle = this.colors.dim; c.font = `${Math.min(15, Math.max(8, s * 1.5))}px sans-serif`;
        c.fillText(b.name, x, y, b.w * s);
      }
    });
  }

  fillOf(i) { return this.colour === "load" && this.state[i] === "." ? this.loadColor(this.chipLoad(i)) : this.colors[this.state[i]]; }

  drawChips(c, w, h) {
    const l = this.layout, s = this.scale, byLoad = this.colour === "load";
    for (const letter of WORST) {
      c.fillStyle = this.colors[letter];
      const bad = "hmx".includes(letter);
      for (let i = 0; i < this.chips; i++) {
        if (this.state[i] !== letter) continue;
        const x = l.x[i] * s + this.left, y = l.y[i] * s + this.top;
        let cw = l.w[i] * s, ch = l.h[i] * s;
        if (x > w || y > h || x + cw < 0 || y + ch < 0) continue;
        if (byLoad && letter === ".") c.fillStyle = this.loadColor(this.chipLoad(i));
        const px = bad ? Math.max(0, 5 - cw) : 0, py = bad ? Math.max(0, 5 - ch) : 0; // what is bad is seen
        const left = Math.round(x - px / 2), top = Math.round(y - py / 2); // whole pixels are sharp, and quick to draw
        c.fillRect(left, top, Math.max(1, Math.round(cw + px)), Math.max(1, Math.round(ch + py)));
      }
    }
    this.drawNames(c, w, h);
  }

  drawNames(c, w, h) {
    const l = this.layout, s = this.scale;
    c.fillStyle = this.colors.on; c.textBaseline = "middle"; c.textAlign = "center";
    for (let i = 0; i < this.chips; i++) {
      const cw = l.w[i] * s, ch = l.h[i] * s;
      if (cw < 24 || ch < 10) continue;
      const x = l.x[i] * s + this.left, y = l.y[i] * s + this.top;
      if (x > w || y > h || x + cw < 0 || y + ch < 0) continue;
      const full = this.name(i), short = full.replace(/^(r\d+f\d+|l\d+s\d+|t\d+)/, ""), text = cw > full.length * 6.4 ? full : short;
      c.font = `${Math.max(9, Math.min(this.fontSize() + 3, ch * 0.5, cw / text.length * 1.5))}px sans-serif`;
      c.fillText(text, x + cw / 2, y + ch / 2, cw - 2);
    }
    c.textAlign = "left";
  }

  drawRows(c) {
    c.textBaseline = "bottom"; c.font = `${this.fontSize()}px sans-serif`; c.fillStyle = this.colors.text;
    for (const r of this.layout.rows) {
      c.fillText(`${LEVELS[r.level]}: ${r.number.toLocaleString("en")}`, Math.max(8, 12 * this.scale + this.left), r.top * this.scale + this.top - 2);
    }
  }

  // A bundle's width says how many links it has; its colour says its load, or that links are down.
  drawBundles(c) {
    if (!this.bundles) this.makeBundles();
    const rows = new Map(this.layout.rows.map((r) => [r.level, r])), s = this.scale;
    const most = Math.max(1, ...this.bundles.lines.map((b) => b.num));
    for (const b of [...this.bundles.lines].sort((p, q) => p.down - q.down)) {
      const upper = rows.get(b.upper), lower = rows.get(b.lower);
      if (!upper || !lower || b.upper === b.lower) continue;
      c.lineWidth = Math.max(0.6, 7 * b.num / most) * Math.min(1.6, Math.max(0.6, s));
      c.globalAlpha = b.down ? 0.95 : 0.38;
      c.strokeStyle = b.down ? this.colors.x : b.known ? this.loadColor(b.load / b.known) : this.colors.dim;
      c.beginPath();
      c.moveTo(b.from / b.num * s + this.left, upper.bottom * s + this.top);
      c.lineTo(b.to / b.num * s + this.left, (lower.top - 2) * s + this.top);
      c.stroke();
    }
    c.globalAlpha = 1; c.font = `${this.fontSize()}px sans-serif`; c.textBaseline = "middle"; c.textAlign = "right";
    for (const b of this.bundles.levels) {
      const upper = rows.get(b.upper), lower = rows.get(b.lower);
      if (!upper || !lower || b.upper === b.lower) continue;
      const text = `${b.num.toLocaleString("en")} links${b.down ? `, ${b.down} down` : ""}${b.most >= 0 ? `, load ${Math.round(b.load / b.known * 100)} %, most ${Math.round(b.most * 100)} %` : ""}`;
      const x = this.canvas.clientWidth - 14, y = (upper.bottom + lower.y + 8) / 2 * s + this.top, width = c.measureText(text).width;
      c.fillStyle = this.colors.back; c.fillRect(x - width - 6, y - this.fontSize() * 0.8, width + 10, this.fontSize() * 1.6);
      c.fillStyle = b.down ? this.colors.x : this.colors.text; c.fillText(text, x, y);
    }
    c.textAlign = "left";
  }

  line(c, a, b) {
    const l = this.layout, s = this.scale, from = this.chipOf(a), to = this.chipOf(b);
    c.moveTo((l.x[from] + l.w[from] / 2) * s + this.left, (l.y[from] + l.h[from] / 2) * s + this.top);
    c.lineTo((l.x[to] + l.w[to] / 2) * s + this.left, (l.y[to] + l.h[to] / 2) * s + this.top);
  }

  drawLinks(c) {
    const many = this.down.length > 40;
    c.globalAlpha = many ? 0.4 : 1; c.lineWidth = many ? 0.7 : 1.5; c.strokeStyle = this.colors.x; c.beginPath();
    for (let i = 0; i < this.down.length; i += 2) this.line(c, this.down[i], this.down[i + 1]);
    c.stroke(); c.globalAlpha = 1;
    if (this.selected < 0) return;
    const ports = this.links.get(this.selected) || [];
    c.lineWidth = 1.2; c.strokeStyle = this.colors.accent; c.beginPath();
    for (let i = 0; i < ports.length; i += 2) this.line(c, ports[i], ports[i + 1]);
    c.stroke();
  }

  drawSelected(c) {
    if (this.selected < 0) return;
    const l = this.layout, s = this.scale, i = this.selected;
    c.lineWidth = 3; c.strokeStyle = this.colors.text;
    c.strokeRect(l.x[i] * s + this.left - 3, l.y[i] * s + this.top - 3, Math.max(6, l.w[i] * s + 6), Math.max(6, l.h[i] * s + 6));
  }

  // ---- names and hands -----------------------------------------------------------------------

  name(i) {
    const t = this.topology;
    if (!t.tree) return i < t.nrc ? `nrc${i}` : `nic${i - t.nrc}`;
    if (t.level[i] === 0) return `r${t.number[i]}f${t.frame[i]}h${t.slot[i]}`;
    if (t.level[i] <= 2) return `r${t.number[i]}f${t.frame[i]}n${t.slot[i]}`;
    if (t.level[i] === 3) return `l${t.number[i]}s${t.frame[i]}b${t.index[i]}`;
    return `t${t.number[i]}b${t.index[i]}n${t.slot[i]}`;
  }

  find(name) { return this.numbers.has(name) ? this.numbers.get(name) : -1; }

  show(chip, zoom) {
    this.selected = chip;
    if (chip >= 0 && zoom) {
      const cell = Math.min(this.layout.w[chip], this.layout.h[chip]);
      this.scale = Math.max(this.scale, 12 / cell);
      this.left = this.canvas.clientWidth / 2 - this.layout.x[chip] * this.scale;
      this.top = this.canvas.clientHeight / 2 - this.layout.y[chip] * this.scale;
    }
    this.redraw();
  }

  chipAt(px, py) {
    const l = this.layout, s = this.scale;
    let best = -1, distance = 64;
    for (let i = 0; i < this.chips; i++) {
      const x = l.x[i] * s + this.left, y = l.y[i] * s + this.top, dx = Math.max(x - px, 0, px - x - l.w[i] * s), dy = Math.max(y - py, 0, py - y - l.h[i] * s);
      const d = dx * dx + dy * dy;
      if (d < distance) { distance = d; best = i; }
    }
    return best;
  }

  cabinetAt(px, py) {
    const x = (px - this.left) / this.scale, y = (py - this.top) / this.scale;
    return this.layout.blocks.findIndex((b) => b && x >= b.x && y >= b.y && x < b.x + b.w && y < b.y + b.h);
  }

  // The next chip that is not good, for the keyboard.
  next() {
    for (let k = 1; k <= this.chips; k++) {
      const i = (this.selected + k + this.chips) % this.chips;
      if (this.state[i] !== ".") return i;
    }
    return this.selected >= 0 ? (this.selected + 1) % this.chips : 0;
  }

  zoom(factor, px, py) {
    this.move();
    const scale = Math.min(400, Math.max(0.05, this.scale * factor));
    this.left = px - (px - this.left) * scale / this.scale;
    this.top = py - (py - this.top) * scale / this.scale;
    this.scale = scale;
    this.redraw();
  }

  shift(dx, dy) { this.move(); this.left += dx; this.top += dy; this.redraw(); }

  listen() {
    const canvas = this.canvas, touches = new Map();
    let pinch = 0;
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(Math.exp(-e.deltaY * 0.0015), e.offsetX, e.offsetY); }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      const cabinet = this.editing && this.kind === "physical" ? this.cabinetAt(e.offsetX, e.offsetY) : -1;
      touches.set(e.pointerId, [e.offsetX, e.offsetY]);
      this.hold = { x: e.offsetX, y: e.offsetY, moved: false, cabinet };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      const hold = this.hold;
      if (!hold) { this.onTip(this.layout ? this.chipAt(e.offsetX, e.offsetY) : -1, e.offsetX, e.offsetY); return; }
      touches.set(e.pointerId, [e.offsetX, e.offsetY]);
      if (touches.size === 2) {
        const [a, b] = [...touches.values()], apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (pinch) this.zoom(apart / pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
        pinch = apart; hold.moved = true; return;
      }
      const dx = e.offsetX - hold.x, dy = e.offsetY - hold.y;
      if (!hold.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      hold.moved = true; hold.x = e.offsetX; hold.y = e.offsetY;
      if (hold.cabinet >= 0) {
        const b = this.layout.blocks[hold.cabinet];
        b.x += dx / this.scale; b.y += dy / this.scale;
        this.moved[hold.cabinet] = [b.x, b.y];
        this.placeChips(this.layout); this.redraw();
      } else this.shift(dx, dy);
    });
    const up = (e) => {
      touches.delete(e.pointerId); pinch = 0;
      if (e.type === "pointerup" && this.hold && !this.hold.moved) this.onPick(this.chipAt(e.offsetX, e.offsetY));
      if (!touches.size) this.hold = null;
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.onTip(-1, 0, 0));
    canvas.addEventListener("keydown", (e) => {
      const step = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[e.key];
      if (step) { this.shift(...step); e.preventDefault(); }
      if (e.key === "+" || e.key === "-") this.zoom(e.key === "+" ? 1.3 : 0.77, canvas.clientWidth / 2, canvas.clientHeight / 2);
      if (e.key === "0") this.fit();
      if (e.key === "Enter") { this.onPick(this.next()); e.preventDefault(); }
      if (e.key === "Escape") this.onPick(-1);
    });
  }
}
