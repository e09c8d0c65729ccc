// Line charts as SVG, with axes from the first second on.
"use strict";

const LINE_COLORS = ["#2f80c9", "#d9722b", "#3a9e6e", "#a75bd0", "#c23a4a", "#8a8f2a", "#2aa0a0", "#b0608a", "#6a7cd0"];

function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// A round number of the size of `value`, for the marks of an axis.
function niceStep(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= value) || power * 10;
}

// series: [{name, points: [[seconds, value]]}]. options: in (the element that the chart fills in width), label,
// unit, from, to, most, lines (the height, in lines of text), empty.
function lineChart(series, options) {
  const o = { lines: 15, unit: "", ...options }, letter = parseFloat(getComputedStyle(document.documentElement).fontSize) * 0.8;
  const style = getComputedStyle(o.in), room = o.in.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const w = Math.max(240, room || 640), h = o.lines * letter, left = 4.6 * letter, bottom = 2 * letter;
  const to = o.to || Date.now() / 1000, from = o.from || to - 3600;
  const values = series.flatMap((s) => s.points.map((p) => p[1]));
  const step = niceStep((o.most || Math.max(0, ...values) || 3) / 3);
  const high = Math.max(step, Math.ceil((o.most || Math.max(0, ...values)) / step) * step);
  const x = (t) => left + (t - from) / (to - from) * (w - left - 10), y = (v) => h - bottom - v / high * (h - bottom - 12);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": o.label, "font-size": letter });
  for (let v = 0; v <= high + step / 2; v += step) {
    chart.append(svg("line", { x1: left, x2: w - 10, y1: y(v), y2: y(v) }),
      svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, `${Number(v.toPrecision(3))}${o.unit}`));
  }
  const marks = w < 30 * letter ? 2 : 4;
  for (let i = 0; i <= marks; i++) {
    const t = from + (to - from) * i / marks, long = to - from > 86400 * 1.5;
    chart.append(svg("text", { x: x(t), y: h - 6, "text-anchor": i === 0 ? "start" : i === marks ? "end" : "middle" },
      new Date(t * 1000).toLocaleString("sv-SE").slice(long ? 5 : 11, 16)));
  }
  series.forEach((s, n) => {
    const points = s.points.filter((p) => p[0] >= from).map((p) => `${x(p[0]).toFixed(1)},${y(Math.min(high, p[1])).toFixed(1)}`);
    if (points.length === 1) points.push(points[0].replace(/^[^,]+/, (a) => Number(a) + 2));
    if (points.length) chart.append(svg("polyline", { points: points.join(" "), fill: "none", stroke: LINE_COLORS[n % LINE_COLORS.length], "stroke-width": 1.8 }));
  });
  if (!values.length) chart.append(svg("text", { x: (w + left) / 2, y: h / 2, "text-anchor": "middle" }, o.empty || "no values yet"));
  return chart;
}
