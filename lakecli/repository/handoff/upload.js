"use strict";
// Sends files to the links of the page, and a list of them, which keeps their names.
const data = JSON.parse(document.getElementById("links").textContent);
const input = document.querySelector("input"), drop = document.querySelector(".drop");
const rows = document.querySelector("tbody"), status = document.querySelector("[role=status]");
const retry = document.querySelector("button");
const CHUNK = 8 * 1024 * 1024, AT_ONCE = 3, TRIES = 3, LIST_EVERY = 5000;
const LINE = /^([0-9a-f]{32}) (\d+) (\S+) ([.+*]|\d+) (.+)$/;
const BLOCKED = "The browser cannot reach the bucket: the connection was lost, or the bucket does " +
  "not let pages send to it (CORS). Ask whoever sent you this page to allow it (lakecli help " +
  "clouds), or for a script.";
// By the ID of a link: size, digest, name, how many parts were sent, whether all of it was, and
// whether it replaces a file that was.
const files = new Map();
const waiting = [], failed = [];
let running = 0, listed = 0, saving = Promise.resolve();

function send(link, body, report = () => {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(), fields = Object.entries(link.fields);
    request.open(fields.length ? "POST" : "PUT", link.url);
    for (const [name, value] of Object.entries(link.headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = event => report(event.loaded);
    request.onload = () => request.status < 300 ? resolve() : reject(new Error(request.status));
    request.onerror = () => reject(new Error(BLOCKED));
    if (fields.length) {
      const form = new FormData();
      for (const [name, value] of fields) form.append(name, value);
      form.append("file", body);
      body = form;
    }
    request.send(body);
  });
}

function explained(error) {
  if (error.message === BLOCKED) return BLOCKED;
  if (Date.now() > Date.parse(data.expires)) return "These links have expired: ask for a new page.";
  return `The server refuses it (${error.message}). It may be too large, or the access was revoked.`;
}

async function persistently(link, body, report) {
  for (let k = 1; ; k++) {
    try {
      return await send(link, body, report);
    } catch (error) {
      if (k === TRIES || /^4/.test(error.message)) throw error;
      await new Promise(resolve => setTimeout(resolve, 1000 * k));
    }
  }
}

async function transfer({file, link, bar}) { // in parts, unless it is small or replaces another
  const state = files.get(link.id), size = data.part_size, [start, ...ends] = link.parts;
  const from = at => sent => { bar.value = at + sent; };
  if (!start || file.size <= size || state.again) return persistently(link, file.slice(0, file.size, ""), from(0));
  for (const rest = file.size % size; size * (state.parts + 1) <= file.size; state.parts++) {
    const at = state.parts && rest + size * state.parts, url = start + ends[state.parts]; // the first has the rest, too
    try {
      await persistently({url, headers: {}, fields: {}}, file.slice(at, rest + size * (state.parts + 1), ""), from(at));
    } catch (error) {
      if (error.message !== "404") throw error;
      state.again = true; // its upload has ended
      return transfer({file, link, bar});
    }
    if (Date.now() - listed > LIST_EVERY) await saveList();
  }
}

const hash = async bytes => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

async function digestOf(file) {
  const chunks = [];
  for (let at = 0; at < file.size; at += CHUNK) chunks.push(await hash(await file.slice(at, at + CHUNK).arrayBuffer()));
  const whole = await hash(await new Blob(chunks).arrayBuffer());
  return "sha256/8M:" + [...whole].map(byte => byte.toString(16).padStart(2, "0")).join("");
}

function saveList() { // one at a time, in order
  listed = Date.now();
  const save = () => {
    const lines = [...files].map(([id, file]) => `${id} ${file.size} ${file.digest} ${file.sent ? "+" : file.again ? "*" : file.parts || "."} ${file.name}\n`);
    return persistently(data.sent, new Blob(lines));
  };
  return saving = saving.then(save, save);
}

async function readList() { // what an earlier visit has sent
  let answer;
  try {
    answer = await fetch(data.was_sent, {credentials: "omit", cache: "no-store"});
  } catch {
    throw new Error(BLOCKED);
  }
  if (!answer.ok) return; // nothing yet, or no permission to see that
  for (const line of (await answer.text()).split("\n")) {
    const [, id, size, digest, state, name] = LINE.exec(line) || [];
    if (data.links.some(link => link.id === id)) files.set(id, {size: Number(size), digest, name, sent: state === "+", again: state === "*", parts: Number(state) || 0});
  }
}

function row(name, size) {
  const [first, second, third] = ["td", "td", "td"].map(tag => document.createElement(tag));
  const bar = document.createElement("progress"), text = document.createElement("span");
  first.textContent = name;
  second.className = "n";
  second.textContent = `${size.toLocaleString("en")} bytes`;
  bar.max = size || 1;
  bar.value = 0;
  bar.setAttribute("aria-label", name);
  third.append(bar, " ", text);
  const line = document.createElement("tr");
  line.append(first, second, third);
  rows.append(line);
  rows.parentNode.hidden = false;
  return {bar, text};
}

function linkOf(name) {
  const same = data.links.find(link => (link.name ?? files.get(link.id)?.name)?.normalize() === name.normalize());
  if (same) return same;
  const named = data.links.filter(link => link.name?.endsWith("/" + name));
  return named.length === 1 ? named[0] : data.links.find(link => link.name === null && !files.has(link.id));
}

async function add(file, path) {
  const shown = row(path, file.size), link = linkOf(path);
  const refusal = !link ? (data.links[0].name === null ? "no link is left for it" : "no file of this name is asked for")
    : file.size > data.max_size ? `it has more than ${data.max_size} bytes`
      : /[\n\0]/.test(path) ? "its name has a line break" : "";
  if (refusal) {
    shown.bar.hidden = true;
    shown.text.textContent = `Not sent: ${refusal}.`;
    return;
  }
  const before = files.get(link.id), name = link.name ?? path;
  const state = {name, size: file.size, digest: "-", sent: false, parts: 0, again: before?.sent || before?.again};
  files.set(link.id, state); // the link is taken
  shown.text.textContent = "Reading";
  try {
    state.digest = await digestOf(file);
    if (before?.digest === state.digest) Object.assign(state, {sent: before.sent, parts: before.parts});
    if (state.sent) finish(shown, "Sent before");
    else waiting.push({file, link, ...shown});
  } catch {
    if (before) files.set(link.id, before); // keeps the name of what was sent
    else files.delete(link.id);
    shown.text.textContent = "Not sent: the file cannot be read.";
  }
}

function finish(shown, text) {
  shown.bar.hidden = true;
  shown.text.textContent = text;
}

async function work(task) {
  task.bar.hidden = false;
  task.text.textContent = "Sending";
  try {
    await transfer(task);
    files.get(task.link.id).sent = true;
    finish(task, "Sent");
  } catch (error) {
    finish(task, explained(error));
    failed.push(task);
  }
}

async function sendAll() {
  if (running) return;
  running = 1;
  retry.hidden = true;
  try {
    await saveList();
    const worker = async () => {
      while (waiting.length) {
        await work(waiting.shift());
        if (Date.now() - listed > LIST_EVERY) await saveList();
      }
    };
    while (waiting.length) {
      await Promise.all(Array.from({length: AT_ONCE}, worker));
      await saveList();
    }
  } catch (error) {
    status.textContent = explained(error);
    failed.push(...waiting.splice(0));
  }
  running = 0;
  const sent = [...files.values()].filter(file => file.sent).length;
  retry.hidden = failed.length === 0;
  if (failed.length) status.textContent = `${failed.length} not sent. ${failed[0].text.textContent}`;
  else status.textContent = `${sent} of ${data.links.length} files are sent.`;
}

async function take(found) {
  status.textContent = "Reading";
  try {
    await ready;
  } catch (error) {
    status.textContent = error.message;
    return;
  }
  for (const [file, path] of found) await add(file, path);
  await sendAll();
}

async function within(entry, path) { // the files of a dropped directory, too
  if (entry.isFile) return [[await new Promise((resolve, reject) => entry.file(resolve, reject)), path + entry.name]];
  const reader = entry.createReader(), found = [];
  for (let some; (some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject))).length;)
    for (const each of some) found.push(...await within(each, `${path}${entry.name}/`));
  return found;
}

input.onchange = () => {
  const found = [...input.files].map(file => [file, file.name]);
  input.value = "";
  take(found);
};
retry.onclick = () => {
  waiting.push(...failed.splice(0));
  sendAll();
};
drop.ondragover = event => event.preventDefault();
drop.ondrop = async event => {
  event.preventDefault();
  const entries = [...event.dataTransfer.items].map(item => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = entries.length ? (await Promise.all(entries.map(entry => within(entry, "")))).flat()
    : [...event.dataTransfer.files].map(file => [file, file.name]);
  take(found);
};
window.ononline = () => retry.hidden || retry.click();
window.onbeforeunload = event => { if (running) event.preventDefault(); };
document.querySelector("main").hidden = false;
const ready = readList();
ready.catch(error => { status.textContent = error.message; });
if (Date.now() > Date.parse(data.expires)) status.textContent = "These links have expired: ask for a new page.";
