"use strict";
// The page arrives whole. After that the operator sends the parts that have changed, as HTML, and this script puts
// them in their places. Times are counted here, so that what does not change need not be sent.
const byID = (id) => document.getElementById(id);
const rows = byID("rows"), filter = byID("filter"), stale = byID("stale");
const silence = 40000; // milliseconds: the operator sends something every 15 seconds
let source, heard = Date.now(), tried = 0, asked = "", focusDetail = false;

const chosen = () => decodeURIComponent(location.hash.slice(1));

function connect() {
  if (source) source.close();
  asked = chosen();
  tried = Date.now();
  source = new EventSource("live" + (asked ? "?module=" + encodeURIComponent(asked) : ""));
  source.onmessage = (event) => {
    heard = Date.now();
    stale.hidden = true;
    apply(JSON.parse(event.data));
  };
  source.onerror = () => { // a stream that ends in good order is opened again at once
    setTimeout(() => { if (Date.now() - heard > 4000) lost(); }, 4000);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

function lost() {
  if (!stale.hidden) return;
  stale.textContent = "Stale since " + new Date(heard).toLocaleTimeString() + ": the operator does not answer. This page tries again by itself.";
  stale.hidden = false;
}

function apply(change) {
  const parts = change.parts || {};
  for (const id of Object.keys(parts)) {
    const holder = document.createElement("template");
    holder.innerHTML = parts[id];
    const now = holder.content.firstElementChild, before = byID(id);
    if (!now) { if (before) before.remove(); continue; }
    if (!before) { rows.append(now); continue; }
    const focused = before.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const open = [...before.querySelectorAll("details")].map((d) => d.open && d.parentElement.querySelector("time").dateTime);
    for (const d of now.querySelectorAll("details")) d.open = open.includes(d.parentElement.querySelector("time").dateTime);
    before.replaceWith(now);
    if (focused !== null) for (const link of now.querySelectorAll("a")) if (link.getAttribute("href") === focused) link.focus();
  }
  if (change.order) {
    for (const row of [...rows.children]) if (!change.order.includes(row.id)) row.remove();
    change.order.forEach((id, i) => { if (rows.children[i] !== byID(id)) rows.insertBefore(byID(id), rows.children[i] || null); });
  }
  const detail = byID("detail");
  if (focusDetail && !detail.hidden) { detail.focus(); focusDetail = false; }
  document.title = byID("headline").textContent + " – addon-operator";
  narrow();
  count();
}

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows.children) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) shown++;
  }
  byID("shown").textContent = words.length ? shown + " of " + rows.children.length + " shown" : "";
}

function span(seconds) {
  const s = Math.max(0, Math.round(seconds)), pair = (a, x, b, y) => a + x + (b ? " " + b + y : "");
  if (s < 60) return s + "s";
  if (s < 3600) return pair(Math.floor(s / 60), "m", s % 60, "s");
  if (s < 86400) return pair(Math.floor(s / 3600), "h", Math.floor(s % 3600 / 60), "m");
  return pair(Math.floor(s / 86400), "d", Math.floor(s % 86400 / 3600), "h");
}

function count() {
  for (const time of document.querySelectorAll("time[data-is]")) {
    const seconds = (Date.now() - new Date(time.dateTime)) / 1000;
    let text = span(seconds);
    if (time.dataset.is === "ago") text += " ago";
    if (time.dataset.is === "in") text = seconds < 0 ? "in " + span(-seconds) : "now";
    if (time.textContent !== text) time.textContent = text;
  }
  if (Date.now() - heard > silence && Date.now() - tried > silence) { // half open: no error says so
    lost();
    connect();
  }
}

filter.addEventListener("input", narrow);
addEventListener("hashchange", () => { focusDetail = chosen() !== ""; connect(); });
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen()) {
    const from = asked;
    location.hash = "";
    byID("m-" + from)?.querySelector("a")?.focus();
  }
  if (event.key === "/" && document.activeElement !== filter) { event.preventDefault(); filter.focus(); }
});
setInterval(count, 1000);
count();
connect();
